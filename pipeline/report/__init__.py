"""Views of runs, and the HTML, charts and tables that show them."""
