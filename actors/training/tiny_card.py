"""Model cards, measured figures and priors of the embedded tiny models, as files beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.training.tiny_models import (
    FEED_FORWARD,
    GENERATOR,
    HEADS,
    KV_HEADS,
    LAYERS,
    VERIFIER,
    WIDTH,
)
from actors.training.tiny_training import Recipe
from pipeline.benchmarks.arithmetic import BENCHMARK

_FRONT = """---
license: apache-2.0
library_name: transformers
pipeline_tag: {task}
---
# {name}

"""

_TRIED = """## Also tried
The same recipe, once each, on questions of other shapes. With one number added instead of two \
(3,800 batches; 3,000 questions, 8 rounds) p0 was 0.584 and revising did harm: a = 0.052, \
b = 0.047, L = 0.478. With one number added and the product written out in partial products (about \
3,400 batches; 600 questions, 4 rounds) p0 was 0.992 and there was nothing to revise. The shape \
with the largest gain from revising is the one kept.
"""


def write_cards(
    out: Path, recipe: Recipe, figures: Mapping[str, Any], on_training: Mapping[str, Any]
) -> None:
    """Write ``README.md`` to both folders, ``figures.json`` and ``priors.json`` to the generator's.

    Args:
        out: the folder that holds both model folders.
        recipe: what the models were trained with.
        figures: what was measured on the test split.
        on_training: the figures of the chains on the training split, for the priors.
    """
    priors = {
        "a": on_training["a"],
        "b": on_training["b"],
        "p0": on_training["p0"],
        "labels": "gold",
        "benchmark": BENCHMARK,
        "split": "train",
        "questions": on_training["questions"],
        "source": (
            f"{GENERATOR}: {on_training['rounds']} rounds of MR-Thinking on training questions "
            f"(seed {on_training['questions_seed']}), temperature 0.7, top_p 0.95"
        ),
    }
    _write_json(out / GENERATOR / "figures.json", figures)
    _write_json(out / GENERATOR / "priors.json", priors)
    (out / GENERATOR / "README.md").write_text(_generator_card(recipe, figures), encoding="utf-8")
    (out / VERIFIER / "README.md").write_text(_verifier_card(recipe, figures), encoding="utf-8")


def _generator_card(recipe: Recipe, figures: Mapping[str, Any]) -> str:
    chains = figures["chains"]
    fit = figures["training"][GENERATOR]
    return f"""{_FRONT.format(task="text-generation", name=GENERATOR)}A `Qwen2ForCausalLM` of \
{figures["parameters"][GENERATOR]:,} parameters ({LAYERS} layers, width {WIDTH}, {HEADS} heads, \
{KV_HEADS} KV heads, feed-forward {FEED_FORWARD}, tied embeddings, character-level tokenizer, \
bfloat16) that multiplies, adds and subtracts in steps. It exists so that the whole pipeline runs \
on a laptop; it knows nothing else.

Ask `347*83+129?`; ask again with `347*83+129? was 28920`. Steps are separated by blank lines and \
the answer is in `\\boxed{{}}`.

## Data
Generated: products of numbers of 2-3 digits by 2 digits, plus or minus numbers of up to 3 digits \
(`pipeline/benchmarks/arithmetic.py`). The hash of an expression puts it into train (8/10), \
validation or test (1/10 each).

## Recipe
AdamW, peak learning rate 2e-3, one cycle, batches of {recipe.batch:,}. {recipe.worked_batches:,} \
batches, half first drafts learnt from worked solutions of which 35 % carry one digit slip, half \
revisions learnt from clean ones (previous answer right in 60 % of cases, else a slipped one); \
then {recipe.own_batches:,} batches, every other one of which revises the model's own sampled \
answers. This run: {fit["batches"]:,} batches in {fit["seconds"]:.0f} s on {figures["device"]}.

    {figures["command"]}

## Measured
{chains["questions"]:,} test questions, {chains["rounds"]} rounds of MR-Thinking, temperature 0.7, \
top_p 0.95, by the command above (counts in `figures.json`):

| figure | value |
|---|---|
| first answers right, p0 | {_shown(chains["p0"])} |
| right to wrong, a | {_shown(chains["a"])} |
| wrong to right, b | {_shown(chains["b"])} |
| stationary accuracy, L = b / (a + b) | {_shown(chains["stationary_accuracy"])} |
| accuracy by round | {", ".join(map(_shown, chains["accuracy_by_round"]))} |
| characters a reply | {chains["characters_per_round"]:.1f} |

Targets, set before training: {_targets(figures)}.

`priors.json` has a, b and the mean p0 of as many questions of the training split.

{_TRIED}"""


def _verifier_card(recipe: Recipe, figures: Mapping[str, Any]) -> str:
    scores = figures["verifier"]
    fit = figures["training"][VERIFIER]
    n_right, n_wrong = scores["first_answers_right_wrong"]
    rows = "\n".join(
        f"| {name} | {_shown(value)} | {_shown(scores['auc_all_rounds'][name])} |"
        for name, value in scores["auc_first_answers"].items()
    )
    return f"""{_FRONT.format(task="token-classification", name=VERIFIER)}A \
`Qwen2ForProcessRewardModel` of {figures["parameters"][VERIFIER]:,} parameters: the backbone of \
`{GENERATOR}` and a head `Linear, ReLU, Linear` with two outputs, wrong and right. After each step \
stands `<extra_0>`, the last included; the softmax of its output is the step's score. It sees the \
question and the steps, never the gold answer. Its chat template accepts a system message and \
leaves it out.

## Recipe
Starts from the trained generator. Up to {recipe.solutions:,} solutions sampled from the generator \
on training questions, first answers and revisions, at temperatures 0.7 and 1.0 in turn; each step \
is checked by arithmetic (`pipeline.benchmarks.arithmetic.check_steps`): right if it states \
the true result of the operation due at its place. AdamW, peak learning rate 2e-3, one cycle; \
this run: {fit["batches"]:,} batches of {recipe.batch:,} in {fit["seconds"]:.0f} s on \
{figures["device"]}.

    {figures["command"]}

## Measured
P(a right answer scores above a wrong one) on test questions that the generator answered at \
temperature 0.7 and top_p 0.95; first answers: {n_right:,} right and {n_wrong:,} wrong.

| aggregation of step scores | AUC, first answers | AUC, all rounds |
|---|---|---|
{rows}

AUC over single steps {_shown(scores["auc_steps"])}. With the mean and a threshold of 0.5, \
{_shown(scores["accuracy_at_half"])} of first answers are judged rightly. The best scored of \
{figures["chains"]["rounds"]} rounds is right in {_shown(scores["accuracy_of_best_scored"])} of \
questions.

Targets, set before training: {_targets(figures)}.
"""


def _targets(figures: Mapping[str, Any]) -> str:
    met = figures["targets"].items()
    return "; ".join(f"{name} {'met' if reached else 'MISSED'}" for name, reached in met)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
