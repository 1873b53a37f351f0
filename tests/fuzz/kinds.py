"""All kinds of input: the `KINDS` of every module `format_….py` beside this one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from random import Random

from samples import Case, Kind

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("format_*.py"))
KINDS: dict[str, Kind] = {name: kind for module in MODULES for name, kind in import_module(module).KINDS.items()}


def make_case(kind: str, seed: int) -> Case:
    """The case of a kind that a seed stands for."""
    rng = Random(f"{kind}:{seed}")
    return KINDS[kind].write(rng, kind)
