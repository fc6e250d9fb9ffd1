"""The report in a real browser: it draws, it opens questions, and what models wrote stays text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs import report as job
from tests.report_runs import STRATEGIES, MadeUp, made_up_config, question_rows, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = (
    "</pre></template></script><script>document.title = 'taken'</script>"
    "<img src=x onerror=\"document.title = 'taken'\"><svg onload=\"document.title = 'taken'\">"
    "<a href=\"javascript:document.title='taken'\">x</a>{{7*7}}${7*7}"
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of a run with hostile replies, ids and questions."""
    folder = tmp_path_factory.mktemp("runs")
    config = made_up_config(folder, strategies=STRATEGIES)
    rows = question_rows(40, ["made-up"], ids=["<b>zero</b>", "one"])
    rows[1]["text"] = HOSTILE
    engine = MadeUp(replies={"one": HOSTILE}, failing=["q5"])
    write_run(config, "one", rows, engine)
    assert job.main([str(folder / "one")]) == 0
    return (folder / "one" / "report.html").as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The report, opened from disk; no error, no warning and no request may come of it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    context.close()

    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_charts_are_drawn(page: Page) -> None:
    """Every chart has a size and marks in the colours of the page, and none an error."""
    page.wait_for_function(
        "[...document.querySelectorAll('.vega')].every(chart => chart.querySelector('svg'))"
    )
    sizes = page.eval_on_selector_all(
        "details[open] .vega svg, :not(details) > figure .vega svg",
        "all => all.map(s => [s.clientWidth, s.clientHeight])",
    )
    fills = page.eval_on_selector_all(
        ".vega svg .mark-symbol path", "all => all.map(m => getComputedStyle(m).fill)"
    )

    assert len(sizes) == 5  # accuracy, rounds, and stops of three strategies
    assert all(width > 200 and height > 80 for width, height in sizes)
    assert len(set(fills)) >= 5
    assert page.get_by_text("cannot be drawn").count() == 0


def test_a_question_is_reached_from_the_list(page: Page) -> None:
    """Find, open, step on by keyboard, close."""
    from playwright.sync_api import expect

    page.get_by_label("find").fill("q5")
    page.get_by_role("link", name="q5", exact=True).click()
    opened = page.locator("#question-page")
    opened.get_by_text("Failed: EngineDeadError").first.wait_for()
    page.get_by_label("find").fill("")
    page.get_by_role("link", name="q6", exact=True).click()
    page.locator("#question-page dd", has_text="q6").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator("#question-page dd", has_text="q7").wait_for()
    page.keyboard.press("Escape")

    expect(opened).to_be_empty()  # once the browser has told of the changed address


def test_the_list_is_filtered_and_paged(page: Page) -> None:
    """40 questions, 15 a page; filters show the failed one alone, and wrong stops."""
    status = page.locator("#question-list [role=status]")

    assert status.inner_text() == "1 to 15 of 40"
    page.get_by_role("button", name="later").click()
    assert status.inner_text() == "16 to 30 of 40"
    page.get_by_label("show").select_option("failed")
    assert status.inner_text() == "1 to 1 of 1"
    page.get_by_label("show").select_option("wrong, though a round was right")
    strips = page.eval_on_selector_all(
        "#question-list tbody tr", "all => all.map(r => r.textContent)"
    )
    assert 0 < len(strips) <= 15
    assert all("✓" in strip and "✗" in strip for strip in strips)


def test_hostile_text_is_inert(page: Page) -> None:
    """Markup in an id, a question and a reply is shown letter for letter and does nothing."""
    title = page.title()
    page.get_by_role("link", name="one", exact=True).click()
    opened = page.locator("#question-page")
    opened.locator("details summary").first.click()
    text = opened.locator("details[open] pre").first
    text.wait_for()

    assert "<script>document.title = 'taken'</script>" in text.inner_text()
    assert "onerror=" in opened.locator("pre").first.inner_text()
    assert opened.locator("img, script, a").count() == 0
    assert page.locator("#question-list b").count() == 0
    assert page.get_by_role("link", name="<b>zero</b>", exact=True).count() == 1
    assert page.title() == title


def test_tips_tell_the_numbers(page: Page) -> None:
    """Pointing at a mark shows its numbers."""
    page.locator(".vega svg .mark-symbol.role-mark path").first.hover()
    page.locator("#vg-tooltip-element.visible").wait_for()

    assert "tokens" in page.locator("#vg-tooltip-element").inner_text()


def test_tables_are_copied_as_csv_and_latex(page: Page) -> None:
    """The button takes the whole table, small print in the cell of its number."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="copy CSV").first.click()
    page.get_by_role("button", name="copied").wait_for()
    rows = page.evaluate("navigator.clipboard.readText()").splitlines()
    page.get_by_role("button", name="copy LaTeX").first.click()
    page.wait_for_function("navigator.clipboard.readText().then(t => t.includes('tabular'))")
    latex = page.evaluate("navigator.clipboard.readText()")

    assert len(set(map(len, csv.reader(rows)))) == 1
    assert latex.count("\\\\") == len(rows)
    assert latex.endswith("\\bottomrule\n\\end{tabular}\n")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_and_text_can_be_read(
    browser: Browser, address: str, width: int, scheme: str
) -> None:
    """On a phone and a desk, in light and dark: no sideways scrolling, contrast of at least 4.5."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]  # one of its literals
    )
    page = context.new_page()
    page.goto(f"{address}#question-1")
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    worst = page.evaluate(CONTRAST)
    context.close()

    assert overflow <= 0
    assert worst[0] >= 4.5, worst


CONTRAST = """() => {
  const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const ground = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== 'transparent') return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const texts = 'p, h1, h2, h3, h4, th, td, dt, dd, small, span, a, summary, figcaption, li, pre';
  let worst = [99, ''];
  for (const e of document.querySelectorAll(texts + ', svg text')) {
    const shown = e.textContent.trim() && e.getClientRects().length;
    if (!shown || e.closest('button:disabled')) continue;
    const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
    const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 200)];
  }
  return worst;
}"""


def test_a_print_leaves_out_what_only_a_screen_can_use(page: Page) -> None:
    """On paper there is no navigation and no list to click, and charts stay."""
    page.emulate_media(media="print")

    assert not page.locator("nav.contents").is_visible()
    assert not page.locator("#question-list").is_visible()
    assert page.locator("figure .vega svg").first.is_visible()
