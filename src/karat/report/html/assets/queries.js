"use strict";
// Queries: what moved, what was missed, the table with its filters, and the page of one query.

/* ---- broken and fixed, segments, misses ---- */

function tellMoved() {
  if (!$("moved-lists")) return;
  const metric = chosen.metric, rows = [];
  for (let i = 0; i < Q.ids.length; i++) {
    const d = change(metric, i);
    if (d !== null && Math.abs(d) > SAME) rows.push([i, d, better(metric, d)]);
  }
  const worse = rows.filter((r) => r[2] < 0).sort((a, b) => a[2] - b[2]), best = rows.filter((r) => r[2] > 0).sort((a, b) => b[2] - a[2]);
  $("moved-count").replaceChildren(own(chosen.run), " against ", own(reference), " in " + metric + ": ",
    `${worse.length.toLocaleString("en")} worse, ${best.length.toLocaleString("en")} better, ${(Q.ids.length - rows.length).toLocaleString("en")} equal`);
  // A loss may be one of judgments only: what the run returned instead may never have been looked at.
  const unjudged = (i) => (Q.lists.length ? listOf(chosen.run, i)[1].slice(0, data.k).filter((g) => g === null).length : 0);
  const doubt = (n) => (n ? el("small", { title: `Of its top ${data.k}; docs that nobody judged count as not relevant.` }, n + " not judged") : null);
  const row = ([i, d], kind) => el("li", {}, el("a", { href: linkTo(i), title: nameOf(i) }, own(nameOf(i)),
    kind === "down" ? doubt(unjudged(i)) : null, el("b", { class: kind }, told(metric, d, true))));
  const list = (title, some, kind) => el("div", {}, el("h3", {}, title),
    some.length ? el("ol", {}, some.slice(0, 5).map((r) => row(r, kind))) : el("p", { class: "dim" }, "None."));
  $("moved-lists").replaceChildren(list("Most broken", worse, "down"), list("Most fixed", best, "up"));
}

// A segment of one field opens its queries.
function linkToSegment(name) {
  const [field, value] = name.split(" = "), select = [...document.querySelectorAll("#field-filters select")].find((s) => s.dataset.field === field);
  if (!select || value === undefined || ![...select.options].some((o) => o.value === JSON.stringify(value))) return own(name);
  return el("a", { href: "#queries", title: "Show its queries", onclick: () => { $("filters").reset(); select.value = JSON.stringify(value); filter(); } }, own(name));
}
function tellSegments() {
  if (!$("segments-table")) return;
  const metric = chosen.metric;
  const changes = new Map(data.comparisons.filter((c) => c.metric === metric && c.candidate === chosen.run).map((c) => [c.segment, c]));
  const value = (v) => td("num", v ? v[0] : null, v ? told(metric, v[0]) : "–",
    v && v[1] !== null ? el("small", {}, span(metric, v[1], v[2])) : null);
  const delta = (c) => td("num " + (c && !c.small ? tone(metric, c.ci) : ""), c ? c.delta : null, c ? told(metric, c.delta, true) : "–",
    c && c.ci ? el("small", {}, span(metric, c.ci[0], c.ci[1], true)) : null);
  const head = [th("Segment"), th("n", "num"), runs.map((r) => th(own(r), "num", { "data-run": r })),
    changes.size ? th(["Δ ", own(chosen.run)], "num") : null];
  $("segments-title").textContent = "Segments, " + metric;
  $("segments-table").replaceChildren(table({}, head, data.segments.map((s) => el("tr",
    { "data-segment": s.name, class: s.small ? "small" : "" },
    el("th", { scope: "row" }, linkToSegment(s.name), s.small ? el("span", { class: "tag" }, "too few") : null), td("num", s.n, String(s.n)),
    runs.map((r) => { const cell = value((s.values[r] || {})[metric]); cell.dataset.run = r; return cell; }),
      changes.size ? delta(changes.get(s.name)) : null))));
}

const missedGold = (i, run, k) => Q.gold[i].filter((g) => { const rank = rankOf(g, run); return rank === null || rank > k; });
const rankTold = (rank) => (rank === null ? "never" : "rank " + rank);
function tellMisses() {
  if (!$("misses-table")) return;
  const run = chosen.run, rows = [];
  let gold = 0, never = 0, nobody = 0;
  for (let i = 0; i < Q.ids.length; i++) {
    for (const g of Q.gold[i]) {
      gold++;
      if (rankOf(g, run) === null) never++;
      if (g[2].every((r) => r === null)) nobody++;
    }
    const missed = missedGold(i, run, data.k).sort((a, b) => b[1] - a[1] || (rankOf(b, run) ?? Infinity) - (rankOf(a, run) ?? Infinity));
    if (missed.length) rows.push({ i, top: missed[0], missed: missed.length, never: missed.filter((g) => rankOf(g, run) === null).length,
      value: valueOf(run, chosen.metric, i) ?? 0 });
  }
  rows.sort((a, b) => better(chosen.metric, a.value - b.value) || b.top[1] - a.top[1] || b.never - a.never);
  $("misses-told").replaceChildren(own(run), ` never found ${never.toLocaleString("en")} of ${counted(gold, "relevant doc", "relevant docs")}`,
    runs.length > 1 ? `; no run found ${nobody.toLocaleString("en")} of them` : "",
    `. Below: the queries with the lowest ${chosen.metric}, the best doc that is not in the top ${data.k}, and what came first instead. `,
    ...[["never", "Queries with gold that it never found"], ...(runs.length > 1 ? [["nobody", "with gold that no run found"]] : [])].flatMap(
      ([value, label], j) => [j ? " · " : "", el("a", { href: "#queries", onclick: () => { $("outcome").value = value; filter(); } }, label)]));
  const head = [th("Query"), th(chosen.metric, "num"), th("Missed gold"), th("Found at"), th("Came first instead"),
    th("Never found", "num")];
  $("misses-table").replaceChildren(rows.length ? table({}, head, rows.slice(0, 8).map((r) => {
    const [docs, grades] = listOf(run, r.i);
    return el("tr", {}, el("th", { scope: "row" }, el("a", { href: linkTo(r.i) }, own(nameOf(r.i)))),
      td("num", null, told(chosen.metric, r.value)),
      td("doc-cell", null, own(docId(r.top[0])), " ", gradeMark(r.top[1]), textOf(r.top[0])), td("", null, rankTold(rankOf(r.top, run))),
      docs.length ? td("doc-cell", null, own(docId(docs[0])), " ", gradeMark(grades[0]), textOf(docs[0])) : td("dim", null,
        "nothing was returned"),
      td("num", null, r.never + " of " + Q.gold[r.i].length));
  })) : el("p", { class: "dim" }, `All gold is in the top ${data.k}.`));
}

// Every relevant doc that the run, or no run, returned: the first of them in the page, all of them as CSV.
const SOME = 60;
function tellNever() {
  if (!$("never-table")) return;
  const run = chosen.run, nobody = $("never-of").value === "nobody", rows = [];
  for (let i = 0; i < Q.ids.length; i++) {
    const seen = new Map();
    for (const g of Q.gold[i]) if (nobody ? g[2].every((r) => r === null) : rankOf(g, run) === null) {
      seen.set(g[1], (seen.get(g[1]) ?? 0) + 1);
      rows.push([i, g, seen.get(g[1])]);
    }
  }
  // The best grades first, and of each grade the first doc of every query before any second one.
  rows.sort((a, b) => b[1][1] - a[1][1] || a[2] - b[2] || a[0] - b[0]);
  $("never-of").options[0].textContent = run;
  const by = shownRuns();
  $("never-count").textContent = counted(rows.length, "relevant doc", "relevant docs") + (rows.length > SOME ? `, by grade, the first of each query first; ${SOME} are below` : "");
  $("never-table").replaceChildren(table({ class: "few" }, [th("Doc"), th("Grade", "num"), th("Query"), by.map((r) => th(own(r), "num"))],
    rows.slice(0, SOME).map(([i, g]) => el("tr", {}, el("th", { scope: "row" }, own(docId(g[0])), textOf(g[0])), td("num", null, gradeMark(g[1])),
      td("", null, el("a", { href: linkTo(i) }, own(nameOf(i)))), by.map((r) => td("num", null, rankTold(rankOf(g, r))))))));
  $("never-copy").onclick = () => toClipboard([["doc_id", "grade", "query_id", ...runs.map((r) => "rank " + r)],
    ...rows.map(([i, g]) => [docId(g[0]), String(g[1]), Q.ids[i], ...runs.map((r) => String(rankOf(g, r) ?? ""))])], $("never-copy"));
}

/* ---- the table of queries ---- */

const ROW = 34;
const state = { wanted: [], order: [], sort: { key: paired ? "delta" : chosen.run, up: true }, columns: [], head: new Map(), body: null };
const folded = Q.ids.map((id, i) => (id + "\n" + (Q.texts[i] || "")).toLocaleLowerCase());
const collated = {};
// The place of each query in the order of ids or texts, numbers by value; found once, since that takes a while.
function placeBy(key) {
  if (!collated[key]) {
    const texts = key === "id" ? Q.ids : Q.texts, compare = new Intl.Collator(undefined, { numeric: true }).compare;
    const places = new Int32Array(texts.length);
    Array.from(texts.keys()).sort((a, b) => compare(texts[a], texts[b]) || a - b).forEach((i, place) => { places[i] = place; });
    collated[key] = places;
  }
  return collated[key];
}
function hits(i, outcome) {
  const metric = chosen.metric;
  if (outcome === "all") return true;
  if (outcome === "miss") return Q.gold[i].length > 0 && missedGold(i, chosen.run, data.k).length === Q.gold[i].length;
  if (outcome === "never") return Q.gold[i].some((g) => rankOf(g, chosen.run) === null);
  if (outcome === "nobody") return Q.gold[i].some((g) => g[2].every((rank) => rank === null));
  const d = change(metric, i);
  if (outcome === "unchanged") return d !== null && Math.abs(d) <= SAME;
  return d !== null && Math.abs(d) > SAME && (better(metric, d) < 0) === (outcome === "broken");
}
function filter() {
  const search = $("search").value.trim().toLocaleLowerCase(), outcome = $("outcome").value;
  const fields = [...document.querySelectorAll("#field-filters select")].filter((s) => s.value !== "").map((s) => [Q.fields[s.dataset.field], JSON.parse(s.value)]);
  state.wanted = [];
  for (let i = 0; i < Q.ids.length; i++) {
    if ((!search || folded[i].includes(search)) && fields.every(([values, v]) => values[i] === v) && hits(i, outcome)) state.wanted.push(i);
  }
  order();
}
function clearFilters() {
  $("filters").reset();
  filter();
}
function keyFor(key) {
  if (key === "id" || key === "text") { const places = placeBy(key); return (i) => places[i]; }
  if (key === "delta") return (i) => change(chosen.metric, i);
  const values = Q.values[runIndex.get(key)][metricIndex.get(chosen.metric)];
  return (i) => values[i];
}
function order() {
  const key = keyFor(state.sort.key), sign = state.sort.up ? 1 : -1;
  const keys = new Map(state.wanted.map((i) => [i, key(i)]));
  state.order = [...state.wanted].sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    if (x === y) return a - b;
    return x === null ? 1 : y === null ? -1 : (x - y) * sign;
  });
  $("count").textContent = state.order.length.toLocaleString("en") + " of " + counted(Q.ids.length, "query", "queries");
  $("rows").scrollTop = 0;
  markSort();
  rows();
}
const longest = Q.ids.reduce((most, id) => Math.max(most, id.length), 0);
function buildTable() {
  const shown = runs.length > 3 ? mainRuns() : runs;
  state.columns = [["id", "Query"], ...(Q.texts.length ? [["text", "Text"]] : []), ...shown.map((r) => [r, own(r)]),
    ...(paired ? [["delta", "Δ"]] : [])];
  if (!state.columns.some(([key]) => key === state.sort.key)) state.sort = { key: paired ? "delta" : chosen.run, up: true };
  state.head = new Map();
  const head = state.columns.map(([key, label]) => {
    const button = el("button", { type: "button", onclick: () => sortBy(key) }, label,
      el("span", { class: "arrow", "aria-hidden": "true" }));
    const width = key === "id" && Q.texts.length ? `width:${Math.max(6, Math.min(14, longest)) * 9 + 24}px` : null;
    const cell = el("th", { scope: "col", style: width, class: key === "id" ? "id" : key === "text" ? "text" : "num" }, button);
    state.head.set(key, cell);
    return cell;
  });
  state.body = el("tbody");
  $("rows").classList.toggle("texts", Q.texts.length > 0);
  $("rows").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, head)), state.body));
}
function sortBy(key) {
  const texts = key === "id" || key === "text";
  state.sort = { key, up: state.sort.key === key ? !state.sort.up : texts };
  order();
}
function markSort() {
  for (const [key, cell] of state.head) {
    const here = key === state.sort.key;
    cell.setAttribute("aria-sort", here ? (state.sort.up ? "ascending" : "descending") : "none");
    cell.querySelector(".arrow").textContent = here ? (state.sort.up ? " ▲" : " ▼") : "";
  }
}
// Only the rows that can be seen are in the page; space above and below stands for the others.
function rows() {
  const view = $("rows"), metric = chosen.metric;
  if (!state.order.length) {
    const clear = el("button", { type: "button", onclick: clearFilters }, "Clear the filters");
    state.body.replaceChildren(el("tr", { class: "none" }, el("td", { colspan: state.columns.length }, "No query matches. ", clear)));
    return;
  }
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 10),
    last = Math.min(state.order.length, first + Math.ceil(view.clientHeight / ROW) + 25);
  const space = (n) => (n > 0 ? [el("tr", { class: "space", "aria-hidden": "true" },
    el("td", { colspan: state.columns.length, style: "height:" + n * ROW + "px" }))] : []);
  const cell = (key, i) => {
    if (key === "id") return el("td", { class: "id", title: Q.ids[i] }, el("a", { href: linkTo(i), tabindex: "-1" }, own(Q.ids[i])));
    if (key === "text") return el("td", { title: Q.texts[i] }, own(Q.texts[i]));
    if (key !== "delta") return td("num", null, told(metric, valueOf(key, metric, i)));
    const d = change(metric, i);
    return td("num " + (d === null || Math.abs(d) <= SAME ? "" : better(metric, d) > 0 ? "up" : "down"), null, told(metric, d, true));
  };
  const made = state.order.slice(first, last).map((i) => el("tr",
    { "data-query": i, "aria-current": i === chosen.query ? "true" : null, onclick: (e) => { e.preventDefault(); open(i); show(); } },
    state.columns.map(([key]) => cell(key, i))));
  state.body.replaceChildren(...space(first), ...made, ...space(state.order.length - last));
}
function toClipboard(lines, button) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
  const text = lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n", label = button.dataset.label ??= button.textContent;
  const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = label; }, 1500); };
  const byHand = () => {
    const area = el("textarea", { style: "position:fixed;opacity:0", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    done();
  };
  if (navigator.clipboard?.writeText) navigator.clipboard.writeText(text).then(done, byHand);
  else byHand();
}
function copy() {
  const value = (v) => (v === null ? "" : String(v));
  const fields = Object.keys(Q.fields), texts = Q.texts.length > 0;
  const lines = [["query_id", ...(texts ? ["text"] : []), ...fields, ...runs.map((r) => r + " " + chosen.metric), ...(paired ? ["delta " + chosen.run] : [])],
    ...state.order.map((i) => [Q.ids[i], ...(texts ? [Q.texts[i]] : []), ...fields.map((f) => Q.fields[f][i]),
      ...runs.map((r) => value(valueOf(r, chosen.metric, i))), ...(paired ? [value(change(chosen.metric, i))] : [])])];
  toClipboard(lines, $("copy"));
}

/* ---- one query ---- */

const DEPTH = 10;
const gradeClass = (grade) => (grade === null ? "unjudged" : "g" + Math.max(0, Math.min(4, Math.round(grade))));
const gradeMark = (grade) => (grade === null ? el("span", { class: "grade none" }, "not judged") : el("span",
  { class: "grade " + gradeClass(grade) }, el("span", { class: "sr" }, "grade "), String(grade)));
function open(i, quiet) {
  chosen.query = i;
  if (!quiet) history.replaceState(null, "", linkTo(i));
  const place = state.order.indexOf(i), view = $("rows");
  if (place >= 0 && (place * ROW < view.scrollTop || (place + 2) * ROW > view.scrollTop + view.clientHeight)) view.scrollTop = Math.max(0,
    place * ROW - view.clientHeight / 3);
  rows();
  const tags = Object.entries(Q.fields).filter(([, v]) => v[i] !== "").map(([f, v]) => el("span", { class: "tag" }, own(f + " = " + v[i])));
  const step = (label, by, text) => el("button", { type: "button", "aria-label": label, onclick: () => move(by) }, text);
  const head = el("div", { class: "query-head" }, el("h3", { id: "query-title", dir: "auto" }, nameOf(i)),
    el("span", { class: "steps" }, step("Previous query", -1, "‹"), step("Next query", 1, "›")));
  const values = table({ class: "few" }, [th("Run"), metrics.map((m) => th(m, "num"))], [
    ...shownRuns().map((r) => el("tr", {}, el("th", { scope: "row" }, own(r)),
      metrics.map((m) => td("num", null, told(m, valueOf(r, m, i)))))),
    paired ? el("tr", {}, el("th", { scope: "row" }, "Δ"), metrics.map((m) => { const d = change(m,
      i); return td("num " + (d === null || Math.abs(d) <= SAME ? "" : better(m, d) > 0 ? "up" : "down"), null,
      told(m, d, true)); })) : null]);
  $("query").replaceChildren(head, el("p", { class: "about" }, own(Q.ids[i]), tags),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of this query" }, values),
      ...(Q.lists.length ? listsOf(i, shownRuns(), DEPTH) : []));
  requestAnimationFrame(drawLinks);
}
const shownRuns = () => (runs.length > 2 ? mainRuns() : runs);
function listsOf(i, shown, depth) {
  const places = shown.map((r) => new Map(listOf(r, i)[0].map((doc, n) => [doc, n + 1])));
  const grades = [...new Set(shown.flatMap((r) => listOf(r, i)[1].slice(0, depth)))].filter((g) => g !== null).sort((a, b) => b - a);
  const legend = el("div", { class: "legend" }, grades.map((g) => el("span", {}, el("i", { class: gradeClass(g) }), "grade " + g)),
    el("span", {}, el("i", { class: "unjudged" }), "not judged"), shown.length === 2 ? [el("span", { class: "joins" }, "lines join the same doc"),
      el("span", {}, "▲ ▼ ranks gained and lost"), el("span", {}, "→ rank there")] : null);
  const moved = (doc, n, rank) => {
    if (shown.length !== 2) return null;
    const held = listOf(shown[1 - n], i)[0].length, judged = Q.gold[i].find((g) => g[0] === doc);
    const other = places[1 - n].get(doc) ?? (judged && rankOf(judged, shown[1 - n])) ?? undefined;
    if (other === undefined && judged) return el("span", { class: "move", title: shown[1 - n] + " never returned it" }, "never there");
    if (n === 0 && other !== undefined) return other > depth ? el("span", { class: "move" }, "→ " + other) : null;
    if (n === 0) return el("span", { class: "move", title: "not in the first " + held + " of " + shown[1] }, "> " + held + " or never");
    if (other === undefined) return el("span", { class: "move", title: "not in the first " + held + " of " + shown[0] }, "there > " + held + " or never");
    return el("span", { class: "move" }, other === rank ? "=" : (other > rank ? "▲" : "▼") + Math.abs(other - rank),
      el("span", { class: "sr" }, " from rank " + other));
  };
  const list = (r, n) => {
    const [docs, marks, scores] = listOf(r, i);
    return el("div", {}, el("h4", {}, own(r)), docs.length ? el("ol", {}, docs.slice(0, depth).map((doc, p) =>
      el("li", { class: "doc " + gradeClass(marks[p]), "data-doc": doc, title: scores[p] === null ? null : "score " + scores[p],
        onmouseenter: () => light(doc, true), onmouseleave: () => light(doc, false) },
        el("span", { class: "rank" }, String(p + 1)), el("span", { class: "id" }, own(docId(doc)), " ", gradeMark(marks[p])),
          moved(doc, n, p + 1), textOf(doc)))) : el("p", { class: "dim" }, "Nothing was returned."));
  };
  const held = Math.max(...shown.map((r) => listOf(r, i)[0].length));
  const more = held > depth ? el("button", { type: "button", class: "more",
    onclick: () => { $("ranked").replaceChildren(...listsOf(i, shown, held)[0].childNodes); drawLinks(); } },
    "Show the first " + held) : null;
  const doubts = shown.map((r) => [r, listOf(r, i)[1].slice(0, data.k).filter((g) => g === null).length]).filter(([, n]) => n);
  const doubt = doubts.length ? el("p", { class: "dim" }, `Not judged, and counted as not relevant, in the top ${data.k}: `,
    doubts.map(([r, n], j) => [j ? "; " : "", own(r), " " + n])) : null;
  const silent = Object.keys(data.docs.texts).length ? null : el("p", { class: "dim" }, "Texts of docs were not given: --docs brings them in.");
  return [el("div", { id: "ranked" }, legend, doubt, silent, el("div", { class: "lists" }, shown.map(list)), more), ...missedOf(i, shown)];
}
function missedOf(i, shown) {
  const gold = Q.gold[i];
  const missed = gold.filter((g) => shown.some((r) => { const rank = rankOf(g, r); return rank === null || rank > data.k; }));
  if (!missed.length) return [el("p", { class: "dim" }, gold.length ? `All gold is in the top ${data.k}.` : "The gold names no relevant doc for this query.")];
  const told = (g, r) => { const rank = rankOf(g, r); return td("num" + (rank === null ? " never" : rank > data.k ? " late" : ""), null,
    rank === null ? "never" : String(rank)); };
  const row = (g) => el("tr", {}, el("th", { scope: "row" }, own(docId(g[0])), textOf(g[0])), td("num", null, gradeMark(g[1])),
    shown.map((r) => told(g, r)));
  const never = shown.map((r) => [own(r), " never found " + gold.filter((g) => rankOf(g, r) === null).length]);
  const rest = missed.length - 25;
  return [el("h4", {}, `Gold that a run lacks in its top ${data.k}: its rank with each run`),
    el("p", { class: "dim" }, "Of " + counted(gold.length, "relevant doc", "relevant docs") + ": ",
    never.map((n, j) => [j ? "; " : "", n]), shown.length > 1 ? "; neither found " + gold.filter((g) => shown.every((r) => rankOf(g, r) === null)).length : ""),
    table({ class: "few" }, [th("Doc"), th("Grade", "num"), shown.map((r) => th(own(r), "num"))], missed.slice(0, 25).map(row)),
      rest > 0 ? el("details", {}, el("summary", {}, "and " + rest + " more"), table({ class: "few" },
        [th("Doc"), th("Grade", "num"), shown.map((r) => th(own(r), "num"))], missed.slice(25).map(row))) : null].filter(Boolean);
}
function light(doc, on) {
  for (const n of document.querySelectorAll("#query .doc")) if (n.dataset.doc === String(doc)) n.classList.toggle("lit", on);
  for (const n of document.querySelectorAll("#query .links path")) if (n.dataset.doc === String(doc)) n.classList.toggle("lit", on);
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
    path.setAttribute("class", [...n.classList].find((c) => /^(g\d|unjudged)$/.test(c)));
    path.dataset.doc = n.dataset.doc;
    svg.append(path);
  }
  box.append(svg);
}
function move(by) {
  if (!state.order.length) return;
  const place = state.order.indexOf(chosen.query);
  open(state.order[Math.max(0, Math.min(state.order.length - 1, place < 0 ? 0 : place + by))]);
}
// On a narrow screen the query stands below the table.
const show = () => { if (matchMedia("(max-width: 900px)").matches) $("query").scrollIntoView(); };
