"""Algebra: the text of an expression to an exact value in one normal form, with bounded work."""
