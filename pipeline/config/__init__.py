"""Configuration: one YAML file a run, parsed, checked and resolved before anything starts."""
