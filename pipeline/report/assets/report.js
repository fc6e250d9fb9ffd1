"use strict";
/* Tips on marks, the list of questions, and the page of one. Data becomes text nodes, never markup. */

(() => {
  const PAGE = 25;
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  /* tips */
  const tip = make("div", "", { id: "tip", role: "status", hidden: "" });
  document.body.append(tip);
  const showTip = (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const width = tip.offsetWidth, height = tip.offsetHeight;
    const left = Math.min(Math.max(6, box.left + box.width / 2 - width / 2), innerWidth - width - 6);
    tip.style.left = `${left}px`;
    tip.style.top = `${box.top - height - 8 < 0 ? box.bottom + 8 : box.top - height - 8}px`;
  };
  document.addEventListener("pointerover", showTip);
  document.addEventListener("pointerdown", showTip);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

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

  /* questions */
  const holder = document.getElementById("question-data");
  if (!holder) return;
  const { cells, questions } = JSON.parse(holder.textContent);
  const list = document.getElementById("question-list");
  const page = document.getElementById("question-page");
  const MARKS = { right: "✓", wrong: "✗", ungraded: "?", none: "–" };
  const FILTERS = {
    "all questions": () => true,
    "strategies differ": (ends) => new Set(ends.map((end) => end[1])).size > 1,
    "all wrong": (ends) => ends.every((end) => end[1] === "wrong"),
    "failed": (ends) => ends.some((end) => end[3] === "failed"),
    "ungraded": (ends) => ends.some((end) => end[1] === "ungraded" || end[1] === "none"),
    "gated": (ends) => ends.some((end) => end[3] === "gated"),
    "stopped confident": (ends) => ends.some((end) => end[3] === "confident"),
  };
  let first = 0, shown = [];

  const controls = make("div", null, { class: "controls" });
  const labelled = (text, field) => { const label = make("label", text); label.append(field); return label; };
  const chooser = (names) => { const field = make("select", null); names.forEach((n) => field.append(make("option", n, { value: n }))); return field; };
  const benchmark = chooser([...new Set(questions.map((q) => q[0]))]);
  const filter = chooser(Object.keys(FILTERS));
  const search = make("input", null, { type: "search", placeholder: "id or words" });
  const before = make("button", "← earlier", { type: "button" });
  const after = make("button", "later →", { type: "button" });
  const place = make("span", "", { role: "status" });
  controls.append(labelled("benchmark", benchmark), labelled("show", filter), labelled("find", search), before, place, after);
  const body = make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": "questions" });
  list.append(controls, body);

  const draw = () => {
    const columns = cells.map((cell, i) => [i, cell]).filter(([, cell]) => cell.benchmark === benchmark.value);
    const table = make("table", null), head = make("tr", null), rows = make("tbody", null);
    head.append(make("th", "question", { scope: "col" }), ...columns.map(([, cell]) => make("th", cell.name, { scope: "col" })));
    for (const number of shown.slice(first, first + PAGE)) {
      const [, id, title, address, ends] = questions[number];
      const row = make("tr", null), name = make("th", null, { scope: "row" });
      const what = address === null ? make("span", id) : make("a", id, { href: address });
      name.append(what, make("span", title, { class: "title", dir: "auto" }));
      row.append(name);
      for (const [i] of columns) {
        const end = ends.find((e) => e[0] === i), entry = make("td", null);
        if (end) {
          entry.append(make("span", MARKS[end[1]], { class: `verdict ${end[1]}`, "aria-label": end[1] }), ` ${end[2]}× ${end[3]}`);
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
    const words = search.value.trim().toLowerCase();
    const keep = FILTERS[filter.value];
    shown = questions.map((_, number) => number).filter((number) => {
      const [name, id, title, , ends] = questions[number];
      return name === benchmark.value && keep(ends) && (!words || `${id} ${title}`.toLowerCase().includes(words));
    });
    first = 0;
    draw();
  };
  before.addEventListener("click", () => { first = Math.max(0, first - PAGE); draw(); });
  after.addEventListener("click", () => { first += PAGE; draw(); });
  [benchmark, filter].forEach((field) => field.addEventListener("change", select));
  search.addEventListener("input", select);

  /* one question */
  const open = () => {
    const match = /^#question-(\d+)$/.exec(location.hash);
    if (!match) { page.replaceChildren(); return; }
    const number = Number(match[1]);
    const template = document.getElementById(`question-${number}`);
    if (!template) return;
    if (questions[number][0] !== benchmark.value) { benchmark.value = questions[number][0]; select(); }
    const bar = make("div", null, { class: "controls" });
    const pages = shown.filter((n) => document.getElementById(`question-${n}`));
    const at = pages.indexOf(number);
    const step = (text, to) => {
      const button = make("button", text, { type: "button" });
      button.disabled = to === undefined;
      button.addEventListener("click", () => { location.hash = `question-${to}`; });
      return button;
    };
    const close = make("button", "close", { type: "button" });
    close.addEventListener("click", () => { location.hash = "questions"; });
    bar.append(step("← previous", pages[at - 1]), step("next →", pages[at + 1]), close);
    page.replaceChildren(bar, template.content.cloneNode(true));
    page.focus({ preventScroll: true });
    page.scrollIntoView();
  };
  addEventListener("hashchange", open);
  document.addEventListener("keydown", (event) => {
    if (!page.firstChild || event.target.matches("input, select")) return;
    const [previous, next, close] = page.querySelectorAll(".controls button");
    if (event.key === "ArrowLeft") previous.click();
    if (event.key === "ArrowRight") next.click();
    if (event.key === "Escape") close.click();
  });
  select();
  open();
})();
