"""`karat diagnose`: what is wrong, how much it costs, and what to try."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o


@o.takes_options
def diagnose(
    qrels: Annotated[str, typer.Argument(metavar="QRELS|RESULT", help="Gold, or a saved result (--save) alone.")],
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run (a run log tells most), NAME=FILE, or the name of one in the result."
        ),
    ] = None,
    baseline: Annotated[
        str | None, o.option("A run whose top 10 is shown beside that of the misses.", metavar="RUN")
    ] = None,
    misses: Annotated[
        str | None, o.option("Write the queries without a hit to a .csv or .md file; - shows them.", metavar="FILE|-")
    ] = None,
    top: Annotated[int | None, o.option("How many misses (default: all in files, 5 here).", metavar="N", min=0)] = None,
    threshold: Annotated[
        list[str] | None, o.option("Change a threshold; repeatable. See docs/diagnosis.md", metavar="NAME=X")
    ] = None,
    config: Annotated[str | None, o.option("Take diagnosis.thresholds from this karat.yaml.", metavar="FILE")] = None,
    json: o.JsonFile = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    *,
    options: o.Options,
) -> None:
    """Find out why a run misses relevant docs: likely causes, evidence, what to try, which queries.

    karat diagnose qrels.tsv log.jsonl --queries queries.jsonl

    karat diagnose qrels.tsv new.jsonl --baseline old.jsonl --misses misses.md --docs corpus.jsonl

    karat diagnose result.json    (written by --save; a run log tells more)
    """
    from karat import diagnose as look
    from karat.read.sources import run_files
    from karat.report import files
    from karat.report import misses as table
    from karat.report.terminal import diagnose as diagnose_view
    from karat.results.saved import is_saved
    from karat.verbs.diagnose.misses import misses as list_misses
    from karat.verbs.diagnose.rules import read_thresholds

    if misses not in (None, "-"):
        table.check_name(misses or "")
    saved = is_saved(qrels)
    one, other = (r if r is None or saved else run_files([r]) for r in (run, baseline))
    diagnosis = look(qrels, one, thresholds=read_thresholds(threshold or (), config), **options)
    if json is not None:
        files.write_json(diagnosis, json)
    speaks = json != "-" and not quiet
    if speaks:
        diagnose_view.show(diagnosis, verbose)
    if misses is None and baseline is None:
        return
    rows = list_misses(qrels, one, baseline=other, **options)
    if misses not in (None, "-"):
        table.write(rows, misses or "", top)
    elif speaks:
        table.show(rows, 5 if top is None else top)
