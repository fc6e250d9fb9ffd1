"""docs/strategies.md keeps up with the registry."""

import re
from pathlib import Path

from pipeline.strategies import STRATEGIES

DOC = Path(__file__).parents[1] / "docs" / "strategies.md"


def test_every_registered_strategy_has_a_section_with_a_line_to_run_it() -> None:
    """Sections are named by kind, in the order of nothing but completeness."""
    sections = re.split(r"^## ", DOC.read_text("utf-8"), flags=re.MULTILINE)[1:]
    run_lines = {
        section.split("\n", 1)[0]: re.findall(r"science\.strategies=\[\{?(?:kind: )?(\w+)", section)
        for section in sections
    }

    assert {kind: run_lines.get(kind) for kind in STRATEGIES} == {
        kind: [kind] for kind in STRATEGIES
    }
