"""Records of a run, written and read: run directory, journal, outcomes, questions."""
