"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const runs = data.runs.map((r) => r.name);
  const metrics = data.metrics.map((m) => m.name);
  const meaning = Object.fromEntries(data.metrics.map((m) => [m.name, m]));
  const Q = data.queries;
  const base = data.base !== null && runs.includes(data.base) ? data.base : null;
  const candidates = data.candidates.length ? data.candidates : runs;
  const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
  const ROW = 34;

  // Elements are made from text alone: nothing of queries or docs is ever read as HTML.
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "class") node.className = value;
      else node.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
    return node;
  }
  const fill = (select, names, chosen) => {
    if (!select) return;
    select.replaceChildren(...names.map((n) => el("option", { value: n, selected: n === chosen }, n)));
  };
  const digits = (name) => (meaning[name] && meaning[name].unit ? 1 : 3);
  const told = (name, value, sign) => {
    if (value === null || value === undefined) return "–";
    const text = Math.abs(value).toFixed(digits(name));
    return (value < 0 ? "−" : sign ? "+" : "") + text;
  };
  const better = (name, d) => (meaning[name].higher === false ? -d : d);
  const valueOf = (run, metric, i) => Q.values[runs.indexOf(run)][metrics.indexOf(metric)][i];

  /* ---- theme ---- */
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let theme = null;
  try { theme = localStorage.getItem("karat-theme"); } catch { /* a page from disk may have no storage */ }
  const isDark = () => (theme ? theme === "dark" : dark.matches);
  function paint() {
    document.documentElement.dataset.theme = isDark() ? "dark" : "light";
    drawn.clear();
    drawVisible();
  }
  function switchTheme() {
    theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("karat-theme", theme); } catch { /* not kept */ }
    paint();
  }

  /* ---- charts ---- */
  const drawn = new Set();
  const charts = {};
  const visible = new Set();
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) e.isIntersecting ? visible.add(e.target.id) : visible.delete(e.target.id);
    drawVisible();
  }, { rootMargin: "200px" });
  function chart(id, spec, after) {
    if (!$(id)) return;
    charts[id] = { spec, after };
    seen.observe($(id));
  }
  function drawVisible() {
    for (const id of visible) if (!drawn.has(id) && charts[id]) { drawn.add(id); draw(id); }
  }
  function redraw(id) { drawn.delete(id); drawVisible(); }
  function draw(id) {
    const ink = getComputedStyle(document.documentElement);
    const of = (name) => ink.getPropertyValue(name).trim();
    const spec = charts[id].spec();
    if (!spec) { $(id).textContent = "Nothing to show."; return; }
    const config = {
      background: null, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { labelColor: of("--dim"), titleColor: of("--dim"), gridColor: of("--line"), domainColor: of("--line"), tickColor: of("--line"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 220 },
      legend: { labelColor: of("--ink"), titleColor: of("--dim"), orient: "top", labelFontSize: 12, symbolSize: 80, title: null },
      range: { category: isDark() ? PALETTE.map(lighter) : PALETTE }, rule: { color: of("--dim") }, text: { color: of("--dim") },
    };
    window.vegaEmbed("#" + id, { width: "container", autosize: { type: "fit-x", contains: "padding" }, config, ...spec },
      { mode: "vega-lite", logLevel: 1, actions: false, renderer: spec.heavy ? "canvas" : "svg", ast: true, tooltip: { theme: isDark() ? "dark" : "light" } })
      .then((result) => charts[id].after && charts[id].after(result.view));
  }
  const lighter = (hex) => "#" + [1, 3, 5].map((i) => Math.round(parseInt(hex.slice(i, i + 2), 16) * 0.6 + 102).toString(16).padStart(2, "0")).join("");
  const colour = { field: "run", type: "nominal", sort: null, scale: { domain: runs } };

  function forestSpec() {
    const metric = $("forest-metric").value, run = $("forest-run").value;
    const rows = data.comparisons.filter((c) => c.metric === metric && c.candidate === run && c.delta !== null)
      .map((c) => ({ name: c.segment ? Object.entries(c.segment).map(([f, v]) => f + " = " + v).join(", ") : "all queries", delta: c.delta, low: c.ci ? c.ci[0] : c.delta, high: c.ci ? c.ci[1] : c.delta, n: c.n, whole: !c.segment, small: !!c.small, tone: c.small ? "too few" : c.ci && better(metric, c.ci[0]) > 0 && better(metric, c.ci[1]) > 0 ? "better" : c.ci && better(metric, c.ci[0]) < 0 && better(metric, c.ci[1]) < 0 ? "worse" : "open" }));
    if (!rows.length) return null;
    const judged = rows.filter((r) => !r.small), spread = minmax((judged.length ? judged : rows).flatMap((r) => [r.low, r.high, 0]));
    const pad = (spread[1] - spread[0]) * 0.06 || 0.01, scale = { domain: [spread[0] - pad, spread[1] + pad], clamp: false };
    const y = { field: "name", type: "nominal", sort: null, axis: { title: null, grid: false } };
    const tone = { field: "tone", type: "nominal", scale: { domain: ["better", "worse", "open", "too few"], range: isDark() ? ["#5ad1a4", "#ff9a6b", "#a3b0bf", "#5b6876"] : ["#00895f", "#d55e00", "#566374", "#b0bac6"] }, legend: { title: null } };
    const tooltip = [{ field: "name", title: "segment" }, { field: "delta", title: "Δ", format: "+.4f" }, { field: "low", format: "+.4f" }, { field: "high", format: "+.4f" }, { field: "n" }];
    return { data: { values: rows }, height: 24 * rows.length, layer: [
      { mark: { type: "rule", strokeDash: [4, 3] }, encoding: { x: { datum: 0 } } },
      { mark: { type: "rule", strokeWidth: 2, clip: true }, encoding: { y, x: { field: "low", type: "quantitative", scale, title: "Δ " + metric + " against " + data.base }, x2: { field: "high" }, color: tone, tooltip } },
      { mark: { type: "point", filled: true, size: 80, opacity: 1, clip: true }, encoding: { y, x: { field: "delta", type: "quantitative" }, color: tone, shape: { field: "whole", type: "nominal", legend: null, scale: { domain: [true, false], range: ["diamond", "circle"] } }, tooltip } } ] };
  }
  function curveSpec() {
    const metric = $("sweep-metric").value;
    const curves = data.curves.filter((c) => c.metric === metric);
    const rows = curves.flatMap((c) => c.k.map((k, i) => ({ run: c.run, k, mean: c.mean[i], low: c.ci[i][0], high: c.ci[i][1] })));
    if (!rows.length) return null;
    const x = { field: "k", type: "quantitative", scale: { type: "log", nice: false }, axis: { title: "cutoff k", values: [...new Set(rows.map((r) => r.k))], format: "d", grid: false } };
    return { data: { values: rows }, height: 240, layer: [
      { mark: { type: "area", opacity: 0.15 }, encoding: { x, y: { field: "low", type: "quantitative", title: metric, scale: { zero: false } }, y2: { field: "high" }, color: colour } },
      { mark: { type: "line", strokeWidth: 2, point: { size: 45 } }, encoding: { x, y: { field: "mean", type: "quantitative", scale: { zero: false } }, color: colour, tooltip: [{ field: "run" }, { field: "k" }, { field: "mean", format: ".4f" }, { field: "low", format: ".4f" }, { field: "high", format: ".4f" }] } },
      { mark: { type: "rule", strokeDash: [2, 3] }, encoding: { x: { datum: data.k } } },
      { mark: { type: "text", align: "left", dx: 4, y: 8 }, encoding: { x: { datum: data.k }, text: { value: "k in use" } } } ] };
  }
  function tellCurves() {
    const metric = $("sweep-metric").value;
    const curves = data.curves.filter((c) => c.metric === metric);
    const named = curves.filter((c) => c.knee || c.k98), main = named.filter((c) => c.run === against || c.run === reference);
    $("sweep-told").textContent = (main.length ? main : named.slice(0, 2)).map((c) => c.run + (c.knee ? " flattens at k = " + c.knee : "") + (c.k98 ? (c.knee ? "," : "") + " 98% of its best at k = " + c.k98 : "")).join(" · ");
    const ks = curves.length ? curves.reduce((a, c) => (c.k.length > a.length ? c.k : a), []) : [];
    $("sweep-table").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Run"), ks.map((k) => el("th", { scope: "col", class: "num" }, String(k))))),
      el("tbody", {}, curves.map((c) => el("tr", {}, el("th", { scope: "row" }, c.run), ks.map((k) => { const i = c.k.indexOf(k); return el("td", { class: "num" }, i < 0 ? "–" : told(metric, c.mean[i])); }))))));
  }
  function accountSpec() {
    const rows = data.account.flatMap((a) => a.labels.map((label, i) => ({ run: a.run, label, order: i, count: a.counts[i], share: a.gold ? a.counts[i] / a.gold : 0 })));
    const labels = data.account[0].labels;
    const range = isDark() ? ["#5ad1a4", "#4bb6a6", "#45a0b5", "#4889bd", "#5572b8", "#6a5fa6", "#80588f", "#8a6a6a", "#ff9a6b"] : ["#00694b", "#12826a", "#2a9487", "#4aa3a3", "#74b2bd", "#9dc2d4", "#c3d3e4", "#d9d4d0", "#d55e00"];
    return { data: { values: rows }, height: 34 * data.account.length, mark: { type: "bar", height: 22 }, encoding: {
      y: { field: "run", type: "nominal", sort: null, axis: { title: null, grid: false } }, x: { field: "share", type: "quantitative", axis: { format: "%", title: "share of the relevant docs" }, scale: { domain: [0, 1] } },
      color: { field: "label", type: "nominal", sort: labels, scale: { domain: labels, range }, legend: { title: null, columns: 5 } }, order: { field: "order" },
      tooltip: [{ field: "run" }, { field: "label", title: "found at" }, { field: "count" }, { field: "share", format: ".1%" }] } };
  }
  function histogramSpec() {
    const metric = $("distribution-metric").value, m = metrics.indexOf(metric);
    const all = Q.values.flatMap((v) => v[m]).filter((v) => v !== null);
    if (!all.length) return null;
    const low = Math.min(0, ...minmax(all)), high = Math.max(...minmax(all), meaning[metric].unit ? 0 : 1), bins = 20, width = (high - low) / bins || 1;
    const rows = [];
    runs.forEach((run, r) => {
      const counts = new Array(bins).fill(0);
      for (const v of Q.values[r][m]) if (v !== null) counts[Math.min(bins - 1, Math.floor((v - low) / width))]++;
      counts.forEach((count, b) => rows.push({ run, from: low + b * width, to: low + (b + 1) * width, count }));
    });
    return { data: { values: rows }, height: runs.length > 1 ? Math.max(60, 240 / runs.length) : 240, mark: { type: "bar" }, encoding: {
      x: { field: "from", type: "quantitative", bin: { binned: true }, title: metric }, x2: { field: "to" }, y: { field: "count", type: "quantitative", title: null }, color: { ...colour, legend: null },
      tooltip: [{ field: "run" }, { field: "from", format: ".2f" }, { field: "to", format: ".2f" }, { field: "count", title: "queries" }],
      ...(runs.length > 1 ? { row: { field: "run", type: "nominal", sort: null, header: { title: null, labelAngle: 0, labelAlign: "left", labelColor: getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() } } } : {}) },
      ...(runs.length > 1 ? { width: Math.max(180, $("histogram").clientWidth - 190), autosize: "pad" } : {}) };
  }
  const minmax = (values) => values.reduce((a, v) => [Math.min(a[0], v), Math.max(a[1], v)], [Infinity, -Infinity]);
  function scatterSpec() {
    const metric = $("scatter-metric").value, x = $("scatter-x").value, y = $("scatter-y").value;
    const rows = [];
    Q.ids.forEach((id, i) => { const a = valueOf(x, metric, i), b = valueOf(y, metric, i); if (a !== null && b !== null) rows.push({ i, id, a, b, d: b - a, text: (Q.texts[i] || "").slice(0, 80) }); });
    if (!rows.length) return null;
    const [low, high] = minmax(rows.flatMap((r) => [r.a, r.b]));
    const tone = isDark() ? ["#ff9a6b", "#8b98a8", "#5ad1a4"] : ["#d55e00", "#8b98a8", "#00895f"];
    return { heavy: true, data: { values: rows }, height: 300, layer: [
      { data: { values: [{ v: low }, { v: high }] }, mark: { type: "line", strokeDash: [4, 3], color: "#8b98a8" }, encoding: { x: { field: "v", type: "quantitative", title: x }, y: { field: "v", type: "quantitative", title: y } } },
      { mark: { type: "circle", size: rows.length > 2000 ? 18 : 50, opacity: rows.length > 2000 ? 0.4 : 0.7, cursor: "pointer" }, encoding: { x: { field: "a", type: "quantitative", title: x }, y: { field: "b", type: "quantitative", title: y },
        color: { condition: [{ test: (meaning[metric].higher === false ? "-" : "") + "datum.d > 1e-9", value: tone[2] }, { test: (meaning[metric].higher === false ? "-" : "") + "datum.d < -1e-9", value: tone[0] }], value: tone[1] },
        tooltip: [{ field: "id", title: "query" }, { field: "text" }, { field: "a", title: x, format: ".4f" }, { field: "b", title: y, format: ".4f" }] } } ] };
  }

  /* ---- broken and fixed ---- */
  const reference = base || (runs.length > 1 ? runs[0] : null);
  const against = candidates.find((c) => c !== reference) || null;
  function change(run, metric, i) {
    if (!reference || run === reference) return null;
    const a = valueOf(reference, metric, i), b = valueOf(run, metric, i);
    return a === null || b === null ? null : b - a;
  }
  function tellMoved() {
    if (!$("moved-run")) return;
    const run = $("moved-run").value;
    const rows = Q.ids.map((id, i) => [i, change(run, data.primary, i)]).filter(([, d]) => d !== null && Math.abs(d) > 1e-9).map(([i, d]) => [i, d, better(data.primary, d)]);
    const worse = rows.filter((r) => r[2] < 0).sort((a, b) => a[2] - b[2]), best = rows.filter((r) => r[2] > 0).sort((a, b) => b[2] - a[2]);
    $("moved-count").textContent = worse.length + " lost, " + best.length + " gained, " + (Q.ids.length - rows.length) + " unchanged in " + data.primary;
    const list = (title, some, tone) => el("div", {}, el("h3", {}, title), some.length ? el("ol", {}, some.slice(0, 6).map(([i, d]) => el("li", {}, el("a", { href: "#query=" + encodeURIComponent(Q.ids[i]) }, el("span", {}, Q.texts[i] || Q.ids[i]), el("b", { class: tone }, told(data.primary, d, true)))))) : el("p", { class: "dim" }, "None."));
    $("moved-lists").replaceChildren(list("Broken", worse, "down"), list("Fixed", best, "up"));
  }

  /* ---- segments ---- */
  function tellSegments() {
    if (!$("segments-table")) return;
    const metric = $("segments-metric").value;
    const delta = (name) => data.comparisons.find((c) => c.metric === metric && c.segment && c.candidate === against && Object.entries(c.segment).map(([f, v]) => f + " = " + v).join(", ") === name);
    const withDelta = against && data.comparisons.some((c) => c.segment);
    $("segments-table").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Segment"), el("th", { scope: "col", class: "num" }, "n"), runs.map((r) => el("th", { scope: "col", class: "num" }, r)), withDelta ? el("th", { scope: "col", class: "num" }, "Δ " + against) : null)),
      el("tbody", {}, data.segments.map((s) => {
        const d = withDelta ? delta(s.name) : null;
        return el("tr", {}, el("th", { scope: "row" }, s.name, s.small ? el("span", { class: "tag" }, "too few to judge alone") : null), el("td", { class: "num" }, String(s.n)),
          runs.map((r) => { const v = (s.values[r] || {})[metric]; return el("td", { class: "num" }, v ? told(metric, v[0]) : "–", v && v[1] !== null ? el("small", {}, told(metric, v[1]) + " to " + told(metric, v[2])) : null); }),
          withDelta ? el("td", { class: "num " + (d && d.ci && !d.small ? (better(metric, d.ci[0]) > 0 && better(metric, d.ci[1]) > 0 ? "up" : better(metric, d.ci[0]) < 0 && better(metric, d.ci[1]) < 0 ? "down" : "") : "") }, d ? told(metric, d.delta, true) : "–", d && d.ci ? el("small", {}, told(metric, d.ci[0], true) + " to " + told(metric, d.ci[1], true)) : null) : null);
      }))));
  }

  /* ---- the table of queries ---- */
  const state = { order: [], sort: { key: "id", up: true }, chosen: -1, wanted: [] };
  const folded = Q.ids.map((id, i) => (id + "\n" + (Q.texts[i] || "")).toLocaleLowerCase());
  const K = data.k;
  const recallIndex = metrics.findIndex((m) => m.startsWith("recall@") && Number(m.slice(7)) === 10);
  function isMiss(i, run) {
    if (Q.gold.length) return Q.gold[i].length > 0 && Q.gold[i].every((g) => { const r = g[2][runs.indexOf(run)]; return r === null || r > 10; });
    return recallIndex >= 0 && valueOf(run, metrics[recallIndex], i) === 0;
  }
  function keep(i, search, outcome, metric, fields) {
    if (search && !folded[i].includes(search)) return false;
    for (const [f, v] of fields) if (Q.fields[f][i] !== v) return false;
    if (outcome === "all") return true;
    if (outcome === "miss") return isMiss(i, against || runs[0]);
    const d = change(against || runs[0], metric, i);
    if (outcome === "unchanged") return d !== null && Math.abs(d) <= 1e-9;
    if (d === null || Math.abs(d) <= 1e-9) return false;
    return (better(metric, d) < 0) === (outcome === "broken");
  }
  function filter() {
    const search = $("search").value.trim().toLocaleLowerCase(), outcome = $("outcome").value, metric = $("table-metric").value;
    const fields = [...document.querySelectorAll("#field-filters select")].map((s) => [s.dataset.field, s.value]).filter(([, v]) => v !== "");
    state.wanted = Q.ids.map((_, i) => i).filter((i) => keep(i, search, outcome, metric, fields));
    order();
  }
  function keyOf(i) {
    const k = state.sort.key, metric = $("table-metric").value;
    if (k === "id") return Q.ids[i];
    if (k === "text") return Q.texts[i] || "";
    if (k === "delta") return change(against || runs[0], metric, i);
    return valueOf(k, metric, i);
  }
  const compareIds = new Intl.Collator(undefined, { numeric: true }).compare;
  function order() {
    const keys = new Map(state.wanted.map((i) => [i, keyOf(i)]));
    const text = state.sort.key === "id" || state.sort.key === "text";
    state.order = [...state.wanted].sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      if (x === y) return a - b;
      if (x === null) return 1;
      if (y === null) return -1;
      return (text ? compareIds(x, y) : x - y) * (state.sort.up ? 1 : -1);
    });
    $("count").textContent = state.order.length.toLocaleString("en") + " of " + Q.ids.length.toLocaleString("en") + " queries";
    $("rows").scrollTop = 0;
    head();
    rows();
  }
  const columns = () => [["id", "Query"], ...(Q.texts.length ? [["text", "Text"]] : []), ...shownRuns().map((r) => [r, r]), ...(reference && against ? [["delta", "Δ"]] : [])];
  const shownRuns = () => (runs.length > 3 && reference && against ? [reference, against] : runs.slice(0, 4));
  let body = null;
  function head() {
    const cells = columns().map(([key, label]) => el("th", { scope: "col", class: key === "id" || key === "text" ? "" : "num", "aria-sort": state.sort.key === key ? (state.sort.up ? "ascending" : "descending") : "none", style: key === "text" ? "width:38%" : null },
      el("button", { type: "button", onclick: () => { state.sort = { key, up: state.sort.key === key ? !state.sort.up : key === "id" || key === "text" }; order(); } }, label + (state.sort.key === key ? (state.sort.up ? " ▲" : " ▼") : ""))));
    body = el("tbody", {});
    $("rows").replaceChildren(el("table", { "aria-rowcount": state.order.length }, el("thead", {}, el("tr", {}, cells)), body));
  }
  function rows() {
    const view = $("rows"), first = Math.max(0, Math.floor(view.scrollTop / ROW) - 10), last = Math.min(state.order.length, first + Math.ceil(view.clientHeight / ROW) + 30), metric = $("table-metric").value;
    const space = (n) => el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: columns().length, style: "height:" + n * ROW + "px" }));
    const made = state.order.slice(first, last).map((i, offset) => el("tr", { "data-query": i, "aria-rowindex": first + offset + 2, "aria-selected": i === state.chosen ? "true" : "false", onclick: () => open(i) }, columns().map(([key]) => {
      if (key === "id") return el("td", { title: Q.ids[i] }, el("a", { href: "#query=" + encodeURIComponent(Q.ids[i]), tabindex: "-1" }, Q.ids[i]));
      if (key === "text") return el("td", { title: Q.texts[i] }, Q.texts[i]);
      if (key === "delta") { const d = change(against || runs[0], metric, i); return el("td", { class: "num " + (d === null || Math.abs(d) < 1e-9 ? "" : better(metric, d) > 0 ? "up" : "down") }, told(metric, d, true)); }
      return el("td", { class: "num" }, told(metric, valueOf(key, metric, i)));
    })));
    body.replaceChildren(...(first ? [space(first)] : []), ...made, ...(last < state.order.length ? [space(state.order.length - last)] : []));
  }

  /* ---- one query ---- */
  function open(i, quiet) {
    state.chosen = i;
    if (!quiet) history.replaceState(null, "", "#query=" + encodeURIComponent(Q.ids[i]));
    const place = state.order.indexOf(i), view = $("rows");
    if (place >= 0 && (place * ROW < view.scrollTop || (place + 2) * ROW > view.scrollTop + view.clientHeight)) view.scrollTop = Math.max(0, place * ROW - view.clientHeight / 3);
    rows();
    const shown = shownRuns(), metric = $("table-metric").value;
    const fields = Object.entries(Q.fields).filter(([, v]) => v[i] !== "");
    const parts = [el("h3", {}, Q.texts[i] || Q.ids[i]), el("p", { class: "dim" }, Q.ids[i], ...fields.map(([f, v]) => el("span", { class: "tag", style: "margin-left:8px" }, f + " = " + v[i])))];
    parts.push(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of this query" }, el("table", { class: "missed" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Run"), metrics.slice(0, 6).map((m) => el("th", { scope: "col", class: "num" }, m)))),
      el("tbody", {}, shown.map((r) => el("tr", {}, el("th", { scope: "row" }, r), metrics.slice(0, 6).map((m) => el("td", { class: "num" }, told(m, valueOf(r, m, i))))))))));
    if (Q.lists.length) parts.push(...listsOf(i, shown));
    $("query").replaceChildren(...parts);
    requestAnimationFrame(() => link(shown));
    void metric;
  }
  const gradeClass = (g) => (g === null ? "unjudged" : "g" + Math.max(0, Math.min(4, Math.round(g))));
  function listsOf(i, shown) {
    const gold = Q.gold[i], places = shown.map((r) => new Map(Q.lists[runs.indexOf(r)][i].map((d, n) => [d[0], n + 1])));
    const grades = [...new Set(shown.flatMap((r) => Q.lists[runs.indexOf(r)][i].map((d) => d[1])).filter((g) => g !== null))].sort((a, b) => b - a);
    const legend = el("div", { class: "legend" }, grades.map((g) => el("span", {}, el("i", { class: gradeClass(g) }), "grade " + g)), el("span", {}, el("i", { class: "unjudged" }), "not judged"));
    const lists = el("div", { class: "lists" }, shown.map((r, n) => {
      const list = Q.lists[runs.indexOf(r)][i];
      return el("div", {}, el("h4", {}, r), list.length ? el("ol", {}, list.slice(0, 10).map(([doc, grade, score], p) => {
        const other = shown.length === 2 ? places[1 - n].get(doc) : undefined;
        const move = shown.length === 2 && n === 1 ? (other === undefined ? "new" : other === p + 1 ? "=" : other > p + 1 ? "▲" + (other - p - 1) : "▼" + (p + 1 - other)) : "";
        return el("li", { class: "doc " + gradeClass(grade), "data-doc": doc, title: score === null ? doc : doc + ", score " + score, onmouseenter: () => light(doc, true), onmouseleave: () => light(doc, false) },
          el("span", { class: "rank" }, String(p + 1)), el("span", { class: "id" }, doc, " ", grade === null ? el("span", { class: "sr" }, "not judged") : el("span", { class: "grade" }, el("span", { class: "sr" }, "grade "), String(grade))), el("span", { class: "move" }, move),
          data.docs[doc] ? el("details", {}, el("summary", {}, "text"), data.docs[doc]) : null);
      })) : el("p", { class: "dim" }, "Nothing was returned."));
    }));
    const missed = gold.filter((g) => shown.some((r) => { const rank = g[2][runs.indexOf(r)]; return rank === null || rank > 10; }));
    const table = missed.length ? [el("h4", {}, "Gold that is not in a top 10"), el("table", { class: "missed" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Doc"), el("th", { scope: "col", class: "num" }, "Grade"), shown.map((r) => el("th", { scope: "col", class: "num" }, "rank, " + r)))),
      el("tbody", {}, missed.slice(0, 30).map((g) => el("tr", {}, el("th", { scope: "row" }, g[0], data.docs[g[0]] ? el("details", {}, el("summary", {}, "text"), data.docs[g[0]]) : null), el("td", { class: "num" }, String(g[1])), shown.map((r) => el("td", { class: "num" }, g[2][runs.indexOf(r)] === null ? "never" : String(g[2][runs.indexOf(r)])))))))] : [el("p", { class: "dim" }, gold.length ? "All gold is in the top 10." : "No relevant doc in the gold.")];
    return [legend, lists, ...table];
  }
  function light(doc, on) { for (const n of document.querySelectorAll("#query .doc")) if (n.dataset.doc === doc) n.classList.toggle("lit", on); }
  function link(shown) {
    const box = document.querySelector("#query .lists");
    if (!box || shown.length !== 2) return;
    const old = box.querySelector("svg");
    if (old) old.remove();
    const NS = "http://www.w3.org/2000/svg", svg = document.createElementNS(NS, "svg"), at = box.getBoundingClientRect();
    svg.setAttribute("class", "links");
    svg.setAttribute("aria-hidden", "true");
    const [left, right] = [...box.querySelectorAll("ol")];
    if (!left || !right) return;
    const rightOf = new Map([...right.children].map((n) => [n.dataset.doc, n.getBoundingClientRect()]));
    for (const n of left.children) {
      const b = rightOf.get(n.dataset.doc);
      if (!b) continue;
      const a = n.getBoundingClientRect(), path = document.createElementNS(NS, "path");
      const x1 = a.right - at.left, x2 = b.left - at.left, y1 = a.top + a.height / 2 - at.top, y2 = b.top + b.height / 2 - at.top;
      path.setAttribute("d", `M${x1},${y1} C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`);
      svg.append(path);
    }
    box.append(svg);
  }
  function step(by) {
    if (!state.order.length) return;
    const place = state.order.indexOf(state.chosen);
    open(state.order[Math.max(0, Math.min(state.order.length - 1, place < 0 ? 0 : place + by))]);
  }
  function follow() {
    const wanted = /^#query=(.*)$/.exec(location.hash);
    if (!wanted) return;
    let id = wanted[1];
    try { id = decodeURIComponent(id); } catch { /* as written */ }
    const i = Q.ids.indexOf(id);
    if (i < 0) return;
    if (!state.order.includes(i)) { $("filters").reset(); filter(); }
    open(i, true);
    $("queries").scrollIntoView();
  }
  function copy() {
    const quoted = (v) => (/[",\n]/.test(v) ? '"' + v.replaceAll('"', '""') + '"' : v);
    const metric = $("table-metric").value;
    const lines = [["query_id", ...runs.map((r) => r + " " + metric)], ...state.order.map((i) => [Q.ids[i], ...runs.map((r) => { const v = valueOf(r, metric, i); return v === null ? "" : String(v); })])];
    const text = lines.map((l) => l.map(quoted).join(",")).join("\n") + "\n";
    const done = () => { $("copy").textContent = "Copied"; setTimeout(() => { $("copy").textContent = "Copy as CSV"; }, 1500); };
    const area = el("textarea", { style: "position:fixed;opacity:0", "aria-hidden": "true" });
    const byHand = () => { area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); done(); };
    if (navigator.clipboard && navigator.clipboard.writeText) navigator.clipboard.writeText(text).then(done, byHand); else byHand();
    window.karatCopied = text;
  }

  /* ---- start ---- */
  for (const id of ["forest-metric", "distribution-metric", "scatter-metric", "segments-metric", "table-metric"]) fill($(id), metrics, data.primary);
  fill($("forest-run"), candidates.filter((c) => c !== base), against);
  fill($("moved-run"), runs.filter((r) => r !== reference), against);
  fill($("scatter-x"), runs, reference || runs[0]);
  fill($("scatter-y"), runs, against || runs[1]);
  fill($("sweep-metric"), [...new Set(data.curves.map((c) => c.metric))], "recall");
  const outcomes = [["all", "all"], ...(reference && against ? [["broken", "broken by " + against], ["fixed", "fixed by " + against], ["unchanged", "unchanged"]] : []), ["miss", "misses (nothing in the top 10)"]];
  $("outcome").replaceChildren(...outcomes.map(([v, t]) => el("option", { value: v }, t)));
  $("field-filters").replaceChildren(...Object.entries(Q.fields).map(([f, values]) => el("label", {}, f + " ", el("select", { "data-field": f, onchange: filter }, el("option", { value: "" }, "all"), [...new Set(values)].filter((v) => v !== "").sort().map((v) => el("option", { value: v }, v))))));
  chart("forest", forestSpec);
  chart("curves", curveSpec);
  chart("account", accountSpec);
  chart("histogram", histogramSpec);
  chart("points", scatterSpec, (view) => view.addEventListener("click", (_, item) => { if (item && item.datum && item.datum.i !== undefined) { open(item.datum.i); $("queries").scrollIntoView(); } }));
  const on = (id, event, act) => $(id) && $(id).addEventListener(event, act);
  for (const id of ["forest-metric", "forest-run"]) on(id, "change", () => redraw("forest"));
  on("sweep-metric", "change", () => { redraw("curves"); tellCurves(); });
  on("distribution-metric", "change", () => redraw("histogram"));
  for (const id of ["scatter-metric", "scatter-x", "scatter-y"]) on(id, "change", () => redraw("points"));
  on("segments-metric", "change", tellSegments);
  on("moved-run", "change", tellMoved);
  on("search", "input", filter);
  on("outcome", "change", filter);
  on("table-metric", "change", () => { order(); if (state.chosen >= 0) open(state.chosen, true); });
  on("filters", "submit", (e) => e.preventDefault());
  on("copy", "click", copy);
  on("theme", "click", switchTheme);
  on("help", "click", () => $("keys").showModal());
  on("rows", "scroll", () => requestAnimationFrame(rows));
  addEventListener("hashchange", follow);
  addEventListener("resize", () => requestAnimationFrame(() => link(shownRuns())));
  dark.addEventListener("change", () => { if (!theme) paint(); });
  addEventListener("keydown", (e) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
    if (e.key === "Escape" && typing) return e.target.blur();
    if (typing || e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
    const inRows = e.target === $("rows");
    if (e.key === "/") { e.preventDefault(); $("search").focus(); $("queries").scrollIntoView(); }
    else if (e.key === "j" || (inRows && e.key === "ArrowDown")) { e.preventDefault(); step(1); }
    else if (e.key === "k" || (inRows && e.key === "ArrowUp")) { e.preventDefault(); step(-1); }
    else if (e.key === "Enter" && inRows) { if (state.chosen < 0) step(0); $("query").scrollIntoView({ block: "nearest" }); }
    else if (e.key === "?") { e.preventDefault(); $("keys").showModal(); }
    else if (e.key === "d") switchTheme();
  });
  paint();
  if ($("sweep-metric")) tellCurves();
  tellMoved();
  tellSegments();
  filter();
  follow();
  document.documentElement.dataset.ready = "yes";
})();
