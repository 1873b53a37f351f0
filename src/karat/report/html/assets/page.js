"use strict";
// The page itself: what is chosen, themes, keys, links, and the start.

function choose() {
  tellForest();
  tellCurves();
  tellMoved();
  tellSegments();
  tellMisses();
  tellNever();
  for (const cell of document.querySelectorAll("#metrics [data-delta], #metrics [data-delta-run]")) cell.hidden = (cell.dataset.deltaRun ?? cell.dataset.run) !== chosen.run;
  if (runs.length > 3) for (const cell of document.querySelectorAll("#metrics [data-run]:not([data-delta]), #segments [data-run]")) cell.classList.toggle("other", !mainRuns().includes(cell.dataset.run));
  $("histogram-title").textContent = "Distribution of " + chosen.metric + " over queries";
  if ($("scatter-told")) {
    const sides = scatterRows(), n = (side) => sides.filter((r) => r.side === side).length;
    $("scatter-told").replaceChildren("Above the line ", own(chosen.run),
      ` has the higher value. Better on ${n("better")}, worse on ${n("worse")}, equal on ${n("equal")}. Click a point to open its query.`);
  }
}
function chooseAgain() {
  const other = $("run") && $("run").value !== chosen.run;
  chosen.metric = $("metric").value;
  if ($("run")) chosen.run = $("run").value;
  choose();
  tellOutcomes();
  buildTable();
  filter();
  if (chosen.query >= 0) open(chosen.query, true);
  // Tables first, then the charts that say something else now.
  requestAnimationFrame(() => setTimeout(() => redraw(...(other ? [] : ["forest", "curves", "histogram", "points"]))));
}
function tellOutcomes() {
  const before = $("outcome").value || "all";
  const compared = [["broken", "broken"], ["fixed", "fixed"], ["unchanged", "unchanged"]];
  const missed = [["miss", "misses: no gold in the top " + data.k], ["never", "gold never found"],
    ...(runs.length > 1 ? [["nobody", "gold that no run found"]] : [])];
  $("outcome").replaceChildren(...[["all", "all"], ...(paired ? compared : []),
    ...(Q.gold.length ? missed : [])].map(([value, label]) => option(value, label, value === before)));
}
function paint() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  redraw();
}
function switchTheme() {
  theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("karat-theme", theme); } catch { /* not kept */ }
  paint();
}
// #query=ID opens a query, #metric=NAME the meaning of a metric; other links are places in the page.
function follow() {
  const wanted = /^#(query|metric)=(.*)$/s.exec(location.hash);
  if (!wanted) return;
  let name = wanted[2];
  try { name = decodeURIComponent(name); } catch { /* as it is written */ }
  if (wanted[1] === "metric") {
    const meant = [...document.querySelectorAll("#metrics details")].find((d) => d.dataset.metric === name);
    if (meant) { meant.open = true; meant.scrollIntoView({ block: "center" }); }
    return;
  }
  const i = Q.ids.indexOf(name);
  if (i < 0) return;
  if (!state.order.includes(i)) clearFilters();
  open(i, true);
  $("queries").scrollIntoView();
  show();
}
function keys(e) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName), inQuery = $("query").contains(e.target);
  if (e.key === "Escape" && e.target === $("search")) { $("search").value = ""; filter(); }
  if (e.key === "Escape" && (typing || inQuery) && !$("keys").open) { e.target.blur(); $("rows").focus({ preventScroll: true }); return; }
  if (typing || e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
  const inRows = e.target === $("rows");
  if (e.key === "/") { e.preventDefault(); $("queries").scrollIntoView(); $("search").focus({ preventScroll: true }); }
  else if (e.key === "j" || (inRows && e.key === "ArrowDown")) { e.preventDefault(); move(1); }
  else if (e.key === "k" || (inRows && e.key === "ArrowUp")) { e.preventDefault(); move(-1); }
  else if (e.key === "Enter" && (inRows || e.target === document.body)) {
    e.preventDefault();
    if (chosen.query < 0) move(0); else open(chosen.query);
    $("query").focus({ preventScroll: true });
    $("query").scrollIntoView({ block: "nearest" });
  }
  else if (e.key === "?") { e.preventDefault(); $("keys").showModal(); }
  else if (e.key === "d") switchTheme();
}

/* ---- start ---- */

const on = (id, event, act) => $(id)?.addEventListener(event, act);
$("metric").replaceChildren(...metrics.map((m) => option(m, m, m === chosen.metric)));
$("run")?.replaceChildren(...others.map((r) => option(r, r, r === chosen.run)));
const curved = [...new Set(data.curves.map((c) => c.metric))];
$("sweep-metric")?.replaceChildren(...curved.map((m) => option(m, m, m === "recall")));
$("field-filters").replaceChildren(...Object.entries(Q.fields).map(([field, values]) => el("label", {}, own(field), " ",
  el("select", { "data-field": field, onchange: filter }, option("", "all"),
    [...new Set(values)].filter((v) => v !== "").sort().map((v) => option(JSON.stringify(v), v))))));
chart("forest", forestSpec);
chart("curves", curveSpec);
chart("account", accountSpec);
$("systems-metric")?.replaceChildren(...data.tradeoffs.slice(1).map((t) => option(t.metric, t.metric)));
tellTradeoff();
chart("tradeoff", tradeoffSpec);
chart("histogram", histogramSpec);
chart("points", scatterSpec, (view) => view.addEventListener("click", (_, item) => {
  if (item?.datum?.i === undefined) return;
  open(item.datum.i);
  $("queries").scrollIntoView();
  show();
}));
on("metric", "change", chooseAgain);
on("run", "change", chooseAgain);
on("sweep-metric", "change", () => { tellCurves(); redraw("curves"); });
on("systems-metric", "change", () => redraw("tradeoff"));
on("never-of", "change", tellNever);
on("search", "input", filter);
on("outcome", "change", filter);
on("filters", "submit", (e) => e.preventDefault());
on("filters", "reset", () => setTimeout(filter));
on("copy", "click", copy);
on("theme", "click", switchTheme);
on("help", "click", () => $("keys").showModal());
let waiting = false;
on("rows", "scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; rows(); }); } });
addEventListener("hashchange", follow);
addEventListener("resize", () => requestAnimationFrame(drawLinks));
addEventListener("keydown", keys);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; redraw(); drawAll(); });
addEventListener("afterprint", paint);
dark.addEventListener("change", () => { if (!theme) paint(); });
document.documentElement.dataset.theme = isDark() ? "dark" : "light";
choose();
tellOutcomes();
buildTable();
filter();
if (state.order.length) open(state.order[0], true);
follow();
document.documentElement.dataset.ready = "yes";
addEventListener("load", () => whenIdle(drawAll));
