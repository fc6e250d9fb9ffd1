"""*CompletionPool*: recorded completions, deep enough to replay strategies over them.

A pool has, for every question, one or several chains of R rounds and K independent samples, graded
and, where there was a verifier, scored. It is the journal of a run that drew them
(``jobs.collect``), an export of one, or another tool's log (`pipeline.imports`). Reading it drives
the strategies that drew it over its rows, so a pool that was read has every round, each drawn for
exactly the prompt and sampling parameters that its run used.
"""

from __future__ import annotations

import gc
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import ValidationError

from pipeline.config.errors import described
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import POOL_OF, strategies_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.prompts import Feedback
from pipeline.core.protocol import (
    Failure,
    Observation,
    Pool,
    Question,
    Request,
    Strategy,
    decisions,
)
from pipeline.records.questions import QUESTIONS_FILE, question_of, read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import Address, Recorded, Recording, drive
from pipeline.replay.pool_rows import (
    POOL_TABLE,
    Digests,
    Located,
    Taken,
    exported_rows,
    journal_rows,
    vouched_rows,
)
from pipeline.store.storage import Folder, sha256

POOL_VERSION = 1

Place = tuple[str, int]
"""(file, row counted from 1)."""
Tokens = Literal["recorded", "estimated", "none"]
"""Whether completion tokens were counted, are estimated, or nobody knows them."""
Verdicts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an imported pool comes from."""

    format: str
    sources: tuple[Mapping[str, str], ...]
    """``name`` and ``sha256`` of each file."""
    licence: str = ""
    prompts: str = "not recorded"
    """``known`` where its digests are of the prompts that were really asked."""
    context: str = "unknown"
    """What a later round was shown: ``last_answer``, ``history``, ``others``; ``none`` where there
    are no chains."""
    labels: str = "both"
    """Whether verdicts are graded anew (``grade``, ``both``) or the log's own (``trust``)."""
    tokens: Tokens = "recorded"
    scores: str = ""
    """What gave the scores, and how they were mapped to [0, 1]."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """What the import left out, and how much of it."""

    def as_json(self) -> dict[str, Any]:
        """As ``pool.json`` holds it."""
        return {**asdict(self), "sources": list(self.sources)}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Origin:
        """The inverse of `as_json`; unknown fields, of later versions, are left out."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**{**known, "sources": tuple(known.get("sources", ()))})

    @property
    def sentence(self) -> str:
        """What a report says of it in its first lines."""
        files = f"{len(self.sources)} file{'s' if len(self.sources) != 1 else ''}"
        parts = [f"imported from {files} of format {self.format}"]
        if self.prompts != "known":
            parts.append("prompts not recorded")
        if self.context not in ("last_answer", "none"):
            shown = {
                "history": "each round saw the whole history",
                "others": "each round saw others' answers",
            }
            parts.append(shown.get(self.context, "what each round saw is not known"))
        if self.labels == "trust":
            parts.append("verdicts are the log's own labels")
        if self.tokens != "recorded":
            parts.append("tokens estimated" if self.tokens == "estimated" else "no tokens recorded")
        if self.scores:
            parts.append(f"scores from {self.scores}")
        parts += [f"{number:,} {what} dropped" for what, number in self.dropped.items()]
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A strategy of a run that draws one chain, or the samples, of a pool."""

    pool: Pool
    chain: int
    label: str
    strategy: Strategy


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
    more_chains: tuple[tuple[tuple[Recorded, ...], Verdicts], ...] = ()
    """Further chains of the same question, with their verdicts, addressed as the first one is."""

    @property
    def key(self) -> tuple[str, str]:
        """(benchmark, question_id)."""
        return (self.question.benchmark, self.question.question_id)

    @property
    def chains(self) -> tuple[tuple[tuple[Recorded, ...], Verdicts], ...]:
        """Every chain with its verdicts, the first one first."""
        return ((self.rounds, self.round_verdicts), *self.more_chains)

    @property
    def verdicts_by_chain(self) -> tuple[Verdicts, ...]:
        """`round_verdicts` of every chain."""
        return tuple(verdicts for _, verdicts in self.chains)

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
        return Recording.of(self.question, (*self.rounds, *self.samples))

    def answers(self, digests: Digests) -> Callable[[Request], Observation]:
        """`Recording.find` of this question, with digests that are shared between settings."""
        recording = self.recording()
        return lambda request: recording.find(request, digests.of(request))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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
    tokens: Tokens = "recorded"
    imported: Origin | None = None
    """Where an imported pool comes from; None for pools of this project's runs."""

    @property
    def chains(self) -> int:
        """Chains a question; 0 where none were drawn."""
        return 1 + min(len(q.more_chains) for q in self.questions) if self.rounds else 0

    @property
    def counted(self) -> str:
        """What columns of tokens count for this pool (`comparable`)."""
        return {
            "recorded": "completion tokens",
            "estimated": "completion tokens, estimated",
            "none": "completions, as no tokens are recorded",
        }[self.tokens]

    def comparable(self) -> CompletionPool:
        """This pool as strategies are compared over it: where it has no chains, the first samples
        are chains of one round; where it has no tokens, each completion counts as one."""
        if self.rounds and self.tokens != "none":
            return self
        questions = self.questions
        if self.tokens == "none":
            questions = tuple(_counted(question) for question in questions)
        if not self.rounds:
            questions = tuple(_with_first_round(question) for question in questions)
        return replace(self, rounds=max(1, self.rounds), questions=questions)

    def with_chain(self, chain: int) -> CompletionPool:
        """This pool with one of its chains, from 0, in place of the first."""
        if chain == 0:
            return self
        questions = []
        for question in self.questions:
            rounds, verdicts = question.chains[chain]
            questions.append(replace(question, rounds=rounds, round_verdicts=verdicts))
        return replace(self, questions=tuple(questions))

    def __repr__(self) -> str:
        return (
            f"CompletionPool({self.address!r}, {', '.join(self.benchmarks)}: "
            f"{len(self.questions):,} questions, {self.rounds} rounds and {self.samples} samples "
            f"each, of {self.science.generator.model})"
        )

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


def _with_first_round(question: PoolQuestion) -> PoolQuestion:
    """With its first sample, which answers the same prompt, as a chain of one round."""
    first = tuple(
        replace(e, address=(Pool.SEQUENTIAL.value, 0, 0, 0)) for e in question.samples[:1]
    )
    return replace(question, rounds=first, round_verdicts=question.sample_verdicts[:1])


def _counted(question: PoolQuestion) -> PoolQuestion:
    def one_each(entries: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
        return tuple(
            replace(entry, observation=replace(entry.observation, completion_tokens=1))
            for entry in entries
        )

    return replace(
        question,
        rounds=one_each(question.rounds),
        samples=one_each(question.samples),
        more_chains=tuple((one_each(c), verdicts) for c, verdicts in question.more_chains),
    )


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
    origin = None
    if exported:
        science, synthetic = exported_science(folder.address)
        if (imported := folder.read_json("pool.json").get("imported")) is not None:
            origin = Origin.of_json(imported)
    else:
        config = RunDir.open(folder.address).config()
        science, synthetic = config.science, config.runtime.scripted is not None
    keep = science.prompts.feedback is not Feedback.FINAL_BOX if text is None else text
    if keep and exported and not folder.read_json("pool.json").get("texts", True):
        raise DataError(f"{address} was exported without texts: export it again without --no-texts")
    if exported:
        pool = None
        places: dict[Place, str | None] = {}
        if check_digests(folder):
            with _no_collector():
                pool = _vouched(folder, science, synthetic, text=keep)
        if pool is None:
            rows = exported_rows(folder, text=keep)
            pool, places = _assembled(folder, science, synthetic, rows, None)
        if origin is not None:
            pool = replace(pool, imported=origin, tokens=origin.tokens)
        return pool, places
    run = RunDir(folder)
    return _assembled(folder, science, synthetic, journal_rows(run.journal, text=keep), run)


def pool_sources(science: ScienceConfig) -> list[Source]:
    """What draws each part of a pool: the chains in the order of their numbers, then the samples.
    Of several strategies that draw one part the deepest does.

    Raises:
        ConfigError: where the run has none, or its chains differ in length.
    """
    found: dict[tuple[Pool, int], Source] = {}
    for label, strategy in strategies_of(science).items():
        kind, chain = POOL_OF.get(strategy.kind), getattr(strategy, "chain", 0)
        if kind is not None:
            known = found.get((kind, chain))
            if known is None or strategy.n > known.strategy.n:
                source = Source(pool=kind, chain=chain, label=label, strategy=strategy)
                found[kind, chain] = source
    if not any(chain == 0 for _, chain in found):
        raise ConfigError(f"a pool must be generated by at least one of {', '.join(POOL_OF)}")
    chains = [source for (kind, _), source in found.items() if kind is Pool.SEQUENTIAL]
    for source in chains:
        if source.strategy.n != chains[0].strategy.n:
            raise ConfigError(
                f"chains of one pool must be of one length, got {chains[0].strategy.n} and "
                f"{source.strategy.n} ({source.label})"
            )
    return sorted(found.values(), key=lambda each: (each.pool is Pool.PARALLEL, each.chain))


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
        first_line = why.splitlines()[0]
        raise DataError(
            f"a pool must say how it was generated, {first_line}; in {folder.address}/pool.json"
        ) from error


def check_digests(folder: Folder) -> bool:
    """Hold the files of an exported pool against the digests that it was exported with; returns
    whether it has them, as earlier exports have not.

    Raises:
        DataError: naming the file that was changed since.
    """
    digests = folder.read_json("pool.json").get("sha256", {})
    for name in (POOL_TABLE, QUESTIONS_FILE):
        found = sha256(folder.read(name))
        if found != digests.get(name, found):
            raise DataError(
                f"{folder.address}/{name} must have the digest {digests[name]} of pool.json; it "
                f"was changed since: {found}"
            )
    return {POOL_TABLE, QUESTIONS_FILE} <= set(digests)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Pauses the garbage collector, which takes half the time where many objects are made that
    all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _vouched(
    folder: Folder, science: ScienceConfig, synthetic: bool, *, text: bool
) -> CompletionPool | None:
    """An export that is as it was written, when every row was checked: without driving strategies.

    None where its rows are not whole, or its first questions would be asked otherwise now; reading
    it row by row then says what is wrong.
    """
    sources, facts = pool_sources(science), rows_of(read_questions(folder))
    vouched = vouched_rows(folder, text=text)
    tokens: Tokens = "recorded" if all(vouched.counted) else "none"
    checked = set[str]()
    for row in facts:
        question = question_of(row)
        for source in sources:
            entries, _ = vouched.of(source.label, question)
            if question.benchmark not in checked:
                (request, *_) = next(decisions(source.strategy, question))
                if not entries or entries[0].digest != request.digest():
                    return None
            last = entries[-1].observation if entries else None
            ended = source.pool is Pool.SEQUENTIAL and isinstance(last, Failure)
            if len(entries) != source.strategy.n and not ended:
                return None
        checked.add(question.benchmark)
    return _pool_of(
        folder,
        science,
        synthetic,
        facts,
        lambda source, question: vouched.of(source.label, question),
        tokens,
    )


def _assembled(
    folder: Folder,
    science: ScienceConfig,
    synthetic: bool,
    rows: Iterable[Located],
    run: RunDir | None,
) -> tuple[CompletionPool, dict[Place, str | None]]:
    sources = pool_sources(science)
    labels = {source.label for source in sources}
    tokens: Tokens = "recorded"
    recorded: dict[tuple[str, str, str], list[Located]] = {}
    for located in rows:
        row = located.row
        if row["strategy"] in labels:
            key = (row["strategy"], row["benchmark"], row["question_id"])
            recorded.setdefault(key, []).append(located)
            if row["completion_tokens"] is None and row["error"] is None:
                tokens = "none"
    outcomes = None if run is None else _outcomes(run, labels)
    if outcomes is None and not recorded:
        raise DataError(
            f"a pool must hold rows of {', '.join(sorted(labels))}, got none in {folder.address}"
        )
    digests = Digests()
    places: dict[Place, str | None] = {}

    def taken(source: Source, question: Question) -> tuple[Sequence[Recorded], Verdicts]:
        key = (source.label, question.benchmark, question.question_id)
        taken = Taken(question, recorded.get(key, []), folder.address, digests)
        drive(source.strategy, question, taken.answer)
        verdicts = taken.verdicts(outcomes, key)
        places.update(zip(taken.places, verdicts, strict=True))
        return taken.entries, verdicts

    facts = rows_of(read_questions(folder))
    pool = _pool_of(folder, science, synthetic, facts, taken, tokens)
    return replace(pool, discarded=sum(map(len, recorded.values())) - len(places)), places


def _pool_of(
    folder: Folder,
    science: ScienceConfig,
    synthetic: bool,
    facts: Iterable[Row],
    taken: Callable[[Source, Question], tuple[Sequence[Recorded], Verdicts]],
    tokens: Tokens,
) -> CompletionPool:
    """A pool of the questions with what each source has of them."""
    sources = pool_sources(science)
    questions: list[PoolQuestion] = []
    for row in facts:
        question = question_of(row)
        chains: list[tuple[tuple[Recorded, ...], Verdicts]] = []
        samples: tuple[tuple[Recorded, ...], Verdicts] = ((), ())
        for source in sources:
            entries, verdicts = taken(source, question)
            if source.pool is Pool.SEQUENTIAL:
                chains.append((tuple(entry.as_first for entry in entries), verdicts))
            else:
                samples = (tuple(entries), verdicts)
        rounds, *more = chains or [((), ())]
        questions.append(
            PoolQuestion(
                question=question,
                gold=row["gold"],
                level=row["level"],
                rounds=rounds[0],
                round_verdicts=rounds[1],
                samples=samples[0],
                sample_verdicts=samples[1],
                more_chains=tuple(more),
            )
        )
    if not questions:
        raise DataError(f"a pool must hold questions, {folder.address} has none")
    return CompletionPool(
        address=folder.address,
        science=science,
        synthetic=synthetic,
        rounds=_depth(sources, Pool.SEQUENTIAL),
        samples=_depth(sources, Pool.PARALLEL),
        questions=tuple(questions),
        discarded=0,
        tokens=tokens,
    )


def _depth(sources: Sequence[Source], kind: Pool) -> int:
    return max((source.strategy.n for source in sources if source.pool is kind), default=0)


def _outcomes(run: RunDir, labels: set[str]) -> dict[tuple[str, str, str], Row]:
    return {
        (row["strategy"], row["benchmark"], row["question_id"]): row
        for row in rows_of(run.outcomes())
        if row["strategy"] in labels
    }
