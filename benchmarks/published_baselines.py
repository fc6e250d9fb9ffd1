"""The paper's 7B baselines against the aggregates that OptScale published.

    python -m benchmarks.published_baselines FOLDER     # of the paper's numbers, main_accuracy.csv

Six methods x 5 benchmarks x 4 budgets with DeepSeek-R1-Distill-Qwen-7B. Exits with 1 where a cell
differs by more than its last digit.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

PUBLISHED = Path(__file__).parents[1] / "data" / "logs" / "optscale_baselines.csv"
Cells = dict[tuple[str, str, str], float]


def cells(path: Path, backbone: str = "") -> Cells:
    """Accuracies in percent by method, benchmark and N."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if backbone in row.get("backbone", "").lower()]
    return {(r["method"], r["benchmark"], r["n"]): float(r["accuracy_percent"]) for r in rows}


def main(folder: str) -> int:
    """Compare, print, and return the exit status."""
    paper = cells(Path(folder) / "main_accuracy.csv", "qwen-7b")
    published = cells(PUBLISHED)
    differing = {key for key, value in published.items() if abs(paper[key] - value) > 0.051}
    print(f"{len(published) - len(differing)} of {len(published)} cells are equal")
    for key in sorted(differing):
        print(f"{', '.join(key)}: {paper[key]} in the paper, {published[key]} published")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
