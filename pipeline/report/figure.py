"""A chart as the page shows it: drawn wide and narrow, said in words, and given as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.report.html import Child, Html, h, join
from pipeline.report.svg import NARROW, WIDE, Size

Rows = Sequence[Sequence[Child]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One entry of a legend."""

    cls: str
    name: str
    shape: str = "box"
    """``box``, ``line`` or ``dashed``."""


def figure(
    title: str,
    draw: Callable[[Size, str], Html],
    *,
    says: str,
    caption: str,
    keys: Sequence[Key] = (),
    header: Sequence[str] = (),
    rows: Rows = (),
    wide: Size = WIDE,
    narrow: Size = NARROW,
) -> Html:
    """A chart with its caption, legend and data.

    Args:
        title: of the chart.
        draw: makes the drawing at a size, with a label for those who do not see it.
        says: that label: what the chart shows, with its main numbers.
        caption: how to read it.
        keys: the legend.
        header: of the table of data; none where there is no table.
        rows: of the table of data.
    """
    return h(
        "figure",
        h("h4", title),
        legend(keys),
        draw(wide, says),
        draw(narrow, says),
        h("figcaption", caption),
        h("details", h("summary", "The numbers of this chart"), table(header, rows))
        if header
        else None,
        cls="chart",
    )


def legend(keys: Sequence[Key]) -> Html:
    """Names beside the colours they stand for."""
    if not keys:
        return Html("")
    items = [
        h("li", h("i", cls=f"key {key.shape} {key.cls}", aria_hidden="true"), key.name)
        for key in keys
    ]
    return h("ul", *items, cls="legend")


def table(header: Sequence[Child], rows: Rows, *, caption: str = "") -> Html:
    """A table that scrolls by itself where the page is narrow; the first column names the row."""
    head = h("tr", *(h("th", cell, scope="col") for cell in header))
    body = [
        h("tr", h("th", row[0], scope="row"), *(h("td", cell) for cell in row[1:])) for row in rows
    ]
    inner = h("table", h("thead", head), h("tbody", *body), aria_label=caption or None)
    return join(
        [
            h("p", caption, cls="caption") if caption else None,
            h(
                "div",
                inner,
                cls="scroll",
                tabindex="0",
                role="region",
                aria_label=caption or "table",
            ),
        ]
    )


def facts(pairs: Sequence[tuple[str, Child]]) -> Html:
    """Terms and what they are."""
    return h("dl", join([h("dt", name), h("dd", value)] for name, value in pairs), cls="facts")
