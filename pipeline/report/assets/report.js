"use strict";
/* Charts, tables that can be copied, and the browser of chains. Data becomes text nodes, never markup. */

(() => {
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== null && text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  /* charts: colours are variables of the style sheet, so light, dark and print need no redrawing */
  const soft = "var(--soft)", ink = "var(--ink)", font = "system-ui, sans-serif";
  const config = (width) => ({
    font, background: null, view: { stroke: null },
    axis: { labelColor: soft, titleColor: soft, gridColor: "var(--line)", domainColor: soft, tickColor: soft, titleFontWeight: "normal", labelFontSize: 12, labelSeparation: 4, titleFontSize: 12, labelLimit: Math.max(110, width / 3) },
    legend: { labelColor: ink, labelFontSize: 12, orient: "top", columns: Math.max(1, Math.floor(width / (width > 600 ? 320 : 210))), labelLimit: Math.min(300, width - 40), symbolLimit: 40 },
    range: { category: [0, 1, 2, 3, 4, 5, 6, 7].map((n) => `var(--s${n})`) },
    mark: { color: "var(--s0)" }, rule: { color: soft }, text: { color: ink, fontSize: 12 },
  });
  const drawChart = (holder, spec) => {
    const width = holder.clientWidth || 480;
    const options = { actions: false, renderer: "svg", ast: true, config: config(width), tooltip: { theme: "custom" } };
    return vegaEmbed(holder, spec, options).catch((error) => { holder.textContent = `The chart cannot be drawn: ${error.message}`; });
  };
  for (const holder of document.querySelectorAll(".vega")) {
    drawChart(holder, JSON.parse(holder.firstChild.textContent));
  }

  /* what is folded opens for print and for links into it */
  const opened = [];
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; opened.push(part); }
  });
  addEventListener("afterprint", () => { while (opened.length) opened.pop().open = false; });
  document.addEventListener("toggle", () => dispatchEvent(new Event("resize")), true);

  /* tables as CSV and LaTeX */
  const cellText = (cell) => [...cell.childNodes].map((node) => node.textContent.trim()).filter(Boolean).join(" ");
  const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].map(cellText));
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const asCsv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
  const LATEX = { "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\u2212": "$-$", "\u2013": "--", "\u03c4": "$\\tau$", "\u03b3": "$\\gamma$", "\u03bb": "$\\lambda$", "\u03c3": "$\\sigma$", "\u2605": "$\\star$", "\u1d57": "\\textsuperscript{t}", "\u2070": "\\textsuperscript{0}", "\u2192": "$\\to$", "\u00d7": "$\\times$" };
  const asLatex = (rows) => {
    const lines = rows.map((row) => row.map((text) => text.replace(/./gu, (c) => LATEX[c] || c)).join(" & ") + " \\\\");
    return ["\\begin{tabular}{l" + "r".repeat(rows[0].length - 1) + "}", "\\toprule", lines[0], "\\midrule", ...lines.slice(1), "\\bottomrule", "\\end{tabular}", ""].join("\n");
  };
  const copy = async (button, text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const name = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = name; }, 1200);
  };
  for (const scroll of document.querySelectorAll(".scroll")) {
    const table = scroll.querySelector("table"), bar = make("div", null, { class: "copy" });
    for (const [name, write] of [["CSV", asCsv], ["LaTeX", asLatex]]) {
      const button = make("button", `copy ${name}`, { type: "button" });
      button.addEventListener("click", () => copy(button, write(rowsOf(table))));
      bar.append(button);
    }
    scroll.after(bar);
  }

  /* where one is in the contents */
  const links = new Map([...document.querySelectorAll("nav.contents a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main > section[id]").forEach((section) => seen.observe(section));

  /* the browser of chains */
  const holder = document.getElementById("question-data");
  if (!holder) return;
  const PAGE = 15;
  const { questions } = JSON.parse(holder.textContent);
  const list = document.getElementById("question-list");
  const page = document.getElementById("question-page");
  const some = (test) => (question) => question.chains.some(test);
  const wrong = (chain) => chain.verdict === "wrong";
  const FILTERS = {
    "all questions": () => true,
    "strategies differ": (q) => new Set(q.chains.map((chain) => chain.verdict)).size > 1,
    "wrong, though a round was right": some((chain) => wrong(chain) && chain.marks.includes("✓")),
    "right once, wrong later": some((chain) => /✓.*✗/.test(chain.marks)),
    "stopped early and wrong": some((chain) => wrong(chain) && ["confident", "agreed", "gated"].includes(chain.stop)),
    "gated": some((chain) => chain.stop === "gated"),
    "gated and wrong": some((chain) => chain.stop === "gated" && wrong(chain)),
    "all wrong": (q) => q.chains.every(wrong),
    "failed": some((chain) => chain.stop === "failed"),
    "ungraded": some((chain) => chain.verdict === "ungraded" || chain.verdict === "none"),
  };
  const SAID = { right: "✓ right", wrong: "✗ wrong", ungraded: "? ungraded", none: "not graded" };
  const MARKS = { "✓": "right", "✗": "wrong", "?": "ungraded", "–": "none" };
  let first = 0, shown = [];

  const strip = (marks) => {
    const made = make("span", null, { class: "strip", "aria-label": `rounds: ${marks}` });
    made.append(...[...marks].map((mark) => make("i", mark, { class: MARKS[mark] })));
    return made;
  };
  const verdict = (name) => make("span", SAID[name], { class: `verdict ${name}` });
  const controls = make("div", null, { class: "controls" });
  const labelled = (text, field) => { const label = make("label", text); label.append(field); return label; };
  const chooser = (names) => { const field = make("select", null); names.forEach((n) => field.append(make("option", n, { value: n }))); return field; };
  const benchmark = chooser([...new Set(questions.map((q) => q.benchmark))]);
  const filter = chooser(Object.keys(FILTERS));
  const search = make("input", null, { type: "search", placeholder: "number, id or words" });
  const before = make("button", "← earlier", { type: "button" });
  const after = make("button", "later →", { type: "button" });
  const place = make("span", "", { role: "status" });
  controls.append(labelled("benchmark", benchmark), labelled("show", filter), labelled("find", search), before, place, after);
  const body = make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": "questions" });
  list.append(controls, body);

  const draw = () => {
    const columns = [...new Set(questions.filter((q) => q.benchmark === benchmark.value).flatMap((q) => q.chains.map((c) => c.strategy)))];
    const table = make("table", null), head = make("tr", null), rows = make("tbody", null);
    head.append(make("th", "question", { scope: "col" }), ...columns.map((name) => make("th", name, { scope: "col" })));
    for (const question of shown.slice(first, first + PAGE)) {
      const row = make("tr", null), name = make("th", null, { scope: "row" });
      const full = question.chains.some((chain) => chain.names);
      name.append(make("small", `${question.number}`), full ? make("a", question.question_id, { href: `#question-${question.number}` }) : make("span", question.question_id));
      if (!question.text.includes(question.question_id)) name.append(make("span", question.text.slice(0, 90), { class: "title", dir: "auto" }));
      row.append(name);
      for (const column of columns) {
        const chain = question.chains.find((each) => each.strategy === column), entry = make("td", null);
        if (chain) {
          const line = make("span", `${chain.completions}× ${chain.stop}`, { class: "stop" });
          entry.append(make("span", SAID[chain.verdict][0], { class: `verdict ${chain.verdict}`, "aria-label": chain.verdict }), " ", strip(chain.marks), line);
        } else entry.append("not run");
        row.append(entry);
      }
      rows.append(row);
    }
    const thead = make("thead", null);
    thead.append(head);
    table.append(thead, rows);
    body.replaceChildren(table);
    place.textContent = shown.length ? `${first + 1} to ${Math.min(first + PAGE, shown.length)} of ${shown.length}` : "none";
    before.disabled = first === 0;
    after.disabled = first + PAGE >= shown.length;
  };
  const select = () => {
    const words = search.value.trim().toLowerCase(), keep = FILTERS[filter.value];
    shown = questions.filter((q) => q.benchmark === benchmark.value && keep(q) && (!words || `${q.number}` === words || `${q.question_id} ${q.text}`.toLowerCase().includes(words)));
    first = 0;
    draw();
  };
  before.addEventListener("click", () => { first = Math.max(0, first - PAGE); draw(); });
  after.addEventListener("click", () => { first += PAGE; draw(); });
  [benchmark, filter].forEach((field) => field.addEventListener("change", select));
  search.addEventListener("input", select);

  /* one question */
  const decimal = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
  const drawn = (chain) => {
    const section = make("section", null, { class: "chain" }), title = make("h4", `${chain.strategy} `);
    title.append(verdict(chain.verdict), " ", strip(chain.marks));
    const answer = make("p", `Answer by ${chain.rule}: `);
    answer.append(make("bdi", chain.answer ?? "none"), `. ${chain.tokens.toLocaleString("en")} completion tokens.`);
    section.append(title, make("p", chain.why, { class: "why", dir: "auto" }), answer);
    const rounds = make("ol", null, { class: "rounds" });
    chain.names.forEach((name, r) => {
      const row = make("li", null, r === chain.chosen ? { class: "chosen" } : {}), line = make("div", null, { class: "told" });
      const said = make("span", "answer ", { class: "answer" });
      said.append(make("bdi", chain.answers[r] ?? "none"));
      line.append(make("span", name, { class: "which" }), said, verdict(MARKS[chain.marks[r]]));
      if (chain.scores[r] !== null) line.append(make("span", `score ${decimal(chain.scores[r])}`));
      if (r < chain.beliefs.length) line.append(make("span", `p_MAP ${decimal(chain.beliefs[r])}`));
      line.append(make("span", `${chain.round_tokens[r] ?? "–"} tokens`));
      if (r === chain.chosen) line.append(make("span", "the answer", { class: "answer chosen" }));
      line.append(make("span", r === chain.names.length - 1 ? chain.stop : "went on", { class: "decision" }));
      row.append(line);
      if (chain.texts.length) {
        const text = make("details", null);
        text.append(make("summary", chain.notes[r] ? `text (${chain.notes[r]})` : "text"), make("pre", chain.texts[r], { class: "text", dir: "auto" }));
        row.append(text);
      }
      rounds.append(row);
    });
    section.append(rounds);
    if (!chain.texts.length) section.append(make("p", "The journal does not have these texts as they were asked for.", { class: "hint" }));
    return section;
  };
  const open = () => {
    const match = /^#question-(\d+)$/.exec(location.hash);
    const question = match && questions.find((q) => q.number === Number(match[1]));
    if (!question || !question.chains.some((chain) => chain.names)) { page.replaceChildren(); return; }
    if (question.benchmark !== benchmark.value || !shown.includes(question)) {
      benchmark.value = question.benchmark; filter.selectedIndex = 0; search.value = ""; select();
    }
    const bar = make("div", null, { class: "controls" });
    const within = shown.filter((q) => q.chains.some((chain) => chain.names)), at = within.indexOf(question);
    const step = (text, to) => {
      const button = make("button", text, { type: "button" });
      button.disabled = to === undefined;
      button.addEventListener("click", () => { location.hash = `question-${to.number}`; });
      return button;
    };
    const close = make("button", "close", { type: "button" });
    close.addEventListener("click", () => { location.hash = "questions"; });
    bar.append(step("← previous", within[at - 1]), step("next →", within[at + 1]), close, make("span", "keys: ← → or j k, Esc", { class: "hint" }));
    const article = make("article", null, { class: "question" }), known = make("dl", null, { class: "facts" });
    for (const [name, value] of [["benchmark", question.benchmark], ["question", `${question.number}: ${question.question_id}`], ["level", question.level], ["subject", question.subject], ["gold answer", question.gold]]) {
      if (value === null) continue;
      const entry = make("dd", null);
      entry.append(make("bdi", value));
      known.append(make("dt", name), entry);
    }
    article.append(known, make("pre", question.text, { class: "text", dir: "auto" }), ...question.chains.map(drawn));
    page.replaceChildren(bar, article);
    page.focus({ preventScroll: true });
    page.scrollIntoView();
  };
  addEventListener("hashchange", open);
  document.addEventListener("keydown", (event) => {
    if (!page.firstChild || event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey) return;
    const [previous, next, close] = page.querySelectorAll(".controls button");
    if (event.key === "ArrowLeft" || event.key === "k") previous.click();
    if (event.key === "ArrowRight" || event.key === "j") next.click();
    if (event.key === "Escape") close.click();
  });
  select();
  open();
})();
