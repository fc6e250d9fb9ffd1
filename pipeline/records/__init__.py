"""What a run writes and reads back: run directory, journal, outcomes, questions."""
