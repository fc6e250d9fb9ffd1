"""The report as one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from pipeline.report.html import Child, Html, h
from pipeline.store.local import package_text


def asset(name: str) -> str:
    """The text of a file that is put into every report."""
    return package_text("pipeline.report", "assets", name)


def document(
    title: str,
    *body: Child,
    script: bool = False,
) -> str:
    """A page that opens from disk.

    The content security policy allows the report's own script, by its digest, and nothing else:
    even markup that got past the escaping could neither run nor fetch anything.
    """
    source = asset("report.js") if script else ""
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
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
        h("style", Html(asset("report.css"))),
    )
    return "<!doctype html>\n" + h(
        "html",
        head,
        h("body", *body, h("script", Html(source)) if script else None),
        lang="en",
    )


def section(name: str, title: str, *children: Child, quiet: bool = False) -> Html:
    """A section that the contents link to; the heading of a quiet one is heard and not seen."""
    return h("section", h("h2", title, cls="quiet" if quiet else None), *children, id=name)


def contents(sections: Sequence[tuple[str, str]]) -> Html:
    """Links to sections: (id, title)."""
    items = [h("li", h("a", title, href=f"#{name}")) for name, title in sections]
    return h("nav", h("ul", *items), cls="contents", aria_label="contents")
