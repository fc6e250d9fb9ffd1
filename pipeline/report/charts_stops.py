"""The charts of stopping, spending and trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipeline.core.protocol import StopReason
from pipeline.report import words
from pipeline.report.charts import short, whole_percent
from pipeline.report.figure import Key, figure
from pipeline.report.html import Html
from pipeline.report.run_data import Cell
from pipeline.report.score_view import ScoreView
from pipeline.report.spending import Bill
from pipeline.report.svg import Size, axes, bar, line, mark, path, picture, plot, text

REASONS = tuple(reason.value for reason in StopReason)
_SMALL = Size(width=360, height=230, narrow=False)
_SMALL_NARROW = Size(width=360, height=230, narrow=True)
_SQUARE = Size(width=360, height=330, narrow=False)
_SQUARE_NARROW = Size(width=360, height=330, narrow=True)
PARTS = ("answers", "thinking", "wasted", "prompts", "cached prompts", "verifier")


def stops(cell: Cell) -> Html:
    """How many questions stopped after how many completions, and why."""
    counted = Counter((row["completions"], row["stop_reason"]) for row in cell.rows)
    most = max(cell.n, *(drawn for drawn, _ in counted))
    heights = Counter(row["completions"] for row in cell.rows)
    tallest = max(heights.values())
    reasons = [reason for reason in REASONS if any(why == reason for _, why in counted)]

    def draw(size: Size, label: str) -> Html:
        area = plot(size, (-0.5, most + 0.5), (0.0, float(tallest)))
        x, y = area.x, area.y
        width = (x(1) - x(0)) * 0.82
        drawn = axes(
            area,
            x_label="completions drawn",
            y_label="questions",
            x_text=lambda v: f"{v:.0f}",
            y_text=short,
            x_ticks=[float(n) for n in range(most + 1)] if most <= 16 else None,
        )
        for drawn_n in sorted(heights):
            base = 0
            for reason in reasons:
                number = counted[(drawn_n, reason)]
                if not number:
                    continue
                tip = f"{words.plural(number, 'question')} {reason} after {drawn_n}"
                top = y(base + number)
                left = x(drawn_n) - width / 2
                drawn.append(bar(left, top, width, y(base) - top, f"why-{reason}", tip))
                base += number
        return picture(size, drawn, label=label)

    totals = Counter(row["stop_reason"] for row in cell.rows)
    mean = sum(row["completions"] for row in cell.rows) / len(cell.rows)
    return figure(
        cell.name,
        draw,
        says=f"Completions drawn by {cell.name}: {mean:.2f} in the mean; "
        + ", ".join(f"{totals[reason]} {reason}" for reason in reasons),
        caption=f"{mean:.2f} completions a question in the mean.",
        keys=[Key(cls=f"why-{r}", name=f"{r} ({totals[r]})") for r in reasons],
        header=("completions", *reasons),
        rows=[(str(n), *(str(counted[(n, r)]) for r in reasons)) for n in sorted(heights)],
        wide=_SMALL,
        narrow=_SMALL_NARROW,
    )


def tokens_by_kind(bills: Sequence[Bill]) -> Html:
    """Tokens a question by kind, one bar a cell."""
    means = [
        {part: total / len(bill.cell.rows) for part, total in bill.parts().items()}
        for bill in bills
    ]
    longest = max(sum(parts.values()) for parts in means) or 1.0
    shown = [part for part in PARTS if any(parts[part] for parts in means)]
    wide = Size(width=720, height=62 + 34 * len(bills), narrow=False)
    narrow = Size(width=360, height=66 + 52 * len(bills), narrow=True)

    def draw(size: Size, label: str) -> Html:
        area = plot(size, (0.0, longest), (0.0, 1.0), left=14 if size.narrow else 210, top=8)
        x, step = area.x, (area.y.start - area.y.end) / len(bills)
        drawn = [line((x.start, area.y.start), (x.end, area.y.start), "axis")]
        for value in x.ticks(5):
            drawn.append(line((x(value), area.y.start), (x(value), area.y.end), "grid"))
            drawn.append(text(x(value), area.y.start + 17, short(value), "tick", anchor="middle"))
        drawn.append(
            text(
                (x.start + x.end) / 2,
                area.y.start + 36,
                "tokens a question",
                "title",
                anchor="middle",
            )
        )
        for row, (bill, parts) in enumerate(zip(bills, means, strict=True)):
            top = area.y.end + step * row + (22 if size.narrow else 6)
            name_at = (x.start, top - 6) if size.narrow else (x.start - 10, top + step / 2 - 2)
            anchor = "start" if size.narrow else "end"
            drawn.append(text(*name_at, bill.cell.name, "name", anchor=anchor))
            reached = 0.0
            for part in shown:
                if not parts[part]:
                    continue
                left = x(reached)
                reached += parts[part]
                tip = f"{bill.cell.name}, {part}: {words.count(parts[part])} tokens a question"
                height = step - (28 if size.narrow else 12)
                drawn.append(bar(left, top, x(reached) - left, height, _part_cls(part), tip))
        return picture(size, drawn, label=label)

    return figure(
        "Tokens a question by kind",
        draw,
        says="Tokens a question by kind: "
        + "; ".join(
            f"{bill.cell.name} {words.count(bill.a_question.value)} completion tokens"
            for bill in bills
        ),
        caption="Answers and thinking together are the completion tokens of every other table. "
        "Wasted tokens were generated and paid for and gave no completion.",
        keys=[Key(cls=_part_cls(part), name=part) for part in shown],
        wide=wide,
        narrow=narrow,
    )


def _part_cls(part: str) -> str:
    return f"s{PARTS.index(part)}"


def reliability_diagram(view: ScoreView) -> Html:
    """Share right against prediction, bin by bin, with the diagonal of perfect calibration."""
    found = view.reliability
    bins = [(b, b.right) for b in found.bins if b.right is not None]
    fullest = max(b.n for b, _ in bins)

    def draw(size: Size, label: str) -> Html:
        area = plot(size, (0.0, 1.0), (0.0, 1.0))
        x, y = area.x, area.y
        drawn = axes(
            area,
            x_label="predicted",
            y_label="share right",
            x_text=whole_percent,
            y_text=whole_percent,
        )
        for b, _ in bins:
            height = 40 * b.n / fullest
            tip = f"{b.n:,} predictions from {b.low:.1f} to {b.high:.1f}"
            drawn.append(
                bar(x(b.low) + 1, y.start - height, x(b.high) - x(b.low) - 2, height, "count", tip)
            )
        drawn.append(line((x(0), y(0)), (x(1), y(1)), "diagonal"))
        for b, right in bins:
            at = (x(b.predicted), y(right.value))
            drawn.append(line((at[0], y(right.low)), (at[0], y(right.high)), "whisker s0"))
            tip = f"predicted {b.predicted:.2f}, right {words.percent_with(right)} of {b.n:,}"
            drawn.append(mark(0, *at, "s0", tip))
        if len(bins) > 1:
            drawn.append(path([(x(b.predicted), y(r.value)) for b, r in bins], "s0 thin"))
        return picture(size, drawn, label=label)

    return figure(
        view.title,
        draw,
        says=f"Reliability of {view.title}: AUC {words.decimal(found.auc, 2)}, expected "
        f"calibration error {words.decimal(found.ece, 2)} over {found.n} predictions.",
        caption=f"AUC {words.decimal(found.auc)}, calibration error {words.decimal(found.ece)}, "
        f"Brier {words.decimal(found.brier)}, {found.n:,} predictions: {view.about}."
        f"{_mended(view)}",
        header=("predicted", "n", "mean prediction", "share right [95 %]"),
        rows=[
            (
                f"{b.low:.1f} to {b.high:.1f}",
                f"{b.n:,}",
                words.decimal(b.predicted),
                words.percent_with(right),
            )
            for b, right in bins
        ],
        wide=_SQUARE,
        narrow=_SQUARE_NARROW,
    )


def _mended(view: ScoreView) -> str:
    if view.mended is None:
        return ""
    before, after = view.mended.before.ece, view.mended.after.ece
    return (
        f" An isotonic map fitted on half of the questions takes the error of the other half from "
        f"{words.decimal(before)} to {words.decimal(after)}."
    )
