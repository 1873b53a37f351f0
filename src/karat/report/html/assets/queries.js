"use strict";
// The table of queries: filters, order, and the rows that can be seen.

const ROW = 34;
const state = { hits: [], order: [], sort: null, columns: [], head: new Map(), body: null, first: 0, last: 0 };
// The worst first: what fell most, or where less is better what rose most.
const startSort = () => ({ key: hasPair ? "delta" : choice.run, up: columns.get(choice.metric).higher !== false });
const isStartSort = () => state.sort.key === startSort().key && state.sort.up === startSort().up;
state.sort = startSort();
const haystacks = Q.ids.map((id, i) => (id + "\n" + (Q.texts[i] || "")).toLocaleLowerCase());
const unscored = new Set(Q.unscored);
const collations = {};
// The place of each query in the order of ids or texts, numbers by value; worked out once, since that takes a while.
function placeBy(key) {
  if (!collations[key]) {
    const texts = key === "id" ? Q.ids : Q.texts, compare = new Intl.Collator(undefined, { numeric: true }).compare;
    const places = new Int32Array(texts.length);
    Array.from(texts.keys()).sort((a, b) => compare(texts[a], texts[b]) || a - b).forEach((i, place) => { places[i] = place; });
    collations[key] = places;
  }
  return collations[key];
}
// The queries of each finding of the diagnosis, by run and the value of its filter.
const findingQueries = new Map(Object.entries(data.findings).flatMap(([run, some]) => some.map(([, places], n) => [run + "\n" + "finding-" + (n + 1), new Set(places)])));
function hasOutcome(i, outcome) {
  const { metric, run } = choice;
  if (outcome === "all") return true;
  if (outcome === "miss") return Q.gold[i].length > 0 && lateGold(i, run, data.k).length === Q.gold[i].length;
  if (outcome === "never") return Q.gold[i].some((g) => rankOf(g, run) === null);
  if (outcome === "nobody") return Q.gold[i].some((g) => g[2].every((rank) => rank === null));
  if (outcome.startsWith("finding-")) return findingQueries.get(run + "\n" + outcome).has(i);
  const d = changeOf(metric, i);
  if (outcome === "unchanged") return d !== null && Math.abs(d) <= SAME;
  return d !== null && direction(metric, d) === (outcome === "broken" ? "down" : "up");
}
const fieldFilters = () => [...document.querySelectorAll("#field-filters select")];
// The filters that are on: what is asked of a query, what the reader calls it, and how to take it off.
function filtersOn() {
  const outcome = $("outcome").value, fields = fieldFilters().filter((s) => s.value !== "");
  return [...fields.map((s) => { const field = s.dataset.field, value = JSON.parse(s.value); return { name: field + " = " + value, holds: (i) => valuesIn(field, i).includes(value), drop: () => { s.value = ""; } }; }),
    ...(outcome === "all" ? [] : [{ name: $("outcome").selectedOptions[0].textContent, holds: (i) => hasOutcome(i, outcome), drop: () => { $("outcome").value = "all"; } }])];
}
function queriesWith(filters) {
  const search = $("search").value.trim().toLocaleLowerCase(), hits = [];
  for (let i = 0; i < Q.ids.length; i++) if ((!search || haystacks[i].includes(search)) && filters.every((f) => f.holds(i))) hits.push(i);
  return hits;
}
function filter() {
  state.hits = queriesWith(filtersOn());
  sortHits();
  // The pane follows the hits: it never shows a query that the table does not.
  const stays = state.order.includes(choice.query);
  if (!stays) Object.assign(choice, { query: state.order[0] ?? -1, pin: false });
  showTable();
  if (!stays) choice.query < 0 ? $("query").replaceChildren() : showQuery(choice.query);
  writeLink();
}
function clearFilters() {
  sayUnknown(null);
  $("filters").reset();
  filter();
}
// What the reader does in the table leads back to it, wherever the menu led before.
function narrow() {
  choice.section = "";
  sayUnknown(null);
  filter();
}
function keyFor(key) {
  if (key === "id" || key === "text") { const places = placeBy(key); return (i) => places[i]; }
  if (key === "delta") return (i) => changeOf(choice.metric, i);
  const values = Q.values[runIndex.get(key)][metricIndex.get(choice.metric)];
  return (i) => values[i];
}
function sortHits() {
  const key = keyFor(state.sort.key), sign = state.sort.up ? 1 : -1;
  const keys = new Map(state.hits.map((i) => [i, key(i)]));
  state.order = [...state.hits].sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    if (x === y) return a - b;
    return x === null ? 1 : y === null ? -1 : (x - y) * sign;
  });
}
function showTable() {
  const without = state.order.filter((i) => unscored.has(i)).length;
  $("count").textContent = thousands(state.order.length) + " of " + count(Q.ids.length, "query", "queries") +
    (without ? ` (${thousands(without)} ${without === 1 ? "has" : "have"} no ${Q.lack})` : "");
  $("rows").scrollTop = 0;
  showSort();
  showRows();
}
// Characters of the longest figure of a column, by a sample and the largest values: all of them take too long.
const SAMPLED = 1000;
function widestFigure(key) {
  const of = keyFor(key), every = Math.max(1, Math.floor(Q.ids.length / SAMPLED));
  let widest = 1, low = Infinity, high = -Infinity;
  const look = (v) => { widest = Math.max(widest, figure(choice.metric, v, key === "delta").length); };
  for (let i = 0; i < Q.ids.length; i++) {
    const v = of(i);
    if (v === null) continue;
    low = Math.min(low, v);
    high = Math.max(high, v);
    if (i % every === 0) look(v);
  }
  if (low <= high) [low, high].forEach(look);
  return widest;
}
const widestId = Q.ids.reduce((most, id) => Math.max(most, id.length), 0);
function buildTable() {
  const columnRuns = runs.length > 3 ? mainRuns() : runs;
  state.columns = [["id", "Query"], ...(Q.texts.length ? [["text", "Text"]] : []), ...columnRuns.map((r) => [r, own(r)]),
    ...(hasPair ? [["delta", "Δ"]] : [])];
  if (!state.columns.some(([key]) => key === state.sort.key)) state.sort = startSort();
  state.head = new Map();
  let least = 0;
  const head = state.columns.map(([key, label]) => {
    const button = el("button", { type: "button", onclick: () => sortBy(key) }, label, el("span", { class: "arrow", "aria-hidden": "true" }));
    const ids = key === "id" ? Math.max(6, Math.min(14, widestId)) * 9 + 24 : 0, isFigure = key !== "id" && key !== "text";
    // Room for the longest figure, and for the head with its arrow, of a long name for the beginning.
    const room = isFigure ? Math.max(widestFigure(key) * 9 + 24, (key === "delta" ? 1 : Math.min(14, key.length)) * 8 + 38) : ids;
    least += room || 150;
    const width = isFigure || (key === "id" && Q.texts.length) ? `width:${room}px` : null;
    const cell = el("th", { scope: "col", style: width, title: isFigure && key !== "delta" ? key : null, class: key === "id" ? "id" : key === "text" ? "text" : "num" }, button);
    state.head.set(key, cell);
    return cell;
  });
  state.body = el("tbody");
  $("rows").classList.toggle("texts", Q.texts.length > 0);
  $("rows").replaceChildren(el("table", { style: `--least:${least}px` }, el("thead", {}, el("tr", {}, head)), state.body));
}
function sortBy(key) {
  const texts = key === "id" || key === "text";
  state.sort = { key, up: state.sort.key === key ? !state.sort.up : texts };
  choice.section = "";
  sortHits();
  showTable();
  writeLink();
}
function showSort() {
  for (const [key, cell] of state.head) {
    const here = key === state.sort.key;
    cell.setAttribute("aria-sort", here ? (state.sort.up ? "ascending" : "descending") : "none");
    cell.querySelector(".arrow").textContent = here ? (state.sort.up ? " ▲" : " ▼") : "";
  }
}
// Only the rows that can be seen are in the page; space above and below stands for the others.
function scrollRows() {
  const view = $("rows"), top = Math.floor(view.scrollTop / ROW), end = Math.min(state.order.length, top + Math.ceil(view.clientHeight / ROW));
  if (top < state.first || end > state.last) showRows(); // rows that stay in place can be clicked while the table scrolls
}
function showRows() {
  const view = $("rows"), metric = choice.metric;
  if (!state.order.length) {
    const clear = el("button", { type: "button", onclick: clearFilters }, "Clear the filters");
    // Which filter keeps the matches away: each that has some without it, or else all of them together.
    const on = filtersOn(), matches = (n) => thousands(n) + (n === 1 ? " matches" : " match"), take = (...some) => () => { some.forEach((f) => f.drop()); asStep(narrow); };
    const offers = on.map((f) => [queriesWith(on.filter((g) => g !== f)).length, f]).filter(([n]) => n)
      .map(([n, f]) => el("p", {}, matches(n) + " without the filter '", own(f.name), "'. ", el("button", { type: "button", onclick: take(f) }, "Take it off")));
    const free = on.length > 1 && !offers.length ? queriesWith([]).length : 0;
    const all = free ? el("p", {}, matches(free) + " without these filters. ", el("button", { type: "button", onclick: take(...on) }, "Take them off")) : null;
    state.body.replaceChildren(el("tr", { class: "none" }, el("td", { colspan: state.columns.length }, "No query matches. ", clear, offers, all)));
    return;
  }
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 10),
    last = Math.min(state.order.length, first + Math.ceil(view.clientHeight / ROW) + 25);
  Object.assign(state, { first, last });
  const space = (n) => (n > 0 ? [el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: state.columns.length, style: "height:" + n * ROW + "px" }))] : []);
  const cell = (key, i) => {
    if (key === "id") return el("td", { class: "id", title: Q.ids[i] }, el("a", { href: linkTo(i), tabindex: "-1" }, own(Q.ids[i])));
    if (key === "text") return el("td", { title: Q.texts[i].slice(0, 600) }, own(excerptOf(i)));
    if (key !== "delta") return td("num", null, figure(metric, valueOf(key, metric, i)));
    const d = changeOf(metric, i);
    return td("num " + direction(metric, d), null, figure(metric, d, true));
  };
  const rows = state.order.slice(first, last).map((i) => el("tr", { "data-query": i, "aria-current": i === choice.query ? "true" : null,
    onclick: (e) => { if (e.ctrlKey || e.metaKey) return; e.preventDefault(); asStep(() => open(i)); reveal(); } }, state.columns.map(([key]) => cell(key, i))));
  state.body.replaceChildren(...space(first), ...rows, ...space(state.order.length - last));
}
const quoted = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
const csvOf = (lines) => lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
function toClipboard(text, button) {
  const label = button.dataset.label ??= button.textContent;
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
function copyTable() {
  const value = (v) => (v === null ? "" : String(Number(v.toPrecision(12)))); // no digits that are only of the arithmetic
  const fields = Object.keys(Q.fields), texts = Q.texts.length > 0;
  const lines = [["query_id", ...(texts ? ["text"] : []), ...fields, ...runs.map((r) => r + " " + choice.metric), ...(hasPair ? ["delta " + choice.run] : [])],
    ...state.order.map((i) => [Q.ids[i], ...(texts ? [Q.texts[i]] : []), ...fields.map((f) => tagsIn(f, i).join(", ")),
      ...runs.map((r) => value(valueOf(r, choice.metric, i))), ...(hasPair ? [value(changeOf(choice.metric, i))] : [])])];
  toClipboard(csvOf(lines), $("copy"));
}
