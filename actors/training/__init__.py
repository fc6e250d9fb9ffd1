"""Training: predictor heads on features, and the embedded tiny models."""
