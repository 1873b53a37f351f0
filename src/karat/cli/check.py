"""`karat check`: SHIP, BLOCK or INCONCLUSIVE, for CI."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs


@o.takes_options
@takes_outputs("check")
def check(
    config: Annotated[
        str | None, typer.Argument(metavar="[CONFIG]", help="A karat.yaml, or its folder; the one here by default.")
    ] = None,
    named: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE", help="The same as CONFIG, as an option.")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option("-g", "--gate", metavar="GATE", help="An extra gate, such as 'recall@5 >= 0.90'; repeatable."),
    ] = None,
    candidate: Annotated[list[str] | None, typer.Option(metavar="RUN", help="Judge only this run; repeatable.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN|FILE", help="Another baseline: a run's name, or a blessed file.")
    ] = None,
    result: Annotated[
        str | None, typer.Option(metavar="FILE", help="Judge this saved result (--save) instead of evaluating.")
    ] = None,
    inconclusive: Annotated[
        str | None, typer.Option(metavar="pass|fail", help="Exit with 0 or with 1 where the verdict is INCONCLUSIVE.")
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Evaluate, judge the gates of karat.yaml, and exit with the verdict.

    0 SHIP: every gate passes · 1 BLOCK: one fails · 3 INCONCLUSIVE: one is undecided, and none fails ·
    2 wrong usage or input. Gates at level warn change nothing. Flags come before what the config says.

    karat check

    karat check ci/karat.yaml --markdown comment.md --junit gates.xml

    karat check --gate 'ndcg@10 no worse than baseline by 0.01' --inconclusive pass
    """
    from karat import check as judge
    from karat.config.reading import DEFAULT_NAMES, find_config, read_config
    from karat.errors import UsageError
    from karat.exit_codes import BLOCK, SHIP
    from karat.report.outputs import Files, summarise, texts, write, write_error
    from karat.report.terminal import check as check_view
    from karat.report.terminal import evaluate as terminal
    from karat.report.view import view_of

    if inconclusive not in (None, "pass", "fail"):
        raise UsageError(f"--inconclusive must be pass or fail, found {inconclusive!r}")
    if named is not None and config is not None and named != config:
        raise UsageError(f"two configs are named, {config} and {named}; expected one")
    config = named or config
    files, name = Files({n: place for n, place in outputs.items() if place is not None}), ""
    try:
        alone = config is None and result is not None and gate and not any(map(os.path.exists, DEFAULT_NAMES))
        read = read_config({} if alone else find_config(config))
        name = read.config.dataset.name if read.config.dataset is not None else ""
        files = Files.of(outputs, read)
        with terminal.progress(quiet) as watch:
            options = {**options, "details": files.details, "watch": watch}
            decision = judge(
                read, gate or None, baseline=baseline, result=result, candidate=candidate, force=force, **options
            )
        view = view_of(decision, tables=texts(read))
        paths = write(view, files)
        summarise(view)
    except BrokenPipeError:
        raise
    except Exception as error:
        write_error(error, files, name)
        raise
    if not files.printed and not quiet:
        file, data = result or read.config.result, read.config.dataset
        check_view.show_check(
            decision,
            file or (data.qrels if data is not None else ""),
            saved=file is not None,
            verbose=verbose,
            by=read.config.segments.by or (),
            paths=paths,
        )
    if quiet and decision.verdict != "SHIP":
        typer.echo(terminal.plain(f"{decision.verdict}: {decision.why}"), err=True)
    code = decision.exit_code
    if decision.verdict == "INCONCLUSIVE" and inconclusive is not None:
        code = SHIP if inconclusive == "pass" else BLOCK
    raise typer.Exit(code)
