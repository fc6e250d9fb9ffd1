"""Every strategy by its registered name: one line each."""
