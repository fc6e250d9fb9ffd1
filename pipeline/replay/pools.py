"""Pools: completions drawn beforehand, deep enough for any decision that is to be tried on them.

A pool has, for every question, one chain of R rounds and K independent samples, all scored and
graded. It is the journal of a run that drew them (``jobs.collect``), or an export of one. Reading
it drives the strategies that drew it over its rows, so a pool that was read has every round, each
drawn for exactly the prompt and sampling parameters that its run used.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from pipeline.config.errors import described
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import POOL_OF, strategies_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.prompts import Feedback
from pipeline.core.protocol import Observation, Pool, Question, Request, Strategy
from pipeline.records.questions import QUESTIONS_FILE, question_of, read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import Address, Recorded, Recording, RecordingKind, drive
from pipeline.replay.pool_rows import POOL_TABLE, Located, exported_rows, journal_rows
from pipeline.replay.pool_selection import Digests, Taken
from pipeline.store.storage import Folder, sha256

POOL_VERSION = 1

Place = tuple[str, int]
"""(file, row counted from 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQuestion:
    """A question and what a pool holds of it."""

    question: Question
    gold: str | None
    level: str | None
    rounds: tuple[Recorded, ...]
    """The chain, round 0 first. Shorter than the pool's where its last entry is a `Failure`."""
    round_verdicts: tuple[str | None, ...]
    """One a round: ``right``, ``wrong``, ``ungraded``; None for failures and without gold."""
    samples: tuple[Recorded, ...]
    sample_verdicts: tuple[str | None, ...]

    @property
    def key(self) -> tuple[str, str]:
        """(benchmark, question_id)."""
        return (self.question.benchmark, self.question.question_id)

    def verdicts(self) -> dict[Address, str | None]:
        """Verdicts by address."""
        return {
            entry.address: verdict
            for entries, verdicts in (
                (self.rounds, self.round_verdicts),
                (self.samples, self.sample_verdicts),
            )
            for entry, verdict in zip(entries, verdicts, strict=True)
        }

    def recording(self) -> Recording:
        """What `pipeline.replay.exact` reads."""
        return Recording.of(RecordingKind.POOL, self.question, (*self.rounds, *self.samples))

    def answers(self, digests: Digests) -> Callable[[Request], Observation]:
        """`Recording.find` of this question, with digests that are shared between settings."""
        recording = self.recording()
        return lambda request: recording.find(request, digests.of(request))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionPool:
    """Everything that was collected from one backbone with one set of prompts."""

    address: str
    science: ScienceConfig
    """Of the run that drew it."""
    synthetic: bool
    """Whether scripted engines made it."""
    rounds: int
    """Completions a chain; 0 where no chains were drawn."""
    samples: int
    """Samples a question; 0 where none were drawn."""
    questions: tuple[PoolQuestion, ...]
    discarded: int
    """Rows of redone work, which nothing uses."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """In the order of the run."""
        return tuple(dict.fromkeys(q.question.benchmark for q in self.questions))

    def of_benchmarks(self, names: Sequence[str]) -> CompletionPool:
        """The part with some of the benchmarks; all of them where none is named.

        Raises:
            ConfigError: naming a benchmark that the pool does not have.
        """
        for name in names:
            if name not in self.benchmarks:
                raise ConfigError(
                    f"a benchmark must be one of the pool's, {', '.join(self.benchmarks)}, "
                    f"got {name!r}"
                )
        kept = tuple(q for q in self.questions if not names or q.question.benchmark in names)
        return replace(self, questions=kept)


def read_pool(address: str, *, text: bool | None = None) -> CompletionPool:
    """Read a pool from a run directory or an exported folder.

    Args:
        address: of the folder.
        text: whether to keep the replies' texts. None keeps them only where the pool's prompts feed
            text back; otherwise no strategy that a pool can replay reads them, and they are most of
            a pool. Where they are not kept a text is still empty or not.

    Raises:
        ConfigError: where the folder holds no pool.
        DataError: naming file and row of what is missing, doubled or cannot be.
    """
    return read_with_places(address, text=text)[0]


def read_with_places(
    address: str, *, text: bool | None = None
) -> tuple[CompletionPool, dict[Place, str | None]]:
    """As `read_pool`, and the verdict of each row that the pool rests on, by where it stands."""
    folder = Folder(address.rstrip("/"))
    exported = is_export(folder.address)
    if exported:
        science, synthetic = exported_science(folder.address)
    else:
        config = RunDir.open(folder.address).config()
        science, synthetic = config.science, config.runtime.scripted is not None
    keep = science.prompts.feedback is not Feedback.FINAL_BOX if text is None else text
    if keep and exported and not folder.read_json("pool.json").get("texts", True):
        raise DataError(f"{address} was exported without texts: export it again without --no-texts")
    if exported:
        check_digests(folder)
        return _assembled(folder, science, synthetic, exported_rows(folder, text=keep), None)
    run = RunDir(folder)
    return _assembled(folder, science, synthetic, journal_rows(run.journal, text=keep), run)


def pool_strategies(science: ScienceConfig) -> dict[Pool, tuple[str, Strategy[Any]]]:
    """The deepest strategy of a run that draws each pool, with its label.

    Raises:
        ConfigError: where the run has none.
    """
    found: dict[Pool, tuple[str, Any]] = {}
    for label, strategy in strategies_of(science).items():
        kind = POOL_OF.get(strategy.kind)
        if kind is not None and (kind not in found or _n(strategy) > _n(found[kind][1])):
            found[kind] = (label, strategy)
    if not found:
        raise ConfigError(f"a pool must be drawn by at least one of {', '.join(POOL_OF)}")
    return found


def is_export(address: str) -> bool:
    """Whether a folder is an exported pool and no run."""
    return Folder(address.rstrip("/")).has("pool.json")


def names_of(address: str) -> frozenset[str]:
    """Names by which a pool may be known: its folder's and, of an export, that of the run."""
    folder = Folder(address.rstrip("/"))
    own = frozenset((posixpath.basename(folder.address),))
    return own | {str(folder.read_json("pool.json").get("run", ""))} if is_export(address) else own


def exported_science(address: str) -> tuple[ScienceConfig, bool]:
    """What an exported pool was drawn with, and whether scripted engines drew it.

    Raises:
        DataError: at a pool of another version, and where pool.json is something else.
    """
    folder = Folder(address.rstrip("/"))
    facts = folder.read_json("pool.json")
    version = facts.get("version") if isinstance(facts, dict) else None
    if version != POOL_VERSION:
        raise DataError(
            f"pool version must be {POOL_VERSION}, got {version!r} in {folder.address}/pool.json"
        )
    try:
        return ScienceConfig.model_validate(facts["science"]), bool(facts["synthetic"])
    except (KeyError, ValidationError) as error:
        why = described(error) if isinstance(error, ValidationError) else f"no {error}"
        told = why.splitlines()[0]
        raise DataError(
            f"a pool must say what it was drawn with, {told}; in {folder.address}/pool.json"
        ) from error


def check_digests(folder: Folder) -> None:
    """Hold the files of an exported pool against the digests that it was exported with.

    Raises:
        DataError: naming the file that was changed since. Earlier exports have no digests.
    """
    told = folder.read_json("pool.json").get("sha256", {})
    for name in (POOL_TABLE, QUESTIONS_FILE):
        found = sha256(folder.read(name))
        if found != told.get(name, found):
            raise DataError(
                f"{folder.address}/{name} must have the digest {told[name]} of pool.json, it was "
                f"changed since: {found}"
            )


def _assembled(
    folder: Folder,
    science: ScienceConfig,
    synthetic: bool,
    rows: Iterable[Located],
    run: RunDir | None,
) -> tuple[CompletionPool, dict[Place, str | None]]:
    sources = pool_strategies(science)
    labels = {label for label, _ in sources.values()}
    recorded: dict[tuple[str, str, str], list[Located]] = {}
    for located in rows:
        row = located.row
        if row["strategy"] in labels:
            key = (row["strategy"], row["benchmark"], row["question_id"])
            recorded.setdefault(key, []).append(located)
    outcomes = None if run is None else _outcomes(run, labels)
    if outcomes is None and not recorded:
        raise DataError(
            f"a pool must hold rows of {', '.join(sorted(labels))}, got none in {folder.address}"
        )
    questions: list[PoolQuestion] = []
    digests = Digests()
    places: dict[Place, str | None] = {}
    for facts in rows_of(read_questions(folder)):
        question = question_of(facts)
        parts: dict[Pool, tuple[tuple[Recorded, ...], tuple[str | None, ...]]] = {}
        for kind, (label, strategy) in sources.items():
            key = (label, question.benchmark, question.question_id)
            taken = Taken(question, recorded.get(key, []), folder.address, digests)
            drive(strategy, question, taken.answer)
            verdicts = taken.verdicts(outcomes, key)
            places.update(zip(taken.places, verdicts, strict=True))
            parts[kind] = (tuple(taken.entries), verdicts)
        rounds, round_verdicts = parts.get(Pool.SEQUENTIAL, ((), ()))
        samples, sample_verdicts = parts.get(Pool.PARALLEL, ((), ()))
        questions.append(
            PoolQuestion(
                question=question,
                gold=facts["gold"],
                level=facts["level"],
                rounds=rounds,
                round_verdicts=round_verdicts,
                samples=samples,
                sample_verdicts=sample_verdicts,
            )
        )
    if not questions:
        raise DataError(f"a pool must hold questions, {folder.address} has none")
    pool = CompletionPool(
        address=folder.address,
        science=science,
        synthetic=synthetic,
        rounds=_depth(sources, Pool.SEQUENTIAL),
        samples=_depth(sources, Pool.PARALLEL),
        questions=tuple(questions),
        discarded=sum(map(len, recorded.values())) - len(places),
    )
    return pool, places


def _depth(sources: Mapping[Pool, tuple[str, Strategy[Any]]], kind: Pool) -> int:
    return _n(sources[kind][1]) if kind in sources else 0


def _n(strategy: Any) -> int:
    return int(strategy.n)


def _outcomes(run: RunDir, labels: set[str]) -> dict[tuple[str, str, str], Row]:
    return {
        (row["strategy"], row["benchmark"], row["question_id"]): row
        for row in rows_of(run.outcomes())
        if row["strategy"] in labels
    }
