"""Check that a strategy of your own keeps the contract of strategies, without any model.

    python -m jobs.check_strategy mypackage.mymodule:MyStrategy
    python -m jobs.check_strategy mypackage.mymodule:MyStrategy --set n=16

Drives it over made-up questions and completions (`pipeline.replay.contract`): it stops within its
budget, it replays from a pool where it says so, and it asks neither clock nor random numbers, nor
files, nor the hash of a text: a replay decides as the live run did. Exits with 0, or with 2 and one
line that says what must hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobs.code_checks import check_parser, check_pure, run_checks
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from jobs.cli import VerbParser
    from pipeline.core.protocol import Strategy

_ENGINES = 9
_BUDGETS = (1, 2, 3, 5, 8)
_BAD_SCORES = (None, -0.1, 1.5, float("nan"))


def parser() -> VerbParser:
    """The command line."""
    named = "package.module:Class, or an entry point's or own name"
    return check_parser("check_strategy", __doc__, "STRATEGY", named)


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.replay import contract

    drive = _everywhere(contract.stops_within_its_budget)
    return run_checks(
        arguments,
        argv,
        build=_built,
        checks={
            "a frozen value, equal to its copy": contract.is_a_value,
            "asks neither clock nor random numbers nor files": lambda strategy: check_pure(
                lambda: drive(strategy)
            ),
            "stops within its budget, on completions that it had": drive,
            "decides alike when asked again": _everywhere(contract.decides_alike),
            "needs the scores that it says it needs": _scores,
            "seeds do not depend on the budget": _seeds,
            "replays from a pool, where it says so": _everywhere(contract.replays_from_a_pool),
        },
        digest=_digest,
    )


def _built(kind: str, values: dict[str, Any]) -> Strategy:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    from pipeline.config.errors import described
    from pipeline.strategies.registry import strategy_class

    try:
        strategy: Strategy = TypeAdapter(strategy_class(kind)).validate_python(values)
    except ValidationError as error:
        raise ConfigError(described(error, kind)) from error
    except PydanticUserError as error:
        raise ConfigError(f"{kind} must have fields of JSON types: {error.message}") from error
    return strategy


def _everywhere(check: Callable[..., object]) -> Callable[[Strategy], None]:
    """A check with every engine and budget, and with the strategy's own budget."""
    from pipeline.replay import contract

    def checked(strategy: Strategy) -> None:
        asked = contract.questions()
        for number in range(_ENGINES):
            for one in (strategy, *(contract.with_budget(strategy, n) for n in _BUDGETS)):
                check(one, asked, contract.engine(number))

    return checked


def _scores(strategy: Strategy) -> None:
    from pipeline.replay import contract

    for score in _BAD_SCORES:
        contract.check_scores_required(strategy, contract.questions(1), score)


def _seeds(strategy: Strategy) -> None:
    from pipeline.replay import contract

    contract.seeds_by_address(strategy, contract.questions(2), contract.engine(1), _BUDGETS)


def _digest(strategy: Strategy, backwards: bool) -> str:
    """Of all decisions, in whatever order they are taken: one that rests on what was decided before
    is another one backwards."""
    from pipeline.replay import contract

    order = slice(None, None, -1 if backwards else 1)
    asked, numbers = contract.questions()[order], range(_ENGINES)[order]
    found = [contract.decides_alike(strategy, asked, contract.engine(n)) for n in numbers]
    return " ".join(found[order])


if __name__ == "__main__":
    sys.exit(main())
