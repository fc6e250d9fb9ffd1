"""One YAML file a run: parsed, checked and resolved before anything is started."""
