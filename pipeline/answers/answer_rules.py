"""*Answer rules*: choose one of a strategy's completions as the answer.

A strategy says on which completions its answer rests (`Stop.rounds`); a rule picks among them. The
same completions can thus be read by every rule, and gains from selection stay apart from gains
from stopping.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from pipeline.answers.voting import Cluster, clusters, leader
from pipeline.core.errors import ConfigError
from pipeline.core.plugins import is_import_path, load_object, names_of, short_name
from pipeline.core.protocol import Completion, Observation, Stop

GROUP = "markovscale.answer_rules"
"""The group of entry points in which a package names its answer rules."""

NO_CHOICE = -1
"""What stands for the index where a rule chooses nothing."""

Choose = Callable[[Sequence[Completion]], int | None]


@dataclass(frozen=True, slots=True)
class OwnRule:
    """A rule by its place. Its code is imported where it must choose, and nowhere else, so that a
    run can be read where the package is not installed."""

    value: str
    """Its name in columns: ``answer_NAME``, ``verdict_NAME``."""
    kind: str
    """``package.module:name``, or the name of an entry point."""
    settings: str = "{}"
    """Fields of a class, as JSON."""
    given: Choose | None = None
    """The code itself, of a notebook, in place of what is at `kind`."""

    def __str__(self) -> str:
        return self.value

    def source(self) -> str:
        """Where it comes from: ``early.rules:LateArgmax {"start": 2}``."""
        return self.kind if self.settings == "{}" else f"{self.kind} {self.settings}"

    @property
    def needs_score(self) -> bool:
        """Whether it reads verifier scores: completions without one are kept from it."""
        return bool(getattr(self.code(), "needs_score", False))

    @property
    def needs_logprobs(self) -> bool:
        """Whether it reads token confidence or entropy, likewise."""
        return bool(getattr(self.code(), "needs_logprobs", False))

    def code(self) -> Choose:
        """The function, or the object of a class with its settings.

        Raises:
            ConfigError: where it cannot be imported, is no rule, or refuses its settings.
        """
        given = self.given
        return _code(self.kind, self.settings) if given is None else _checked(self.kind, given)

    def reads(self, completion: Completion) -> bool:
        """Whether a completion has what the rule reads."""
        scored = completion.score is not None or not self.needs_score
        return scored and (completion.token_confidence is not None or not self.needs_logprobs)

    def picked(self, completions: Sequence[Completion]) -> int | None:
        """What the code returns for completions that have what it reads, checked.

        Raises:
            ConfigError: where that is neither an index nor None.
        """
        found = self.code()(tuple(replace(c, text="") if c.text else c for c in completions))
        if found is None:
            return None
        if isinstance(found, bool) or not hasattr(found, "__index__"):
            raise ConfigError(
                f"answer rule {self.kind} must return an index or None, got {found!r}"
            )
        if not 0 <= int(found) < len(completions):
            raise ConfigError(
                f"answer rule {self.kind} must return an index in [0, {len(completions)}), the "
                f"completions that it was given, or None, got {found!r}"
            )
        return int(found)

    def choose(self, completions: Sequence[Completion]) -> int | None:
        """As `picked`, with `NO_CHOICE` for None. None where the code is at fault: the rule could
        not be applied, which warns and costs the run nothing else."""
        self.code()
        try:
            found = self.picked(completions)
        except Exception as error:  # the user's own, whatever it is
            why = error if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            warnings.warn(f"answer rule {self.value} could not be applied: {why}", stacklevel=2)
            return None
        return NO_CHOICE if found is None else found


def module_of(rule: OwnRule) -> str:
    """The module that its code is in."""
    if is_import_path(rule.kind):
        return rule.kind.partition(":")[0]
    return str(_found(rule.kind).__module__)


def _found(kind: str) -> Any:
    found = load_object(kind, GROUP)
    if found is not None:
        return found
    known = names_of(GROUP)
    raise ConfigError(
        f"an answer rule of your own must be package.module:name, or an entry point of {GROUP} "
        f"({', '.join(known) or 'none is installed'}), got {kind!r}"
        + "".join(f" (did you mean {near}?)" for near in get_close_matches(kind, known, n=1))
    )


@lru_cache(maxsize=64)
def _code(kind: str, settings: str) -> Choose:
    found = _found(kind)
    values: dict[str, Any] = json.loads(settings)
    if isinstance(found, type):
        found = _object(kind, found, values)
    elif not inspect.isroutine(found):
        raise ConfigError(
            f"answer rule {kind} must be a function or a class, got {type(found).__name__}"
        )
    elif values:
        raise ConfigError(
            f"answer rule {kind} must be a class to have settings, it is a function, "
            f"got {', '.join(values)}"
        )
    return _checked(kind, found)


def _checked(kind: str, found: Any) -> Choose:
    if inspect.iscoroutinefunction(found) or inspect.isgeneratorfunction(found):
        raise ConfigError(
            f"answer rule {kind} must be a plain function, neither async nor yielding"
        )
    try:
        inspect.signature(found).bind(())
    except TypeError as error:
        raise ConfigError(
            f"answer rule {kind} must take one argument, the completions: {error}"
        ) from error
    return found  # type: ignore[no-any-return]  # a user's own


def _object(kind: str, found: type[Any], values: dict[str, Any]) -> Any:
    parameters = getattr(found, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise ConfigError(
            f"answer rule {kind} must be a dataclass(frozen=True), whose fields are its settings"
        )
    if "__call__" not in dir(found):
        raise ConfigError(f"answer rule {kind} must have a method __call__(self, completions)")
    names = [field.name for field in fields(found)] if is_dataclass(found) else []
    for name in values:
        if name not in names:
            raise ConfigError(
                f"{name} must be a field of answer rule {kind}, which has "
                f"{', '.join(names) or 'none'}"
                + "".join(f" (did you mean {one}?)" for one in get_close_matches(name, names, n=1))
            )
    try:
        return TypeAdapter(found).validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"settings of answer rule {kind}: "
            + ": ".join(filter(None, [place, first["msg"].removeprefix("Value error, ")]))
        ) from error
    except PydanticUserError as error:
        raise ConfigError(
            f"answer rule {kind} must have fields of JSON types: {error.message}"
        ) from error


_LEAST_ENTROPY = 1e-10


class AnswerRule(StrEnum):
    """How the answer is chosen among the completions that a stop rests on."""

    LAST = "last"
    """The last completion, answered or not."""
    PRM_ARGMAX = "prm_argmax"
    """The highest verifier score, the first on ties. A completion without an answer is wrong for
    certain, so it is chosen only where no scored completion has one."""
    VOTE = "vote"
    """The largest cluster of equal canonical answers, the first seen on ties; completions without
    an answer do not vote."""
    PRM_WEIGHTED_VOTE = "prm_weighted_vote"
    """As `VOTE`, each completion weighing its verifier score."""
    CONFIDENCE_WEIGHTED_VOTE = "confidence_weighted_vote"
    """As `VOTE`, each completion weighing its mean token confidence
    (DeepConf, arXiv 2508.15260)."""
    INVERSE_ENTROPY_VOTE = "inverse_entropy_vote"
    """As `VOTE`, each completion weighing 1 / max(H, 1e-10) with H its mean token entropy
    (arXiv 2511.02309)."""

    @property
    def needs_score(self) -> bool:
        """Whether the rule reads verifier scores."""
        return self in (AnswerRule.PRM_ARGMAX, AnswerRule.PRM_WEIGHTED_VOTE)

    @property
    def needs_logprobs(self) -> bool:
        """Whether the rule reads log-probabilities (``science.generator.logprobs``)."""
        return self in (AnswerRule.CONFIDENCE_WEIGHTED_VOTE, AnswerRule.INVERSE_ENTROPY_VOTE)

    def weight(self, completion: Completion) -> float | None:
        """What a completion weighs, >= 0; None where it has not what the rule reads."""
        match self:
            case AnswerRule.LAST | AnswerRule.VOTE:
                return 1.0
            case AnswerRule.PRM_ARGMAX | AnswerRule.PRM_WEIGHTED_VOTE:
                return completion.score
            case AnswerRule.CONFIDENCE_WEIGHTED_VOTE:
                return completion.token_confidence
            case AnswerRule.INVERSE_ENTROPY_VOTE:
                entropy = completion.token_entropy
                return None if entropy is None else 1.0 / max(entropy, _LEAST_ENTROPY)


Rule = AnswerRule | OwnRule
"""A shipped rule or a user's own; both have a `value`, which names columns."""

RULES: tuple[Rule, ...] = tuple(AnswerRule)
"""Those that every run reports, whatever its configuration adds."""


def rule_named(name: str) -> Rule:
    """The rule of a strategy's ``default_rule``: a shipped one, or ``package.module:name``."""
    if name in set(AnswerRule):
        return AnswerRule(name)
    return OwnRule(short_name(name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The answer of a question under one rule."""

    answer: str | None
    """None where no completion could give one: counts as wrong."""
    position: int | None
    """Of the completion it is taken from, in request order over the question; for a vote the first
    of the winning cluster; None where there is none."""


NOTHING = Chosen(answer=None, position=None)
"""What is chosen where there is nothing to choose from: an answer that counts as wrong."""


def apply(rule: Rule, completions: Sequence[Observation], stop: Stop) -> Chosen | None:
    """Choose the answer of a stopped question.

    Args:
        rule: how to choose.
        completions: all of the question, in request order. Failures hold their places and are
            never chosen.
        stop: its rounds are positions in `completions`; only those take part.

    Returns:
        The choice, or None where the rule reads something (scores, log-probabilities) that no
        completion has, or a user's own raised. A completion without it takes no part.

    Raises:
        IndexError: if a round of `stop` is not a position in `completions`.
        ConfigError: where the code of a user's own rule cannot be imported.
    """
    drawn: list[tuple[int, Completion]] = []
    for position in stop.rounds:
        if not 0 <= position < len(completions):
            raise IndexError(
                f"stop.rounds must be in [0, {len(completions)}), the given completions, "
                f"got {position!r}"
            )
        observation = completions[position]
        if isinstance(observation, Completion):
            drawn.append((position, observation))
    if not drawn:  # a run that recorded no log-probabilities says nothing under their rules
        return None if rule.needs_logprobs else NOTHING
    if isinstance(rule, OwnRule):
        return _own(rule, drawn)
    weighed = [(p, c, w) for p, c in drawn if (w := rule.weight(c)) is not None]
    if not weighed:
        return None
    match rule:
        case AnswerRule.LAST:
            position, last, _ = weighed[-1]
            return Chosen(answer=last.answer, position=position)
        case AnswerRule.PRM_ARGMAX:
            candidates = [each for each in weighed if each[1].answer is not None] or weighed
            position, best, _ = max(candidates, key=lambda candidate: candidate[2])
            return Chosen(answer=best.answer, position=position)
        case _:
            votes = clusters([c.answer for _, c, _ in weighed], [w for *_, w in weighed])
    return _elected(votes, [position for position, *_ in weighed])


def _own(rule: OwnRule, drawn: Sequence[tuple[int, Completion]]) -> Chosen | None:
    read = [each for each in drawn if rule.reads(each[1])]
    if not read:
        return None
    chosen = rule.choose([completion for _, completion in read])
    if chosen is None or chosen == NO_CHOICE:
        return None if chosen is None else NOTHING
    position, completion = read[chosen]
    return Chosen(answer=completion.answer, position=position)


def _elected(votes: Sequence[Cluster], positions: Sequence[int]) -> Chosen:
    winner = leader(votes)
    if winner is None:
        return NOTHING
    return Chosen(answer=winner.answer, position=positions[winner.members[0]])


_ANSWERS = (None, "1", "2", "1", r"\frac{1}{2}", "2", "1", None)


def made_up() -> Iterator[tuple[Completion, ...]]:
    """Completions of questions that never were: alike and different, cut short, without answers,
    with and without scores and log-probabilities, a score that comes twice."""
    for size, start, known in product((1, 2, 3, 4, 8), (0, 1, 3), (2, 1, 0)):
        yield tuple(_completion(start + place, known) for place in range(size))


def _completion(place: int, known: int) -> Completion:
    """The completion of a place; `known` says of how many of two it has scores and the like."""
    answer = _ANSWERS[place % len(_ANSWERS)]
    score = place % 3 / 4 if place % 2 < known else None
    measured = place % 2 >= 2 - known
    return Completion(
        text="" if answer is None else f"So \\boxed{{{answer}}}",
        answer=answer,
        finish_reason="length" if place % 5 == 4 else "stop",
        completion_tokens=37 * place % 101,
        step_scores=None if score is None else (0.5, score),
        score=score,
        token_confidence=place * 5 % 7 if measured else None,
        least_token_confidence=place * 5 % 7 / 2 if measured else None,
        token_entropy=place * 3 % 4 / 2 if measured else None,
    )


def chooses_of_those(rule: OwnRule) -> None:
    """Checks that a rule chooses one of its completions or none, and the same one when it is
    called again.

    Raises:
        ConfigError: naming the rule, what must hold and what came.
    """
    rule.code()
    for completions in made_up():
        before, again = (_picked(rule, completions) for _ in range(2))
        if again != before:
            raise ConfigError(
                f"answer rule {rule.kind} must choose alike among the same completions, it chose "
                f"{before} and then {again} (does it keep something between calls?)"
            )


def _picked(rule: OwnRule, completions: Sequence[Completion]) -> int | None:
    """What it picks, of the completions that have what it reads."""
    read = [each for each in completions if rule.reads(each)]
    if not read:
        return None
    try:
        return rule.picked(read)
    except ConfigError:
        raise
    except Exception as error:  # the user's own, whatever it is
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f", line {trace.tb_lineno}"
        file = "" if trace is None else trace.tb_frame.f_code.co_filename
        raise ConfigError(
            f"answer rule {rule.kind} must choose among any completions, also those without answer "
            f"or score (needs_score = True keeps the latter from it), it raised "
            f"{type(error).__name__}: {error} ({file}{where})"
        ) from error
