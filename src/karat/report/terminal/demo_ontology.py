"""What the demo of an ontology found, for a person at a terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from karat.errors import install_command
from karat.report.terminal import bench as bench_view
from karat.report.terminal.console import console, grid, line
from karat.report.terminal.demo import conclude, karat_command, show_steps
from karat.results.figures import estimate_figure, share_figure
from karat.results.words import plain
from karat.verbs.demo_ontology import BASELINE, ENCODER, MAIN, OntologyDemo

if TYPE_CHECKING:
    from karat.report.terminal.layout import Grid
    from karat.results.result import RunResult

METRIC = "ndcg@10"
CATEGORIES = {
    "exact_match": "is the label of a term",
    "synonym": "is a synonym of a term",
    "abbreviation": "abbreviates it",
    "layperson": "says it as patients do",
    "complex": "describes it in a sentence",
}
EXAMPLES, NEAR = 3, (0.6, 0.9)
"""Near misses to show, and how near they are: nearer ones look like the term itself."""


def show(demo: OntologyDemo) -> None:
    """Who is better, for which phrases and languages, how near the misses are, and what to try."""
    out = console()
    part, ontology = demo.main, demo.ontology
    count = sum(len(each.dataset.queries) for each in demo.bench.parts)
    size = f"{len(ontology):,} terms of {ontology.release}, {len(part.dataset.corpus):,} labels and synonyms in English"
    out.print(line((f"{count} phrases in {len(demo.bench.parts)} languages → terms", "bold"), f": {plain(size)}\n"))
    out.print(bench_view.systems_table(part.result, part.result.metrics))
    cases = f"{len(part.dataset.queries)} English cases"
    out.print(line(f"{cases}; max_ont_sim: how near the best answer is, 1 is the expected term", style="dim"))
    assert part.comparison is not None
    out.print(line("\n", ("Which is better", "bold"), f" ({METRIC}, {cases})"))
    for row in part.comparison.of(METRIC):
        out.print(line(f"  {plain(row.candidate):<14} {row.figure.sentence:<24}  {conclude(row, 'cases')}"))
    out.print(line("\nWhere", style="bold"))
    out.print(_categories(demo))
    for table in bench_view.tables_to_show(demo.bench):
        out.print()
        out.print(bench_view.languages_table(table))
        out.print(line(bench_view.describe_languages(table), style="dim"))
    few = [each for each in demo.bench.parts if each is not part]
    sizes = f"{len(few[0].dataset.queries)} cases each in {', '.join(each.dataset.name for each in few)}"
    out.print(line(f"{sizes}: for a first look, not for publication", style="dim"))
    _show_misses(demo)
    _show_next(demo)


def _categories(demo: OntologyDemo) -> Grid:
    result = demo.main.result
    table = grid(f"{METRIC} where the phrase", *(plain(run.name) for run in result), "cases")
    for value, title in CATEGORIES.items():
        segments = [s for run in result for s in run.segments if dict(s.by) == {"category": value}]
        if len(segments) == len(result):
            cells = (estimate_figure(METRIC, s.metrics[METRIC]).short for s in segments)
            table.add_row(title, *cells, str(segments[0].metrics[METRIC].n))
    return table


def _show_misses(demo: OntologyDemo) -> None:
    """A few phrases whose first answer is not the expected term, but a relative of it."""
    out, run = console(), demo.main.result.runs[-1]
    exact, near = run.per_query("hit@1"), run.per_query("max_ont_sim@1")
    relatives = [q for q, hit in exact.items() if hit == 0 and NEAR[0] <= near[q] <= NEAR[1]]
    misses = sorted(relatives, key=lambda q: (-near[q], q))
    if not misses:
        return
    out.print(line("\n", ("Near misses", "bold"), f" ({plain(run.name)}): hit@1 is 0, max_ont_sim@1 the last number"))
    for query in misses[:EXAMPLES]:
        phrase = demo.main.dataset.table.fields[query]["text"]
        expected = next(iter(demo.main.dataset.qrels.for_query(query)))
        answer = (
            f"{_label(demo, _first(run, query))} instead of {_label(demo, expected)}: {share_figure(near[query]).short}"
        )
        out.print(line(f"  {plain(str(phrase))} → {plain(answer)}"))


def _first(run: RunResult, query: str) -> str:
    return run.top_docs(query)[0].doc


def _label(demo: OntologyDemo, term: str) -> str:
    number, _ = demo.ontology.known.get(term, (-1, ""))
    return f"{demo.ontology.names[number]} ({term})" if number >= 0 else term


def _show_next(demo: OntologyDemo) -> None:
    out, karat = console(), karat_command(demo.folder)
    out.print(line("\nLook at it", style="bold"))
    out.print(line(f"  {plain(demo.report)}   ", ("every metric, segment and phrase, in English", "dim")))
    install = () if demo.multilingual else ((install_command(ENCODER), "the multilingual model, then this demo again"),)
    cases, german = (f"cases/{code}/standard_v1.json" for code in (MAIN, "de"))
    show_steps(
        (
            *install,
            (f"cd {shlex.quote(demo.folder)}", ""),
            (f"{karat} evaluate {cases} runs/{MAIN}/{BASELINE}.jsonl --ontology hpo --by domain", "by organ system"),
            (
                f"{karat} bench --cases {german} -r bm25 -r YOUR_MODULE:search -o mine",
                "a search of your own, in German",
            ),
            (
                f"{karat} bench --cases {german} --labels LABELS.tsv -r bm25 -o labels",
                "German labels: hp-de.babelon.tsv",
            ),
            (f"{karat} validate YOUR_CASES.json --ontology hpo", "your own cases, checked against the release"),
        )
    )
