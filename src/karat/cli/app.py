"""The verbs, and what they share."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import (
    bench,
    bless,
    cache,
    check,
    compare,
    demo,
    diagnose,
    evaluate,
    init,
    metrics,
    report,
    stress,
    sweep,
    validate,
)

app = typer.Typer(
    name="karat",
    help="Measure retrieval against gold, exactly and fast.\n\n"
    "Start with: karat demo\n\nThen, on your own files: karat evaluate qrels.txt run.txt",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from karat import __version__

        typer.echo(f"karat {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    return


app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("check")(check.check)
app.command("bless")(bless.bless)
app.command("init")(init.init)
app.command("report")(report.report)
app.command("sweep")(sweep.sweep)
app.command("bench")(bench.bench)
app.command("diagnose")(diagnose.diagnose)
app.command("stress")(stress.stress)
app.command("validate")(validate.validate)
app.command("metrics")(metrics.metrics)
app.command("demo")(demo.demo)
app.command("cache")(cache.cache)
