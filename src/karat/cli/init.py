"""`karat init`: a first karat.yaml."""

from __future__ import annotations

from typing import Annotated

import typer


def init(
    folder: Annotated[str, typer.Argument(help="Where your gold and runs are.")] = ".",
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE|-", help="Instead of karat.yaml in that folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of karat.yaml and stop.")] = False,
) -> None:
    """Write a commented karat.yaml for the gold, queries and runs in a folder.

    karat init

    karat init --schema > karat.schema.json
    """
    import json
    import os

    if schema:
        from karat.config.models import schema as published

        typer.echo(json.dumps(published(), indent=2, ensure_ascii=False))
        return
    from karat.errors import UsageError
    from karat.report.files import write_text
    from karat.verbs.init import make_starter

    path = output or os.path.join(folder, "karat.yaml")
    if path != "-" and os.path.exists(path) and not force:
        raise UsageError(f"{path} exists already; --force overwrites it, -o chooses another name")
    config = make_starter(folder, os.path.dirname(path) or "." if path != "-" else None)
    write_text(config.text, path)
    typer.echo(config.summary, err=path == "-")
    if path != "-":
        typer.echo(f"wrote {path}; look through it, {config.next_step(path)}")
