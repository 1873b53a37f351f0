"""`engine` → a Spark session: one that is given, or one for an address."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from karat.errors import UsageError, missing_package, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMS = "spark://HOST:PORT, sc://HOST:PORT (Spark Connect), local-cluster, or in Python a SparkSession"
LOCAL_CLUSTER = "local-cluster[2,1,2048]"
"""Two executors with one core and 2 GB each, as processes of this machine."""


def open_session(engine: Any) -> Any:
    """The session of an address, or the one that was given."""
    if not isinstance(engine, str):
        if hasattr(engine, "createDataFrame") and hasattr(engine, "read"):
            return engine
        raise UsageError(f"engine must be {FORMS}; found {shown(engine)}")
    kind = engine.partition("://")[0].partition("[")[0]
    if kind not in ("spark", "sc", "local", "local-cluster"):
        raise UsageError(f"engine must be {FORMS}; found {shown(engine)}")
    with _without_advice(), _main_with_a_file():
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise missing_package("a cluster as engine", "pyspark") from None
        try:
            return _build(SparkSession.builder, engine, kind)
        except Exception as error:
            raise UsageError(f"{engine}: no Spark session ({first_line(error)}); check the address") from None


def _build(builder: Any, engine: str, kind: str) -> Any:
    if kind == "sc":
        return builder.remote(engine).getOrCreate()
    try:
        import pyspark.core  # noqa: F401  (the client alone has no master)
    except ImportError:
        raise missing_package(f"{engine}", "pyspark", advice="; sc:// addresses need no more than its client") from None
    builder = builder.master(LOCAL_CLUSTER if engine == "local-cluster" else engine).appName("karat")
    if kind != "spark":  # the workers are on this machine, and have what this process has
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    return builder.getOrCreate()


@contextmanager
def _without_advice() -> Iterator[None]:
    """PySpark advises against some versions of pandas, which is used for nothing here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        yield


@contextmanager
def _main_with_a_file() -> Iterator[None]:
    """PySpark takes a main program without a file, such as `python -c`, for its own doctests, and ends the process."""
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = "<string>"
    try:
        yield
    finally:
        del main.__file__


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
