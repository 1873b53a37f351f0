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
    from karat import compare
    from karat.metrics import parse
    from karat.report import compared, terminal

    gold = str(EXAMPLE / "qrels.tsv")
    runs = {"keyword": str(EXAMPLE / "keyword.run"), "dense": str(EXAMPLE / "dense.jsonl")}
    found = compare(gold, runs, METRICS)
    out = terminal.console()
    out.print("[bold]Two ways to search a handbook[/bold] (20 passages, 18 questions, grades 0 to 3)\n")
    terminal.show(found.result, gold)
    out.print("\n[bold]What it means[/bold]")
    for name in ("hit@1", "recall@5", "ndcg@10"):
        out.print(f"  {name:<9} {parse(name).metric.tells}")
    row = found["ndcg@10"]
    low, high = row.difference.low, row.difference.high
    out.print(
        f"\n[bold]Which is better[/bold]\n  {compared.sentence(row, found.alpha)}, by {row.delta:.3f} "
        f"(95% interval {low:.3f} to {high:.3f}): better on {row.wins} questions, equal on "
        f"{row.ties}, worse on {row.losses}."
    )
    moved = found.differences("ndcg@10")
    won, lost = [q for q, *_, d in moved if d > 0], [q for q, *_, d in moved if d < 0]
    texts = _texts()
    for name, queries in (("dense", won), ("keyword", lost)):
        if queries:
            out.print(f"  {name} wins most on: [italic]{texts[queries[0]]}[/italic] ({queries[0]})")
    out.print(
        "\n[bold]Your turn[/bold]\n  karat evaluate QRELS RUN...       your own files, in nearly any format"
        "\n  karat compare QRELS BASE CAND...  is the candidate better, and how sure is that"
        "\n  karat sweep QRELS RUN...          how recall grows with k"
        "\n  karat init, then karat check      may it ship: gates, a verdict, an exit code for CI"
        "\n  karat diagnose QRELS RUN          what is wrong, and what to try"
        "\n  --html report.html                on evaluate, compare and check: a report to look at"
        "\n  karat metrics ndcg                what a metric means"
        f"\n  such as: karat compare {_short(gold)} {_short(runs['keyword'])} {_short(runs['dense'])}"
    )


def _texts() -> dict[str, str]:
    from karat import read_queries

    return {q: str(text) for q, text in read_queries(str(EXAMPLE / "queries.jsonl")).field("text").items()}


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
