"""One verb a module, run as ``python -m jobs.<verb>`` or ``markovscale <verb>``."""
