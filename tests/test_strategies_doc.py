"""docs/strategies.md keeps up with the registry and its lines can be run."""

import re
import shlex
from pathlib import Path

from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]


def test_every_registered_strategy_has_a_section_with_a_line_that_runs_it() -> None:
    """The `--set` line of each section, put to the default configuration, builds that strategy."""
    text = (ROOT / "docs" / "strategies.md").read_text("utf-8")
    sections = dict(section.split("\n", 1) for section in re.split(r"(?m)^## ", text)[1:])
    built = {}
    for kind in STRATEGIES:
        (line,) = re.findall(r"`(--set [^`]*)`", sections[kind])
        overrides = [word for word in shlex.split(line) if word != "--set"]
        config = RunConfig.load(str(ROOT / "configs" / "laptop.yaml"), overrides)
        built[kind] = [type(strategy) for strategy in strategies_of(config.science).values()]

    assert built == {kind: [cls] for kind, cls in STRATEGIES.items()}
