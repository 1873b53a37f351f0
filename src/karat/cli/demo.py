"""`karat demo`: the example that ships with the package."""

from __future__ import annotations

from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "example"
METRICS = ("hit@{1,3}", "recall@5", "ndcg@10", "mrr")


def demo() -> None:
    """Evaluate a small example and say what the numbers mean. Needs no network and no files of yours.

    Two ways to search the handbook of a made-up kettle, 20 passages, 18 questions with graded gold:
    by keyword (BM25) and by meaning (static embeddings).
    """
    from karat import evaluate
    from karat.metrics import parse
    from karat.report import terminal

    gold = str(EXAMPLE / "qrels.tsv")
    runs = {"keyword": str(EXAMPLE / "keyword.run"), "dense": str(EXAMPLE / "dense.jsonl")}
    result = evaluate(gold, runs, METRICS)
    out = terminal.console()
    out.print("[bold]Two ways to search a handbook[/bold] (20 passages, 18 questions, grades 0 to 3)\n")
    terminal.show(result, gold)
    means = {name: result[name].mean for name in runs}
    better = max(runs, key=lambda name: means[name]["ndcg@10"])
    worse = min(runs, key=lambda name: means[name]["ndcg@10"])
    out.print("\n[bold]What it means[/bold]")
    for name in ("hit@1", "recall@5", "ndcg@10"):
        out.print(f"  {name:<9} {parse(name).metric.tells}")
    fixed, lost = _differences(result[better].per_query("ndcg@10"), result[worse].per_query("ndcg@10"))
    out.print(
        f"\n{better} is ahead in ndcg@10 by {means[better]['ndcg@10'] - means[worse]['ndcg@10']:.3f}: better on "
        f"{len(fixed)} questions, worse on {len(lost)}. With 18 questions that is a hint, not a proof."
    )
    texts = _texts()
    for label, queries in ((f"{better} wins most on", fixed), (f"{worse} wins most on", lost)):
        if queries:
            out.print(f"  {label}: [italic]{texts[queries[0]]}[/italic] ({queries[0]})")
    out.print(
        "\n[bold]Your turn[/bold]\n  karat evaluate QRELS RUN [RUN…]      your own files, in nearly any format"
        "\n  karat metrics ndcg                   what a metric means\n"
        f"  karat evaluate {_short(gold)} {_short(runs['keyword'])}"
    )


def _differences(a: dict[str, float], b: dict[str, float]) -> tuple[list[str], list[str]]:
    """Queries on which the first is better and on which it is worse, the largest differences first."""
    delta = {q: a[q] - b[q] for q in a}
    ordered = sorted(delta, key=lambda q: -abs(delta[q]))
    return [q for q in ordered if delta[q] > 0], [q for q in ordered if delta[q] < 0]


def _texts() -> dict[str, str]:
    from karat import read_queries

    return {q: str(text) for q, text in read_queries(str(EXAMPLE / "queries.jsonl")).field("text").items()}


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
