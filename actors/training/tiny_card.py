"""Model cards, measured figures and priors of the embedded tiny models, as files beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.training.tiny_measure import BUDGET
from actors.training.tiny_models import (
    FEED_FORWARD,
    GENERATOR,
    HEADS,
    KV_HEADS,
    LAYERS,
    VERIFIER,
    WIDTH,
)
from actors.training.tiny_tasks import P_FORGOTTEN, P_FORGOTTEN_AGAIN, P_SHOWN_RIGHT, P_SLIP
from actors.training.tiny_training import Recipe

_FRONT = """---
license: apache-2.0
library_name: transformers
pipeline_tag: {task}
---
# {name}

"""

_ABOUT = {
    "arithmetic": """that multiplies, adds and subtracts in steps: a product of a number of 2-3 \
digits by 2 digits, plus or minus two numbers of up to 3 digits. Its errors depend on the \
question: it does not quite know the product, nor does its verifier, so revising mends little.""",
    "sums": """that adds two numbers of three digits column by column; ones and tens always carry. \
Its errors are slips, a forgotten carry, as likely in one question as in another: revising mends \
them, and its verifier sees them.""",
}
"""What a generator does, by task."""

_LEARNT = {
    "arithmetic": f"""{P_SLIP:.0%} of first drafts carry one digit slip, revisions are clean; the \
answer shown to a revision is right in {P_SHOWN_RIGHT:.0%} of cases, else a slipped one.""",
    "sums": f"""A first draft forgets each of its two carries with probability {P_FORGOTTEN}, a \
revision with {P_FORGOTTEN_AGAIN}, whatever answer it is shown; sampling at temperature 0.7 makes \
these 0.19 and 0.08.""",
}

_NOTES = {
    "arithmetic": """Other shapes, tried once each: with one number added instead of two (3,800 \
batches; 3,000 questions, 8 rounds) p0 was 0.584 and revising did harm: a = 0.052, b = 0.047, L = \
0.478. With one number added and the product written out in partial products (about 3,400 batches; \
600 questions, 4 rounds) p0 was 0.992 and there was nothing to revise. The shape with the largest \
gain from revising is the one kept.""",
    "sums": """Rounds are independent of each other, so lambda = 1 - a - b is about 0. There the \
printed stopping rule looks at tau and L alone (docs/math.md); the gate and ^0 work. Tried once \
each:

- Clean revisions (1,000 batches of 512 on an H200; 2,000 questions, 9 rounds): p0 0.657, then \
every answer right, a = 0 and b = 1: nothing is left to stop for.
- One pair for both tasks, a quarter of each batch sums, and revisions that forget a carry with \
probability 0.35 where the answer shown has forgotten it (5,067 batches in 241 s on an H200; 3,000 \
questions, 9 rounds): the model did not learn to look at the answer shown (a = 0.213, b = 0.791, \
last of 8 right 0.784 after p0 0.645), and `arithmetic` lost by sharing: p0 0.706, a = 0.088, b = \
0.260, last of 8 right 0.735.""",
}


def recorded_training(folder: Path) -> dict[str, Any]:
    """What the figures of a trained generator say of its training, to be measured anew."""
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    return {name: figures[name] for name in ("command", "device", "training")}


def write_cards(
    folders: Mapping[str, Path],
    recipe: Recipe,
    figures: Mapping[str, Any],
    on_training: Mapping[str, Any],
) -> None:
    """Write ``README.md`` to both folders, ``figures.json`` and ``priors.json`` to the generator's.

    Args:
        folders: of the generator and of the verifier.
        recipe: what the models were trained with.
        figures: what was measured on the test split.
        on_training: the figures of the chains on the training split, for the priors.
    """
    generator, verifier = folders[GENERATOR], folders[VERIFIER]
    priors = {
        "a": on_training["a"],
        "b": on_training["b"],
        "p0": on_training["p0"],
        "labels": "gold",
        "benchmark": recipe.task,
        "split": "train",
        "questions": on_training["questions"],
        "source": (
            f"{generator.name}: {on_training['rounds']} rounds of MR-Thinking on training "
            f"questions (seed {on_training['questions_seed']}), temperature 0.7, top_p 0.95"
        ),
    }
    _write_json(generator / "figures.json", figures)
    _write_json(generator / "priors.json", priors)
    card = _generator_card(generator.name, recipe, figures)
    (generator / "README.md").write_text(card, encoding="utf-8")
    card = _verifier_card(folders, recipe, figures)
    (verifier / "README.md").write_text(card, encoding="utf-8")


def _generator_card(name: str, recipe: Recipe, figures: Mapping[str, Any]) -> str:
    chains = figures["chains"]
    fit = figures["training"][GENERATOR]
    own = ""
    if recipe.own_batches:
        own = (
            f"; then {recipe.own_batches:,} batches, every other one of which revises the model's "
            f"own sampled answers"
        )
    lags = "\n".join(
        f"| rightness of rounds 0 and {lag} correlated | {_shown(value)} |"
        for lag, value in chains["correlation_with_round_0"].items()
    )
    return f"""{_FRONT.format(task="text-generation", name=name)}A `Qwen2ForCausalLM` of \
{figures["parameters"][GENERATOR]:,} parameters ({LAYERS} layers, width {WIDTH}, {HEADS} heads, \
{KV_HEADS} KV heads, feed-forward {FEED_FORWARD}, tied embeddings, character-level tokenizer, \
bfloat16) {_ABOUT[recipe.task]} It exists so that the whole pipeline runs on a laptop; it knows \
nothing else.

{_example(figures["example"], chains["rounds"])}

## Data
Generated (`pipeline/benchmarks/{recipe.task}.py`). The hash of a question puts it into train \
(8/10), validation or test (1/10 each).

## Recipe
AdamW, peak learning rate 2e-3, one cycle, batches of {recipe.batch:,}. {recipe.worked_batches:,} \
batches, half first drafts, half revisions{own}. {_LEARNT[recipe.task]} This run: \
{fit["batches"]:,} batches in {fit["seconds"]:.0f} s on {figures["device"]}.

    {figures["command"]}

## Measured
{chains["questions"]:,} test questions, {chains["rounds"]} rounds of MR-Thinking, temperature 0.7, \
top_p 0.95 (counts in `figures.json`), {_measured(figures)}

| figure | value |
|---|---|
| first answers right, p0 | {_shown(chains["p0"])} |
| right to wrong, a | {_shown(chains["a"])} |
| wrong to right, b | {_shown(chains["b"])} |
| stationary accuracy, L = b / (a + b) | {_shown(chains["stationary_accuracy"])} |
| last of {BUDGET} answers right | {_shown(chains["accuracy_at_budget"])} |
| accuracy by round | {", ".join(map(_shown, chains["accuracy_by_round"]))} |
{lags}
| characters a reply | {chains["characters_per_round"]:.1f} |

Targets, set before training: {_targets(figures)}.

`priors.json` has a, b and the mean p0 of as many questions of the training split.

## Notes
{_NOTES[recipe.task]}
"""


def _verifier_card(folders: Mapping[str, Path], recipe: Recipe, figures: Mapping[str, Any]) -> str:
    scores = figures["verifier"]
    fit = figures["training"][VERIFIER]
    n_right, n_wrong = scores["first_answers_right_wrong"]
    rows = "\n".join(
        f"| {name} | {_shown(value)} | {_shown(scores['auc_all_rounds'][name])} | "
        f"{_shown(scores['auc_within_questions'][name])} |"
        for name, value in scores["auc_first_answers"].items()
    )
    front = _FRONT.format(task="token-classification", name=folders[VERIFIER].name)
    return f"""{front}A `Qwen2ForProcessRewardModel` of {figures["parameters"][VERIFIER]:,} \
parameters: the backbone of `{folders[GENERATOR].name}` and a head `Linear, ReLU, Linear` with \
two outputs, wrong and right. After each step stands `<extra_0>`, the last included; the softmax \
of its output is the step's score. It sees the question and the steps, never the gold answer. Its \
chat template accepts a system message and leaves it out.

## Recipe
Starts from the trained generator. Up to {recipe.solutions:,} solutions sampled from the generator \
on training questions, first answers and revisions, at temperatures 0.7 and 1.0 in turn; each step \
is checked by arithmetic (`pipeline.benchmarks.{recipe.task}.check_steps`): right if it states the \
true result of the operation due at its place. AdamW, peak learning rate 2e-3, one cycle; this \
run: {fit["batches"]:,} batches of {recipe.batch:,} in {fit["seconds"]:.0f} s on \
{figures["device"]}.

    {figures["command"]}

## Measured
P(a right answer scores above a wrong one) on test questions that the generator answered at \
temperature 0.7 and top_p 0.95; first answers: {n_right:,} right and {n_wrong:,} wrong. The last \
column compares answers of the same question only: what choosing among them needs. All of it \
{_measured(figures)}

| aggregation of step scores | AUC, first answers | AUC, all rounds | AUC within a question |
|---|---|---|---|
{rows}

AUC over single steps {_shown(scores["auc_steps"])}. With the mean and a threshold of 0.5, \
{_shown(scores["accuracy_at_half"])} of first answers are judged rightly. The best scored of \
{BUDGET} rounds is right in {_shown(scores["accuracy_of_best_scored"])} of questions.

Targets, set before training: {_targets(figures)}.
"""


def _measured(figures: Mapping[str, Any]) -> str:
    if figures["measured_by"] == figures["command"]:
        return "by the command above."
    return f"""later on {figures["measured_on"]}:

    {figures["measured_by"]}"""


def _example(example: Mapping[str, str] | None, rounds: int) -> str:
    """A question that the model answers, with its answer."""
    if example is None:
        return f"No measured question was answered right in all {rounds} rounds."
    reply = "\n".join(f"    {line}".rstrip() for line in example["reply"].splitlines())
    return f"""Ask `{example["question"]}`; it was answered right in all {rounds} measured rounds:

{reply}

Ask again with `{example["question"]} was {example["answer"]}`. Steps are separated by blank lines \
and the answer is in `\\boxed{{}}`."""


def _targets(figures: Mapping[str, Any]) -> str:
    met = figures["targets"].items()
    return "; ".join(f"{name} {'met' if reached else 'MISSED'}" for name, reached in met)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
