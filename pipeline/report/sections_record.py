"""The record of a run: what it paid, what went wrong, what was run."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.config.runtime import RuntimeConfig
from pipeline.report import words
from pipeline.report.failures import Trouble
from pipeline.report.figure import facts, table
from pipeline.report.html import Child, Html, h
from pipeline.report.run_data import RunData
from pipeline.report.spending import Bill


def bills_table(bills: Sequence[Bill]) -> Html:
    """Tokens of each kind in all, and what they cost."""
    priced = any(bill.cost is not None for bill in bills)
    return table(
        (
            "strategy", "completions", "completion tokens", "of them thinking", "wasted",
            "failures of unknown tokens", "prompt tokens", "of them cached", "verifier tokens",
            *(["estimated cost"] if priced else []),
        ),
        [
            (
                bill.cell.name,
                words.count(bill.completions),
                words.count(bill.totals["completion_tokens"]),
                words.count(bill.totals["thinking_tokens"]),
                words.count(bill.totals["wasted_tokens"]),
                words.count(bill.totals["tokens_unknown"]),
                words.count(bill.totals["prompt_tokens"]),
                words.count(bill.totals["cached_prompt_tokens"]),
                words.count(bill.totals["verifier_tokens"]),
                *([f"{bill.cost:,.2f}"] if bill.cost is not None else []),
            )
            for bill in bills
        ],
        caption="Token ledger, whole run",
    )  # fmt: skip


def troubles_table(found: Sequence[Trouble]) -> Html:
    """What went wrong, with examples."""
    if not found:
        return h("p", "No question failed, and every answer was graded.")
    return table(
        ("strategy", "what", "questions", "examples"),
        [
            (
                f"{trouble.cell.name}, {trouble.cell.benchmark}",
                h("bdi", trouble.what),
                f"{trouble.count:,}",
                h(
                    "ul",
                    *(
                        h("li", h("bdi", question), ": ", h("code", what, dir="auto"))
                        for question, what in trouble.examples
                    ),
                ),
            )
            for trouble in found
        ],
    )


def run_facts(run: RunData) -> Html:
    """What was run: models, questions, seeds, versions, attempts and the whole configuration."""
    science, runtime = run.config.science, run.config.runtime
    pairs: list[tuple[str, Child]] = [
        ("run", run.run_id),
        ("made by", "SCRIPTED ENGINES, no model" if run.synthetic else "real engines"),
        ("generator", _model(science.generator.model, science.generator.revision)),
        (
            "verifier",
            "none"
            if science.verifier is None
            else f"{_model(science.verifier.model, science.verifier.revision)}, "
            f"{science.verifier.kind}",
        ),
        ("benchmarks", ", ".join(source.name for source in science.benchmarks)),
        ("questions", f"{len(run.questions):,}"),
        ("chains done", f"{run.chains_done:,} of {run.chains:,}"),
        ("decoding", science.decoding_in_words),
        ("grader", science.grader),
        ("run seed", str(science.seed)),
        ("science digest", h("code", run.config.science_digest())),
        ("attempts", str(len(run.attempts))),
        ("engines", _engines(runtime)),
    ]
    for attempt, environment in sorted(run.environments.items()):
        for name, values in environment.items():
            said = ", ".join(f"{key} {value}" for key, value in values.items())
            pairs.append((f"{name}, attempt {attempt}", said))
    return h(
        "div",
        facts(pairs),
        h(
            "details",
            h("summary", "The whole configuration"),
            h("pre", run.config.model_dump_json(indent=2), cls="text"),
        ),
    )


def _model(name: str, revision: str | None) -> str:
    return name if revision is None else f"{name} at {revision}"


def _engines(runtime: RuntimeConfig) -> str:
    endpoint = runtime.generator.endpoint
    if endpoint is None:
        return f"{runtime.host}, {runtime.generator.replicas} generator replicas"
    return f"generator behind an endpoint, {words.count(len(endpoint.base_urls))} address(es)"
