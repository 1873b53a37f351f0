"use strict";
// Charts: each is a function that returns a Vega-Lite specification of what is chosen now.

const RUNS = [...(paired ? ["#66758a"] : []), "#0072b2", "#b5549b", "#c98a00", "#2a9fd6", "#7a5cc0", "#8c6d46"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
try { theme = localStorage.getItem("karat-theme"); } catch { /* a page from disk may have no storage */ }
const isDark = () => (theme ? theme === "dark" : dark.matches);
const lighter = (hex) => "#" + [1, 3, 5].map((i) => Math.round(parseInt(hex.slice(i, i + 2), 16) * 0.55 + 112).toString(16).padStart(2,
  "0")).join("");
const shades = (light, night) => (isDark() ? night : light);
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* ---- drawing: what is seen first, the rest when there is time ---- */

const charts = new Map();
const drawn = new Set();
const visible = new Set();
const seen = new IntersectionObserver((entries) => {
  for (const e of entries) e.isIntersecting ? visible.add(e.target.id) : visible.delete(e.target.id);
  drawVisible();
}, { rootMargin: "100px" });

function chart(id, spec, after) {
  if (!$(id)) return;
  charts.set(id, { spec, after });
  seen.observe($(id));
}
function drawVisible() {
  for (const id of visible) if (!drawn.has(id)) draw(id);
}
function drawAll() {
  const waiting = [...charts.keys()].find((id) => !drawn.has(id));
  if (!waiting) return;
  draw(waiting);
  whenIdle(drawAll);
}
const whenIdle = (act) => (window.requestIdleCallback ? requestIdleCallback(act, { timeout: 2000 }) : setTimeout(act, 200));
function redraw(...ids) {
  for (const id of ids.length ? ids : charts.keys()) {
    drawn.delete(id);
    if ($(id)) delete $(id).dataset.drawn;
  }
  drawVisible();
  whenIdle(drawAll);
}
function draw(id) {
  drawn.add(id);
  const spec = charts.get(id).spec();
  if (!spec) { $(id).textContent = "Nothing to show here."; return; }
  const { canvas, ...rest } = spec;
  window.vegaEmbed("#" + id, { width: "container", autosize: { type: "fit-x", contains: "padding" }, config: style(), ...rest }, {
    mode: "vega-lite", logLevel: 1, actions: false, renderer: canvas ? "canvas" : "svg", ast: true,
    tooltip: { theme: isDark() ? "dark" : "light" },
  }).then((result) => {
    // The chart as a whole has a label and a table of its numbers; its parts would only be read aloud one by one.
    for (const node of $(id).children) node.setAttribute("aria-hidden", "true");
    $(id).dataset.drawn = "yes";
    charts.get(id).after?.(result.view);
  });
}
function style() {
  const dim = ink("--dim"), line = ink("--line");
  return {
    aria: false, background: null, font: "system-ui, sans-serif", view: { stroke: null },
    axis: { labelColor: dim, titleColor: dim, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal", labelLimit: 200, labelPadding: 5 },
    legend: { labelColor: ink("--ink"), orient: "top", labelFontSize: 12, symbolSize: 90, symbolOpacity: 1, symbolType: "circle",
      title: null, labelLimit: 160 },
    header: { labelColor: ink("--ink"), labelFontSize: 12, title: null }, rule: { color: dim }, text: { color: dim, fontSize: 12 },
    range: { category: isDark() ? RUNS.map(lighter) : RUNS },
  };
}
const colour = () => ({ field: "run", type: "nominal", scale: { domain: runs } });
// How many entries of a legend fit beside each other, given the width of one.
const fitting = (id, width) => Math.max(2, Math.min(5, Math.floor(($(id).clientWidth - 110) / width)));
const minmax = (values) => values.reduce((a, v) => [Math.min(a[0], v), Math.max(a[1], v)], [Infinity, -Infinity]);
const number = (field, title, format = ".4f") => ({ field, title, format });

/* ---- change by segment ---- */

// A row for all queries and one for each segment; without segments, one for each metric.
function forestRows() {
  const mine = data.comparisons.filter((c) => c.candidate === chosen.run && c.delta !== null),
    sliced = mine.some((c) => c.segment !== null);
  const wanted = sliced ? mine.filter((c) => c.metric === chosen.metric) : mine.filter((c) => !meaning.get(c.metric).unit);
  const rows = wanted.map((c) => ({
    name: !sliced ? c.metric : c.segment === null ? "all queries" : c.segment, whole: c.segment === null, delta: c.delta, n: c.n,
      small: !!c.small,
    low: c.ci ? c.ci[0] : c.delta, high: c.ci ? c.ci[1] : c.delta,
    tone: c.small ? "too few" : { up: "better", down: "worse", "": "unclear" }[tone(c.metric, c.ci)],
  }));
  const worst = (a, b) => better(chosen.metric, a.delta) - better(chosen.metric, b.delta);
  return sliced ? rows.sort((a, b) => b.whole - a.whole || a.small - b.small || worst(a, b)) : rows;
}
function forestSpec() {
  const rows = forestRows();
  if (!rows.length) return null;
  const judged = rows.filter((r) => !r.small);
  // Intervals of a few queries may be wider than the chart: they are cut off, their points are not.
  const [left, right] = minmax([0, ...rows.map((r) => r.delta), ...(judged.length ? judged : rows).flatMap((r) => [r.low, r.high])]);
  const pad = (right - left) * 0.06 || 0.01, scale = { domain: [left - pad, right + pad], nice: false };
  const y = { field: "name", type: "nominal", sort: null, axis: { title: null, grid: false, ticks: false, domain: false } };
  const tones = ["better", "worse", "unclear", "too few"];
  const color = { field: "tone", type: "nominal", scale: { domain: tones,
    range: shades(["#00895f", "#c44e00", "#4a5868", "#aab4c0"], ["#5ad1a4", "#ff9a6b", "#c3cedb", "#5f6d7c"]) },
    legend: { title: null, columns: fitting("forest", 90), values: tones.filter((t) => rows.some((r) => r.tone === t)) } };
  const tooltip = [{ field: "name", title: "segment" }, number("delta", "Δ", "+.4f"), number("low", "from", "+.4f"),
    number("high", "to", "+.4f"), { field: "n", title: "queries" }];
  return { data: { values: rows }, height: 23 * rows.length, layer: [
    { data: { values: [{}] }, mark: { type: "rule", strokeDash: [4, 3] }, encoding: { x: { datum: 0 } } },
    { mark: { type: "rule", strokeWidth: 2.5, clip: true }, encoding: { y,
      x: { field: "low", type: "quantitative", scale, title: "Δ " + (rows[0].name === "all queries" ? chosen.metric : "against the baseline") }, x2: { field: "high" }, color, tooltip } },
    { mark: { type: "point", filled: true, size: 85, opacity: 1, clip: true },
      encoding: { y, x: { field: "delta", type: "quantitative" }, color, tooltip,
      shape: { field: "whole", type: "nominal", legend: null, scale: { domain: [true, false], range: ["diamond", "circle"] } } } },
  ] };
}
function tellForest() {
  if (!$("forest-told")) return;
  const rows = forestRows(), metric = chosen.metric, segments = rows.filter((r) => !r.whole);
  const named = (some) => some.slice(0, 3).flatMap((r, i) => [i ? "; " : "", own(r.name),
    " (" + told(metric, r.delta, true) + ", " + counted(r.n, "query", "queries") + ")"]);
  const worse = segments.filter((r) => r.tone === "worse");
  const down = segments.filter((r) => r.tone !== "worse" && better(metric, r.delta) < 0);
  const parts = !segments.length ? ["Of each metric, over all queries: ", own(chosen.run), " less ", own(data.base ?? reference), "."]
    : worse.length ? [el("b", { class: "down" }, "Worse: "), named(worse), "."]
    : down.length ? ["No segment is worse for sure. Lower, but that may be chance: ", named(down), "."]
    : ["No segment is worse."];
  const judged = rows.filter((r) => !r.small), low = Math.min(...judged.map((r) => r.low)), high = Math.max(...judged.map((r) => r.high));
  if (rows.some((r) => r.small && (r.low < low || r.high > high))) parts.push(" Intervals of small segments may reach beyond the chart.");
  $("forest-told").replaceChildren(...parts.flat(3));
  $("change-title").replaceChildren(segments.length ? "Change in " + metric + " by segment" : "Change by metric");
}

/* ---- how it grows with k ---- */

const curvesOf = (metric) => data.curves.filter((c) => c.metric === metric);
function curveSpec() {
  const metric = $("sweep-metric").value, main = runs.length > 3 ? mainRuns() : runs;
  const inUse = Number(/@(\d+)$/.exec(chosen.metric)?.[1] ?? data.k);
  const rows = curvesOf(metric).flatMap((c) => c.k.map((k, i) => ({ run: c.run, k, mean: c.mean[i], low: c.ci[i][0], high: c.ci[i][1],
    main: main.includes(c.run) })));
  if (!rows.length) return null;
  const ks = [...new Set(rows.map((r) => r.k))].sort((a, b) => a - b), late = inUse > Math.sqrt(ks[0] * ks[ks.length - 1]);
  const x = { field: "k", type: "quantitative", scale: { type: "log", nice: false },
    axis: { title: "cutoff k", values: ks, format: "d", grid: false, labelOverlap: true } };
  const y = (field) => ({ field, type: "quantitative", title: metric, scale: { zero: true, nice: true } });
  const faint = { condition: { test: "datum.main", value: 1 }, value: 0.4 };
  const tooltip = [{ field: "run" }, { field: "k" }, number("mean", metric), number("low", "from"), number("high", "to")];
  const layer = [
    { transform: [{ filter: "datum.main" }], mark: { type: "area", opacity: 0.16 },
      encoding: { x, y: y("low"), y2: { field: "high" }, color: colour() } },
    { mark: { type: "line", strokeWidth: 2 }, encoding: { x, y: y("mean"), color: colour(), opacity: faint, detail: { field: "main" } } },
    { mark: { type: "point", filled: true, size: 50 }, encoding: { x, y: y("mean"), color: colour(), opacity: faint, tooltip } },
  ];
  if (inUse >= ks[0] && inUse <= ks[ks.length - 1]) {
    layer.push({ data: { values: [{}] }, mark: { type: "rule", strokeDash: [2, 3] }, encoding: { x: { datum: inUse } } });
    layer.push({ data: { values: [{}] }, mark: { type: "text", align: late ? "right" : "left", dx: late ? -6 : 6, y: 8 },
      encoding: { x: { datum: inUse }, text: { value: "k in use: " + inUse } } });
  }
  return { data: { values: rows }, height: 230, layer };
}
function tellCurves() {
  if (!$("sweep-metric")) return;
  const metric = $("sweep-metric").value, curves = curvesOf(metric);
  const said = curves.filter((c) => c.k98 && mainRuns().includes(c.run)).map((c, i) =>
    [i ? "; " : "", own(c.run), c.k98 === c.k[c.k.length - 1] ? " still rises at k = " + c.k98 + ": it is not flat yet"
      : ` is flat from k = ${c.k98} on (98% of its value at ${c.k[c.k.length - 1]})`]);
  $("sweep-told").replaceChildren(...said.flat(2));
  const ks = curves.reduce((a, c) => (c.k.length > a.length ? c.k : a), []);
  $("sweep-table").replaceChildren(table({}, [th("Run"), ks.map((k) => th(String(k), "num"))], curves.map((c) =>
    el("tr", {}, el("th", { scope: "row" }, own(c.run)), ks.map((k) => { const v = c.mean[c.k.indexOf(k)]; return td("num", v,
      told(metric, v)); })))));
}

/* ---- where the evidence went ---- */

function accountSpec() {
  const labels = data.account[0].labels;
  const shownRuns = data.account.filter((a) => runs.length <= 6 || mainRuns().includes(a.run));
  const rows = shownRuns.flatMap((a) => a.labels.map((label, i) => ({ run: a.run, label, order: i, count: a.counts[i],
    share: a.gold ? a.counts[i] / a.gold : 0 })));
  const range = shades(["#00573f", "#0b7560", "#258d82", "#49a1a1", "#74b2bd", "#9dc2d4", "#c0d0e1", "#d8dde4", "#c44e00"],
    ["#7ce8bd", "#5cccaa", "#4bb0a3", "#4493a0", "#43798f", "#40627a", "#3b4f63", "#38434f", "#ff9a6b"]);
  return { data: { values: rows }, height: 32 * shownRuns.length, mark: { type: "bar", height: 20 }, encoding: {
    y: { field: "run", type: "nominal", sort: null, axis: { title: null, grid: false, ticks: false, domain: false, labelLimit: 110 } },
    x: { field: "share", type: "quantitative", axis: { format: "%", title: "share of the relevant docs", tickCount: 5 },
      scale: { domain: [0, 1] } },
    color: { field: "label", type: "nominal", scale: { domain: labels, range },
      legend: { title: "found at rank", titleColor: ink("--dim"), titleFontWeight: "normal", columns: fitting("account", 62),
      symbolType: "square" } }, order: { field: "order" },
    tooltip: [{ field: "run" }, { field: "label", title: "found at" }, { field: "count", title: "docs" },
      { field: "share", format: ".1%" }] } };
}

/* ---- relevance against what it costs ---- */

function tradeoffSpec() {
  const [up, ...across] = data.tradeoffs, over = across.find((t) => t.metric === $("systems-metric").value) ?? across[0];
  const rows = runs.filter((run) => up.values[run]?.[0] != null && over.values[run]?.[0] != null).map((run) => {
    const [y, low, high] = up.values[run], [x, left, right] = over.values[run];
    return { run, x, y, low: low ?? y, high: high ?? y, left: left ?? x, right: right ?? x };
  });
  if (!rows.length) return null;
  const axis = (field, metric) => ({ field, type: "quantitative", scale: { zero: false, padding: 16 }, axis: { tickCount: 6 },
    title: metric + (meaning.get(metric).higher === false ? ", less is better" : "") });
  const x = (field) => axis(field, over.metric), y = (field) => axis(field, up.metric), color = colour();
  const tooltip = [{ field: "run" }, number("y", up.metric), number("x", over.metric)];
  return { data: { values: rows }, height: 260, layer: [
    { mark: { type: "rule", opacity: 0.55 }, encoding: { x: x("x"), y: y("low"), y2: { field: "high" }, color } },
    { mark: { type: "rule", opacity: 0.55 }, encoding: { x: x("left"), x2: { field: "right" }, y: y("y"), color } },
    { mark: { type: "point", filled: true, size: 110, opacity: 1 }, encoding: { x: x("x"), y: y("y"), color, tooltip } },
  ] };
}
function tellTradeoff() {
  if (!$("systems-told")) return;
  $("systems-told").textContent = data.tradeoffs[0].metric + " of each run against";
}

/* ---- distribution and pairs ---- */

function histogramSpec() {
  const metric = chosen.metric, m = metricIndex.get(metric), main = runs.length > 3 ? mainRuns() : runs;
  const columns = main.map((run) => Q.values[runIndex.get(run)][m]);
  const all = columns.flat().filter((v) => v !== null);
  if (!all.length) return null;
  const [least, most] = minmax(all), low = Math.min(0, least), high = meaning.get(metric).unit ? most : Math.max(1, most);
  const bins = 20, width = (high - low) / bins || 1, rows = [];
  main.forEach((run, r) => {
    const counts = new Array(bins).fill(0);
    for (const v of columns[r]) if (v !== null) counts[Math.min(bins - 1, Math.floor((v - low) / width + SAME))]++;
    counts.forEach((count, b) => rows.push({ run, from: low + b * width, to: low + (b + 1) * width, count }));
  });
  const bars = { mark: { type: "bar", binSpacing: 1 }, height: main.length > 1 ? 105 : 260,
    width: Math.max(200, $("histogram").clientWidth - 70), encoding: {
    x: { field: "from", type: "quantitative", bin: { binned: true }, title: metric, axis: { tickCount: 10, grid: false } },
      x2: { field: "to" },
    y: { field: "count", type: "quantitative", title: "queries", axis: { tickCount: 4 } }, color: { ...colour(), legend: null },
    tooltip: [{ field: "run" }, number("from", "from", ".2f"), number("to", "to", ".2f"), { field: "count", title: "queries" }] } };
  if (main.length === 1) return { data: { values: rows }, autosize: "pad", ...bars };
  return { data: { values: rows }, autosize: "pad", width: undefined,
    facet: { row: { field: "run", type: "nominal", sort: main,
    header: { title: null, labelOrient: "top", labelAnchor: "start", labelPadding: 4 } } }, spacing: 14, spec: bars };
}
function scatterRows() {
  const rows = [];
  for (let i = 0; i < Q.ids.length; i++) {
    const a = valueOf(reference, chosen.metric, i), b = valueOf(chosen.run, chosen.metric, i);
    if (a !== null && b !== null) rows.push({ i, a, b, side: Math.abs(b - a) <= SAME ? "equal" : better(chosen.metric,
      b - a) > 0 ? "better" : "worse" });
  }
  return rows;
}
function scatterSpec() {
  const rows = scatterRows();
  if (!rows.length) return null;
  const many = rows.length > 2000;
  for (const r of rows) Object.assign(r, { id: Q.ids[r.i], text: (Q.texts[r.i] || "").slice(0, 80) });
  const [low, high] = minmax(rows.flatMap((r) => [r.a, r.b]));
  const axis = (field, run) => ({ field, type: "quantitative", title: chosen.metric + ", " + run, axis: { tickCount: 6 } });
  return { canvas: many, data: { values: rows }, height: 300, layer: [
    { data: { values: [{ a: low, b: low }, { a: high, b: high }] }, mark: { type: "line", strokeDash: [4, 3], color: ink("--dim") },
      encoding: { x: axis("a", reference), y: axis("b", chosen.run) } },
    { mark: { type: "circle", size: many ? 16 : 60, opacity: many ? 0.4 : 0.75, cursor: "pointer" },
      encoding: { x: axis("a", reference), y: axis("b", chosen.run),
      color: { field: "side", type: "nominal", scale: { domain: ["better", "worse", "equal"],
        range: shades(["#00895f", "#c44e00", "#7d8a99"], ["#5ad1a4", "#ff9a6b", "#8b98a8"]) }, legend: { title: null } },
      tooltip: [{ field: "id", title: "query" }, { field: "text" }, number("a", reference), number("b", chosen.run)] } },
  ] };
}
