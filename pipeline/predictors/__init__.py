"""Predictors of p0, a, b and tokens: features, targets, MLP heads, and the priors they give."""
