"""Named points at which a test stops the process, so that safety after a crash is tested by place, not by the clock.

`KARAT_FAULT=bench.line:7:kill` kills the process when it passes `bench.line` for the seventh time. `interrupt` sends
the signal of Ctrl-C instead; `full` and `readonly` are the errors of such disks. Without the variable a point costs
a lookup in the environment.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter

VARIABLE = "KARAT_FAULT"
POINTS = {
    "atomic.open": "nothing is written yet",
    "atomic.create": "a temporary file exists and is empty",
    "atomic.write": "the temporary file is complete, and may not be on disk yet",
    "atomic.replace": "the temporary file is about to get its final name",
    "atomic.done": "the file has its final name",
    "index.create": "the folder of an index exists and is empty",
    "index.rename": "the folder is complete and about to get its final name",
    "index.done": "the folder has its final name",
    "journal.write": "a line is about to be added to a file that grows",
    "journal.flush": "the line is added, and may not be on disk yet",
    "journal.done": "the line is on disk",
    "scratch.create": "a folder for temporary tables exists",
    "bench.line": "a line of a run log is in the buffer, and not on disk yet",
    "bench.flush": "the line is on disk",
    "bench.rename": "all lines are on disk, and the log is about to get its final name",
    "bench.done": "the log has its final name, and the benchmark has not noted it yet",
}
"""Every point, and what is true there."""
_SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}
_ERRORS = {"full": errno.ENOSPC, "readonly": errno.EROFS}
_passes: Counter[str] = Counter()


def fault(point: str) -> None:
    """Stop here if the environment says so."""
    if plan := os.environ.get(VARIABLE):
        _strike(point, plan)


def _strike(point: str, plan: str) -> None:
    target, number, action = plan.split(":")
    _passes[point] += 1
    if point == target and _passes[point] == int(number):
        if code := _ERRORS.get(action):
            raise OSError(code, os.strerror(code))
        signal.raise_signal(_SIGNALS[action])
