"""`karat cache`: what is kept of files that did not change."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(clear: Annotated[bool, typer.Option("--clear", help="Remove all entries.")] = False) -> None:
    """Show, or clear, what Karat keeps of files it has read.

    Evaluating the same large files again, with other metrics, answers from here. An entry is never
    used for a file that changed. KARAT_CACHE_DIR chooses another folder; --no-cache goes without.
    """
    from karat.cache import Cache

    kept = Cache()
    files = kept.files()
    size = sum(f[1] for f in files) / 1e6
    if clear:
        typer.echo(f"removed {kept.clear()} entries ({size:.1f} MB) from {kept.folder}")
    else:
        typer.echo(f"{len(files)} entries, {size:.1f} of at most {kept.limit / 1e6:.0f} MB, in {kept.folder}")
