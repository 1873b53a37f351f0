"""Benchmark a search function of your own beside BM25. Needs the extra `retrieve`."""

import json
import tempfile
from pathlib import Path

import karat

DOCS = {
    "box": "Put the parcel into the box and press the green button.",
    "code": "The pickup code has six digits and is valid for three days.",
    "lost": "If a parcel is lost, file a claim within ten days.",
    "fees": "Storage is free for three days; after that it costs one euro per day.",
}
QUERIES = {
    "q1": ("how long is the pickup code valid", "code"),
    "q2": ("parcel is lost", "lost"),
    "q3": ("storage costs", "fees"),
}


def count_words(query: str, k: int) -> list[tuple[str, float]]:
    """The docs that share most words with the query."""
    words = set(query.lower().split())
    scores = {doc: len(words & set(text.lower().split())) for doc, text in DOCS.items()}
    return sorted(scores.items(), key=lambda pair: -pair[1])[:k]


folder = Path(tempfile.mkdtemp())
(folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": d, "text": t}) + "\n" for d, t in DOCS.items()))
(folder / "queries.jsonl").write_text(
    "".join(json.dumps({"_id": q, "text": t}) + "\n" for q, (t, _) in QUERIES.items())
)
(folder / "qrels.tsv").write_text(
    "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t1\n" for q, (_, d) in QUERIES.items())
)

bench = karat.bench(str(folder), {"bm25": "bm25", "words": count_words}, "mrr,hit@1", k=4, out=str(folder / "runs"))
for run in bench.result:
    print(run.name, {name: round(value, 3) for name, value in run.mean.items()})
