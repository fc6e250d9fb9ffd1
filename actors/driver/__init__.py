"""The driver of a run: engines up, phases through Ray Data, progress, signals, engines down."""
