"""The pure core: theory, strategies, grading, replay and statistics; no Ray, no torch, no vLLM."""
