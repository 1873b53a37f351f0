"""Phrases mapped to terms of HPO: BM25 beside a multilingual model, on case files: `make bench-cases`.

Ours in five languages, and the 200 German ones of phentrieve where ../shared/data/hpo-german is there. Labels and
synonyms are in English. Needs the extras ontology, retrieve and multilingual; writes the section `cases` of
bench/RESULTS.md, from which docs/ontology.md takes its figures.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads wait for each other where others compute too
sys.path.insert(0, str(Path(__file__).parent))
import karat
from harness import HERE, Report, finish, machine, source_digest
from karat.results.figures import estimate_figure, p_text

PHENTRIEVE = HERE.parents[1] / "shared" / "data" / "hpo-german" / "200cases_o3_v1.json"
OWN = Path(karat.__file__).parent / "example" / "cases"
FILES = ("en/standard_v1.json", "de/standard_v1.json", "es/small_v1.json", "fr/small_v1.json", "nl/small_v1.json")
SYSTEMS = ("bm25", "use-multilingual=dense(model=use-multilingual)")
SHOWN = ("hit@1", "hit@10", "ndcg@10", "mrr", "max_ont_sim@1", "max_ont_sim@10")
PRIMARY = "ndcg@10"


def tables(report: Report, title: str, bench: karat.Bench) -> None:
    """Values, the comparison, and the primary metric by category and difficulty."""
    part = bench.only
    assert part.comparison is not None
    report.heading(title)
    names = [run.name for run in part.result]
    report.table(
        ["metric", *names],
        [[m, *(estimate_figure(m, run.intervals[m]).sentence for run in part.result)] for m in SHOWN],
    )
    (row,) = part.comparison.of(PRIMARY)
    report.note(f"{PRIMARY}: Δ {row.figure.sentence}, p adjusted {p_text(row.p_adjusted)}; {row.outcome}.")
    segments = [s for s in part.result.runs[0].segments if set(s.by) <= {"category", "difficulty"}]
    rows = [
        [
            " ".join(s.by.values()),
            str(s.n),
            *(
                estimate_figure(PRIMARY, t.metrics[PRIMARY]).sentence
                for run in part.result
                for t in run.segments
                if t.by == s.by
            ),
        ]
        for s in segments
    ]
    if rows:
        report.table([PRIMARY, "cases", *names], rows)


def main() -> None:
    begun = source_digest()
    report = Report("Cases")
    report.note(machine())
    report.note("Labels and synonyms of HPO in English; values with 95% intervals, differences by randomization.")
    sources = {f"{name.split('/')[0]}, {name}": OWN / name for name in FILES}
    if PHENTRIEVE.exists():
        sources = {"de, phentrieve's 200 cases": PHENTRIEVE, **sources}
    with tempfile.TemporaryDirectory() as folder:
        for i, (title, path) in enumerate(sources.items()):
            bench = karat.bench(cases=path, retrievers=SYSTEMS, ontology="hpo", out=f"{folder}/{i}")
            tables(report, title, bench)
            if path == PHENTRIEVE:
                bm25, model = (run.mean for run in bench.result)
                found, rank = bm25[PRIMARY], model["mrr"]
                report.bar(
                    "BM25 finds words that both languages share: .14 to .20", f"{found:.3f}", 0.14 <= found <= 0.20
                )
                report.bar("the model is clearly better: mrr .64 to .70", f"{rank:.3f}", 0.64 <= rank <= 0.70)
    report.note("Figures of relevance do not depend on how busy the machine is.")
    finish("cases", report, begun, partial=not PHENTRIEVE.exists())


if __name__ == "__main__":
    main()
