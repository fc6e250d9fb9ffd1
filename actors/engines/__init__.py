"""Engines: vLLM generator and verifier, scripted stand-ins, and the processes that host them."""
