"""Thresholds that a user changes: on the command line, and in `karat.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.config.reading import read_config
from karat.errors import InputError, UsageError
from karat.verbs.diagnose.rules import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_thresholds(lines: Iterable[str], config: str | None = None) -> dict[str, float]:
    """The thresholds of a config, and `NAME=X` from the command line over them."""
    out: dict[str, float] = {}
    if config is not None:
        read = read_config(config)
        for name, value in read.config.diagnosis.thresholds.items():
            try:
                thresholds({name: value})
            except UsageError as error:
                raise InputError(read.problem(error, "diagnosis", "thresholds", name)) from None
            out[name] = value
    for text in lines:
        name, equals, number = text.rpartition("=")
        try:
            out[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--threshold must be NAME=X, such as recall@5.low=0.6, found {text!r}")
    return out
