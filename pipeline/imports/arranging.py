"""*arrange*: groups the entries of a log into questions with chains and samples of one depth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from pipeline.core.errors import DataError
from pipeline.core.protocol import Pool
from pipeline.imports.entries import Entry

Ragged = Literal["best", "cut"]
Key = tuple[str, str]

_ORACLE = 0.05  # of right answers before the last round, how many a chain may go on from


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A question and everything that was drawn for it."""

    benchmark: str
    question_id: str
    facts: Entry
    """Any entry of it: question, gold and level are those of all."""
    chains: tuple[tuple[Entry, ...], ...] = ()
    """Each in the order of its rounds; one may end with an error."""
    samples: tuple[Entry, ...] = ()


@dataclass(slots=True, kw_only=True)
class Arranged:
    """Questions of one depth."""

    questions: list[Drawn] = field(default_factory=list)
    rounds: int = 0
    chains: int = 0
    samples: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """What was left out, and how much of it."""


def of_one_model(entries: Sequence[Entry], model: str | None) -> tuple[list[Entry], str | None]:
    """The entries of one model, and its name.

    Args:
        model: which one, where the log has several; a name for it, where the log names none.

    Raises:
        DataError: where the log has several models and none is chosen.
    """
    named = Counter(entry.model for entry in entries if entry.model is not None)
    if not named:
        return list(entries), model
    if model in named:
        return [entry for entry in entries if entry.model == model], model
    if len(named) > 1:
        models = ", ".join(f"{name} ({count:,})" for name, count in named.most_common(12))
        raise DataError(f"a pool must be of one model, got {models}: choose one with --model")
    return list(entries), model or next(iter(named))


def arrange(
    entries: Sequence[Entry],
    *,
    benchmark: str,
    rounds: int | None = None,
    samples: int | None = None,
    ragged: Ragged = "best",
    is_right: Callable[[Entry], bool | None] = lambda entry: entry.right,
) -> Arranged:
    """Group entries by question and bring them to one depth.

    Args:
        entries: of one model.
        benchmark: the name for entries that name none.
        rounds: R; None takes the depth that keeps most completions.
        samples: K, likewise.
        ragged: ``cut`` takes the smallest depth instead, which drops no question.
        is_right: whether an entry of a chain is right; None where that is not known.

    Raises:
        DataError: where chains end at the first right answer, entries of one question disagree on
            its reference answer, or nothing is left.
    """
    made = Arranged()
    grouped: dict[Key, list[Entry]] = {}
    for entry in entries:
        key = (entry.benchmark or benchmark, entry.question_id)
        grouped.setdefault(key, []).append(entry)
    drawn = [_question(key, of_key) for key, of_key in grouped.items()]
    check_goes_on((chain for one in drawn for chain in one.chains), is_right)
    drawn = _of_depth(drawn, made, rounds, ragged)
    drawn = _of_samples(drawn, made, samples, ragged)
    if not drawn:
        raise DataError("a log must hold a question of the asked depth, none is left")
    made.questions = drawn
    return made


def _question(key: Key, entries: Sequence[Entry]) -> Drawn:
    golds = {entry.gold: entry for entry in entries if entry.gold}
    if len(golds) > 1:
        (first, one), (second, other), *_ = golds.items()
        raise DataError(
            f"a question must have one reference answer, {key[1]!r} of {key[0]!r} has {first[0]!r} "
            f"in {one.where} and {second[0]!r} in {other.where}: choices that were shuffled anew "
            "for each log, or ids of two sets; import them into pools of their own"
        )
    facts = next(iter(golds.values()), entries[0])
    if facts.question is None:
        text = next((entry.question for entry in entries if entry.question is not None), None)
        facts = replace(facts, question=text)
    chains: dict[str, list[Entry]] = {}
    samples = []
    for entry in entries:
        if entry.pool is Pool.SEQUENTIAL:
            chains.setdefault(entry.chain, []).append(entry)
        else:
            samples.append(entry)
    ordered = [_in_order(chain, key) for _, chain in sorted(chains.items(), key=_by_name)]
    return Drawn(
        benchmark=key[0],
        question_id=key[1],
        facts=facts,
        chains=tuple(map(_until_error, ordered)),
        samples=_in_order(samples, key),
    )


def _by_name(item: tuple[str, object]) -> tuple[int, str]:
    name = item[0]
    return (int(name) if name.isascii() and name.isdigit() else -1, name)


def _in_order(entries: Sequence[Entry], key: Key) -> tuple[Entry, ...]:
    ordered = sorted(entries, key=lambda entry: entry.place)
    for before, after in pairwise(ordered):
        if before.place == after.place:
            raise DataError(
                f"a place must be taken once, {before.where} and {after.where} are both number "
                f"{after.place} of question {key[1]!r} of {key[0]!r}: several chains or models "
                "need a field that tells them apart"
            )
    return tuple(ordered)


def _until_error(chain: Sequence[Entry]) -> tuple[Entry, ...]:
    for place, entry in enumerate(chain):
        if entry.error is not None:
            return tuple(chain[: place + 1])
    return tuple(chain)


def check_goes_on(
    chains: Iterable[Sequence[Entry]], is_right: Callable[[Entry], bool | None]
) -> None:
    """Refuse chains that end at the first right answer.

    There nobody can count how often a right answer is lost, and the last answer is right as often
    as an oracle would stop in time.

    Args:
        chains: of all questions, as long as they were recorded.
        is_right: whether an entry is right; None where that is not known.

    Raises:
        DataError: where right answers before the last round are hardly ever gone on from.
    """
    known = [chain for chain in chains if chain]
    deepest = max(map(len, known), default=0)
    early = [
        place + 1 < len(chain)
        for chain in known
        for place, entry in enumerate(chain)
        if place + 1 < deepest and is_right(entry)
    ]
    if early and sum(early) <= _ORACLE * len(early):
        raise DataError(
            f"chains must continue after a right answer, {len(early) - sum(early):,} of "
            f"{len(early):,} right answers before round {deepest} end theirs: an oracle stopped "
            "them, so that a (right to wrong) cannot be counted and the last answer is right too "
            "often"
        )


def _of_depth(
    drawn: list[Drawn], made: Arranged, rounds: int | None, ragged: Ragged
) -> list[Drawn]:
    lengths = [len(chain) for one in drawn for chain in one.chains if not _failed(chain)]
    if not lengths and not any(one.chains for one in drawn):
        return drawn
    made.rounds = rounds or _depth(lengths, ragged)
    kept = []
    for one in drawn:
        long_enough = [c for c in one.chains if _rounds(c) >= made.rounds]
        whole = tuple(chain[: made.rounds] for chain in long_enough)
        _count(made, "chains that are too short", len(one.chains) - len(whole))
        cut = sum(len(chain) - made.rounds for chain in one.chains if len(chain) > made.rounds)
        _count(made, "rounds beyond the common depth", cut)
        kept.append(replace(one, chains=whole))
    made.chains = _depth([len(one.chains) for one in kept if one.chains], ragged)
    return _only(kept, made, lambda one: len(one.chains) >= made.chains, "without enough chains")


def _rounds(chain: Sequence[Entry]) -> float:
    """The length of a chain; one that an error ended fits any depth."""
    return math.inf if _failed(chain) else len(chain)


def _failed(chain: Sequence[Entry]) -> bool:
    return bool(chain) and chain[-1].error is not None


def _of_samples(
    drawn: list[Drawn], made: Arranged, samples: int | None, ragged: Ragged
) -> list[Drawn]:
    counts = [len(one.samples) for one in drawn if one.samples]
    if not counts:
        return drawn
    made.samples = samples or _depth(counts, ragged)
    beyond = sum(max(0, count - made.samples) for count in counts)
    _count(made, "samples beyond the common depth", beyond)
    whole = [replace(one, samples=one.samples[: made.samples]) for one in drawn]
    enough = _only(
        whole, made, lambda one: len(one.samples) == made.samples, "with too few samples"
    )
    if made.chains:
        enough = [replace(one, chains=one.chains[: made.chains]) for one in enough]
    return enough


def _only(
    drawn: list[Drawn], made: Arranged, holds: Callable[[Drawn], bool], what: str
) -> list[Drawn]:
    kept = [one for one in drawn if holds(one)]
    _count(made, f"questions {what}", len(drawn) - len(kept))
    return kept


def _depth(counts: Sequence[int], ragged: Ragged) -> int:
    """The depth that keeps most completions, the deeper one of equals; or the smallest."""
    if ragged == "cut" or not counts:
        return min(counts, default=1)
    return max(set(counts), key=lambda n: (n * sum(count >= n for count in counts), n))


def _count(made: Arranged, what: str, number: int) -> None:
    if number:
        made.dropped[what] = made.dropped.get(what, 0) + number


def with_golds(
    entries: Sequence[Entry], by_id: Mapping[str, str], by_text: Mapping[str, str]
) -> list[Entry]:
    """Entries with the reference answers of a file, found by id, by text, or by a question's text
    within the prompt."""
    known: dict[tuple[str, str | None], str | None] = {}
    made = []
    for entry in entries:
        key = (entry.question_id, entry.question)
        if key not in known:
            known[key] = _gold_in(*key, by_id, by_text)
        gold = known[key]
        made.append(entry if gold is None else replace(entry, gold=(gold,)))
    return made


def _gold_in(
    question_id: str, question: str | None, by_id: Mapping[str, str], by_text: Mapping[str, str]
) -> str | None:
    asked = " ".join((question or "").split())
    if asked in by_text:
        return by_text[asked]
    if question_id in by_id:
        return by_id[question_id]
    inside = {answer for text, answer in by_text.items() if text in asked}
    return inside.pop() if len(inside) == 1 else None
