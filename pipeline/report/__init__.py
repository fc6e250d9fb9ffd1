"""What people look at: folds of a run into small views, and their HTML, charts and tables."""
