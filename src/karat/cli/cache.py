"""`karat cache`: the size of the cache, and clearing it."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(clear: Annotated[bool, typer.Option("--clear", help="Remove all entries.")] = False) -> None:
    """Show, or clear, what Karat keeps: files it has read, indexes and vectors it has built, answers of judges.

    Evaluating the same large files again, or indexing the same corpus again, answers from here. An entry is never
    used for content that changed. KARAT_CACHE_DIR chooses another folder; --no-cache works without it.
    """
    from karat.store.answers import AnswerStore
    from karat.store.built import Store
    from karat.store.cache import Cache

    files, built = Cache(), Store()
    for what, store, entries in (("files", files, files.files()), ("indexes", built, built.entries())):
        size = sum(entry[1] for entry in entries) / 1e6
        if clear:
            typer.echo(f"{what}: removed {store.clear()} entries ({size:.1f} MB) from {store.folder}")
        else:
            typer.echo(
                f"{what}: {len(entries)} entries, {size:.1f} of at most {store.limit / 1e6:.0f} MB, in {store.folder}"
            )
    if not AnswerStore.exists():
        return
    answers = AnswerStore()
    if clear:
        typer.echo(f"answers: removed {answers.clear():,} from {answers.path}")
    else:
        typer.echo(f"answers: {len(answers):,} in {answers.path}")
    answers.close()
