"use strict";
// Charts and the colours of runs: each chart is a Vega-Lite specification of what is chosen now. Legends are HTML: they wrap.

const PALETTE = ["#0072b2", "#b5549b", "#a87300", "#2f8f6b", "#7a5cc0", "#d1495b", "#1c86b8", "#8c6d46", "#5a8a00", "#a04a7a", "#3d6fd1"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
try { theme = localStorage.getItem("karat-theme"); } catch { /* a page from disk may have no storage */ }
const isDark = () => (theme ? theme === "dark" : dark.matches);
const lighter = (hex) => "#" + [1, 3, 5].map((i) => Math.round(parseInt(hex.slice(i, i + 2), 16) * 0.55 + 112).toString(16).padStart(2, "0")).join("");
const shades = (light, night) => (isDark() ? night : light);
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function runColour(run) {
  const place = runs.filter((r) => r !== data.base || !hasPair).indexOf(run);
  const hex = place < 0 ? "#66758a" : PALETTE[place % PALETTE.length];
  return isDark() ? lighter(hex) : hex;
}

/* ---- drawing: what is on the screen first, the rest when there is time ---- */

const charts = new Map();
const ready = new Set();
const visible = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const e of entries) e.isIntersecting ? visible.add(e.target.id) : visible.delete(e.target.id);
  drawVisible();
}, { rootMargin: "100px" });

function chart(id, spec, after) {
  if (!$(id)) return;
  charts.set(id, { spec, after });
  watcher.observe($(id));
}
function drawVisible() {
  for (const id of visible) if (!ready.has(id)) draw(id);
}
function drawAll() {
  const next = [...charts.keys()].find((id) => !ready.has(id));
  if (!next) return;
  draw(next);
  whenIdle(drawAll);
}
const whenIdle = (act) => (window.requestIdleCallback ? requestIdleCallback(act, { timeout: 2000 }) : setTimeout(act, 200));
function redraw(...ids) {
  for (const id of ids.length ? ids : charts.keys()) {
    ready.delete(id);
    if ($(id)) delete $(id).dataset.ready;
  }
  drawVisible();
  whenIdle(drawAll);
}
function draw(id) {
  ready.add(id);
  const spec = charts.get(id).spec();
  if (!spec) { $(id).textContent = "Nothing to show here."; $(id).dataset.ready = "yes"; return; }
  const { canvas, ...rest } = spec;
  window.vegaEmbed("#" + id, { width: "container", autosize: { type: "fit-x", contains: "padding" }, config: style(), ...rest }, {
    mode: "vega-lite", logLevel: 1, actions: false, renderer: canvas ? "canvas" : "svg", ast: true,
    tooltip: { theme: isDark() ? "dark" : "light" },
  }).then((result) => {
    // The chart as a whole has a label and a table of its numbers; its parts would only be read aloud one by one.
    for (const node of $(id).children) node.setAttribute("aria-hidden", "true");
    $(id).dataset.ready = "yes";
    charts.get(id).after?.(result.view);
    landing?.scrollIntoView({ behavior: "instant" });
  });
}
function style() {
  const dim = ink("--dim"), line = ink("--line");
  return {
    aria: false, background: null, font: "system-ui, sans-serif", view: { stroke: null },
    axis: { labelColor: dim, titleColor: dim, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal", labelLimit: 200, labelPadding: 5, labelFlush: false },
    axisQuantitative: { labelOverlap: "greedy", labelSeparation: 8 },
    legend: { disable: true },
    header: { labelColor: ink("--ink"), labelFontSize: 12, title: null }, rule: { color: dim }, text: { color: dim, fontSize: 12 },
  };
}
const colour = () => ({ field: "run", type: "nominal", scale: { domain: runs, range: runs.map(runColour) } });
const minmax = (values) => values.reduce((a, v) => [Math.min(a[0], v), Math.max(a[1], v)], [Infinity, -Infinity]);
const withoutEmpty = (entries) => Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== ""));
const field = (name, title) => ({ field: name, title: title ?? name });

// The legend of a chart: what each colour stands for. Runs can be chosen in it.
function showLegend(id, entries) {
  const swatch = (e) => el("i", { class: e.shape ?? "", style: "background:" + e.colour });
  $(id + "-legend")?.replaceChildren(...entries.map((e) => (e.act
    ? el("button", { type: "button", class: "key", "aria-pressed": e.on ? "true" : "false", onclick: e.act }, swatch(e), own(e.label))
    : el("span", { class: "key" + (e.dim ? " dim" : "") }, swatch(e), own(e.label)))));
}
const runEntries = (names) => names.map((run) => ({ label: run, colour: runColour(run), dim: runs.length > 3 && !mainRuns().includes(run),
  act: others.length > 1 && run !== data.base ? () => choose({ run }) : null, on: run === choice.run }));

/* ---- change by segment ---- */

const SEGMENTS = 24, WORST = 12, BEST = 4;
let everySegment = false;
// Every outcome of a comparison, with the colour that it has in the chart.
const OUTCOMES = ["better", "worse", "different", "no significant difference", "too few queries", "not tested"];
const toneColours = () => Object.fromEntries(OUTCOMES.map((t, i) => [t, shades(["#00895f", "#c44e00", "#2f6fd0", "#4a5868", "#8793a1", "#8793a1"],
  ["#5ad1a4", "#ff9a6b", "#7fb0ff", "#c3cedb", "#5f6d7c", "#5f6d7c"])[i]]));
// A row for all queries and one for each segment; without segments, one for each metric.
function forestRows() {
  const mine = data.changes.filter((c) => c.candidate === choice.run && c.delta !== null), bySegment = mine.some((c) => c.segment !== null);
  // Scales share no axis, nor do ratios and differences: those of the chosen metric's kind are shown.
  const neutral = mine.find((c) => c.metric === choice.metric)?.neutral ?? 0, { scale } = columns.get(choice.metric);
  const rows = (bySegment ? mine.filter((c) => c.metric === choice.metric) : mine.filter((c) => columns.get(c.metric).scale === scale && c.neutral === neutral)).map((c) => ({
    ...c, name: !bySegment ? c.metric : c.segment ?? "all queries", whole: c.segment === null, small: c.outcome === "too few queries" || c.outcome === "not tested",
    low: c.low ?? c.delta, high: c.high ?? c.delta }));
  const worst = (a, b) => better(choice.metric, a.delta - b.delta);
  return bySegment ? rows.sort((a, b) => b.whole - a.whole || a.small - b.small || worst(a, b)) : rows;
}
// All segments, or of many the worst, the best and every significant one.
function forestView() {
  const rows = forestRows(), segments = rows.filter((r) => !r.whole && !r.small);
  if (everySegment || rows.length <= SEGMENTS + 1 || !rows.some((r) => r.segment !== null)) return rows;
  const some = new Set([...segments.slice(0, WORST), ...segments.slice(-BEST), ...segments.filter((r) => r.tone)]);
  const free = Math.max(0, WORST + BEST - some.size), small = rows.filter((r) => r.small).slice(0, free);
  return rows.filter((r) => r.whole || some.has(r) || small.includes(r));
}
function forestSpec() {
  const rows = forestView();
  if (!rows.length) return null;
  const large = rows.filter((r) => !r.small), colours = toneColours();
  // Intervals of a few queries may be wider than the chart: they are cut off, their points are not.
  const neutral = rows[0].neutral, [left, right] = minmax([neutral, ...rows.map((r) => r.delta), ...(large.length ? large : rows).flatMap((r) => [r.low, r.high])]);
  const pad = (right - left) * 0.06 || 0.01, scale = { domain: [left - pad, right + pad], nice: false };
  const narrow = $("forest").clientWidth < 480;
  const y = { field: "name", type: "nominal", sort: null, axis: { title: null, grid: false, ticks: false, domain: false, labelLimit: narrow ? 130 : 220 } };
  const color = { field: "outcome", type: "nominal", scale: { domain: Object.keys(colours), range: Object.values(colours) } };
  const tooltip = { field: "tip", type: "nominal" };
  const values = rows.map((r) => ({ ...r, tip: withoutEmpty({ segment: r.name, Δ: r.text, interval: r.ends, "pooled Δ": r.pooled, test: r.p, outcome: r.outcome, queries: String(r.n) }) }));
  return { data: { values }, height: 23 * rows.length, layer: [
    { data: { values: [{}] }, mark: { type: "rule", strokeDash: [4, 3] }, encoding: { x: { datum: neutral } } },
    { mark: { type: "rule", strokeWidth: 2.5, clip: true }, encoding: { y, x: { field: "low", type: "quantitative", scale, axis: { tickCount: 6 },
      title: (neutral ? "× " : "Δ ") + (rows[0].name === "all queries" ? choice.metric : "against " + data.base) }, x2: { field: "high" }, color, tooltip } },
    { mark: { type: "point", filled: true, size: 85, opacity: 1, clip: true },
      encoding: { y, x: { field: "delta", type: "quantitative" }, color, tooltip,
      shape: { field: "whole", type: "nominal", scale: { domain: [true, false], range: ["diamond", "circle"] } } } },
  ] };
}

/* ---- metrics by cutoff ---- */

const curvesOf = (metric) => data.curves.filter((c) => c.metric === metric);
const faint = (run) => runs.length > 3 && !mainRuns().includes(run);
function curveSpec() {
  const metric = $("sweep-metric").value;
  // The chosen metric's cutoff, else that of the misses, which is the leading metric's where it has one.
  const cut = [choice.metric, data.primary].find((m) => /@\d+$/.test(m)), inUse = cut === choice.metric ? Number(cut.split("@").pop()) : data.k;
  const whose = cut?.endsWith("@" + inUse) ? "k of " + cut : "k of the misses: " + inUse;
  const rows = curvesOf(metric).flatMap((c) => c.k.map((k, i) => ({ run: c.run, k, mean: c.mean[i], text: c.text[i], low: c.low[i], high: c.high[i],
    main: !faint(c.run) })));
  if (!rows.length) return null;
  const ks = [...new Set(rows.map((r) => r.k))].sort((a, b) => a - b), late = inUse > Math.sqrt(ks[0] * ks[ks.length - 1]);
  const x = { field: "k", type: "quantitative", scale: { type: "log", nice: false },
    axis: { title: "cutoff k", values: ks, format: "d", grid: false, labelOverlap: true } };
  const y = (name) => ({ field: name, type: "quantitative", title: metric, scale: { zero: true, nice: true } });
  const opacity = { condition: { test: "datum.main", value: 1 }, value: 0.6 };
  const layer = [
    { transform: [{ filter: "datum.main" }], mark: { type: "area", opacity: 0.16 },
      encoding: { x, y: y("low"), y2: { field: "high" }, color: colour() } },
    { mark: { type: "line", strokeWidth: 2 }, encoding: { x, y: y("mean"), color: colour(), opacity, detail: { field: "main" } } },
    { mark: { type: "point", filled: true, size: 50 }, encoding: { x, y: y("mean"), color: colour(), opacity, tooltip: [field("run"), field("k"), field("text", metric)] } },
  ];
  if (inUse >= ks[0] && inUse <= ks[ks.length - 1]) {
    layer.push({ data: { values: [{}] }, mark: { type: "rule", strokeDash: [2, 3] }, encoding: { x: { datum: inUse } } });
    layer.push({ data: { values: [{}] }, mark: { type: "text", align: late ? "right" : "left", dx: late ? -6 : 6, y: 8 },
      encoding: { x: { datum: inUse }, text: { value: whose } } });
  }
  return { data: { values: rows }, height: 240, layer };
}

/* ---- where the relevant docs are ---- */

const rankColours = () => shades(["#00573f", "#0b7560", "#258d82", "#49a1a1", "#74b2bd", "#9dc2d4", "#c0d0e1", "#d8dde4", "#c44e00"],
  ["#7ce8bd", "#5cccaa", "#4bb0a3", "#4493a0", "#43798f", "#40627a", "#3b4f63", "#38434f", "#ff9a6b"]);
const accountRuns = () => data.rank_counts.filter((a) => runs.length <= 6 || mainRuns().includes(a.run));
function accountSpec() {
  const some = accountRuns();
  const rows = some.flatMap((a) => data.rank_labels.map((label, i) => ({ run: a.run, label, order: i, count: a.counts[i], share: a.gold ? a.counts[i] / a.gold : 0 })));
  return { data: { values: rows }, height: 32 * some.length, mark: { type: "bar", height: 20 }, encoding: {
    y: { field: "run", type: "nominal", sort: null, axis: { title: null, grid: false, ticks: false, domain: false, labelLimit: 110 } },
    x: { field: "share", type: "quantitative", axis: { format: "%", title: "share of the relevant docs", tickCount: 5 }, scale: { domain: [0, 1] } },
    color: { field: "label", type: "nominal", scale: { domain: data.rank_labels, range: rankColours() } }, order: { field: "order" },
    tooltip: [field("run"), field("label", "rank"), field("count", "docs"), { field: "share", format: ".1%" }] } };
}

/* ---- relevance against what it costs ---- */

function tradeoffSpec() {
  const over = $("systems-metric").value, up = data.primary, at = (metric, run) => data.estimates[metric]?.[run];
  const rows = runs.filter((run) => at(up, run)?.[0] != null && at(over, run)?.[0] != null).map((run) => {
    const [y, low, high, up_text] = at(up, run), [x, left, right, over_text] = at(over, run);
    return { run, x, y, up_text, over_text, low: low ?? y, high: high ?? y, left: left ?? x, right: right ?? x };
  });
  if (!rows.length) return null;
  // Ends that follow the width would bring new labels after room was made for those before: they are fixed, a little beyond what is drawn.
  const around = (...names) => { const [a, b] = minmax(rows.flatMap((r) => names.map((n) => r[n]))), pad = (b - a) * 0.08 || Math.abs(b) * 0.08 || 0.01; return [a - pad, b + pad]; };
  const axis = (name, metric, domain) => ({ field: name, type: "quantitative", scale: { zero: false, nice: false, domain }, axis: { tickCount: 6 },
    title: metric + (columns.get(metric).unit ? " (" + columns.get(metric).unit + ")" : "") + (columns.get(metric).higher === false ? ", less is better" : "") });
  const across = around("left", "right"), upward = around("low", "high");
  const x = (name) => axis(name, over, across), y = (name) => axis(name, up, upward), color = colour();
  return { data: { values: rows }, height: 260, layer: [
    { mark: { type: "rule", opacity: 0.55 }, encoding: { x: x("x"), y: y("low"), y2: { field: "high" }, color } },
    { mark: { type: "rule", opacity: 0.55 }, encoding: { x: x("left"), x2: { field: "right" }, y: y("y"), color } },
    { mark: { type: "point", filled: true, size: 110, opacity: 1 }, encoding: { x: x("x"), y: y("y"), color, tooltip: [field("run"), field("up_text", up), field("over_text", over)] } },
  ] };
}

/* ---- every metric of every run ---- */

// Scales share no axis: a chart for shares, for each unit, and for each metric without one, one below the other.
function levelsSpec() {
  const some = runs.length <= 6 ? runs : mainRuns();
  const rows = metrics.flatMap((metric) => some.filter((run) => data.estimates[metric][run]?.[0] != null).map((run) => {
    const [value, low, high, text, ends] = data.estimates[metric][run];
    return { metric, run, unit: columns.get(metric).unit, scale: columns.get(metric).scale, value, low: low ?? value, high: high ?? value, text, ends };
  }));
  if (!rows.length) return null;
  const names = Math.min(150, $("levels-chart").clientWidth / 3), width = Math.max(160, $("levels-chart").clientWidth - names - 30);
  const y = { field: "metric", type: "nominal", sort: null, axis: { title: null, grid: false, ticks: false, domain: false, labelLimit: names - 10, minExtent: names, maxExtent: names } };
  const yOffset = { field: "run", type: "nominal", sort: some, scale: { domain: some } }, tooltip = [field("run"), field("metric"), field("text", "value"), field("ends", "interval")];
  const layers = (unit) => [
    { mark: { type: "rule", strokeWidth: 2.5, opacity: 0.6 }, encoding: { y, yOffset, color: colour(), tooltip, x2: { field: "high" },
      x: { field: "low", type: "quantitative", title: unit || null, scale: { zero: true }, axis: { tickCount: 6 } } } },
    { mark: { type: "point", filled: true, size: 60, opacity: 1 }, encoding: { y, yOffset, color: colour(), tooltip, x: { field: "value", type: "quantitative" } } },
  ];
  const scales = [...new Set(rows.map((r) => r.scale))].map((scale) => rows.filter((r) => r.scale === scale));
  return { autosize: "pad", width: undefined, vconcat: scales.map((values) => ({ width, height: { step: Math.max(9, 18 / some.length), for: "offset" }, data: { values }, layer: layers(values[0].unit) })) };
}

/* ---- distribution and pairs ---- */

function histogramSpec() {
  const metric = choice.metric, m = metricIndex.get(metric), main = runs.length > 3 ? mainRuns() : runs;
  const values = main.map((run) => Q.values[runIndex.get(run)][m]);
  const all = values.flat().filter((v) => v !== null);
  if (!all.length) return null;
  const [least, most] = minmax(all), low = Math.min(0, least), high = columns.get(metric).unit ? most : Math.max(1, most);
  const bins = 20, width = (high - low) / bins || 1, rows = [];
  main.forEach((run, r) => {
    const counts = new Array(bins).fill(0);
    for (const v of values[r]) if (v !== null) counts[Math.min(bins - 1, Math.floor((v - low) / width + SAME))]++;
    counts.forEach((n, b) => rows.push({ run, from: low + b * width, to: low + (b + 1) * width, count: n,
      range: figure(metric, low + b * width) + " to " + figure(metric, low + (b + 1) * width) }));
  });
  const bars = { mark: { type: "bar", binSpacing: 1 }, height: main.length > 2 ? 68 : main.length > 1 ? 110 : 260,
    width: Math.max(180, $("histogram").clientWidth - 70), encoding: {
    x: { field: "from", type: "quantitative", bin: { binned: true }, title: metric, axis: { tickCount: 10, grid: false } }, x2: { field: "to" },
    y: { field: "count", type: "quantitative", title: "queries", axis: { tickCount: 3 } }, color: colour(),
    tooltip: [field("run"), field("range", metric), field("count", "queries")] } };
  if (main.length === 1) return { data: { values: rows }, autosize: "pad", ...bars };
  return { data: { values: rows }, autosize: "pad", width: undefined, facet: { row: { field: "run", type: "nominal", sort: main,
    header: { title: null, labelOrient: "top", labelAnchor: "start", labelPadding: 4 } } }, spacing: 14, spec: bars };
}
function scatterRows() {
  const rows = [];
  for (let i = 0; i < Q.ids.length; i++) {
    const a = valueOf(reference(), choice.metric, i), b = valueOf(choice.run, choice.metric, i);
    if (a !== null && b !== null) rows.push({ i, a, b, side: { up: "better", down: "worse", "": "equal" }[direction(choice.metric, b - a)] });
  }
  return rows;
}
const sideColours = () => shades(["#00895f", "#c44e00", "#7d8a99"], ["#5ad1a4", "#ff9a6b", "#8b98a8"]);
function scatterSpec() {
  const rows = scatterRows();
  if (!rows.length) return null;
  const many = rows.length > 2000, metric = choice.metric;
  for (const r of rows) Object.assign(r, { id: Q.ids[r.i], text: (Q.texts[r.i] || "").slice(0, 80), before: figure(metric, r.a), after: figure(metric, r.b) });
  const [low, high] = minmax(rows.flatMap((r) => [r.a, r.b]));
  const axis = (name, run) => ({ field: name, type: "quantitative", title: metric + ", " + run, axis: { tickCount: 6 } });
  return { canvas: many, data: { values: rows }, height: 290, layer: [
    { data: { values: [{ a: low, b: low }, { a: high, b: high }] }, mark: { type: "line", strokeDash: [4, 3], color: ink("--dim") },
      encoding: { x: axis("a", reference()), y: axis("b", choice.run) } },
    { mark: { type: "circle", size: many ? 16 : 60, opacity: many ? 0.4 : 0.75, cursor: "pointer" },
      encoding: { x: axis("a", reference()), y: axis("b", choice.run),
      color: { field: "side", type: "nominal", scale: { domain: ["better", "worse", "equal"], range: sideColours() } },
      tooltip: [field("id", "query"), field("text"), field("before", reference()), field("after", choice.run)] } },
  ] };
}
