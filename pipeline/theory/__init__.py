"""The two-state Markov chain of right and wrong answers: closed forms, estimation, diagnostics."""
