"""`karat cache`: what is kept of files that did not change."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(clear: Annotated[bool, typer.Option("--clear", help="Remove all entries.")] = False) -> None:
    """Show, or clear, what Karat keeps: files it has read, and indexes and vectors it has built.

    Evaluating the same large files again, or indexing the same corpus again, answers from here. An entry is never
    used for content that changed. KARAT_CACHE_DIR chooses another folder; --no-cache goes without.
    """
    from karat.retrieve.store import Store
    from karat.store.cache import Cache

    files, built = Cache(), Store()
    for what, kept, held in (("files", files, files.files()), ("indexes", built, built.entries())):
        size = sum(entry[1] for entry in held) / 1e6
        if clear:
            typer.echo(f"{what}: removed {kept.clear()} entries ({size:.1f} MB) from {kept.folder}")
        else:
            typer.echo(
                f"{what}: {len(held)} entries, {size:.1f} of at most {kept.limit / 1e6:.0f} MB, in {kept.folder}"
            )
