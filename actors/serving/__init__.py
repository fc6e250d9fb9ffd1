"""Serving: strategies behind an OpenAI-compatible HTTP endpoint."""
