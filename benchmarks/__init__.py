"""Performance benchmarks; each prints machine, configuration, median and spread."""
