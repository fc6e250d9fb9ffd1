"""The driver of a run: starts engines, runs phases, reports progress, handles signals."""
