"""The scale that judges use: the one that is named, else that of karat.yaml, else the default."""

from __future__ import annotations

import os

from karat.config.reading import DEFAULT_NAMES, read_config
from karat.judge.scale import Scale, read_scale


def choose_scale(name: str | None = None, config: str | None = None) -> Scale:
    """The scale of this name, or the one that the config states: the one named, or `karat.yaml` in this folder."""
    if name is not None:
        return read_scale(name)
    path = config or next(filter(os.path.exists, DEFAULT_NAMES), None)
    return read_scale(read_config(path).config.scale if path is not None else None)
