"""What the demo of judges found, for a person at a terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from karat.judge.by_judge import BIASED
from karat.report.by_judge import describe_judged
from karat.report.calibration import confusion, figures
from karat.report.terminal.calibrate import show_table
from karat.report.terminal.console import console, grid, line
from karat.report.terminal.demo import karat_command, show_steps
from karat.report.terminal.judge import describe_comparison
from karat.results.figures import estimate_figure
from karat.results.words import plain, plural
from karat.verbs.demo_judge import DEPTH, NEW, OLD, RULE, JudgeDemo

if TYPE_CHECKING:
    from karat.judge.pool import Pool
    from karat.report.terminal.layout import Grid


def show(demo: JudgeDemo) -> None:
    """What is missing, what the judge says of it, what it is worth, and what the figures become."""
    out, pool = console(), demo.pool
    out.print(line(("Gold that lacks what a new search returns", "bold")))
    about = (
        "no model and no person is asked here: a script stands in for both, and the handbook's full gold is the truth"
    )
    out.print(line(f"{about}\n", style="dim"))
    out.print(
        line(("1 Pool", "bold"), f"  the gold holds what {OLD} returns in its top {DEPTH}; {NEW} returns other docs")
    )
    out.print(line(f"  {pool.total - pool.judged:,} of {plural(pool.total, 'pair')} have no judgment"))
    _show_comparisons(pool)
    out.print(line(("\n2 Judge", "bold"), f"  the scripted judge grades {plural(demo.judged, 'pair')}"))
    out.print(line(f"  its rule: {RULE}", style="dim"))
    out.print(
        line(("\n3 Sample", "bold"), f"  {demo.labels} of them, drawn by the judge's grade with known probabilities")
    )
    out.print(line("  scripted people label these: the handbook's gold", style="dim"))
    out.print(line(("\n4 Calibrate", "bold"), "  what is the judge worth?\n"))
    show_table(out, confusion(demo.calibration))
    out.print()
    for name, value in figures(demo.calibration):
        out.print(line(f"{name:<18} {value}"))
    out.print(line(("\n5 Use", "bold"), "  three figures beside the truth\n"))
    out.print(_figures(demo))
    for text in (
        f"The gold alone underrates {NEW}, whose docs nobody judged; the judge is generous, and overrates it.",
        f"Corrected by {plural(demo.labels, 'label')}, {NEW} is near the truth.",
    ):
        out.print(line(text))
    out.print(line(f"ndcg is not corrected: {BIASED}", style="dim"))
    out.print(
        line(("\n6 Enough?", "bold"), f"  with the gold and the {plural(demo.labels, 'label')}, and without the judge")
    )
    _show_comparisons(demo.enough)
    _show_next(demo)


def _show_comparisons(pool: Pool) -> None:
    for comparison in pool.comparisons:
        text = describe_comparison(comparison, pool.total - pool.judged)
        console().print(line(f"  {plain(text)}"), soft_wrap=True)


def _figures(demo: JudgeDemo) -> Grid:
    """Each metric of each run by gold only, gold + judge, corrected, and by all of the gold."""
    judged = describe_judged(demo.result)
    assert judged is not None
    table = grid("", "gold only", "gold + judge", "corrected", "truth")
    for section in judged.sections:
        for metric, (gold, raw, corrected, *_) in section.rows:
            truth = estimate_figure(metric, demo.truth[section.run].intervals[metric])
            table.add_row(f"{plain(section.run)} {metric}", gold.text, raw.text, str(corrected), truth.text)
    return table


def _show_next(demo: JudgeDemo) -> None:
    karat, folder = karat_command(demo.folder), shlex.quote(demo.folder)
    texts = "--queries data/queries.jsonl --corpus data/corpus.jsonl"
    show_steps(
        (
            (f"cd {folder}", ""),
            (f"{karat} evaluate -c karat.yaml", "the same figures with intervals, judged@k and bounds"),
            (f"{karat} judge label sample.jsonl {texts} -j mine.jsonl --by YOU", "label the sample yourself"),
            (
                f"{karat} judge ask pairs.jsonl {texts} -j model.jsonl --model MODEL --url URL --max-calls 100",
                "a language model in place of the script",
            ),
            (
                f"{karat} judge pool runs/{OLD}.jsonl runs/{NEW}.jsonl --gold gold.tsv --depth {DEPTH} --order value "
                "-n 50 --judgments mine.jsonl -o next.jsonl",
                "what to judge next, until your labels decide the comparison",
            ),
        )
    )
