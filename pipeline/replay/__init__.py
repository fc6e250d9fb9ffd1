"""Strategies over recorded completions: exact replay, pools, and sweeps over many settings."""
