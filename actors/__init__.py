"""Ray processes around the pure core: engines, verifier, predictor, controller, router, fakes."""
