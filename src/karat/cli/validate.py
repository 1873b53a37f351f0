"""`karat validate`: what is wrong with gold, queries, runs and corpus."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.exit_codes import BLOCK

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE...", help="Gold, queries, runs, corpus, or a karat.yaml with all it names; globs work."
    ),
]
_ROLES = "Files by role"


def _role(help: str, name: str) -> object:
    return typer.Option(name, metavar="FILE", help=help, rich_help_panel=_ROLES)


def validate(
    files: Files = None,
    qrels: Annotated[list[str] | None, _role("A file of gold.", "--qrels")] = None,
    queries: Annotated[list[str] | None, _role("A table of queries.", "--queries")] = None,
    run: Annotated[list[str] | None, _role("A run.", "--run")] = None,
    corpus: Annotated[list[str] | None, _role("A table of docs.", "--corpus")] = None,
    select: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Only these checks: codes or their beginnings, such as R3.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="CODE", help="Not these checks.")] = None,
    separator: o.Separator = None,
    ontology: Annotated[
        str | None,
        typer.Option(metavar="hpo|FILE.obo", help="Check the expected ids of case files against this ontology."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    json: o.JsonFile = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
    verbose: o.Verbose = False,
) -> None:
    """Look for what is wrong in gold, queries, runs and corpus.

    karat validate qrels.tsv queries.jsonl corpus.jsonl bm25.run dense.jsonl

    karat validate karat.yaml

    karat validate cases/de/standard_v1.json --ontology hpo

    karat validate --qrels labels.csv --run out.csv --ignore Q204 --strict

    Exit code 1 if there is an error. All checks: docs/validate.md
    """
    from karat import validate as look
    from karat.report import files as outputs
    from karat.report.terminal import validate as validate_view

    validation = look(
        files or (),
        qrels=qrels,
        runs=run or (),
        queries=queries,
        corpus=corpus,
        select=select or (),
        ignore=ignore or (),
        separator=separator,
        ontology=ontology,
    )
    if json is not None:
        outputs.write_json(validation, json)
    if json != "-":
        validate_view.show(validation, quiet)
    if not validation.ok or (strict and validation.worst == "warning"):
        raise typer.Exit(BLOCK)
