"""BM25 over the sentences of SciFact, measured, diagnosed and checked by hand: `make bench-scifact`.

Writes docs/scifact-diagnosis.md. Needs ../shared/data/scifact; of its texts the page holds ids and a few words.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import karat
from bm25 import K1, B, Index
from karat.results.result import RunResult

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "scifact"
PAGE = ROOT / "docs" / "scifact-diagnosis.md"
DEPTH = 100
METRICS = "recall@5,recall@10,recall@50,recall@100,ndcg@10,mrr"
PLACES = ((1, 5), (6, 10), (11, 50), (51, 100))

CHECKED: dict[tuple[str, str], str] = {
    ("reranker-or-k", "1041"): "True. The evidence stands at 21, its abstract at 9; the first four are about H2A.Z in "
    "yeast and say nothing of stability, which a reranker would see.",
    ("reranker-or-k", "1089"): "True, and mild. The evidence stands at 6, behind three sentences of its own abstract: "
    "here k is too small, not the order wrong.",
    ("reranker-or-k", "1132"): "True. Two evidence sentences at 18 and 46; those above share the words (TCR, CD3) and "
    "answer another question.",
    ("chunker", "1019"): "True. The evidence is a summing-up that names neither rates nor fidelity; other sentences of "
    "the same abstract stand at 2 and 4.",
    (
        "chunker",
        "1088",
    ): "Half true. The abstract is at 16 by another sentence, but the claim writes Bcl2 and the evidence "
    "BCL-2: the tokeniser has as much part in it as the cut.",
    (
        "chunker",
        "1121",
    ): "True. The claim spells the factor out, the evidence sentence has the abbreviation only, and the "
    "sentence that links both is another chunk.",
    ("pool", "1"): "True. The claim and the gold abstract share no telling word; whole abstracts do not help either: "
    "this is for embeddings.",
    ("pool", "1049"): "True. The gold abstract tells of one ribosomal gene and never uses the claim's word for the "
    "disease; words alone cannot link them.",
    ("pool", "1099"): "True, by the chunks. The word that the claim turns on is in the title, which no sentence chunk "
    "has.",
}
"""What was found by reading the first three queries of each finding."""


def read() -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], list[str]]:
    docs = [json.loads(line) for line in (DATA / "corpus_sentences.jsonl").open(encoding="utf-8")]
    queries = {row["_id"]: row for row in map(json.loads, (DATA / "queries.jsonl").open(encoding="utf-8"))}
    test = list(karat.read_qrels(str(DATA / "qrels" / "test.tsv")).query_ids)
    return docs, queries, test


def log(index: Index, queries: dict[str, dict[str, Any]], test: list[str], path: Path) -> str:
    """A run log of the best 100 of each query."""
    with path.open("w", encoding="utf-8") as out:
        for q in test:
            top = [
                {"rank": rank, "chunk_id": c, "doc_id": c.partition("#")[0], "score": round(score, 6)}
                for rank, (c, score) in enumerate(index.search(queries[q]["text"], DEPTH), start=1)
            ]
            line = {"query_id": q, "system": f"BM25 k1={K1} b={B}", "k_raw": DEPTH, "topk": top}
            out.write(json.dumps(line) + "\n")
    return str(path)


def figures(columns: dict[str, RunResult]) -> list[str]:
    """The means with their intervals, a column for each run and gold."""
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    lines.append("| queries | " + " | ".join(str(len(r.query_ids)) for r in columns.values()) + " |")
    for name in next(iter(columns.values())).values:
        cells = []
        for run in columns.values():
            found = run.intervals[name]
            cells.append(f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def account(chunk: RunResult, doc: RunResult) -> list[str]:
    """Where all of the gold is: each evidence sentence and each abstract in one row."""
    rows: dict[str, list[int]] = {f"at rank {a} to {b}": [0, 0] for a, b in PLACES}
    rows |= {"not in the 100, while another sentence of its abstract is": [0, 0], "not in the 100 at all": [0, 0]}
    for column, run in enumerate((chunk, doc)):
        for query in run.query_ids:
            found = {item.doc.partition("#")[0] for item in run.top_docs(query)}
            for gold in run.gold_docs(query):
                rank = gold.rank
                place = next((f"at rank {a} to {b}" for a, b in PLACES if rank and a <= rank <= b), None)
                if place is None:
                    elsewhere = column == 0 and gold.doc.partition("#")[0] in found
                    place = list(rows)[-2] if elsewhere else list(rows)[-1]
                rows[place][column] += 1
    totals = [sum(counts[i] for counts in rows.values()) for i in (0, 1)]
    assert totals == [sum(len(run.gold_docs(q)) for q in run.query_ids) for run in (chunk, doc)]
    lines = ["| | evidence sentences | abstracts |", "|---|---:|---:|"]
    for name, (a, b) in rows.items():
        lines.append(f"| {name} | {a} ({a / totals[0]:.0%}) | {b} ({b / totals[1]:.0%}) |")
    return [*lines, f"| in all | {totals[0]} | {totals[1]} |"]


def told(found: karat.Diagnosis, whole: RunResult) -> list[str]:
    """The findings, and what was seen by hand in the first three queries of each."""
    lines = []
    for finding in found.findings:
        lines += [
            f"**{finding.title}** (`{finding.code}`, weight {finding.weight:.2f}, {len(finding.queries)} queries)",
            "",
        ]
        lines += [f"- evidence: {'; '.join(map(str, finding.evidence))}", f"- likely cause: {finding.cause}"]
        for q in finding.queries[:3]:
            note = CHECKED.get((finding.code, q))
            if note is None:
                raise SystemExit(f"query {q} of {finding.code} has not been read; read it, and add it to CHECKED")
            ranks = [str(g.rank or "–") for g in whole.gold_docs(q) if g.grade >= 1]
            lines.append(f"- query {q} (gold at {', '.join(ranks)} by whole abstracts): {note}")
        lines.append("")
    if found.undecided:
        lines += [f"Too few queries for: {', '.join(found.undecided)}.", ""]
    skipped = [f"{', '.join(codes)} ({reason})" for reason, codes in found.skipped.items()]
    return [*lines, f"Skipped: {'; '.join(skipped)}."]


def main() -> None:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA}: no such folder; expected the SciFact data there")
    docs, queries, test = read()
    sentences = Index(
        [f"{d['doc_id']}#{i}" for d in docs for i in range(len(d["abstract"]))],
        (s for d in docs for s in d["abstract"]),
    )
    whole = Index([d["doc_id"] for d in docs], (" ".join((d["title"], *d["abstract"])) for d in docs))
    evidence = {
        q: {
            f"{doc}#{s}": 1
            for doc, notes in queries[q]["metadata"].items()
            for note in notes
            for s in note["sentences"]
        }
        for q in test
    }
    evidence = {q: gold for q, gold in evidence.items() if gold}
    abstracts = str(DATA / "qrels" / "test.tsv")
    with tempfile.TemporaryDirectory() as folder:
        by_sentence = log(sentences, queries, test, Path(folder) / "sentences.jsonl")
        by_abstract = log(whole, queries, test, Path(folder) / "abstracts.jsonl")
        options: dict[str, Any] = {"details": True, "cache": False}
        chunk = karat.evaluate(evidence, by_sentence, METRICS, **options).runs[0]
        doc = karat.evaluate(abstracts, by_sentence, METRICS, **options).runs[0]
        full = karat.evaluate(abstracts, by_abstract, METRICS, **options).runs[0]
        first, second = karat.diagnose(evidence, by_sentence), karat.diagnose(abstracts, by_sentence)
    columns = {"evidence sentences": chunk, "abstracts, by sentence": doc, "abstracts, as wholes": full}
    lines = [
        "# BM25 on the sentences of SciFact, diagnosed",
        "",
        f"Written by `make bench-scifact`; do not edit. SciFact (BEIR's test queries): {len(docs):,} abstracts cut",
        f"into {len(sentences.ids):,} sentences, each a chunk of its own without the title; BM25 (k1 = {K1}, b = {B})",
        f"with Lucene's idf and stop words, plurals stemmed; the best {DEPTH} sentences of each query. Gold by chunk:",
        "the evidence sentences. Gold by doc: the abstracts; a sentence stands for its abstract. The last column is",
        "the same BM25 on title and abstract as one text: its ndcg@10 lies where published figures of BM25 on SciFact",
        "do (.665 to .679).",
        "",
        *figures(columns),
        "",
        "## Where the gold is",
        "",
        "Each piece of gold in one row; the columns add up.",
        "",
        *account(chunk, doc),
        "",
        "## Findings with gold by sentence",
        "",
        "Beside each finding stand its first three queries, read by hand.",
        "",
        *told(first, full),
        "",
        "## Findings with gold by abstract",
        "",
        *told(second, full),
        "",
    ]
    PAGE.write_text("\n".join(lines), "utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
