"""Predictors of p0, a and b: features, targets, MLP heads, and the priors they give."""
