"""A run as ``.eval_results/BENCHMARK.yaml``, the results that a model's page on Hugging Face shows.

An entry a strategy, under its headline rule, in percent as the leaderboards have it. Format:
https://huggingface.co/docs/hub/eval-results
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import yaml

from pipeline.export.source import LIBRARY, Cell, Source, hub_dataset
from pipeline.store.storage import Folder


def write_hf_results(source: Source, folder: Folder) -> None:
    """Write a file a benchmark."""
    for name in dict.fromkeys(cell.benchmark.name for cell in source.cells):
        cells = [cell for cell in source.cells if cell.benchmark.name == name]
        entries = [_entry(source, cell) for cell in cells if cell.rule in cell.rules()]
        text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
        folder.child(".eval_results").write(f"{name}.yaml", text.encode())


def _entry(source: Source, cell: Cell) -> dict[str, Any]:
    hub = hub_dataset(cell.benchmark)
    dataset, config, _, revision = hub or (cell.benchmark.name, None, None, None)
    accuracy = cell.entry["accuracy"][cell.rule.value]
    low, value, high = (round(100 * accuracy[name], 6) for name in ("low", "accuracy", "high"))
    partial = f" of {source.asked(cell.benchmark.name):,}" if source.not_run(cell) else ""
    return {
        "dataset": {
            "id": dataset,
            "task_id": config or "default",
            **({"revision": revision} if revision else {}),
        },
        "value": value,
        "date": datetime.fromtimestamp(source.times[1], UTC).date().isoformat(),
        "notes": (
            f"{LIBRARY} {cell.label} (N={cell.entry['n']}), answer rule {cell.rule.value}, "
            f"95 % interval {low:.1f} to {high:.1f} over {accuracy['graded']:,}{partial} "
            f"questions, {cell.entry['tokens_per_question']:,.0f} completion tokens a question"
            + (", SYNTHETIC: scripted engines, no model" if source.synthetic else "")
        ),
    }
