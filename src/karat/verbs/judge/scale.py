"""The scale that judges use: the one that is named, else that of karat.yaml, else the default."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from karat.config.reading import DEFAULT_NAMES, read_config
from karat.judge.scale import read_scale

if TYPE_CHECKING:
    from karat.judge.scale import Scale


def choose_scale(name: str | None = None, config: str | None = None) -> Scale:
    """The scale of this name, or the one that the config states: the one named, or `karat.yaml` in this folder."""
    if name is not None:
        return read_scale(name)
    path = config or next(filter(os.path.exists, DEFAULT_NAMES), None)
    return read_scale(read_config(path).config.scale if path is not None else None)
