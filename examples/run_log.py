"""Log what each stage of a pipeline returned, then find out where relevant docs are lost."""

import json
import tempfile
from pathlib import Path

import karat

folder = Path(tempfile.mkdtemp())
log = folder / "pipeline.jsonl"
qrels = {}

with log.open("w") as file:
    for i in range(60):
        pool = [f"d{i}-{j}" for j in range(50)]
        relevant = pool[30]  # the retriever finds it, deep down
        qrels[f"q{i}"] = {relevant: 2}
        best = [relevant, *pool[:9]] if i % 3 == 0 else pool[:10]  # the reranker brings up every third one
        line = {
            "query_id": f"q{i}",
            "topk": [{"rank": r, "doc_id": doc} for r, doc in enumerate(best, start=1)],
            "stages": {"retrieve": pool, "rerank": best},
            "latency_ms": {"retrieve": 12 + i % 5, "rerank": 30 + i % 9},
        }
        file.write(json.dumps(line) + "\n")

diagnosis = karat.diagnose(qrels, str(log))
for finding in diagnosis.findings:
    print(f"{finding.title}: {finding.cause}")
parts = karat.components(qrels, str(log))
print("what became of the relevant docs:", dict(parts.funnel.counts))
