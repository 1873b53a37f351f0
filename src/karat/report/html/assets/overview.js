"use strict";
// What is said about the chosen run and metric: the leaderboard, changes, segments, and the table Top misses.

// Everything that the page holds for each run, but for the chosen one, is hidden.
function showRun() {
  for (const node of document.querySelectorAll("[data-of-run]")) node.hidden = node.dataset.ofRun !== choice.run;
  for (const cell of document.querySelectorAll("#metrics [data-delta], #metrics [data-delta-run]")) cell.hidden = (cell.dataset.deltaRun ?? cell.dataset.run) !== choice.run;
  // What is compared stands first: the reader should not have to scroll for it.
  for (const row of document.querySelectorAll("#metrics .levels tr")) {
    const [label, ...cells] = row.children, isDelta = (cell) => (cell.dataset.delta ?? cell.dataset.deltaRun) !== undefined;
    const place = (cell) => (isDelta(cell) ? 1 : cell.dataset.run === undefined ? 2 : mainRuns().includes(cell.dataset.run) ? 0 : 3);
    const rank = (cell) => (place(cell) ? runIndex.get(cell.dataset.run) ?? 0 : mainRuns().indexOf(cell.dataset.run));
    row.replaceChildren(label, ...cells.sort((a, b) => place(a) - place(b) || rank(a) - rank(b)));
    for (const cell of cells) {
      cell.classList.toggle("other", place(cell) === 3);
      for (const reading of cell.querySelectorAll(".reading")) reading.hidden = cell.dataset.run !== choice.run;
    }
  }
  document.title = data.titles[choice.run] ?? document.title;
}

/* ---- the leaderboard ---- */

const BESIDE = 4;
const isBest = (metric, run) => data.best[metric].includes(run);
function showRanking() {
  if (!$("ranking-table")) return;
  const metric = choice.metric, sign = columns.get(metric).higher === false ? 1 : -1;
  const estimates = data.estimates[metric], known = (run) => estimates[run]?.[0] ?? null;
  const order = [...runs].sort((a, b) => (known(a) === null) - (known(b) === null) || sign * (known(a) - known(b)));
  const [low, high] = minmax(Object.values(estimates).flatMap((e) => [e[1] ?? e[0], e[2] ?? e[0]]).filter((v) => v !== null));
  const x = (v) => (4 + 152 * (high > low ? (v - low) / (high - low) : 0.5)).toFixed(1);
  const sortable = columns.get(metric).higher !== null, beside = data.leading.filter((m) => m !== metric).slice(0, BESIDE);
  const text = (m, run) => data.estimates[m][run]?.[3] ?? "–";
  const strip = (e, run) => {
    if (!e || e[0] === null) return null;
    const make = (tag, attributes) => { const node = document.createElementNS("http://www.w3.org/2000/svg", tag); for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v); return node; };
    const svg = make("svg", { width: 160, height: 18, viewBox: "0 0 160 18", "aria-hidden": "true", color: runColour(run) });
    if (e[1] !== null && e[2] !== null) svg.append(make("line", { x1: x(e[1]), x2: x(e[2]), y1: 9, y2: 9, stroke: "currentColor", "stroke-width": 4, opacity: 0.55 }));
    svg.append(make("circle", { cx: x(e[0]), cy: 9, r: 5, fill: "currentColor" }));
    return svg;
  };
  const decision = (run, c) => {
    if (run === data.base) return td("decision dim", null, "baseline");
    if (!c) return td("dim", null, data.changes.length ? "not compared" : "");
    const mark = c.tone === "up" ? "▲ " : c.tone === "down" ? "▼ " : "";
    const cell = td("decision " + c.tone, null, mark + c.outcome, c.p ? el("small", {}, c.p) : null, c.more_queries ? el("small", {}, c.more_queries + " would detect it") : null);
    cell.title = c.statement;
    return cell;
  };
  const row = (run, place) => {
    const e = estimates[run], c = overallChange(run, metric), fixed = run === data.base && hasPair;
    const label = fixed || others.length < 2 ? own(run) : el("button", { type: "button", class: "pick", "aria-pressed": run === choice.run ? "true" : "false",
      title: "Show this run", onclick: () => choose({ run }) }, own(run));
    const tags = [data.gated && run !== data.base && !data.candidates.includes(run) ? el("span", { class: "tag", title: "No gate judges this run" }, "compared only") : null,
      isBest(metric, run) ? el("span", { class: "tag best-tag" }, "best") : null];
    return el("tr", { "data-system": run, "aria-current": run === choice.run ? "true" : null, onclick: fixed ? null : () => choose({ run }) },
      td("place", null, sortable && known(run) !== null ? String(place + 1) : ""), el("th", { scope: "row" }, label, " ", tags),
      td("num" + (isBest(metric, run) ? " best" : ""), known(run), e ? e[3] : "–", e?.[4] ? el("small", {}, e[4]) : null), td("bar-cell", null, strip(e, run)),
      data.changes.length ? [td("num change " + (c?.tone ?? ""), c?.delta ?? null, c ? c.text : "", c?.ends ? el("small", {}, c.ends) : null), decision(run, c)] : null,
      beside.map((m) => td("num beside" + (isBest(m, run) ? " best" : ""), null, text(m, run))));
  };
  const head = [th("#", "place"), th("Run"), th(metric, "num"), th("interval", "bar-cell"),
    data.changes.length ? [th(["Δ against ", own(data.base ?? "")], "num"), th("Decision")] : null, beside.map((m) => th(m, "num beside"))];
  $("ranking-title").textContent = "Systems by " + metric;
  $("ranking-table").replaceChildren(table({ class: "ranking" }, head, order.map(row)));
}

/* ---- sentences of the charts ---- */

function showForestNote() {
  if (!$("forest-note")) return;
  const rows = forestRows(), metric = choice.metric, segments = rows.filter((r) => !r.whole);
  const named = (some) => [some.slice(0, 3).flatMap((r, i) => [i ? "; " : "", own(r.name), " (" + r.text + ", " + count(r.n, "query", "queries") + ")"]),
    some.length > 3 ? "; and " + count(some.length - 3, "more segment", "more segments") : ""];
  const worse = segments.filter((r) => r.tone === "down"), lower = segments.filter((r) => r.tone !== "down" && better(metric, r.delta - r.neutral) < 0);
  const [few, chance] = [true, false].map((small) => lower.filter((r) => r.small === small));
  $("change").hidden = !rows.length; // a run that was not compared has no changes
  if (!rows.length) return;
  const parts = !segments.length ? [`Each metric on the scale of ${metric}, over all queries: `, own(choice.run), rows[0].neutral ? " divided by " : " minus ", own(data.base ?? ""), "."]
    : worse.length ? [el("b", { class: "down" }, "Significantly worse: "), named(worse), "."]
    : lower.length ? ["No segment is significantly worse.", ...(chance.length ? [" Worse, but within chance: ", named(chance), "."] : []), ...(few.length ? [" Worse, but too small to judge: ", named(few), "."] : [])]
    : ["No segment is worse."];
  const large = rows.filter((r) => !r.small), low = Math.min(...large.map((r) => r.low)), high = Math.max(...large.map((r) => r.high));
  if (rows.some((r) => r.small && (r.low < low || r.high > high))) parts.push(" Intervals of small segments may reach beyond the chart.");
  $("forest-note").replaceChildren(...parts.flat(3));
  $("change-title").replaceChildren(segments.length ? "Change in " + metric + " by segment" : "Change by metric");
  $("forest-more").hidden = rows.length <= SEGMENTS + 1 || (!everySegment && forestView().length === rows.length);
  $("forest-more").textContent = everySegment ? "Show fewer segments" : `Show all ${count(rows.length - 1, "segment", "segments")}`;
  const colours = toneColours(), present = new Set(forestView().map((r) => r.outcome));
  showLegend("forest", OUTCOMES.filter((o) => present.has(o)).map((o) => ({ label: o, colour: colours[o] })));
}
function showCurveNote() {
  if (!$("sweep-metric")) return;
  const metric = $("sweep-metric").value, curves = curvesOf(metric);
  $("sweep-title").textContent = "Cutoff: " + metric;
  const known = curves.filter((c) => c.enough), deepestOf = (c) => c.k[c.k.length - 1];
  const end = (c) => (c.enough !== deepestOf(c) ? `Level from k = ${c.enough} on (98% of the value at ${deepestOf(c)})`
    : c.mean[c.k.length - 1] === 1 ? `${c.text[c.k.length - 1]} at k = ${deepestOf(c)}` : `Still rising at k = ${deepestOf(c)}`);
  // Runs of which the same is to be said share a sentence.
  const ends = [...new Set(known.map(end))].map((text) => [text, known.filter((c) => end(c) === text).map((c) => c.run)]);
  const who = (names) => (curves.length === 1 ? "" : names.length < curves.length || curves.length === 2
    ? [": ", ...names.flatMap((r, i) => [i === 0 ? "" : i < names.length - 1 ? ", " : " and ", own(r)])] : `: all ${names.length} runs`);
  $("sweep-note").hidden = !ends.length;
  $("sweep-note").replaceChildren(...ends.flatMap(([text, names], i) => [i ? " " : "", text, ...who(names), "."]).filter(Boolean));
  const ks = curves.reduce((a, c) => (c.k.length > a.length ? c.k : a), []);
  $("sweep-table").replaceChildren(table({}, [th("Run"), ks.map((k) => th(String(k), "num"))], curves.map((c) =>
    el("tr", {}, el("th", { scope: "row" }, own(c.run)), ks.map((k) => { const at = c.k.indexOf(k); return td("num", at < 0 ? null : c.mean[at], at < 0 ? "–" : c.text[at]); })))));
  showLegend("curves", runEntries([...new Set(curves.map((c) => c.run))]));
}
function showChartLegends() {
  const ranks = rankColours(), sides = sideColours();
  const held = data.rank_labels.map((label, i) => ({ label, colour: ranks[i], shape: "square" })).filter((_, i) => accountRuns().some((a) => a.counts[i]));
  showLegend("account", held);
  showLegend("tradeoff", runEntries(runs));
  showLegend("levels-chart", runEntries(runs.length <= 6 ? runs : mainRuns()));
  // Of many runs only those that are compared are drawn.
  const drawn = (before) => runs.length > 6 ? [before, ...mainRuns().flatMap((r, i) => [i ? " and " : "", own(r)])] : [];
  if ($("levels-title") && runs.length > 6) $("levels-title").replaceChildren("Every metric", ...drawn(" of "));
  if ($("account-note")) $("account-note").replaceChildren("The rank at which each relevant doc was returned", ...drawn(", by "), ".");
  $("histogram-title").textContent = "Distribution of " + choice.metric + " over queries";
  if (!$("scatter-note")) return;
  const rows = scatterRows(), n = (side) => rows.filter((r) => r.side === side).length;
  showLegend("points", ["better", "worse", "equal"].map((side, i) => ({ label: `${side} (${thousands(n(side))})`, colour: sides[i] })));
  $("scatter-note").replaceChildren(...(columns.get(choice.metric).higher === false ? ["Below" ] : ["Above"]), " the line, ", own(choice.run), " is better. Click a point to open its query.");
}

/* ---- broken and fixed, segments ---- */

function showMoved() {
  if (!$("moved-lists")) return;
  const metric = choice.metric, rows = [], [fall, rise] = fates(metric), isBroken = fall === "broken", title = (word) => word[0].toUpperCase() + word.slice(1);
  let both = 0;
  for (let i = 0; i < Q.ids.length; i++) {
    const d = changeOf(metric, i);
    if (d !== null) both++;
    if (d !== null && Math.abs(d) > SAME) rows.push([i, d, better(metric, d)]);
  }
  const worse = rows.filter((r) => r[2] < 0).sort((a, b) => a[2] - b[2]), best = rows.filter((r) => r[2] > 0).sort((a, b) => b[2] - a[2]);
  $("moved-count").replaceChildren(own(choice.run), " against ", own(reference()), ` in ${metric}: ${thousands(worse.length)} ${isBroken ? "worse" : fall}, ${thousands(best.length)} ${isBroken ? "better" : rise}, ${thousands(both - rows.length)} equal`);
  $("moved-title").textContent = `Queries ${fall} and ${rise}`;
  // A loss may be one of judgments only: what the run returned instead may never have been looked at.
  const unjudged = (i) => (hasGold && columns.get(metric).by_gold && listRuns.has(choice.run) ? listOf(choice.run, i)[1].slice(0, data.k).filter((g) => g === null).length : 0);
  const doubt = (n) => (n ? el("small", { title: `Unjudged docs in its top ${data.k}; they count as not relevant.` }, n + " unjudged") : null);
  const row = ([i, d], kind) => el("li", {}, el("a", { href: linkTo(i), title: nameOf(i) }, own(excerptOf(i)), kind === "down" ? doubt(unjudged(i)) : null,
    el("span", { class: "from" }, figure(metric, valueOf(reference(), metric, i)) + " → " + figure(metric, valueOf(choice.run, metric, i))), el("b", { class: kind }, figure(metric, d, true))));
  const all = (kind, n) => (n > 5 ? el("a", { href: linkToQueries(["show", kind]) }, `all ${thousands(n)}`) : null);
  const list = (title, some, kind, outcome) => el("div", {}, el("h3", {}, title, " ", all(outcome, some.length)),
    some.length ? el("ol", {}, some.slice(0, 5).map((r) => row(r, kind))) : el("p", { class: "dim" }, "None."));
  const most = (word) => (isBroken ? "Most " + word : title(word) + " by most");
  $("moved-lists").replaceChildren(list(most(fall), worse, "down", "broken"), list(most(rise), best, "up", "fixed"));
}

// A segment opens its queries where each of its fields can be filtered by.
function linkToSegment(segment) {
  const selects = [...document.querySelectorAll("#field-filters select")];
  const filters = Object.entries(segment.fields), selectOf = (name) => selects.find((s) => s.dataset.field === name);
  if (!filters.every(([name, value]) => [...selectOf(name)?.options ?? []].some((o) => o.value === JSON.stringify(value)))) return own(segment.name);
  return el("a", { href: linkToQueries(...filters.map(([name, value]) => [FIELD + name, value])), title: "Show its queries" }, own(segment.name));
}
// A phone shows the first few; everywhere those that are too small fold where they are many.
const FIRST_SEGMENTS = 6, phone = matchMedia("(max-width: 640px)");
let allSegments = false;
const POOLED = "Between the segment's own value and the mean of all segments of its field, and nearer to that mean where the segments differ no more than chance would make them. It is steadier where queries are few.";
function showSegments() {
  if (!$("segments-table")) return;
  const metric = choice.metric;
  const changes = new Map(data.changes.filter((c) => c.metric === metric && c.candidate === choice.run).map((c) => [c.segment, c]));
  const small = (text, title) => (text ? el("small", title ? { title } : {}, text) : null);
  const drawn = (text) => small(text && "pooled " + text, POOLED);
  const labelled = (label, cell) => { cell.dataset.label = label; return cell; };
  const other = (run) => (mainRuns().includes(run) ? "" : " other");
  const value = (e, pooled, run) => { const cell = td("num" + other(run), e ? e[0] : null, e ? e[3] : "–", small(e?.[4]), drawn(pooled)); cell.dataset.run = run; return labelled(run, cell); };
  const delta = (c) => labelled("Δ", td("num delta " + (c?.tone ?? ""), c ? c.delta : null, c ? c.text : "–", small(c?.ends), drawn(c?.pooled), small(c?.p)));
  const size = (s) => Math.max(0, ...Object.values(s.values).map((e) => e[metric]?.[5] ?? 0));
  const bySegment = (names) => names.filter((r) => data.segments.some((s) => s.values[r]));
  const main = bySegment(mainRuns()), beside = bySegment(runs).filter((r) => !main.includes(r));
  const heads = (names) => names.map((r) => th(own(r), "num" + other(r), { "data-run": r, title: r }));
  const head = [th("Segment"), th("n", "num"), heads(main), changes.size ? th(["Δ ", own(choice.run)], "num", { title: "Δ " + choice.run }) : null, heads(beside)];
  $("segments-title").textContent = "Segments, " + metric;
  const isPooled = data.segments.some((s) => runs.some((r) => (s.pooled[r] || {})[metric]));
  $("pooled-note").hidden = !isPooled;
  $("pooled-note").replaceChildren(el("b", {}, "Pooled: "), POOLED[0].toLowerCase() + POOLED.slice(1));
  const cells = (s, names) => names.map((r) => value((s.values[r] || {})[metric], (s.pooled[r] || {})[metric], r));
  const row = (s) => el("tr", { "data-segment": s.name, class: s.too_few.includes(metric) ? "small" : "" },
    el("th", { scope: "row" }, linkToSegment(s), s.too_few.includes(metric) ? el("span", { class: "tag" }, "too few") : null), td("num size", size(s), String(size(s))),
    cells(s, main), changes.size ? delta(changes.get(s.name)) : null, cells(s, beside));
  // What fell most stands first, and segments that are too small to judge come last.
  const fall = (s) => { const c = changes.get(s.name); return c && c.delta !== null ? better(metric, c.delta) : Infinity; };
  const isSmall = (s) => s.too_few.includes(metric), byFall = [...data.segments].sort((a, b) => isSmall(a) - isSmall(b) || (fall(a) === fall(b) ? 0 : fall(a) - fall(b)));
  const few = byFall.filter(isSmall), foldsSmall = few.length > 5 && few.length < byFall.length && !allSegments;
  const foldsMost = phone.matches && byFall.length > FIRST_SEGMENTS + 2 && !allSegments;
  const rows = byFall.map((s, i) => { const node = row(s); node.hidden = (foldsSmall && isSmall(s)) || (foldsMost && i >= FIRST_SEGMENTS); return node; });
  $("segments-table").replaceChildren(table({ class: "levels" }, head, rows));
  $("segments-more").hidden = !foldsSmall && !foldsMost;
  $("segments-more").textContent = foldsMost ? `Show all ${thousands(byFall.length)} segments` : `Show ${thousands(few.length)} more segments with too few queries`;
}

/* ---- misses ---- */

const lateGold = (i, run, k) => Q.gold[i].filter((g) => { const rank = rankOf(g, run); return rank === null || rank > k; });
function showMisses() {
  if (!$("misses-table")) return;
  const run = choice.run, rows = [];
  let gold = 0, never = 0, nobody = 0;
  for (let i = 0; i < Q.ids.length; i++) {
    for (const g of Q.gold[i]) {
      gold++;
      if (rankOf(g, run) === null) never++;
      if (g[2].every((r) => r === null)) nobody++;
    }
    const late = lateGold(i, run, data.k).sort((a, b) => b[1] - a[1] || (rankOf(b, run) ?? Infinity) - (rankOf(a, run) ?? Infinity));
    if (late.length) rows.push({ i, top: late[0], never: late.filter((g) => rankOf(g, run) === null).length, value: valueOf(run, choice.metric, i) ?? 0 });
  }
  rows.sort((a, b) => better(choice.metric, a.value - b.value) || b.top[1] - a.top[1] || b.never - a.never);
  const links = [never ? ["never", `Queries with relevant docs that ${run} did not return`] : null,
    listRuns.size > 1 && nobody ? ["nobody", "Queries with relevant docs that no run returned"] : null].filter(Boolean);
  const all = count(gold, "relevant doc", "relevant docs");
  $("misses-note").replaceChildren(own(run), never ? ` did not return ${thousands(never)} of ${all}` : ` returned all ${all}`,
    listRuns.size > 1 && nobody ? `; no run returned ${thousands(nobody)} of them` : "",
    rows.length ? `. Below: the queries with the lowest ${choice.metric}, the best doc that is not in the top ${data.k}, and what ranked first instead. ` : ". ",
    ...links.flatMap(([value, label], j) => [j ? " · " : "", el("a", { href: linkToQueries(["show", value]) }, label)]));
  const labels = ["Query", choice.metric, "Best doc missed", "Rank", "Ranked first", "Not returned"];
  const cell = (kind, label, ...children) => { const node = td(kind, null, ...children); node.dataset.label = label; return node; };
  $("misses-table").replaceChildren(rows.length ? table({ class: "rows-as-cards" }, [th(labels[0]), th(labels[1], "num"), th(labels[2]), th(labels[3]), th(labels[4]), th(labels[5], "num")],
    rows.slice(0, 8).map((r) => {
      const [docs, grades] = listOf(run, r.i), words = wordsOf(r.i);
      return el("tr", {}, el("th", { scope: "row" }, el("a", { href: linkTo(r.i), title: nameOf(r.i) }, own(excerptOf(r.i)))),
        cell("num", labels[1], figure(choice.metric, r.value)),
        cell("doc-cell", labels[2], own(docId(r.top[0])), " ", gradeMark(r.top[1]), textOf(r.top[0], words)), cell("", labels[3], placeOf(r.top, run, "rank ")),
        docs.length ? cell("doc-cell", labels[4], own(docId(docs[0])), " ", gradeMark(grades[0]), textOf(docs[0], words)) : cell("dim", labels[4], "nothing was returned"),
        cell("num", labels[5], r.never + " of " + Q.gold[r.i].length));
    })) : el("p", { class: "dim" }, `All relevant docs are in the top ${data.k}.`));
}

// Every relevant doc that the run, or no run, returned: the first of them in the page, all of them as CSV.
const SOME = 60;
function showNever() {
  if (!$("never-table")) return;
  const run = choice.run, nobody = $("never-of").value === "nobody", rows = [];
  for (let i = 0; i < Q.ids.length; i++) {
    const places = new Map();
    for (const g of Q.gold[i]) if (nobody ? g[2].every((r) => r === null) : rankOf(g, run) === null) {
      places.set(g[1], (places.get(g[1]) ?? 0) + 1);
      rows.push([i, g, places.get(g[1])]);
    }
  }
  // The best grades first, and of each grade the first doc of every query before any second one.
  rows.sort((a, b) => b[1][1] - a[1][1] || a[2] - b[2] || a[0] - b[0]);
  $("never-of").options[0].textContent = run;
  const by = mainRuns().filter((r) => listRuns.has(r));
  $("never-count").textContent = count(rows.length, "relevant doc", "relevant docs") + (rows.length > SOME ? `; the first ${SOME} are below, by grade` : "");
  $("never-table").replaceChildren(table({ class: "few" }, [th("Doc"), th("Grade", "num"), th("Query"), by.map((r) => th(own(r), "num"))],
    rows.slice(0, SOME).map(([i, g]) => el("tr", {}, el("th", { scope: "row" }, own(docId(g[0])), textOf(g[0], wordsOf(i))), td("num", null, gradeMark(g[1])),
      td("", null, el("a", { href: linkTo(i) }, own(excerptOf(i)))), by.map((r) => td("num", null, placeOf(g, r, "rank ")))))));
  $("never-copy").onclick = () => toClipboard(csvOf([["doc_id", "grade", "query_id", ...[...listRuns].map((r) => "rank " + r)],
    ...rows.map(([i, g]) => [docId(g[0]), String(g[1]), Q.ids[i], ...[...listRuns].map((r) => String(rankOf(g, r) ?? ""))])]), $("never-copy"));
}
