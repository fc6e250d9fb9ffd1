"""Predictors M_0, M_a and M_b: MLP heads on features of the frozen backbone.

A predictor is a folder: ``heads.safetensors`` with the weights of every setting that was fitted,
``predictor.json`` with what they were fitted on, for which backbone, and how good they are. Heads
are applied here in numpy; fitting them is `actors.training.predictor`'s business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from pipeline.core.arrays import FloatArray
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.origin import Origin
from pipeline.predictors.targets import Head, Target
from pipeline.store.storage import Folder, sha256

_FLOOR = 1e-6  # of a predicted probability, so that no loss is infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadReport:
    """One head on held-out questions. Losses are means over trials, lower is better."""

    head: Head
    n_questions: int
    """Held-out questions that say something on the head."""
    n_trials: int
    loss: float
    """Negative log likelihood a trial, such as a transition."""
    loss_constant: float
    """That of the constant of least training loss: the share of all trials, for every question."""
    gain_low: float
    """95 % interval of `loss_constant` - `loss`, clustered by question."""
    gain_high: float
    ece: float | None
    """Expected calibration error over ten bins, over trials."""
    rank_correlation: float | None
    """Spearman's, of prediction and observed share over questions; None where all predictions or
    all shares are equal."""

    @property
    def beats_constant(self) -> bool:
        """Whether the head is better than the constant beyond its uncertainty."""
        return self.gain_low > 0

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        verdict = "beats" if self.beats_constant else "does not beat"
        return (
            f"{self.head.value} {verdict} a constant on {self.n_questions} held-out questions: "
            f"loss {self.loss:.4f} against {self.loss_constant:.4f} (gain in "
            f"[{self.gain_low:.4f}, {self.gain_high:.4f}])"
        )


def report_head(
    head: Head, targets: Sequence[Target], predicted: FloatArray, fallback: float
) -> HeadReport | None:
    """Judge one head.

    Args:
        head: which.
        targets: held-out questions.
        predicted: (Q,), what the head predicts for each of them.
        fallback: the constant (`pipeline.predictors.targets.constant` of the training questions).

    Returns:
        None where fewer than two of the questions say anything on the head.
    """
    from pipeline.statistics.calibration import reliability  # here, since it imports scipy

    counts = [target.counts[head] for target in targets]
    counted = np.array([count.trials > 0 for count in counts])
    if counted.sum() < 2:
        return None
    successes = np.array([count.successes for count in counts], dtype=np.float64)[counted]
    trials = np.array([count.trials for count in counts])[counted]
    guess = np.asarray(predicted, dtype=np.float64)[counted]
    same = np.full_like(guess, fallback)
    losses = _losses(successes, trials, guess)
    losses_constant = _losses(successes, trials, same)
    gain_low, gain_high = _ratio_ends(losses_constant - losses, trials.astype(np.float64))
    outcomes = np.concatenate([np.arange(n) < k for k, n in zip(successes, trials, strict=True)])
    return HeadReport(
        head=head,
        n_questions=int(counted.sum()),
        n_trials=int(trials.sum()),
        loss=float(losses.sum() / trials.sum()),
        loss_constant=float(losses_constant.sum() / trials.sum()),
        gain_low=gain_low,
        gain_high=gain_high,
        ece=reliability(np.repeat(guess, trials), outcomes).ece,
        rank_correlation=_rank_correlation(guess, successes / trials),
    )


def _losses(successes: FloatArray, trials: NDArray[np.int64], guess: FloatArray) -> FloatArray:
    """(Q,): loss of each question, summed over its trials."""
    p = np.clip(guess, _FLOOR, 1 - _FLOOR)
    return np.asarray(-(successes * np.log(p) + (trials - successes) * np.log1p(-p)))


def _ratio_ends(difference_Q: FloatArray, weight_Q: FloatArray) -> tuple[float, float]:
    """The 95 % interval of sum(difference) / sum(weight), questions being the clusters."""
    from scipy import stats

    n, value = len(weight_Q), float(difference_Q.sum() / weight_Q.sum())
    apart_Q = (difference_Q - value * weight_Q) / weight_Q.mean()
    half = float(stats.t.ppf(0.975, n - 1)) * float(np.std(apart_Q, ddof=1)) / math.sqrt(n)
    return value - half, value + half


def _rank_correlation(guess: FloatArray, seen: FloatArray) -> float | None:
    if np.ptp(guess) == 0 or np.ptp(seen) == 0:
        return None
    from scipy import stats

    found = float(stats.spearmanr(guess, seen).statistic)
    return None if math.isnan(found) else found


PREDICTOR_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """The frozen model whose states are the features."""

    model: str
    """Hugging Face id, or the name of a local folder."""
    revision: str
    """Commit of the id, or ``sha256:...`` of the folder's files."""
    prompting: str = ""
    """JSON of the tokenizer, the chat template (its digest) and its variables, where they are other
    than the model's own: the same question is another prompt under them."""

    @property
    def name(self) -> str:
        """For messages."""
        name = f"{self.model} at {self.revision}"
        return f"{name} with {self.prompting}" if self.prompting else name


@dataclass(frozen=True, slots=True)
class Mlp:
    """Linear layers with ReLU between them, one output; features are standardised first."""

    mean: FloatArray
    """(F,)"""
    scale: FloatArray
    """(F,), > 0"""
    layers: tuple[tuple[FloatArray, FloatArray], ...]
    """(weight (out, in), bias (out,)) of each."""

    def __call__(self, features_QF: NDArray[Any]) -> FloatArray:
        """The output of each question, (Q,): a logit."""
        x = (np.asarray(features_QF, dtype=np.float64) - self.mean) / self.scale
        for depth, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            if depth < len(self.layers) - 1:
                x = np.maximum(x, 0.0)
        return np.asarray(x[:, 0])


def predict(mlp: Mlp, features_QF: NDArray[Any]) -> FloatArray:
    """What a head predicts: probabilities in (0, 1), (Q,)."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(mlp(features_QF), -60.0, 60.0))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages:
    """a and b that are the same for every question, and what they are averages of."""

    a: float
    """Mean of the training questions' own shares, each question weighing the same: the paper's
    estimate, which is inconsistent (`pipeline.theory.transitions.average_over_questions`)."""
    b: float
    meaning: str
    pooled_a: float
    """Share of all the training questions' transitions together: the default."""
    pooled_b: float
    pooled_meaning: str

    def chosen(self, transitions: str) -> tuple[float, float, str]:
        """a, b and their meaning for `science.priors.transitions`."""
        if transitions == "average":
            return self.a, self.b, self.meaning
        return self.pooled_a, self.pooled_b, self.pooled_meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSetting:
    """How one set of heads was fitted, and how good each head is."""

    settings: dict[str, Any]
    """Hidden layers, epochs, learning rate and so on, by head where they differ."""
    reports: dict[Head, HeadReport]
    """Heads that cannot be judged for want of held-out questions are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorCard:
    """``predictor.json``."""

    version: int
    backbone: Backbone
    pooling: str
    """Which state of the prompt: ``last`` token or ``mean``."""
    prompt_digest: str
    """Of the first prompt's template: features are those of the prompt that is asked."""
    benchmarks: tuple[str, ...]
    questions: dict[str, int]
    """How many were used for what."""
    answers: int
    """Samples a question behind p0."""
    averages: Averages
    fitted: dict[str, FittedSetting]
    use: str
    """Which of `fitted` predicts."""
    synthetic: bool = False
    """Whether scripted engines made the training pool."""
    fitted_on: str = ""
    """The run or pool that it was trained on; "" where that was not written down."""
    origin: Origin | None = None
    """Of the training questions; None in cards of earlier versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A predictor that was saved."""

    address: str
    card: PredictorCard
    heads: Mapping[str, Mapping[Head, Mlp]]
    """By setting."""

    def predict(self, features_QF: NDArray[Any]) -> dict[Head, FloatArray]:
        """All heads on features of questions."""
        return {head: predict(mlp, features_QF) for head, mlp in self.heads[self.card.use].items()}

    def warnings(self) -> list[str]:
        """One sentence for each head in use that does not beat a constant, or was not judged."""
        reports = self.card.fitted[self.card.use].reports
        found = []
        for head in self.heads[self.card.use]:
            report = reports.get(head)
            if report is None:
                found.append(f"{head.value} was judged on no held-out question")
            elif not report.beats_constant:
                found.append(report.sentence)
        return found

    def check_backbone(self, backbone: Backbone, prompt_digest: str) -> None:
        """Refuse another model, another revision of it, or another first prompt.

        Raises:
            ConfigError: naming both.
        """
        if backbone != self.card.backbone:
            raise ConfigError(
                f"predictor {self.address} was trained on features of {self.card.backbone.name}, "
                f"the run's generator is {backbone.name}: train one for it with jobs.train"
            )
        if prompt_digest != self.card.prompt_digest:
            raise ConfigError(
                f"predictor {self.address} was trained on another first prompt than the run's "
                f"science.prompts: train one for it with jobs.train"
            )


def save_predictor(
    address: str, card: PredictorCard, heads: Mapping[str, Mapping[Head, Mlp]]
) -> None:
    """Write a predictor; its card comes last and holds the digest of the heads, so that a folder
    whose card has that digest is whole."""
    tensors: dict[str, NDArray[np.float32]] = {}
    for setting, fitted in heads.items():
        for head, mlp in fitted.items():
            named = {"mean": mlp.mean, "scale": mlp.scale}
            for depth, (weight, bias) in enumerate(mlp.layers):
                named |= {f"{depth}.weight": weight, f"{depth}.bias": bias}
            for name, value in named.items():
                key = f"{setting}.{head.value}.{name}"
                tensors[key] = np.ascontiguousarray(value, dtype=np.float32)
    folder = Folder(address.rstrip("/"))
    data = save_tensors(tensors)
    folder.write("heads.safetensors", data)
    folder.write_json("predictor.json", {**asdict(card), "heads_sha256": sha256(data)})


def load_predictor(address: str) -> Predictor:
    """Read a predictor.

    Raises:
        ConfigError: where the folder holds none.
        DataError: naming the file that cannot be read, or is of another version.
    """
    folder = Folder(address.rstrip("/"))
    if not folder.has("predictor.json"):
        raise ConfigError(
            f"science.priors.predictor must be a folder that jobs.train wrote, got {address!r}"
        )
    where = f"{folder.address}/predictor.json"
    values = folder.read_json("predictor.json")
    version = values.get("version") if isinstance(values, dict) else None
    if version != PREDICTOR_VERSION:
        raise DataError(
            f"predictor version must be {PREDICTOR_VERSION}, got {version!r} in {where}"
        )
    try:
        for fitted in values.get("fitted", {}).values():  # earlier versions predicted tokens too
            fitted.get("reports", {}).pop("tokens", None)
        card = TypeAdapter(PredictorCard).validate_python(values)
    except (ValidationError, AttributeError) as error:
        raise DataError(f"{where} must describe a predictor, got {error}") from error
    if card.use not in card.fitted:
        raise DataError(f"use must be one of {', '.join(card.fitted)}, got {card.use!r} in {where}")
    try:
        data = folder.read("heads.safetensors")
        tensors = load_tensors(data)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{folder.address}/heads.safetensors cannot be read: {error}") from error
    if values.get("heads_sha256", sha256(data)) != sha256(data):  # earlier cards have none
        raise DataError(
            f"{folder.address}/heads.safetensors must be what {where} was written with: a training "
            f"was interrupted, or the heads were changed since"
        )
    heads = {
        setting: {
            head: _mlp(tensors, f"{setting}.{head.value}.", folder)
            for head in _in(tensors, setting)
        }
        for setting in card.fitted
    }
    return Predictor(address=folder.address, card=card, heads=heads)


def _in(tensors: Mapping[str, Any], setting: str) -> Sequence[Head]:
    return [head for head in Head if f"{setting}.{head.value}.mean" in tensors]


def _mlp(tensors: Mapping[str, NDArray[np.float32]], prefix: str, folder: Folder) -> Mlp:
    found = {
        name.removeprefix(prefix): value.astype(np.float64)
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
    if not all(np.isfinite(value).all() for value in found.values()):
        raise DataError(f"{folder.address}/heads.safetensors must hold finite {prefix}* only")
    depth = sum(name.endswith(".weight") for name in found)
    try:
        layers = tuple((found[f"{d}.weight"], found[f"{d}.bias"]) for d in range(depth))
        return Mlp(found["mean"], found["scale"], layers)
    except KeyError as error:
        raise DataError(
            f"{folder.address}/heads.safetensors must hold {prefix}{error.args[0]}"
        ) from error
