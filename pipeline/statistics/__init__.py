"""Intervals, paired comparisons, sampling estimates, calibration and fronts."""
