"""Runs that lie on a cluster: its session, and what is done there otherwise than on one machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from karat.model.run import RemoteRows
from karat.read.frames import is_spark_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.config.options import Settings
    from karat.model.policy import Policy
    from karat.model.run import Run
    from karat.results.gold import Gold


def session_of(engine: Any, qrels: Any, run: Any) -> Any:
    """The Spark session of an engine, or that of the frames; None where all is done on this machine."""
    frames = [qrels, run, *(run.values() if isinstance(run, Mapping) and not _is_one_run(run) else ())]
    engine = engine or next((frame.sparkSession for frame in frames if is_spark_frame(frame)), None)
    if engine is None:
        return None
    from karat.cluster.session import open_session

    return open_session(engine)


def _is_one_run(run: Mapping[Any, Any]) -> bool:
    """Whether this is surely {query: {doc: score}}, as its first list says."""
    lists = next(iter(run.values()), None)
    return type(lists) is dict and type(next(iter(lists.values()), None)) in (float, int)


def fetch_tables(session: Any, settings: Settings, qrels: Any) -> tuple[Settings, Any]:
    """The settings and the gold with the tables that the cluster has, brought here: their size follows the gold."""
    from karat.cluster.sources import fetch

    tables = {name: fetch(session, getattr(settings.data, name), name) for name in ("queries", "docs")}
    return settings.change(queries=tables["queries"], docs=tables["docs"]), fetch(session, qrels, "the gold")


def open_source(session: Any, source: Any, name: str | None, settings: Settings, policy: Policy) -> Any:
    """The run that a cluster has at a path, in a table or in a frame; other sources as they are."""
    if session is None or not (is_spark_frame(source) or isinstance(source, (str, os.PathLike))):
        return source
    from karat.cluster.sources import open_run

    return open_run(session, source, name, settings.data.run_format, policy, settings.engine)


def plans_of_log(session: Any, run: Run) -> Sequence[str]:
    """What a cluster did with a run log, in words; nothing for other runs, and where all is on this machine."""
    if session is None or run.log is None:
        return ()
    return [f"driver plan: the run log's {len(run.log):,} lines were brought to the driver"]


def keeps_some_lists(content: object, gold: Gold | None) -> TypeGuard[RemoteRows]:
    """Whether top lists are kept of some queries alone: a cluster has the run, and the gold has many."""
    if not isinstance(content, RemoteRows) or gold is None:
        return False
    from karat.cluster.kept_lists import KEPT

    return len(gold.qrels) > KEPT
