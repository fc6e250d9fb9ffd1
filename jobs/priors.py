"""*Priors*: checks the predictor of a run, and predicts before the engines start."""

from __future__ import annotations

import logging

import pyarrow as pa

from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.predictors.features import template_digest
from pipeline.predictors.heads import Predictor, load_predictor
from pipeline.predictors.priors import (
    PREDICTOR,
    earlier_predictions,
    priors_note,
    with_predictions,
)
from pipeline.records.questions import SCHEMA, read_questions
from pipeline.records.run_dir import RunDir, rows_of

logger = logging.getLogger(__name__)


def predictor_of(config: RunConfig) -> Predictor | None:
    """The run's predictor, held against its generator and its first prompt; None for none.

    Raises:
        ConfigError, DataError: where it is none, or was trained for another backbone or prompt.
    """
    folder = config.science.priors.predictor
    if folder is None:
        return None
    if config.runtime.scripted is not None:
        raise ConfigError("science.priors.predictor needs a backbone, scripted engines have none")
    from actors.training.backbone_features import backbone_of

    predictor = load_predictor(folder)
    predictor.check_backbone(
        backbone_of(config.science.generator), template_digest(config.science.prompts)
    )
    return predictor


def fill_priors(run: RunDir, config: RunConfig) -> None:
    """Write what the predictor says of each question to questions.parquet, and how to priors.json.

    Questions that have a prediction from an earlier attempt keep it. Ray must have been started:
    features that are not cached are made here, with all GPUs still free.
    """
    predictor = predictor_of(config)
    if predictor is None:
        return
    from actors.training.backbone_features import features_of

    rows = rows_of(read_questions(run.folder))
    new = [row for row in rows if row["p0_source"] != PREDICTOR]
    if not new and run.folder.has("priors.json"):
        return  # which tells of those that the questions have, whatever was trained since
    card = predictor.card
    features = features_of(config, card.backbone, new, card.pooling)
    known = {
        (row["benchmark"], row["question_id"]): row
        for row in with_predictions(new, predictor, features, config.science.priors)
    }
    filled = [known.get((row["benchmark"], row["question_id"]), row) for row in rows]
    run.folder.write_table("questions.parquet", pa.Table.from_pylist(filled, schema=SCHEMA))
    note = priors_note(predictor, config.science.priors)
    run.folder.write_json("priors.json", note)
    logger.info("a and b are: %s", note["a_and_b_are"])
    for warning in note["warnings"]:
        logger.warning("predictor: %s", warning)


def keep_predictions(run: RunDir, questions: pa.Table) -> pa.Table:
    """Questions of a resume, with the predictions of the attempts before."""
    if not run.folder.has("questions.parquet"):
        return questions
    before = rows_of(read_questions(run.folder))
    rows = earlier_predictions(rows_of(questions), before)
    return pa.Table.from_pylist(rows, schema=questions.schema)
