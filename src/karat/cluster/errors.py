"""What goes wrong on a cluster, said as it is said of one machine."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from karat.cluster.parts import MORE
from karat.errors import InputError, KaratError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.cluster.parts import RowFault
    from karat.cluster.worker import Source

_KNOWN = (
    (r"PATH_NOT_FOUND|Path does not exist|No such file|not found: .*file", "no such file where the cluster looks"),
    (
        r"TABLE_OR_VIEW_NOT_FOUND|Table or view not found|Table not found",
        "no such table; check catalog, schema and name",
    ),
    (r"SCHEMA_NOT_FOUND|CATALOG_NOT_FOUND", "no such schema or catalog; check the name of the table"),
    (r"No space left on device", "a disk is full; free space in spark.local.dir, or name another folder there"),
    (r"maxResultSize", "what the workers send is larger than spark.driver.maxResultSize; raise it"),
    (r"OutOfMemoryError|MemoryError", "memory ran out; give executors more, or let them have fewer tasks at once"),
    (r"No module named 'karat'", "the workers lack Karat; install the same version of it on them"),
    (r"failed to connect|Connection refused|UNAVAILABLE", "the cluster does not answer; check its address"),
)
"""What Spark's errors say, and what a person should read."""


class ClusterError(KaratError):
    """The cluster could not do its work."""


@contextmanager
def spark_errors(name: str) -> Iterator[None]:
    """Say what went wrong with a source on the cluster."""
    try:
        yield
    except (KaratError, KeyboardInterrupt):
        raise
    except Exception as error:
        text = str(error)
        for pattern, advice in _KNOWN:
            if re.search(pattern, text):
                raise InputError(f"{name}: {advice}") from None
        raise ClusterError(f"{name}: Spark failed ({_reason(text)})") from error


def _reason(text: str) -> str:
    """What a failed job says: of an exception in Python, its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return (named or lines or ["no reason given"])[-1 if named else 0][:400]


def refuse_rows(source: Source, faults: Sequence[RowFault]) -> NoReturn:
    """The error that names broken rows by file or table, partition and row."""
    problems = [_said(source, fault) for fault in sorted(faults) if fault.detail != MORE]
    raise InputError(problems, more=len(problems) < len(faults))


def _said(source: Source, fault: RowFault) -> str:
    if fault.partition < 0:
        return f"{source.name}: {fault.detail}"
    row = "row" if source.shape == "columns" else "line"
    return f"{fault.file or source.name}: partition {fault.partition}, {row} {fault.row}: {fault.detail}"
