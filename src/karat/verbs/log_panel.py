"""What run logs add to the default metrics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from karat.errors import InputError
from karat.metrics.grammar import LOG_METRICS
from karat.model.run import Run
from karat.read.files import first_line, is_run_log, read_head

if TYPE_CHECKING:
    from collections.abc import Sequence


def log_panel(runs: Sequence[Any], ks: Sequence[int] | None) -> tuple[str, ...]:
    """The metrics that join the default ones where all runs are run logs with latency."""
    if not runs or not all(map(_is_timed, runs)):
        return ()
    return LOG_METRICS if ks is None else tuple(name.partition("@")[0] for name in LOG_METRICS)


def _is_timed(run: Any) -> bool:
    """Whether a run is a run log with latency: a file says so in its first line."""
    if isinstance(run, Run):
        return run.log is not None and bool(run.log.latency)
    if not isinstance(run, (str, os.PathLike)) or not os.path.isfile(run):
        return False
    try:
        line = first_line(read_head(os.fspath(run)))
    except (InputError, OSError):
        return False  # what is wrong with the file is said where it is read
    return is_run_log(line) and b'"latency_ms"' in line
