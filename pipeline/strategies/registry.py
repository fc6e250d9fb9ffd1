"""The class of a strategy by its kind: a registered one, or a user's own."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, get_type_hints

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.errors import ConfigError
from pipeline.core.plugins import is_import_path, load_object, names_of
from pipeline.core.protocol import Strategy
from pipeline.strategies import STRATEGIES

GROUP = "markovscale.strategies"
"""The group of entry points in which a package names its strategies."""

_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOW = (
    "decide(question, statistics) that yields Generate(requests), receives their observations and "
    "returns a Stop (docs/write-a-strategy.md)"
)


def strategy_class(kind: str) -> type[Strategy]:
    """The class of a kind: a registered name, an entry point or ``package.module:Class``.

    Raises:
        ConfigError: at a kind that is not known, cannot be imported or is no strategy.
    """
    if kind in STRATEGIES:
        return STRATEGIES[kind]
    found = load_object(kind, GROUP)
    if found is None:
        known = [*STRATEGIES, *names_of(GROUP)]
        raise ConfigError(
            f"a strategy must be one of {', '.join(known)}, or package.module:Class, got {kind!r}"
            + "".join(f" (did you mean {near}?)" for near in get_close_matches(kind, known, n=1))
        )
    if missing := _missing(found):
        raise ConfigError(f"{kind} must be a strategy: {missing}")
    return found  # type: ignore[no-any-return]


def _missing(found: Any) -> str:
    """What a class lacks to be a strategy, in words; nothing where it is one."""
    if not isinstance(found, type):
        return f"a class, got {type(found).__name__}"
    if not issubclass(found, Strategy):
        if hasattr(found, "start") and hasattr(found, "step"):
            return f"replace start and step by one generator {_HOW}"
        return f"it must derive from pipeline.core.protocol.Strategy and have {_HOW}"
    if "__dataclass_params__" not in vars(found):
        return "a dataclass(frozen=True), whose fields are its configuration"
    if inspect.isabstract(found):
        return f"it must have {_HOW}, or settings where it is a ChainStrategy"
    for name in ("kind", "n"):
        if not hasattr(found, name) and name not in {field.name for field in fields(found)}:
            return f"it must have {name}"
    kind, rule = getattr(found, "kind", None), getattr(found, "default_rule", None)
    if not isinstance(kind, str) or kind in STRATEGIES or not _KIND.fullmatch(kind):
        return f"its kind must be a name of its own (letters, digits, . _ -), got {kind!r}"
    if isinstance(rule, str) and rule not in set(AnswerRule) and not is_import_path(rule):
        return (
            f"its default_rule must be one of {', '.join(AnswerRule)}, or package.module:name of "
            f"your own, got {rule!r}"
        )
    try:
        get_type_hints(found)
    except (NameError, TypeError) as error:
        return f"the types of its fields must be readable, got {error}"
    return ""
