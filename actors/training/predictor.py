"""*fit_heads*: fits predictor heads on features, with the paper's setting and a tuned one.

Minutes of one CPU core for thousands of questions, so it runs in the driver: the features, which
need the backbone, were made before (`actors.training.backbone_features`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray
from pipeline.core.errors import ConfigError
from pipeline.predictors.heads import FittedSetting, HeadReport, Mlp, predict, report_head
from pipeline.predictors.targets import Head, Part, Target, constant, in_part


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSetting:
    """How one head is fitted."""

    hidden: tuple[int, ...]
    """Widths of the hidden layers; () for a linear head."""
    epochs: int
    learning_rate: float
    weight_decay: float = 0.0
    batch: int = 32
    """Questions a step."""
    from_constant: bool = False
    """Start at the training questions' constant, and stop at the best epoch on the validation
    questions; else start anywhere and train all epochs."""


_PATIENCE = 15  # epochs without a better one before a fit ends

PAPER = HeadSetting(hidden=(512,), epochs=30, learning_rate=1e-5)
"""30 epochs at 1e-5 (Section 5.1), with Adam; layers and batches, of which the paper says nothing,
are ours."""

TUNED = tuple(
    HeadSetting(
        hidden=hidden,
        epochs=200,
        learning_rate=rate,
        weight_decay=decay,
        from_constant=True,
    )
    for (hidden, rate), decay in itertools.product(
        (((), 1e-2), ((64,), 3e-3), ((256,), 1e-3)), (1e-2, 1.0)
    )
)
"""Tried for each head; the validation questions choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Heads under the paper's setting, under the tuned one, and of each head the better of the two
    on the validation questions (``best``)."""

    heads: dict[str, dict[Head, Mlp]]
    fitted: dict[str, FittedSetting]
    questions: dict[str, int]


def fit_heads(
    targets: Sequence[Target],
    features: dict[tuple[str, str], NDArray[Any]],
    *,
    paper: HeadSetting = PAPER,
    tuned: Sequence[HeadSetting] = TUNED,
    seed: int = 0,
) -> Fit:
    """Fit all heads on the training questions and judge them on the held-out ones.

    Args:
        targets: all questions; `part_of` splits them.
        features: (F,) of each question, by key.
        paper: the setting of that name.
        tuned: settings to choose from, for each head apart.
        seed: of the split and of the weights' start.

    A head about which the training questions say nothing is left out.

    Raises:
        ConfigError: where no question trains or none is held out, or a fit diverges.
    """
    parts = {part: in_part(targets, part, seed=seed) for part in Part}
    for part in (Part.TRAINING, Part.HELD_OUT):
        if not parts[part]:
            raise ConfigError(
                f"a predictor needs {part.value} questions, of {len(targets)} none fell there"
            )
    arrays = {
        part: np.array([features[t.key] for t in own], dtype=np.float64).reshape(len(own), -1)
        for part, own in parts.items()
    }
    names = ("paper", "tuned", "best")
    heads: dict[str, dict[Head, Mlp]] = {name: {} for name in names}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in names}
    reports: dict[str, dict[Head, HeadReport]] = {name: {} for name in names}
    for head in Head:
        fallback = constant(parts[Part.TRAINING], head)
        if fallback is None:
            continue
        data = _Data(head, parts, arrays, fallback)
        best = min((data.fit(setting, seed) for setting in tuned), key=lambda fit: fit[1])
        as_paper = data.fit(paper, seed)
        better = min(best, as_paper, key=lambda fit: fit[1])
        for name, (mlp, _, setting) in zip(names, (as_paper, best, better), strict=True):
            heads[name][head] = mlp
            chosen[name][head.value] = {**asdict(setting), "hidden": list(setting.hidden)}
            guess = predict(mlp, arrays[Part.HELD_OUT])
            report = report_head(head, parts[Part.HELD_OUT], guess, fallback)
            if report is not None:
                reports[name][head] = report
    return Fit(
        heads=heads,
        fitted={
            name: FittedSetting(settings=chosen[name], reports=reports[name]) for name in heads
        },
        questions={part.value: len(own) for part, own in parts.items()},
    )


class _Data:
    """One head's training and validation questions, those that say something on it."""

    def __init__(
        self,
        head: Head,
        parts: dict[Part, list[Target]],
        arrays: dict[Part, FloatArray],
        start: float,
    ) -> None:
        """`start` is the constant of least training loss."""
        self._head = head
        training = arrays[Part.TRAINING]
        self._mean = training.mean(axis=0)
        spread = training.std(axis=0)
        self._scale = np.where(spread > 0, spread, 1.0)
        self._start = _logit(start)
        self._sets = {
            part: _with_counts(head, parts[part], (arrays[part] - self._mean) / self._scale)
            for part in (Part.TRAINING, Part.VALIDATION)
            if parts[part]
        }

    def fit(self, setting: HeadSetting, seed: int) -> tuple[Mlp, float, HeadSetting]:
        """The head, its loss on the validation questions, and the setting with its epochs."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        sets = {
            part: tuple(torch.tensor(array, dtype=torch.float32) for array in rows_of_part)
            for part, rows_of_part in self._sets.items()
        }
        x, successes, trials = sets[Part.TRAINING]
        validation = sets.get(Part.VALIDATION)
        if validation is not None and not len(validation[0]):
            validation = None
        network = _network(x.shape[1], setting, self._start, generator)
        optimiser = torch.optim.AdamW(
            network.parameters(), lr=setting.learning_rate, weight_decay=setting.weight_decay
        )
        best = (math.inf, 0, _weights(network))
        for epoch in range(setting.epochs + 1):
            if epoch:
                for batch in torch.randperm(len(x), generator=generator).split(setting.batch):
                    optimiser.zero_grad()
                    loss = _loss(network(x[batch])[:, 0], successes[batch], trials[batch])
                    loss.backward()
                    optimiser.step()
            with torch.no_grad():
                judged = validation if validation is not None else sets[Part.TRAINING]
                value = float(_loss(network(judged[0])[:, 0], *judged[1:]))
            if setting.from_constant and epoch - best[1] > _PATIENCE:
                break
            last = not setting.from_constant and epoch == setting.epochs
            if last or (setting.from_constant and value < best[0]):
                best = (value, epoch, _weights(network))
        value, epochs, layers = best
        if not math.isfinite(value):
            raise ConfigError(
                f"the fit of {self._head.value} must have a finite loss, got {value} at learning "
                f"rate {setting.learning_rate:g}: pass a lower one"
            )
        mlp = Mlp(self._mean, self._scale, layers)
        return mlp, value, replace(setting, epochs=epochs)


def _with_counts(
    head: Head, targets: Sequence[Target], features: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    counts = [target.counts[head] for target in targets]
    counted = np.array([count.trials > 0 for count in counts], dtype=np.bool_)
    successes = np.array([count.successes for count in counts], dtype=np.float64)
    trials = np.array([count.trials for count in counts], dtype=np.float64)
    return features[counted], successes[counted], trials[counted]


def _loss(output: Any, successes: Any, trials: Any) -> Any:
    """Mean negative log likelihood of a trial."""
    import torch
    from torch.nn.functional import softplus

    misses = trials - successes
    return torch.sum(successes * softplus(-output) + misses * softplus(output)) / torch.sum(trials)


def _network(width: int, setting: HeadSetting, start: float, generator: Any) -> Any:
    import torch

    layers: list[Any] = []
    sizes = (width, *setting.hidden, 1)
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        layer = torch.nn.Linear(before, after)
        bound = 1 / math.sqrt(before)
        for values in (layer.weight, layer.bias):
            torch.nn.init.uniform_(values, -bound, bound, generator=generator)
        if setting.from_constant and number == len(sizes) - 2:
            torch.nn.init.zeros_(layer.weight)
            torch.nn.init.constant_(layer.bias, start)
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _weights(network: Any) -> tuple[tuple[FloatArray, FloatArray], ...]:
    return tuple(
        (
            layer.weight.detach().numpy().astype(np.float64).copy(),
            layer.bias.detach().numpy().astype(np.float64).copy(),
        )
        for layer in network
        if hasattr(layer, "weight")
    )


def _logit(p: float) -> float:
    p = min(max(p, 1e-4), 1 - 1e-4)
    return math.log(p / (1 - p))
