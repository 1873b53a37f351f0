"""`karat judge calibrate`: what a language model is worth as a judge."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.judge.flags import JudgeName, ReadJudgments


def calibrate(
    judgments: ReadJudgments,
    labels: Annotated[
        str | None, o.option("The labels of people, where they are in another file.", "--labels", metavar="FILE")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", "--out", metavar="FILE", help="Save the calibration as JSON.")
    ] = None,
    judge: JudgeName = None,
    queries: Annotated[str | None, o.option("The table of queries, for --by.", "--queries", metavar="FILE")] = None,
    by: Annotated[
        list[str] | None, o.option("Show the judge's bias by a field of the queries.", "--by", metavar="FIELD")
    ] = None,
    corpus: Annotated[
        str | None,
        o.option("The texts of the docs: does the judge favour long ones?", "--corpus", "--docs", metavar="FILE"),
    ] = None,
    run: Annotated[
        list[str] | None,
        o.option(
            "A run (repeatable): does the judge favour it, and order the runs as people do?", "--run", metavar="RUN"
        ),
    ] = None,
    depth: Annotated[int, o.option("Docs of each list of a run (default 10).", "-k", "--depth", min=1)] = 10,
    json: Annotated[
        str | None, o.option("The figures as JSON, of a refused judge too.", metavar="FILE|-", panel=o.OUTPUTS)
    ] = None,
    markdown: Annotated[str | None, o.option("The figures as Markdown.", metavar="FILE|-", panel=o.OUTPUTS)] = None,
    quiet: o.Quiet = False,
) -> None:
    """Compare a model's grades with those of people on the same pairs.

    karat judge calibrate -j judged.jsonl --labels labels.jsonl -o calibration.json

    karat judge calibrate -j judged.jsonl --labels labels.jsonl --run bm25.run --run dense.run

    karat judge calibrate -j judged.jsonl --labels labels.jsonl --queries queries.jsonl --by language

    Only labels of pairs that were drawn at random count. A judge that is no better than chance is refused with exit
    code 2, and nothing is saved.
    """
    from karat.errors import InputError
    from karat.report.calibration_markdown import render_calibration
    from karat.report.files import write_json, write_text
    from karat.report.outputs import open_outputs
    from karat.report.terminal import calibrate as view
    from karat.verbs.judge.calibrate import calibrate_judge

    fields = [name.strip() for names in by or () for name in names.split(",") if name.strip()]
    with open_outputs({"json": json, "markdown": markdown}) as files:
        calibration = calibrate_judge(
            judgments, labels, judge=judge, queries=queries, by=fields, docs=corpus, runs=run or (), depth=depth
        )
        if json is not None:
            write_json(calibration, json)
        if markdown is not None:
            write_text(render_calibration(calibration), markdown)
    quiet = quiet or files.printed
    if not quiet:
        view.show(calibration)
    if (refusal := calibration.refusal) is not None:
        raise InputError(refusal)
    if output is not None:
        calibration.save(output)
        if not quiet:
            typer.echo(f"{output}: calibration of {calibration.judge.label}, fingerprint {calibration.fingerprint}")
