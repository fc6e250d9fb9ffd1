"""The paper's evaluation of recorded pools: every table and figure, with intervals and controls."""
