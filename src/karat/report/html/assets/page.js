"use strict";
// The page itself: choosing, links that hold what was chosen, themes, keys, and the start.

/* ---- run and metric ---- */

function show() {
  showRun();
  showRanking();
  showForestNote();
  showCurveNote();
  showChartLegends();
  showMoved();
  showSegments();
  showMisses();
  showNever();
}
function choose({ run = choice.run, metric = choice.metric }) {
  const other = run !== choice.run;
  if (!other && metric === choice.metric) return;
  const unsorted = isStartSort();
  Object.assign(choice, { run, metric });
  if (unsorted) state.sort = startSort();
  $("metric").value = metric;
  if ($("run")) $("run").value = run;
  show();
  showOutcomes();
  buildTable();
  asStep(filter);
  if (choice.query >= 0) showQuery(choice.query);
  // Tables first, then the charts that say something else now.
  requestAnimationFrame(() => setTimeout(() => redraw(...(other ? [] : ["forest", "curves", "histogram", "points"]))));
}
function showOutcomes() {
  const before = $("outcome").selectedOptions[0]; // a finding of another run has another name
  const [down, up] = fates(choice.metric), pairs = [["broken", down], ["fixed", up], ["unchanged", "unchanged"]];
  const findings = (data.findings[choice.run] ?? []).map(([title], n) => ["finding-" + (n + 1), "finding " + (n + 1) + ": " + title]);
  const misses = [["miss", "no relevant doc in the top " + data.k], ["never", "relevant docs not returned"], ...(listRuns.size > 1 ? [["nobody", "relevant docs that no run returned"]] : [])];
  $("outcome").replaceChildren(...[["all", "all"], ...(hasPair ? pairs : []), ...(hasGold ? misses : []), ...findings].map(([value, label]) => option(value, label, value === before?.value && (label === before.textContent || !value.startsWith("finding-")))));
}

/* ---- links: the part after # holds all that differs from the start, so that a view can be sent to a colleague ---- */

const FIELD = "field.";
function entriesOf(hash) {
  const plain = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const text = hash.replace(/^#/, "");
  if (text && !text.includes("=")) return new Map([["section", plain(text)]]); // a link to a section, such as the browser makes
  return new Map(text.split("&").filter((part) => part.includes("=")).map((part) => {
    const at = part.indexOf("=");
    return [plain(part.slice(0, at)), plain(part.slice(at + 1))];
  }));
}
const hashOf = (entries) => (entries.length ? "#" + entries.map(([key, value]) => encodeURIComponent(key) + "=" + encodeURIComponent(value)).join("&") : "");
const chosenEntries = () => [["run", choice.run], ["metric", choice.metric]].filter(([key, value]) => value !== start[key]);
// A link to the queries that these filters leave.
const linkToQueries = (...filters) => hashOf([...filters, ...chosenEntries(), ["section", "queries"]]);
const namesFilters = (entries) => [...entries.keys()].some((key) => ["search", "show", "sort"].includes(key) || key.startsWith(FIELD));
const linkTo = (i) => hashOf([["query", Q.ids[i]], ...chosenEntries()]);
// What the reader chooses is a step back and forth; what one types or walks past is not.
let isStep = false;
function asStep(act) {
  isStep = true;
  act();
  isStep = false;
}
function writeLink() {
  const { sort } = state;
  const query = choice.pin && choice.query >= 0 ? Q.ids[choice.query] : choice.unknown;
  const entries = [...(query !== null ? [["query", query]] : []), ...chosenEntries(),
    ...[["search", $("search").value.trim()], ["show", $("outcome").value === "all" ? "" : $("outcome").value]].filter(([, value]) => value),
    ...fieldFilters().filter((s) => s.value !== "").map((s) => [FIELD + s.dataset.field, JSON.parse(s.value)]),
    ...(isStartSort() ? [] : [["sort", (sort.up ? "" : "-") + sort.key]]),
    ...(choice.section ? [["section", choice.section]] : [])];
  const hash = hashOf(entries);
  if (hash === location.hash) return;
  history[isStep ? "pushState" : "replaceState"](null, "", location.href.split("#")[0] + hash);
  isStep = false;
}
function setFilters(entries) {
  $("search").value = entries.get("search") ?? "";
  const outcome = entries.get("show") ?? "all";
  $("outcome").value = [...$("outcome").options].some((o) => o.value === outcome) ? outcome : "all";
  for (const select of fieldFilters()) {
    const text = JSON.stringify(entries.get(FIELD + select.dataset.field) ?? "");
    select.value = [...select.options].some((o) => o.value === text) ? text : "";
  }
}
// What a link holds, and else what the page starts with.
function restore(entries) {
  const value = (key, choices) => (choices.includes(entries.get(key)) ? entries.get(key) : start[key]);
  Object.assign(choice, { run: value("run", others.length ? others : runs), metric: value("metric", metrics), section: entries.get("section") ?? "" });
  $("metric").value = choice.metric;
  if ($("run")) $("run").value = choice.run;
  show();
  showOutcomes();
  setFilters(entries);
  const sort = /^(-?)(.*)$/s.exec(entries.get("sort") ?? "");
  state.sort = sort[2] ? { key: sort[2], up: !sort[1] } : startSort();
  buildTable();
  const query = Q.ids.indexOf(entries.get("query")), isUnknown = entries.has("query") && query < 0;
  sayUnknown(isUnknown ? entries.get("query") : null);
  choice.query = query;
  choice.pin = query >= 0;
  filter();
  if (query >= 0) {
    if (!state.order.includes(query)) clearFilters();
    open(query, choice.section);
  }
  // A section is in a link only where the reader went there last.
  const place = isUnknown ? "queries" : choice.section || (query >= 0 ? placeOfQuery() : namesFilters(entries) ? "queries" : "");
  if (entries.has("meaning")) showMeaning(entries.get("meaning"));
  else if (place) land($(place));
}
// Where a link leads, until the reader moves: charts above it grow when they are drawn.
let landing = null;
function land(node) {
  landing = node;
  node?.scrollIntoView({ behavior: "instant" });
}
for (const event of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(event, () => { landing = null; }, { passive: true });
function goTo(section) {
  if (!$(section)) return;
  $(section).tabIndex = -1;
  $(section).scrollIntoView();
  $(section).focus({ preventScroll: true });
}
// Back and forth, and another address: a section alone leaves run, search and filters as they are.
function restoreStep() {
  const entries = entriesOf(location.hash);
  if (!location.hash.includes("=") && entries.has("section")) {
    choice.section = entries.get("section");
    goTo(choice.section);
    writeLink();
    return;
  }
  restore(entries);
  redraw();
}
function showMeaning(metric) {
  const details = [...document.querySelectorAll("#metrics details")].find((d) => d.dataset.metric === metric);
  if (details) { details.open = true; details.scrollIntoView({ block: "center" }); }
}
// Links inside the page keep what was chosen.
function follow(event) {
  const link = event.target.closest?.("a[href^='#']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
  event.preventDefault();
  const href = link.getAttribute("href"), entries = entriesOf(href);
  if (entries.has("query")) {
    const i = Q.ids.indexOf(entries.get("query"));
    if (i < 0) { sayUnknown(entries.get("query")); goTo("queries"); return; }
    if (!state.order.includes(i)) clearFilters();
    bring(i);
    $("query").focus({ preventScroll: true }); // else Enter would follow the link again
  } else if (entries.has("meaning")) showMeaning(entries.get("meaning"));
  else if (namesFilters(entries)) {
    setFilters(entries);
    choice.section = entries.get("section") ?? "";
    goTo(choice.section || "queries");
    asStep(filter);
  } else {
    choice.section = href.slice(1);
    goTo(choice.section);
    asStep(writeLink);
  }
}

/* ---- themes and keys ---- */

function paint() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  showRanking();
  showForestNote();
  showCurveNote();
  showChartLegends();
  redraw();
}
function switchTheme() {
  theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("karat-theme", theme); } catch { /* lasts as long as the page */ }
  paint();
}
function openFirst() {
  if (!state.order.length) return;
  open(state.order.includes(choice.query) && choice.pin ? choice.query : state.order[0]);
  $("query").focus({ preventScroll: true });
  $("query").scrollIntoView({ block: "nearest" });
}
function keys(e) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName), inQuery = $("query").contains(e.target);
  if (e.key === "Escape" && e.target === $("search")) { $("search").value = ""; narrow(); }
  if (e.key === "Escape" && (typing || inQuery) && !$("keys").open) { e.target.blur(); $("rows").focus({ preventScroll: true }); return; }
  if (e.key === "Enter" && e.target === $("search")) { e.preventDefault(); choice.pin = false; openFirst(); return; }
  if (typing || e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
  const inRows = e.target === $("rows");
  if (e.key === "/") { e.preventDefault(); $("queries").scrollIntoView(); $("search").focus({ preventScroll: true }); }
  else if (e.key === "j" || (inRows && e.key === "ArrowDown")) { e.preventDefault(); move(1); }
  else if (e.key === "k" || (inRows && e.key === "ArrowUp")) { e.preventDefault(); move(-1); }
  else if (e.key === "Enter" && (inRows || e.target === document.body)) { e.preventDefault(); choice.pin = true; openFirst(); }
  else if (e.key === "?") { e.preventDefault(); $("keys").showModal(); }
  else if (e.key === "d") switchTheme();
}

/* ---- start ---- */

const on = (id, event, act) => $(id)?.addEventListener(event, act);
$("metric").replaceChildren(...metrics.map((m) => option(m, m, m === choice.metric)));
$("run")?.replaceChildren(...others.map((r) => option(r, r, r === choice.run)));
$("sweep-metric")?.replaceChildren(...[...new Set(data.curves.map((c) => c.metric))].map((m) => option(m, m, m === "recall")));
$("systems-metric")?.replaceChildren(...data.tradeoffs.map((m) => option(m)));
$("field-filters").replaceChildren(...Object.entries(Q.fields).map(([name, values]) => el("label", {}, own(name), " ",
  el("select", { "data-field": name, onchange: narrow }, option("", "all"),
    [...new Set(values.flat())].sort().map((v) => option(JSON.stringify(v), v))))));
chart("forest", forestSpec);
chart("curves", curveSpec);
chart("account", accountSpec);
chart("levels-chart", levelsSpec);
chart("tradeoff", tradeoffSpec);
chart("histogram", histogramSpec);
chart("points", scatterSpec, (view) => view.addEventListener("click", (_, item) => {
  if (item?.datum?.i === undefined) return;
  bring(item.datum.i);
}));
on("metric", "change", () => choose({ metric: $("metric").value }));
on("run", "change", () => choose({ run: $("run").value }));
on("sweep-metric", "change", () => { showCurveNote(); redraw("curves"); });
on("systems-metric", "change", () => redraw("tradeoff"));
on("forest-more", "click", () => { everySegment = !everySegment; showForestNote(); redraw("forest"); });
on("segments-more", "click", () => { allSegments = true; showSegments(); });
on("never-of", "change", showNever);
on("search", "input", narrow);
on("outcome", "change", narrow);
on("filters", "submit", (e) => e.preventDefault());
on("filters", "reset", () => setTimeout(() => { sayUnknown(null); filter(); }));
on("copy", "click", copyTable);
on("theme", "click", switchTheme);
on("help", "click", () => $("keys").showModal());
const menu = document.querySelector(".bar nav");
function showMore() {
  const left = menu.scrollLeft > 1, right = menu.scrollLeft + menu.clientWidth < menu.scrollWidth - 1;
  menu.dataset.more = left && right ? "both" : left ? "left" : right ? "right" : "";
}
menu.addEventListener("scroll", showMore, { passive: true });
new ResizeObserver(showMore).observe(menu);
phone.addEventListener("change", showSegments);
let scrolling = false;
on("rows", "scroll", () => { if (!scrolling) { scrolling = true; requestAnimationFrame(() => { scrolling = false; scrollRows(); }); } });
addEventListener("popstate", restoreStep);
addEventListener("click", follow);
addEventListener("resize", () => requestAnimationFrame(drawLinks));
addEventListener("keydown", keys);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; for (const fold of document.querySelectorAll(".how")) fold.open = true; redraw(); drawAll(); });
addEventListener("afterprint", paint);
dark.addEventListener("change", () => { if (!theme) paint(); });
document.documentElement.dataset.theme = isDark() ? "dark" : "light";
restore(entriesOf(location.hash));
document.documentElement.dataset.ready = "yes";
addEventListener("load", () => whenIdle(drawAll));
