"""The report: how large it is, how soon it can be used, how fast it filters: `make bench-report`.

Two runs of 30 docs a query, ten metrics, seven segments, no texts of docs, and docs that hardly ever come twice, which
takes the most room. Each report is opened several times in the system's Chromium, as a new user would: nothing is
cached. Times are of the page's own clock, from the start of the navigation.

    report.py            all of it; writes the section `report` of bench/RESULTS.md
    report.py --quick    few rounds; writes nothing
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import OtherLoad, Report, finish, machine, progress, python, seconds, source_digest

SIZES = (100, 1_000, 10_000, 100_000)
USUAL, MOST = SIZES[2:]
BOUNDS = {100: 2.5e6, 10_000: 15e6}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

MAKE = """
import json, random, sys, time
import karat
queries, out = int(sys.argv[1]), sys.argv[2]
rng = random.Random(3)
doc = lambda: f"doc{rng.randrange(9_000_000)}"
gold = {f"q{i}": {doc(): rng.choice([1, 2, 3]) for _ in range(3)} for i in range(queries)}
runs = {"old": {}, "new": {}}
for run in runs.values():
    for q, known in gold.items():
        docs = [*known, *(doc() for _ in range(30))]
        rng.shuffle(docs)
        run[q] = {d: round(30 - j * 0.7 + rng.random() / 2, 4) for j, d in enumerate(docs)}
table = {q: {"text": f"how do I find the thing that is called {q}", "topic": f"t{i % 7}"} for i, q in enumerate(gold)}
names = ["ndcg@10", "ndcg@5", "recall@1", "recall@5", "recall@10", "precision@5", "hit@1", "hit@10", "mrr", "map"]
found = karat.compare(gold, runs, names, queries=table, by="topic", details=True)
start = time.perf_counter()
karat.write_report(found, out, queries=table)
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

READY = "document.documentElement.dataset.ready === 'yes'"
CHART = "document.querySelector('#forest[data-ready=yes], #curves[data-ready=yes]') !== null"
WATCH = """
const times = {};
new MutationObserver(() => {
  if (!times.ready && READY) times.ready = performance.now();
  if (!times.chart && CHART) times.chart = performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });
window.times = times;
""".replace("READY", READY).replace("CHART", CHART)
FILTER = """
async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const timed = async (act) => {
    const start = performance.now();
    act();
    await painted();
    return performance.now() - start;
  };
  const set = (id, value, event) => {
    const node = document.getElementById(id);
    node.value = value;
    node.dispatchEvent(new Event(event, { bubbles: true }));
  };
  const out = {};
  out.search = await timed(() => set("search", "9", "input"));
  out.cleared = await timed(() => set("search", "", "input"));
  out.broken = await timed(() => set("outcome", "broken", "change"));
  out.misses = await timed(() => set("outcome", "miss", "change"));
  out.metric = await timed(() => set("metric", "mrr", "change"));
  await new Promise((done) => setTimeout(done, 2000));
  out.all = await timed(() => set("outcome", "all", "change"));
  const field = document.querySelector("#field-filters select");
  out.segment = await timed(() => { field.value = field.options[2].value; field.dispatchEvent(new Event("change")); });
  out.sort = await timed(() => document.querySelector("#rows thead th:nth-child(1) button").click());
  out.key = await timed(() => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true })));
  return out;
}
"""


def measure(browser: Any, path: Path) -> dict[str, float]:
    """Milliseconds until the page can be used and shows its first chart, and those of each way to filter."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.add_init_script(WATCH)
    page.goto(path.as_uri())
    while not page.evaluate("window.times.ready && window.times.chart"):
        page.wait_for_timeout(20)
    times = dict(page.evaluate("window.times"))
    page.wait_for_timeout(2500)  # charts below are drawn in the meantime
    times |= page.evaluate(FILTER)
    times["heap"] = page.evaluate("performance.memory.usedJSHeapSize")
    page.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="The report: size and speed.")
    parser.add_argument("--quick", action="store_true", help="few rounds; writes nothing")
    quick = parser.parse_args().quick
    from playwright.sync_api import sync_playwright

    begun = source_digest()
    report = Report("Report")
    report.note(machine())
    load = OtherLoad()
    rows, worst, sizes, heaps = [], {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="karat-bench-") as name, sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, BROWSERS)), None)
        if program is None:
            sys.exit("no Chromium found: `make browser`")
        for queries in SIZES:
            progress(f"{queries:,} queries")
            path = Path(name) / f"{queries}.html"
            duration = python("-c", MAKE, str(queries), str(path), env={"KARAT_CACHE_DIR": name}).answer["seconds"]
            size = path.stat().st_size
            sizes[queries] = size
            rounds = []
            for _ in range(2 if quick or queries == MOST else 7):
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
                rounds.append(measure(browser, path))
                version = browser.version
                browser.close()
            middle = {what: statistics.median(r[what] for r in rounds) for what in rounds[0]}
            heaps[queries] = middle.pop("heap")
            worst[queries] = middle
            slowest = max((middle[what], what) for what in middle if what not in ("ready", "chart"))
            rows.append(
                [
                    f"{queries:,}",
                    f"{size / 1e6:.2f} MB",
                    seconds(duration),
                    seconds(middle["ready"] / 1e3),
                    seconds(middle["chart"] / 1e3),
                    f"{seconds(slowest[0] / 1e3)} ({slowest[1]})",
                    f"{heaps[queries] / 1e6:.0f} MB",
                ]
            )
    report.note(
        f"Two runs, ten metrics, seven segments, texts of queries, none of docs. Chromium {version}, no cache, "
        "the median of several openings. Usable: tables, filters and keys answer. Slowest: of searching, filtering by "
        "outcome, segment and metric, sorting, and moving to the next query, until the screen shows it."
    )
    report.table(["queries", "file", "made in", "usable", "first chart", "slowest filter", "heap"], rows)
    for queries, bound in BOUNDS.items():
        report.bar(
            f"{queries:,} queries: at most {bound / 1e6:g} MB",
            f"{sizes[queries] / 1e6:.2f} MB",
            sizes[queries] <= bound,
        )
    usual, most = worst[USUAL], worst[MOST]
    first = max(usual["ready"], usual["chart"])
    report.bar("10,000 queries: usable, with its first chart, within 2 s", seconds(first / 1e3), first <= 2000)
    slowest = max(v for what, v in usual.items() if what not in ("ready", "chart"))
    report.bar("10,000 queries: every filter within 200 ms", seconds(slowest / 1e3), slowest <= 200)
    first = max(most["ready"], most["chart"])
    report.bar("100,000 queries: opens, with its first chart, within 10 s", seconds(first / 1e3), first <= 10_000)
    slowest = max(v for what, v in most.items() if what not in ("ready", "chart"))
    report.bar("100,000 queries: every filter within 1 s", seconds(slowest / 1e3), slowest <= 1000)
    report.bar("100,000 queries: the page's heap at most 1 GB", f"{heaps[MOST] / 1e6:.0f} MB", heaps[MOST] <= 1e9)
    report.note(load.told())
    finish("report", report, begun, partial=quick)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
