"""*HTML*: writes the markup of every page: elements, tables, figures and the page itself.

Escaping is the default: plain strings are text, only `Html` is markup. A page opens from disk,
holds its style, scripts and charts, and asks nothing of the network.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Union

from pipeline.core.text import visible
from pipeline.store.local import package_text

if TYPE_CHECKING:
    import altair as alt

_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})
_CHART = "vega"


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


Child = Union[str, int, float, None, Iterable["Child"]]  # noqa: UP007  # it names itself
"""What an element may hold: text, markup, or any nesting of them; None is nothing."""

Part = tuple[str, str, Sequence[Child]]
"""A section: (id, title, content)."""
Attribute = str | int | float | bool | None
Rows = Sequence[Sequence[Child]]


def h(tag: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. Attribute ``cls`` is ``class``; ``_`` reads as ``-``, a trailing one is dropped.

    An attribute that is None or False is left out, True stands without a value.
    """
    opening = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{opening}>")
    return Html(f"<{tag}{opening}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Children one after the other, text escaped."""
    return Html("".join(_text(child) for child in children))


def script_json(value: Any, **attributes: Attribute) -> Html:
    """A script element that holds JSON; nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for character in "&<>":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return h("script", Html(text), type="application/json", **attributes)


def table(header: Sequence[Child], rows: Rows, *, caption: str = "") -> Html:
    """A table that scrolls by itself where the page is narrow; the first column names the row."""
    head = h("tr", *(h("th", cell, scope="col") for cell in header))
    body = [
        h("tr", h("th", row[0], scope="row"), *(h("td", cell) for cell in row[1:])) for row in rows
    ]
    inner = h("table", h("thead", head), h("tbody", *body), aria_label=caption or None)
    scroll = h(
        "div", inner, cls="scroll", tabindex="0", role="region", aria_label=caption or "table"
    )
    return join([h("p", caption, cls="caption") if caption else None, scroll])


def with_ends(value: str, ends: str) -> list[Child]:
    """A value, and the ends of its interval in small print."""
    return [value, h("small", ends)]


def facts(pairs: Sequence[tuple[str, Child]]) -> Html:
    """Terms and what they are."""
    return h("dl", join([h("dt", name), h("dd", value)] for name, value in pairs), cls="facts")


def folded(title: str, *children: Child) -> Html:
    """Content behind a title that opens it."""
    return h("details", h("summary", title), *children)


def figure(
    title: str,
    chart: alt.Chart | alt.LayerChart,
    caption: str = "",
    header: Sequence[str] = (),
    rows: Rows = (),
) -> Html:
    """A chart with its caption and the table of its numbers.

    The script of the page draws it; without JavaScript the numbers are left.

    Args:
        title: of the chart.
        chart: without width, which is that of the page.
        caption: how to read it.
        header: of the table of numbers; none where another table has them.
        rows: of that table.
    """
    return h(
        "figure",
        h("h4", title),
        h("div", script_json(specification(chart)), cls=_CHART, role="figure", aria_label=title),
        h("figcaption", caption) if caption else None,
        folded("The numbers of this chart", table(header, rows)) if header else None,
    )


def specification(chart: alt.Chart | alt.LayerChart) -> dict[str, Any]:
    """The Vega-Lite specification of a chart as wide as what holds it, in the page's colours."""
    found: dict[str, Any] = chart.to_dict(validate=False)  # tests validate every kind
    found.pop("config", None)
    fit = {"type": "fit-x", "contains": "padding"}
    return {**found, "width": "container", "autosize": fit}


def banner(*content: Child, made_up: bool = False) -> Html:
    """What a reader must know first."""
    return h("div", *content, cls="banner" if made_up else "banner partial", role="note")


def page(
    title: str,
    heading: str,
    names: str,
    parts: Sequence[Part],
    *,
    banners: Iterable[Child],
    made_by: str,
    wide: bool = False,
) -> str:
    """A page that opens from disk: banners, heading, contents and sections.

    The heading of the first section is heard and not seen. The content security policy allows the
    page's own scripts, by their digests, and nothing else: even markup that got past the escaping
    could neither run nor fetch anything. Vega is among them once, where the page has a chart.

    Args:
        title: of the document.
        heading: the title that is shown.
        names: what the page is about, below it.
        parts: sections; those without content are left out.
        banners: what a reader must know first.
        made_by: what made it, for the foot of the page.
        wide: whether tables may be wider than text.
    """
    shown = [part for part in parts if part[2]]
    sections = [
        h("section", h("h2", name, cls="quiet" if key == parts[0][0] else None), *body, id=key)
        for key, name, body in shown
    ]
    links = [h("li", h("a", name, href=f"#{key}")) for key, name, _ in shown]
    content = join(
        [
            h("a", "Skip to the result", href=f"#{parts[0][0]}", cls="skip") if parts else None,
            *banners,
            h("header", h("h1", heading), h("p", names), cls="top wide" if wide else "top"),
            h("nav", h("ul", *links), cls="contents", aria_label="contents"),
            h(
                "main",
                *(sections or [h("p", "No question has been answered yet.")]),
                cls="wide" if wide else None,
            ),
            h("footer", f"{made_by}; it holds no link to the network."),
        ]
    )
    scripts = [_asset("report.js")]
    if f'class="{_CHART}"' in content:
        scripts.insert(0, vega())
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src {allowed}"
    )
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="generator", content="markovscale"),
        h("title", title),
        h("link", rel="icon", href="data:,"),
        h("style", Html(_asset("report.css"))),
    )
    end = [h("script", Html(script)) for script in scripts]
    return "<!doctype html>\n" + h("html", head, h("body", content, *end), lang="en")  # fmt: skip


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script (0.9 MB); takes some seconds, once a process."""
    import vl_convert

    return str(vl_convert.javascript_bundle(None))  # type: ignore[arg-type]  # its stub is wrong


def _asset(name: str) -> str:
    """The text of a file that is put into every page."""
    return package_text("pipeline.report", "assets", name)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = "class" if name == "cls" else name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(visible(str(value)))}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str | int | float):
        return escape(visible(str(child)), quote=False)
    return join(child)
