"""Honest numbers: intervals, paired comparisons, sampling estimates, calibration, diagnostics."""

from pipeline.statistics.intervals import Interval, beta_interval, clopper_pearson, wilson

__all__ = ["Interval", "beta_interval", "clopper_pearson", "wilson"]
