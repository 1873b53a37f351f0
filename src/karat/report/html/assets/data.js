"use strict";
// What the page holds, what the reader has chosen, and the few functions that every other script uses.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const Q = data.queries;
const runs = data.runs;
const metrics = data.metrics.map((m) => m.name);
const columns = new Map(data.metrics.map((m) => [m.name, m]));
const runIndex = new Map(runs.map((name, i) => [name, i]));
const metricIndex = new Map(metrics.map((name, i) => [name, i]));
const listRuns = new Set(data.listed);
const hasGold = Q.gold.length > 0;

// The reader chooses which run and which metric to look at. A run is shown against the baseline; where there is none,
// against the best of the others.
const others = data.candidates.concat(runs.filter((r) => !data.candidates.includes(r))).filter((r) => r !== data.base || runs.length === 1);
const start = { metric: data.primary, run: others[0] || runs[0] };
const choice = { ...start, query: -1, pin: false, section: "", unknown: null };
const hasPair = runs.length > 1;
const reference = () => data.opponents[choice.run] ?? null;
const mainRuns = () => (hasPair ? [reference(), choice.run] : [choice.run]);
const SAME = 1e-9;
// What a query has in a field: a value, or several; "(none)" where it lacks the field.
const NONE = "(none)";
const valuesIn = (field, i) => [Q.fields[field][i]].flat();
const tagsIn = (field, i) => valuesIn(field, i).filter((value) => value !== NONE);

// Elements are made from text alone: nothing of queries or docs is ever read as HTML.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== "") node.append(child);
  return node;
}
// Text of others stands in an element of its own, so that its direction ends where it ends.
const own = (text) => el("bdi", {}, text);
const table = (attributes, head, rows) =>
  el("table", attributes, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
const th = (label, kind, attributes) => el("th", { scope: "col", class: kind, ...attributes }, label);
const td = (kind, exact, ...children) => el("td", { class: kind, "data-value": exact }, ...children);
const option = (value, label, selected) => el("option", { value, selected }, label === undefined ? value : label);
const region = (label, ...children) => el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);

// A value of one query, in the digits and the unit that came with its metric. All other figures come as text.
function figure(metric, value, sign) {
  if (value === null || value === undefined) return "–";
  if (sign && Math.abs(value) <= SAME) return "0" + (columns.get(metric).unit && " " + columns.get(metric).unit);
  const { digits, least, unit } = columns.get(metric), size = Math.abs(value) <= SAME ? 0 : Math.abs(value);
  const significant = digits ? 1 : 2, enough = digits ? size >= least : Number.isInteger(size);
  const places = size === 0 || enough ? digits : Math.min(12, Math.max(digits, significant - Math.floor(Math.log10(size))));
  // Grouping takes a hundred times as long as digits alone.
  const text = size < 1000 ? size.toFixed(places) : size.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  return (value < 0 && size ? "−" : sign ? "+" : "") + text + (unit ? " " + unit : "");
}
const thousands = (n) => n.toLocaleString("en");
const count = (n, one, several) => thousands(n) + " " + (n === 1 ? one : several);
const better = (metric, change) => (columns.get(metric).higher === false ? -change : change);
const direction = (metric, change) => (change === null || Math.abs(change) <= SAME ? "" : better(metric, change) > 0 ? "up" : "down");

// What a query is called that fell, and one that rose, by a metric: only relevance breaks.
function fates(metric) {
  const { higher, by_gold, unit } = columns.get(metric);
  if (higher === null) return ["lower", "higher"];
  if (higher && by_gold) return ["broken", "fixed"];
  return !higher && unit === "ms" ? ["slower", "faster"] : ["worse", "better"];
}

const valueOf = (run, metric, i) => Q.values[runIndex.get(run)][metricIndex.get(metric)][i];
function changeOf(metric, i, run = choice.run) {
  if (!hasPair) return null;
  const before = valueOf(reference(), metric, i), after = valueOf(run, metric, i);
  return before === null || after === null ? null : after - before;
}
const overallChange = (run, metric) => data.changes.find((c) => c.candidate === run && c.metric === metric && c.segment === null);
// Docs, grades and scores of a ranked list; grades of one digit come as one text, "-" for not judged.
function listOf(run, i) {
  const [docs, grades, scores] = Q.lists[runIndex.get(run)][i];
  return [docs, typeof grades === "string" ? [...grades].map((g) => (g === "-" ? null : Number(g))) : grades, scores];
}
const rankOf = (gold, run) => gold[2][runIndex.get(run)];
// The rank of a relevant doc, or the stage of the run log that lost it.
const placeOf = (gold, run, word = "") => { const rank = rankOf(gold, run); return rank === null ? gold[3][runIndex.get(run)] ?? "not returned" : word + rank; };
const hasDocTexts = Object.keys(data.docs.texts).length > 0;
const docId = (n) => data.docs.ids[n];
const docText = (n) => data.docs.texts[n];
const nameOf = (i) => Q.texts[i] || Q.ids[i];
const excerptOf = (i) => (nameOf(i).length > 160 ? nameOf(i).slice(0, 159) + "…" : nameOf(i));

/* ---- words of a query in a text ---- */

const WORD = /[\p{L}\p{N}\p{M}]+/gu, UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const segmenter = window.Intl?.Segmenter ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;
const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").replace(/[‐‑]/g, "-").toLowerCase();
// What is joined by hyphens and holds a digit, such as E-12, is one word.
const LETTER = `(?:(?!${UNSPACED.source})[\\p{L}\\p{N}\\p{M}])`, CODE = new RegExp(`${LETTER}+(?:(?:[-_‐‑]|\\.(?=\\p{N}))${LETTER}+)+`, "gu");
function tokens(text) {
  const codes = [...text.matchAll(CODE)].filter((m) => /\p{N}/u.test(m[0])).map((m) => [m.index, m[0]]);
  const words = segmenter && UNSPACED.test(text) ? [...segmenter.segment(text)].filter((s) => s.isWordLike).map((s) => [s.index, s.segment])
    : [...text.matchAll(WORD)].map((m) => [m.index, m[0]]);
  if (!codes.length) return words;
  const isApart = ([at, word]) => codes.every(([from, code]) => at + word.length <= from || at >= from + code.length);
  return [...codes, ...words.filter(isApart)].sort((a, b) => a[0] - b[0]);
}
// Words that many queries or docs share say nothing about one of them, whatever the language.
const SAMPLE = 400, COMMON = { queries: 0.02, docs: 0.12 };
const counted = {};
function isShared(word, name, texts) {
  if (!counted[name]) {
    const every = Math.max(1, Math.floor(texts.length / SAMPLE)), sample = texts.filter((_, i) => i % every === 0), counts = new Map();
    for (const text of sample) for (const w of new Set(tokens(text).map(([, t]) => fold(t)))) counts.set(w, (counts.get(w) ?? 0) + 1);
    counted[name] = { counts, most: Math.max(sample.length * COMMON[name], 2) };
  }
  return (counted[name].counts.get(word) ?? 0) > counted[name].most;
}
const isCommon = (word) => isShared(word, "queries", Q.texts) || isShared(word, "docs", Object.values(data.docs.texts));
// Whether a word is long enough to say something: three letters, or two characters with a digit.
const isLong = (word) => word.length > (/\p{N}/u.test(word) ? 1 : 2) || UNSPACED.test(word);
function wordsOf(i) {
  const text = Q.texts[i];
  if (!text || !hasDocTexts) return new Set();
  return new Set(tokens(text).map(([, t]) => fold(t)).filter((w) => isLong(w) && !isCommon(w)));
}
// The text as nodes, with the words of the query marked.
function highlight(text, words) {
  if (!words.size) return [text];
  const nodes = [];
  let end = 0;
  for (const [at, token] of tokens(text)) {
    if (!words.has(fold(token))) continue;
    nodes.push(text.slice(end, at), el("mark", {}, token));
    end = at + token.length;
  }
  return [...nodes, text.slice(end)];
}
// The beginning of a text, without a last word that is cut.
const BEGINNING = 120;
const beginningOf = (text) => (text.length > BEGINNING ? text.slice(0, BEGINNING).replace(/[\p{L}\p{N}\p{M}]+$/u, "") + "…" : text);
const textOf = (n, words = new Set()) => (docText(n) ? el("details", { class: "text" },
  el("summary", {}, el("bdi", {}, highlight(beginningOf(docText(n)), words)), el("span", {}, "less")),
  el("p", { dir: "auto" }, highlight(docText(n), words))) : null);
