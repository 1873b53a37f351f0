"use strict";
// What the page holds, and the few words in which everything else is said. Scripts share these names.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const Q = data.queries;
const runs = data.runs;
const metrics = data.metrics.map((m) => m.name);
const meaning = new Map(data.metrics.map((m) => [m.name, m]));
const runIndex = new Map(runs.map((name, i) => [name, i]));
const metricIndex = new Map(metrics.map((name, i) => [name, i]));

// Everything is measured against one run, if there is one; the reader chooses which other run and which metric to look at.
const reference = runIndex.has(data.base) ? data.base : runs.length > 1 ? runs[0] : null;
const others = data.candidates.concat(runs.filter((r) => !data.candidates.includes(r))).filter((r) => r !== reference);
const chosen = { metric: data.primary, run: others[0] || runs[0], query: -1 };
const paired = reference !== null && others.length > 0;
const mainRuns = () => (paired ? [reference, chosen.run] : [chosen.run]);
const SAME = 1e-9;

// Elements are made from text alone: nothing of queries or docs is ever read as HTML.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}
// Text of others stands in an element of its own, so that its direction ends where it ends.
const own = (text) => el("bdi", {}, text);
const table = (attributes, head, rows) =>
  el("table", attributes, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
const th = (label, kind, attributes) => el("th", { scope: "col", class: kind, ...attributes }, label);
const td = (kind, exact, ...children) => el("td", { class: kind, "data-value": exact }, ...children);
const option = (value, label, selected) => el("option", { value, selected }, label === undefined ? value : label);

function told(metric, value, sign) {
  if (value === null || value === undefined) return "–";
  if (sign && Math.abs(value) <= SAME) return "0";
  const text = Math.abs(value).toFixed(meaning.get(metric)?.unit ? 1 : 3);
  return (value < 0 ? "−" : sign ? "+" : "") + text;
}
const span = (metric, low, high, sign) => told(metric, low, sign) + " to " + told(metric, high, sign);
const counted = (n, one, several) => n.toLocaleString("en") + " " + (n === 1 ? one : several);
const better = (metric, change) => (meaning.get(metric).higher === false ? -change : change);

// Whether an interval of a change lies wholly on one side of zero.
function tone(metric, ends) {
  if (!ends || ends[0] === null || ends[1] === null) return "";
  if (better(metric, ends[0]) > 0 && better(metric, ends[1]) > 0) return "up";
  return better(metric, ends[0]) < 0 && better(metric, ends[1]) < 0 ? "down" : "";
}

const valueOf = (run, metric, i) => Q.values[runIndex.get(run)][metricIndex.get(metric)][i];
function change(metric, i, run = chosen.run) {
  if (!paired) return null;
  const before = valueOf(reference, metric, i), after = valueOf(run, metric, i);
  return before === null || after === null ? null : after - before;
}
// Docs, grades and scores of a ranked list; grades of one digit come as one text, "-" for not judged.
function listOf(run, i) {
  const [docs, grades, scores] = Q.lists[runIndex.get(run)][i];
  return [docs, typeof grades === "string" ? [...grades].map((g) => (g === "-" ? null : Number(g))) : grades, scores];
}
const rankOf = (gold, run) => gold[2][runIndex.get(run)];
const docId = (n) => data.docs.ids[n];
const docText = (n) => data.docs.texts[n];
const nameOf = (i) => Q.texts[i] || Q.ids[i];
const linkTo = (i) => "#query=" + encodeURIComponent(Q.ids[i]);
const textOf = (n) => (docText(n) ? el("details", { class: "text" },
  el("summary", {}, el("bdi", {}, docText(n).slice(0, 120)), el("span", {}, "less")), el("p", { dir: "auto" }, docText(n))) : null);
