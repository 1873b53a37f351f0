"use strict";
// One query: its values, the ranked lists side by side, and the relevant docs that are missing from them.

const DEPTH = 10, TOP = 20, LONG = 240;
const gradeClass = (grade) => (grade === null ? "unjudged" : "g" + Math.max(0, Math.min(4, Math.round(grade))));
const gradeMark = (grade) => (grade === null ? el("span", { class: "grade none" }, "unjudged") : el("span",
  { class: "grade " + gradeClass(grade) }, el("span", { class: "sr" }, "grade "), String(grade)));
// A link may name a query that this report lacks: the page says so until another one is chosen.
function sayUnknown(id) {
  choice.unknown = id;
  $("unknown").hidden = id === null;
  if (id !== null) $("unknown").replaceChildren("No query '", own(id.length > LONG ? id.slice(0, LONG - 1) + "…" : id), "' in this report.");
}
function open(i, section = "") {
  sayUnknown(null);
  Object.assign(choice, { query: i, pin: true, section });
  writeLink();
  const place = state.order.indexOf(i), view = $("rows");
  if (place >= 0 && (place * ROW < view.scrollTop || (place + 2) * ROW > view.scrollTop + view.clientHeight)) view.scrollTop = Math.max(0, place * ROW - view.clientHeight / 3);
  showRows();
  showQuery(i);
}
function showQuery(i) {
  const tags = Object.keys(Q.fields).flatMap((f) => tagsIn(f, i).map((value) => el("span", { class: "tag" }, own(f + " = " + value))));
  const step = (label, by, text) => el("button", { type: "button", "aria-label": label, onclick: () => move(by) }, text);
  const copy = el("button", { type: "button", class: "copy", onclick: (e) => toClipboard(location.href.split("#")[0] + linkTo(i), e.target) }, "Copy link");
  const title = el("h3", { id: "query-title", dir: "auto" }, nameOf(i).length > LONG ? nameOf(i).slice(0, LONG - 1) + "…" : nameOf(i));
  const unfold = nameOf(i).length > LONG ? el("button", { type: "button", class: "unfold", "aria-expanded": "false", onclick: (e) => {
    const on = e.target.getAttribute("aria-expanded") === "false";
    title.textContent = on ? nameOf(i) : nameOf(i).slice(0, LONG - 1) + "…";
    e.target.setAttribute("aria-expanded", String(on));
    e.target.textContent = on ? "Show less" : "Show the whole query";
  } }, "Show the whole query") : null;
  const head = el("div", { class: "query-head" }, el("div", {}, title, unfold), el("span", { class: "steps" }, copy, step("Previous query", -1, "‹"), step("Next query", 1, "›")));
  // Quantiles of one value, such as latency.p50 and latency.p90, are the same number for one query.
  const chosen = columns.get(choice.metric), inOrder = [chosen, ...data.metrics.filter((m) => m.value_name !== chosen.value_name)];
  const names = [...new Map(inOrder.map((m) => [m.value_name, m.name])).entries()];
  const values = table({ class: "few" }, [th("Run"), names.map(([label]) => th(label, "num"))], [
    ...mainRuns().map((r) => el("tr", {}, el("th", { scope: "row" }, own(r)), names.map(([, m]) => td("num", null, figure(m, valueOf(r, m, i)))))),
    hasPair ? el("tr", {}, el("th", { scope: "row" }, "Δ"), names.map(([, m]) => { const d = changeOf(m, i); return td("num " + direction(m, d), null, figure(m, d, true)); })) : null]);
  $("query").replaceChildren(head, el("p", { class: "about" }, own(Q.ids[i]), tags), region("Values of this query", values), ...(Q.lists.length ? listsOf(i, DEPTH) : []));
  requestAnimationFrame(drawLinks);
}
function listsOf(i, depth) {
  const pair = mainRuns().filter((r) => listRuns.has(r)), words = wordsOf(i);
  const places = pair.map((r) => new Map(listOf(r, i)[0].map((doc, n) => [doc, n + 1])));
  // Without gold nothing is judged, so nothing is called unjudged.
  const grade = (mark) => (hasGold ? gradeMark(mark) : null);
  const grades = [...new Set(pair.flatMap((r) => listOf(r, i)[1].slice(0, depth)))].filter((g) => g !== null).sort((a, b) => b - a);
  const legend = el("div", { class: "legend" }, grades.map((g) => el("span", {}, el("i", { class: gradeClass(g) }), "grade " + g)),
    hasGold ? el("span", {}, el("i", { class: "unjudged" }), "unjudged") : null, pair.length === 2 ? [el("span", { class: "joins" }, "lines join the same doc"),
      el("span", {}, "▲ ▼ ranks gained and lost"), el("span", {}, "→ rank in the list of ", own(pair[1]))] : null);
  const position = (doc, n, rank) => {
    if (pair.length !== 2) return null;
    const other = pair[1 - n], length = listOf(other, i)[0].length, gold = hasGold && Q.gold[i].find((g) => g[0] === doc);
    const there = places[1 - n].get(doc) ?? (gold && rankOf(gold, other)) ?? null;
    if (there === null) return el("span", { class: "move" }, gold ? "not returned by " : length < TOP ? "not in the list of " : `not in the top ${TOP} of `, own(other));
    if (n === 0) return there > depth ? el("span", { class: "move" }, "→ " + there) : null;
    return el("span", { class: "move" }, there === rank ? "=" : (there > rank ? "▲" : "▼") + Math.abs(there - rank), el("span", { class: "sr" }, " from rank " + there));
  };
  // A further chunk of a relevant doc has its grade, and no gold has this rank.
  const repeats = (r, mark, rank) => hasGold && data.credited_once && !Q.gold[i].some((g) => rankOf(g, r) === rank)
    && Q.gold[i].some((g) => g[1] === mark && rankOf(g, r) !== null && rankOf(g, r) < rank);
  // A list that ends above the other one says so, where its column would be empty.
  const rows = Math.min(depth, Math.max(0, ...pair.map((r) => listOf(r, i)[0].length)));
  const end = (n) => (n === 0 ? "Nothing was returned." : n < rows ? `Nothing more was returned (${count(n, "doc", "docs")}).` : "");
  const list = (r, n) => {
    const [docs, marks, scores] = listOf(r, i), ends = end(docs.length);
    return el("div", {}, el("h4", {}, own(r)), el("ol", {}, docs.slice(0, depth).map((doc, p) =>
      el("li", { class: "doc " + (hasGold ? gradeClass(marks[p]) : ""), "data-doc": doc, title: scores[p] === null ? null : "score " + scores[p],
        onmouseenter: () => light(doc, true), onmouseleave: () => light(doc, false) },
        el("span", { class: "rank" }, String(p + 1)), el("span", { class: "id" }, own(docId(doc)), " ", grade(marks[p]),
          repeats(r, marks[p], p + 1) ? el("span", { class: "dim repeat" }, " earns nothing: its doc counted above") : null),
          position(doc, n, p + 1), textOf(doc, words)))), ends ? el("p", { class: "dim end" }, ends) : null);
  };
  const longest = Math.max(0, ...pair.map((r) => listOf(r, i)[0].length));
  const more = longest > depth ? el("button", { type: "button", class: "more",
    onclick: () => { $("ranked").replaceChildren(...listsOf(i, longest)[0].childNodes); drawLinks(); } }, "Show the top " + longest) : null;
  const doubts = !hasGold ? [] : pair.map((r) => [r, listOf(r, i)[1].slice(0, data.k).filter((g) => g === null).length]).filter(([, n]) => n);
  const notes = [
    doubts.length ? el("p", { class: "dim" }, `Unjudged in the top ${data.k} (counted as not relevant): `, doubts.map(([r, n], j) => [j ? "; " : "", own(r), " " + n])) : null,
    mainRuns().length > pair.length ? el("p", { class: "dim" }, own(reference()), " holds values, not lists.") : null,
    hasDocTexts ? null : el("p", { class: "dim" }, "To see texts here, run again with --docs corpus.jsonl.")];
  return [el("div", { id: "ranked" }, legend, notes, el("div", { class: "lists" }, pair.map(list)), more), ...(hasGold ? missingOf(i, pair, words) : [])];
}
function missingOf(i, pair, words) {
  const gold = Q.gold[i];
  const missing = gold.filter((g) => pair.some((r) => { const rank = rankOf(g, r); return rank === null || rank > data.k; }));
  if (!missing.length) return [el("p", { class: "dim" }, gold.length ? `All relevant docs are in the top ${data.k}.` : "The gold has no relevant doc for this query.")];
  const rank = (g, r) => { const at = rankOf(g, r); return td("num" + (at === null ? " never" : at > data.k ? " late" : ""), null, placeOf(g, r)); };
  const row = (g) => el("tr", {}, el("th", { scope: "row" }, own(docId(g[0])), textOf(g[0], words)), td("num", null, gradeMark(g[1])), pair.map((r) => rank(g, r)));
  const rows = (some) => region("Relevant docs that are missing", table({ class: "few" }, [th("Doc"), th("Grade", "num"), pair.map((r) => th(own(r), "num"))], some.map(row)));
  const never = pair.map((r, j) => [j ? ", " : "", gold.filter((g) => rankOf(g, r) === null).length + " by ", own(r)]);
  const both = pair.length > 1 ? ", " + gold.filter((g) => pair.every((r) => rankOf(g, r) === null)).length + " by both" : "";
  return [el("h4", {}, `Relevant docs missing from a top ${data.k}, with their ranks`),
    el("p", { class: "dim" }, count(gold.length, "relevant doc", "relevant docs") + "; not returned: ", never, both),
    rows(missing.slice(0, 25)), ...(missing.length > 25 ? [el("details", {}, el("summary", {}, `and ${missing.length - 25} more`), rows(missing.slice(25)))] : [])];
}
function light(doc, on) {
  for (const n of document.querySelectorAll("#query .doc, #query .links path")) if (n.dataset.doc === String(doc)) n.classList.toggle("lit", on);
}
function drawLinks() {
  const box = document.querySelector("#query .lists"), lists = box ? [...box.querySelectorAll("ol")] : [];
  box?.querySelector("svg")?.remove();
  if (lists.length !== 2) return;
  const make = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag), svg = make("svg"), at = box.getBoundingClientRect();
  svg.setAttribute("class", "links");
  svg.setAttribute("aria-hidden", "true");
  const right = new Map([...lists[1].children].map((n) => [n.dataset.doc, n]));
  for (const n of lists[0].children) {
    const to = right.get(n.dataset.doc);
    if (!to) continue;
    const a = n.getBoundingClientRect(), b = to.getBoundingClientRect();
    const x1 = a.right - at.left, x2 = b.left - at.left, y1 = a.top + 15 - at.top, y2 = b.top + 15 - at.top, middle = (x1 + x2) / 2;
    const path = make("path");
    path.setAttribute("d", `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`);
    path.setAttribute("class", [...n.classList].find((c) => /^(g\d|unjudged)$/.test(c)) ?? "");
    path.dataset.doc = n.dataset.doc;
    svg.append(path);
  }
  box.append(svg);
}
function move(by) {
  if (!state.order.length) return;
  const place = state.order.indexOf(choice.query);
  open(state.order[Math.max(0, Math.min(state.order.length - 1, place < 0 ? 0 : place + by))]);
}
// On a narrow screen the query stands below the table.
const isNarrow = () => matchMedia("(max-width: 900px)").matches;
const placeOfQuery = () => (isNarrow() ? "query" : "queries");
const reveal = () => { if (isNarrow()) $("query").scrollIntoView(); };
function bring(i) {
  asStep(() => open(i));
  $(placeOfQuery()).scrollIntoView();
}
