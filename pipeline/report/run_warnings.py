"""*Warnings*: lists what a reader must know before a run's figures: missing or odd data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.config.run import RunConfig
from pipeline.config.strategies import own_rules_of, strategies_of
from pipeline.core.protocol import StopReason
from pipeline.planning.run_caps import Capped
from pipeline.records.outcome import has_failed
from pipeline.records.run_dir import RunDir
from pipeline.records.side_files import notes
from pipeline.records.trajectory import Seen
from pipeline.strategies.markovscale import MarkovScaleT
from pipeline.theory.transitions import QuestionKey

_SLACK = 32  # tokens of the marks, and of the words with which an engine ends a thought
_LEAST_CHAINS, _NEARLY = 20, 0.05  # of a gate that stops nearly all chains, or nearly none
_EXAMPLES = 20
_NAMED = 8


def warnings_of(run: RunDir, config: RunConfig, outcomes: Iterable[Seen]) -> tuple[str, ...]:
    """One sentence a matter; none where all is well."""
    skipped = [each for each in notes(run.folder, "skipped.json") if _is_skip(each)]
    warnings = [each for each in notes(run.folder, "warnings.json") if isinstance(each, str)]
    budget, own = config.science.decoding.thinking_budget, own_rules_of(config.science)
    chains = over = 0
    unread = dict.fromkeys(own, 0)
    gated, gates = _gated(config), dict[tuple[str, str], list[Seen]]()
    for row in outcomes if own or budget is not None or gated else ():
        chains += 1
        if gated and row["strategy"] in gated:
            gates.setdefault((row["strategy"], row["benchmark"]), []).append(row)
        if budget is not None:
            over += row["thinking_tokens"] > row["completions"] * (budget + _SLACK)
        if own and row["verdict_last"] is not None and not has_failed(row):
            for rule in own:
                unread[rule] += row[f"verdict_{rule}"] is None
    return (
        *warnings,
        *left_out(skipped),
        *_over_budget(budget, over, chains),
        *filter(None, (_gate(*key, rows) for key, rows in gates.items())),
        *(
            f"answer rule {rule} ({rule.source()}) could not be applied to {count:,} of {chains:,} "
            "chains (it raised, or had nothing to read), which are left out under it"
            for rule, count in unread.items()
            if count
        ),
    )


def left_out(skipped: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Of each benchmark how many rows were skipped, and why the first of them was."""
    by_benchmark: dict[str, list[Mapping[str, Any]]] = {}
    for skip in skipped:
        by_benchmark.setdefault(skip["benchmark"], []).append(skip)
    return tuple(
        f"{len(skips):,} row{'s' if len(skips) > 1 else ''} of {benchmark} left out, the first in "
        f"{skips[0]['where']}: {skips[0]['reason']}"
        for benchmark, skips in by_benchmark.items()
    )


def _is_skip(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.keys() >= {"benchmark", "where", "reason"}


def _over_budget(budget: int | None, over: int, chains: int) -> tuple[str, ...]:
    if budget is None or not over:
        return ()
    return (
        f"the engine ignored the thinking budget of {budget:,} tokens: {over:,} of "
        f"{chains:,} chains thought longer; name what ends the thinking in "
        "science.generator.reasoning, or set vLLM's reasoning_parser",
    )


def _gated(config: RunConfig) -> frozenset[str]:
    """Labels of the strategies that have a gate."""
    return frozenset(
        label
        for label, strategy in strategies_of(config.science).items()
        if isinstance(strategy, MarkovScaleT) and getattr(strategy, "gate", True)
    )


def _gate(name: str, benchmark: str, rows: Sequence[Seen]) -> str | None:
    """A sentence where the gate stopped nearly all chains, or nearly none."""
    known = [row for row in rows if None not in (row["p0"], row["a"], row["b"])]
    stopped = sum(row["stop_reason"] == StopReason.GATED for row in known)
    share = stopped / len(known) if known else 0.5
    if len(known) < _LEAST_CHAINS or _NEARLY < share < 1 - _NEARLY:
        return None
    limits = [row["b"] / (row["a"] + row["b"]) for row in known if row["a"] + row["b"]]
    limit = f"{sum(limits) / len(limits):.3f}" if limits else "not defined (a = b = 0)"
    p0 = sum(row["p0"] for row in known) / len(known)
    end = "the gate saved nothing"
    if share > 0.5:
        end = "the method is Base there; check that a, b and p0 were fitted on such questions"
    return (
        f"the gate of {name} stopped {stopped:,} of {len(known):,} chains of {benchmark}: mean p0 "
        f"is {p0:.3f}, L {limit}: {end}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """Questions of a benchmark that a strategy was not run on to its stop."""

    strategy: str
    benchmark: str
    questions: int
    of: int
    """Questions that the benchmark has."""
    examples: tuple[str, ...]
    """Ids of the first of them."""

    @property
    def words(self) -> str:
        """Which, and how many."""
        return f"{self.questions:,} of {self.of:,} questions of {self.benchmark} ({self.strategy})"

    def as_dict(self) -> dict[str, Any]:
        """For summary.json."""
        return {**asdict(self), "examples": list(self.examples)}


def not_run(
    labels: Iterable[str],
    questions: Iterable[QuestionKey],
    done: Mapping[tuple[str, str], Collection[str]],
) -> tuple[NotRun, ...]:
    """What has no final outcome, by strategy and benchmark; none where all was run.

    Args:
        labels: of the strategies.
        questions: that were asked.
        done: ids of the questions with a final outcome, by (strategy, benchmark).
    """
    by_benchmark: dict[str, list[str]] = {}
    for benchmark, question in questions:
        by_benchmark.setdefault(benchmark, []).append(question)
    found = []
    for label in labels:
        for benchmark, ids in by_benchmark.items():
            ended = frozenset(done.get((label, benchmark), ()))
            left = [question for question in ids if question not in ended]
            if left:
                found.append(
                    NotRun(
                        strategy=label,
                        benchmark=benchmark,
                        questions=len(left),
                        of=len(ids),
                        examples=tuple(left[:_EXAMPLES]),
                    )
                )
    return tuple(found)


def capped_words(capped: Capped, left: Collection[NotRun]) -> str:
    """What a reader of a capped run must know first."""
    if not left:
        return f"{capped.words}; every chain has an outcome, one to be retried its failure."
    named = [each.words for each in left][:_NAMED]
    more = f", and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return (
        f"{capped.words}; not run: {', '.join(named)}{more}; they count neither as wrong nor as "
        "failed. All figures are of the finished questions alone, which are a biased sample: short "
        "chains, and those that promised most for their tokens, end first."
    )
