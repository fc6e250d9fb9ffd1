"""Check that an answer rule of your own keeps the contract of answer rules, without any model.

    python -m jobs.check_rule mypackage.mymodule:my_rule
    python -m jobs.check_rule mypackage.mymodule:MyRule --set start=2

Lets it choose among made-up completions (`pipeline.answers.answer_rules`): it chooses one of those
that it is given or none, alike whenever it is asked, here and in another process, and it asks
neither clock nor random numbers nor files: a replay answers as the live run did. Exits with 0, or
with 2 and one line that says what must hold.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from jobs.cli import VerbParser, add_set_option, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.answers.answer_rules import OwnRule


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("check_rule", __doc__)
    options.add_argument(
        "kind", metavar="RULE", help="package.module:name of a function or class, or an entry point"
    )
    add_set_option(options, "a field of a class")
    options.add_argument("--digest", action="store_true", help=argparse.SUPPRESS)
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.code_checks import differs_elsewhere, find_impure_call, told
    from pipeline.answers.answer_rules import chooses_alike, chooses_of_those

    log_to_stderr(arguments.level)
    try:
        rule = _rule(arguments.kind, arguments.overrides)
        if arguments.digest:  # of a process with other hashes of texts
            print(chooses_alike(rule, backwards=True))
            return 0
        chooses_of_those(rule)
        print("ok  chooses one of the completions that it is given, or none")
        _refuse(find_impure_call(lambda: chooses_of_those(rule)))
        print("ok  asks neither clock nor random numbers nor files")
        digest = chooses_alike(rule)
        print("ok  chooses alike when asked again")
        given = sys.argv[1:] if argv is None else argv
        _refuse(differs_elsewhere("check_rule", given, digest))
        print("ok  chooses alike in another process")
    except ConfigError as error:
        print(f"error: {arguments.kind}: {error}", file=sys.stderr)
        return 2
    except SystemExit as error:  # the rule's own
        print(f"error: {arguments.kind}: {told(error)}", file=sys.stderr)
        return 2
    print(f"{arguments.kind} keeps the contract of answer rules")
    return 0


def _rule(kind: str, overrides: list[str]) -> OwnRule:
    from pydantic import ValidationError

    from pipeline.config.answer_rules import AnswerRuleEntry
    from pipeline.config.errors import described
    from pipeline.config.run import override_field

    fields: dict[str, Any] = {}
    for override in overrides:
        override_field(fields, override)
    try:
        return AnswerRuleEntry(kind=kind, fields=fields).rule
    except ValidationError as error:
        raise ConfigError(described(error, kind)) from error


def _refuse(why: str | None) -> None:
    if why is not None:
        raise ConfigError(why)


if __name__ == "__main__":
    sys.exit(main())
