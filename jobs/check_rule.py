"""Check that an answer rule of your own keeps the contract of answer rules, without any model.

    python -m jobs.check_rule mypackage.mymodule:my_rule
    python -m jobs.check_rule mypackage.mymodule:MyRule --set start=2

Lets it choose among made-up completions (`pipeline.answers.answer_rules`): it chooses one of those
that it is given or none, alike whenever it is asked, here and in another process, and it asks
neither clock nor random numbers nor files: a replay answers as the live run did. Exits with 0, or
with 2 and one line that says what must hold.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jobs.code_checks import check_parser, check_pure, run_checks
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from jobs.cli import VerbParser
    from pipeline.answers.answer_rules import OwnRule


def parser() -> VerbParser:
    """The command line."""
    named = "package.module:name of a function or class, or an entry point"
    return check_parser("check_rule", __doc__, "RULE", named)


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.answers.answer_rules import chooses_alike, chooses_of_those

    return run_checks(
        arguments,
        argv,
        build=_rule,
        checks={
            "chooses one of the completions that it is given, or none": chooses_of_those,
            "asks neither clock nor random numbers nor files": lambda rule: check_pure(
                lambda: chooses_of_those(rule)
            ),
            "chooses alike when asked again": chooses_alike,
        },
        digest=lambda rule, backwards: chooses_alike(rule, backwards=backwards),
    )


def _rule(kind: str, fields: dict[str, Any]) -> OwnRule:
    from pydantic import ValidationError

    from pipeline.config.answer_rules import AnswerRuleEntry
    from pipeline.config.errors import described

    try:
        return AnswerRuleEntry(kind=kind, fields=fields).rule
    except ValidationError as error:
        raise ConfigError(f"{kind}: {described(error, kind)}") from error


if __name__ == "__main__":
    sys.exit(main())
