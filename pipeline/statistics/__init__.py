"""Honest numbers: intervals, paired comparisons, sampling estimates, calibration."""

from pipeline.statistics.calibration import (
    Bin,
    Calibrated,
    Reliability,
    calibrate,
    fit_isotonic,
    fit_platt,
    reliability,
    roc_auc,
)
from pipeline.statistics.intervals import Interval, beta_interval, clopper_pearson, wilson
from pipeline.statistics.paired import Difference, holm, mcnemar, paired_difference
from pipeline.statistics.sampling import maj_at_k, pass_at_k

__all__ = [
    "Bin",
    "Calibrated",
    "Difference",
    "Interval",
    "Reliability",
    "beta_interval",
    "calibrate",
    "clopper_pearson",
    "fit_isotonic",
    "fit_platt",
    "holm",
    "maj_at_k",
    "mcnemar",
    "paired_difference",
    "pass_at_k",
    "reliability",
    "roc_auc",
    "wilson",
]
