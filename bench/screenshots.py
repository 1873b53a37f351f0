"""Pictures of reports, to be looked at: `make screenshots`.

Of the project that `karat demo` makes, and of TREC DL 2019 where its files are there (`../shared/data/dl19`): wide and
narrow, light and dark, with a query open. They go to a folder beside the repository.

    screenshots.py [FOLDER]     all of them
    screenshots.py --readme     only the two small ones of the demo, into docs/images
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
DL19 = ROOT.parent / "shared/data/dl19"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
README = {"report": (1200, 700, "light", ""), "report-query": (1200, 560, "dark", "#query=en-003")}
VIEWS = {
    "light": (1400, 1000, "light", ""),
    "dark": (1400, 1000, "dark", ""),
    "medium": (900, 1000, "light", ""),
    "narrow": (390, 844, "light", ""),
    "narrow-dark": (390, 844, "dark", ""),
}


def demo(folder: Path) -> Path:
    """The project that `karat demo` makes."""
    subprocess.run([sys.executable, "-m", "karat", "demo", str(folder / "project"), "-q"], check=True)
    return folder / "project/report.html"


def dl19(folder: Path) -> Path:
    """SPLADE against BM25, with gates that pass, fail and stay undecided; texts and fields of queries in one table."""
    texts = dict(line.rstrip("\n").split("\t", 1) for line in (DL19 / "topics.tsv").open(encoding="utf-8"))
    head, *lines = (DL19 / "segments.tsv").read_text("utf-8").splitlines()
    rows = [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]
    table = "".join(json.dumps({**row, "text": texts.get(row["query_id"], "")}) + "\n" for row in rows)
    (folder / "queries.jsonl").write_text(table, "utf-8")
    config = {
        "dataset": {"name": "TREC DL 2019", "qrels": str(DL19 / "qrels.txt"), "queries": str(folder / "queries.jsonl")},
        "runs": {"bm25": str(DL19 / "bm25.run"), "splade": str(DL19 / "splade.run")},
        "baseline": "bm25",
        "metrics": ["ndcg@10", "recall@100", "mrr", "hit@1", "precision@10", "map"],
        "segments": {"by": ["intent", "answer_type"], "minimum": 5},
        "gates": [
            "ndcg@10 better than baseline",
            "hit@1 >= 0.80",
            "ndcg@10 >= 0.78",
            "recall@100 >= 0.65",
            "recall@100 no worse than baseline by 0.01",
            {"gate": "ndcg@10 >= 0.6 for every intent", "level": "warn"},
        ],
    }
    (folder / "karat.yaml").write_text(json.dumps(config), "utf-8")
    path = folder / "report.html"
    subprocess.run([sys.executable, "-m", "karat", "check", str(folder), "--html", str(path), "-q"], check=False)
    return path


def picture(browser: Any, path: Path, out: Path, view: tuple[int, int, str, str], *, full: bool) -> None:
    width, height, scheme, link = view
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(path.as_uri() + link)
    page.wait_for_selector("html[data-ready=yes]")
    while not page.evaluate("[...document.querySelectorAll('.chart')].every(c => c.dataset.ready === 'yes')"):
        page.wait_for_timeout(50)
    page.wait_for_timeout(300)
    page.screenshot(path=str(out), full_page=full)
    context.close()
    print(f"{out}  {out.stat().st_size / 1000:.0f} kB")


def main() -> None:
    from playwright.sync_api import sync_playwright

    readme = "--readme" in sys.argv
    folders = [a for a in sys.argv[1:] if not a.startswith("-")]
    out = ROOT / "docs/images" if readme else Path(folders[0]) if folders else ROOT.parent / "screenshots"
    out.mkdir(parents=True, exist_ok=True)
    sources = {"demo": (demo, "en-003")} | ({} if readme or not DL19.is_dir() else {"dl19": (dl19, "1124210")})
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit("no Chromium found: `make browser`")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="karat-") as name:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for source, (make, query) in sources.items():
            folder = Path(name) / source
            folder.mkdir()
            path = make(folder)
            if readme:
                for title, view in README.items():
                    picture(browser, path, out / f"{title}.png", view, full=False)
                continue
            for title, view in VIEWS.items():
                picture(browser, path, out / f"{source}-{title}.png", view, full=False)
                picture(browser, path, out / f"{source}-{title}-whole.png", view, full=True)
                linked = (*view[:3], f"#query={query}")
                picture(browser, path, out / f"{source}-{title}-query.png", linked, full=False)
        browser.close()


if __name__ == "__main__":
    main()
