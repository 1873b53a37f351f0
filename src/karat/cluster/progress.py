"""How far the tasks of a job are."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.model.engine import Watch

PAUSE = 0.2
"""Seconds between two looks."""


@contextmanager
def watching(session: Any, name: str, watch: Watch | None) -> Iterator[None]:
    """Tell whoever watches how many tasks are done, while the body runs."""
    if watch is None:
        yield
    elif hasattr(session, "registerProgressHandler") and not hasattr(session, "_jsc"):

        def show_stages(stages: Any = None, **_: Any) -> None:
            total = sum(stage.num_tasks for stage in stages or ())
            if total:
                watch(name, sum(stage.num_completed_tasks for stage in stages), total)

        session.registerProgressHandler(show_stages)
        try:
            yield
        finally:
            session.removeProgressHandler(show_stages)
    else:
        over = threading.Event()
        watcher = threading.Thread(target=_look, args=(session, name, watch, over), name="karat-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _look(session: Any, name: str, watch: Watch, over: threading.Event) -> None:
    tracker = session.sparkContext.statusTracker()
    while not over.wait(PAUSE):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        total = sum(stage.numTasks for stage in stages if stage is not None)
        if total:
            watch(name, sum(stage.numCompletedTasks for stage in stages if stage is not None), total)
