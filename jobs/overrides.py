"""``--set FIELD=VALUE``, as every job takes it."""

import argparse

_EXAMPLE = "override one field, dotted, such as science.strategy.tau=0.9"


def add_set_option(parser: argparse.ArgumentParser, told: str = _EXAMPLE) -> None:
    """``--set``, repeatable, as `overrides` (`pipeline.config.run.override_field`).

    Args:
        told: what is set, for ``--help``.
    """
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help=f"{told} (repeatable)",
    )
