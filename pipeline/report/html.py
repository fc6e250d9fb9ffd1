"""HTML with escaping by default: plain strings are text, only `Html` is markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Union

_HIDDEN = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"},
    0x7F: "\N{SYMBOL FOR DELETE}",
    **{code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}
"""Control characters, and those that turn the direction of what follows, made visible."""

_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


Child = Union[str, int, float, None, Iterable["Child"]]  # noqa: UP007  # it names itself
"""What an element may hold: text, markup, or any nesting of them; None is nothing."""

Attribute = str | int | float | bool | None


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


def visible(content: str) -> str:
    """Text in which no character hides or moves others; lone surrogates, which no encoding takes,
    as "?"."""
    return content.encode("utf-8", "replace").decode("utf-8").translate(_HIDDEN)


def script_json(text: str) -> Html:
    """JSON as the content of a script element: nothing in it can end the element."""
    return Html(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = "class" if name == "cls" else name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(_plain(value))}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str | int | float):
        return escape(_plain(child), quote=False)
    return join(child)


def _plain(value: str | float) -> str:
    """Coordinates to a tenth of a pixel."""
    if isinstance(value, float):
        return f"{value:.1f}".rstrip("0").rstrip(".")
    return visible(str(value))
