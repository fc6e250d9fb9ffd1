"""Honest numbers: intervals, paired comparisons, sampling estimates, calibration, diagnostics."""

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
from pipeline.statistics.diagnostics import (
    GoodnessOfFit,
    Homogeneity,
    LikelihoodRatio,
    Mixture,
    goodness_of_fit,
    homogeneity_test,
    mixture_test,
    order_test,
)
from pipeline.statistics.intervals import Interval, beta_interval, clopper_pearson, wilson
from pipeline.statistics.paired import Difference, McNemar, holm, mcnemar, paired_difference
from pipeline.statistics.sampling import maj_at_k, pass_at_k

__all__ = [
    "Bin",
    "Calibrated",
    "Difference",
    "GoodnessOfFit",
    "Homogeneity",
    "Interval",
    "LikelihoodRatio",
    "McNemar",
    "Mixture",
    "Reliability",
    "beta_interval",
    "calibrate",
    "clopper_pearson",
    "fit_isotonic",
    "fit_platt",
    "goodness_of_fit",
    "holm",
    "homogeneity_test",
    "maj_at_k",
    "mcnemar",
    "mixture_test",
    "order_test",
    "paired_difference",
    "pass_at_k",
    "reliability",
    "roc_auc",
    "wilson",
]
