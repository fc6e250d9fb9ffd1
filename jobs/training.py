"""*train*: fits and saves a predictor: features, targets, heads, card."""

from __future__ import annotations

import argparse
import logging
import posixpath
from dataclasses import asdict

from actors.training.backbone_features import backbone_of, features_of
from actors.training.predictor import fit_heads
from jobs.cluster import start_ray
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.predictors.features import template_digest
from pipeline.predictors.heads import PREDICTOR_VERSION, Averages, PredictorCard, save_predictor
from pipeline.predictors.targets import Part, Target, in_part, targets_of
from pipeline.replay.pools import CompletionPool
from pipeline.store.storage import Folder
from pipeline.theory.transitions import (
    Chain,
    average_over_questions,
    count_by_question,
    labels_of_verdicts,
    total,
)

logger = logging.getLogger(__name__)


def train(config: RunConfig, pool: CompletionPool, arguments: argparse.Namespace) -> list[str]:
    """Fit and save a predictor; returns what to print.

    Raises:
        ConfigError: where the pool cannot train one.
    """
    targets = targets_of(pool, answers=arguments.answers)
    training = in_part(targets, Part.TRAINING, seed=arguments.seed)
    averages = averages_of(pool, training)
    backbone = backbone_of(config.science.generator)
    start_ray(config.runtime)
    rows = [
        {"benchmark": t.benchmark, "question_id": t.question_id, "text": t.text} for t in targets
    ]
    features = features_of(config, backbone, rows, arguments.pooling)
    logger.info("fitting heads for p0, a and b on %d questions", len(training))
    fit = fit_heads(targets, features, seed=arguments.seed)
    origin = config.science.origin([target.text for target in training])
    card = PredictorCard(
        version=PREDICTOR_VERSION,
        backbone=backbone,
        pooling=arguments.pooling,
        prompt_digest=template_digest(config.science.prompts),
        benchmarks=pool.benchmarks,
        questions=fit.questions,
        answers=arguments.answers,
        averages=averages,
        fitted=fit.fitted,
        use=arguments.use,
        synthetic=pool.synthetic,
        fitted_on=posixpath.basename(pool.address),
        origin=origin,
    )
    save_predictor(arguments.out, card, fit.heads)
    a, b, meaning = averages.chosen("pooled")
    source = f"jobs.train on {pool.address}: {meaning}"
    Folder(arguments.out).write_json(
        "priors.json",
        {"a": a, "b": b, "labels": "gold", "source": source, "origin": asdict(origin)},
    )
    return described(card, arguments.out)


def averages_of(pool: CompletionPool, training: list[Target]) -> Averages:
    """a and b of the training questions, pooled and as the paper's average.

    Raises:
        ConfigError: where no training question was ever right, or none ever wrong.
    """
    keys = {target.key for target in training}
    chains = [
        Chain(
            benchmark=question.question.benchmark,
            question_id=question.question.question_id,
            labels=labels_of_verdicts(question.round_verdicts),
        )
        for question in pool.questions
        if question.key in keys
    ]
    counts = count_by_question(chains)
    means, pooled = average_over_questions(counts), total(counts.values())
    if means.a is None or means.b is None:
        raise ConfigError(
            f"training questions must have left right and wrong answers, {means.n_a} left a right "
            f"and {means.n_b} a wrong one"
        )
    source = f"by gold, in chains of {pool.rounds} rounds of {', '.join(pool.benchmarks)}"
    return Averages(
        a=means.a,
        b=means.b,
        meaning=(
            f"a: mean over the {means.n_a} of {len(chains)} training questions that left a right "
            f"answer, b: over the {means.n_b} that left a wrong one; {source}"
        ),
        pooled_a=pooled.a,
        pooled_b=pooled.b,
        pooled_meaning=(
            f"a: share of {pooled.from_right} transitions from right answers of {len(chains)} "
            f"training questions, b: of {pooled.from_wrong} from wrong ones; {source}"
        ),
    )


def described(card: PredictorCard, address: str) -> list[str]:
    """How each head does, under both settings."""
    averages = card.averages
    lines = [
        f"{card.backbone.name}, {card.pooling} state of the prompt; questions: "
        + ", ".join(f"{count} {part}" for part, count in card.questions.items()),
        f"a {averages.pooled_a:.3f}, b {averages.pooled_b:.3f} ({averages.pooled_meaning})",
        f"the paper's average, which is biased: a {averages.a:.3f}, b {averages.b:.3f}",
    ]
    for name, fitted in card.fitted.items():
        lines += [f"{name}: {report.sentence}" for report in fitted.reports.values()]
    lines.append(f"written to {address}; a run that names it predicts with the {card.use} heads")
    return lines
