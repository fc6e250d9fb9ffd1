"""Columns of results, comparisons of them, and tables: one kit for every page, file and verb."""
