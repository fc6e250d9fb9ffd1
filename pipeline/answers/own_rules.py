"""Answer rules of users' own packages: a function that picks one of the completions of a stop.

It is given them as a tuple in request order: at least one, failures left out, without their texts,
which most replays do not read. It returns the index of the completion whose answer counts, or None
where none is chosen, which is wrong. It is told nothing else, so the same completions give the same
answer live, in a replay and in a sweep.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from pipeline.core.errors import ConfigError
from pipeline.core.plugins import imported, is_place, names_of
from pipeline.core.protocol import Completion

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

    def told(self) -> str:
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
    if is_place(rule.kind):
        return rule.kind.partition(":")[0]
    return str(_found(rule.kind).__module__)


def _found(kind: str) -> Any:
    found = imported(kind, GROUP)
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
