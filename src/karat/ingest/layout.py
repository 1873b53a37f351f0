"""What a file is, told from its first bytes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal

from karat.errors import AmbiguousFormat, InputError, MissingPackage, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["trec", "table", "jsonl", "json", "parquet"]
FORMATS = ("trec", "csv", "tsv", "jsonl", "json", "parquet")

QUERY_NAMES = ("query_id", "query-id", "qid", "q_id", "query")
DOC_NAMES = ("doc_id", "corpus-id", "docid", "docno", "chunk_id", "doc")
GRADE_NAMES = ("grade", "relevance", "score", "rel", "label")
SCORE_NAMES = ("score", "sim")

_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows lie in a file: its kind, and for text the delimiter and where the columns are.

    `delimiter` None means any white space. `value` is the grade of gold or the score of a run.
    """

    kind: Kind
    delimiter: str | None = None
    width: int = 0
    query: int = 0
    doc: int = 0
    value: int = 0
    parent: int | None = None
    header: tuple[str, ...] = ()


def checked_path(path: str) -> str:
    """The path, if there is a file there that can be read."""
    if path == "-":
        return path
    if os.path.isdir(path):
        raise InputError(f"{path}: is a directory, expected a file; name a file in it")
    if not os.path.exists(path):
        folder, base = os.path.split(path)
        beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        near = nearest(base, beside)
        hint = f"; did you mean {os.path.join(folder, near)!r}?" if near else ""
        raise InputError(f"{path}: no such file{hint}")
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check its permissions") from None


def open_bytes(path: str) -> IO[bytes]:
    """The file's bytes, unpacked if it is gzip or zstd. `-` is standard input."""
    if path == "-":
        return sys.stdin.buffer
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        import gzip

        return gzip.open(path, "rb")  # type: ignore[return-value]
    if magic == b"\x28\xb5\x2f\xfd":
        try:
            import zstandard
        except ImportError:
            raise MissingPackage(f"{path}: reading zstd needs the package zstandard: pip install zstandard") from None
        return zstandard.open(path, "rb")  # type: ignore[no-any-return]
    return open(path, "rb", buffering=0)


def is_packed(path: str) -> bool:
    """Whether the file is gzip or zstd."""
    if path == "-":
        return False
    with open(path, "rb") as file:
        magic = file.read(4)
    return magic[:2] == b"\x1f\x8b" or magic == b"\x28\xb5\x2f\xfd"


def unpacking_error(path: str, error: Exception) -> InputError:
    """The error for a packed file that breaks off or is damaged."""
    return InputError(f"{path}: the compressed data breaks off or is damaged ({error}); copy or pack the file again")


def head_of(path: str) -> bytes:
    """The first bytes of the unpacked file, without a byte-order mark."""
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
            while len(head) < _HEAD and (more := file.read(_HEAD - len(head))):
                head += more
    except (EOFError, OSError) as error:
        raise unpacking_error(path, error) from None
    except Exception as error:
        if type(error).__name__ in ("ZstdError", "error"):
            raise unpacking_error(path, error) from None
        raise
    return head.removeprefix(b"\xef\xbb\xbf")


def detect(path: str, role: Literal["qrels", "run"], forced: str | None, head: bytes) -> Layout:
    """The layout of a file of gold or of a run. A forced format is taken at its word."""
    if forced is not None and forced not in FORMATS:
        near = nearest(forced, FORMATS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InputError(f"format must be one of {', '.join(FORMATS)}, found {forced!r}{hint}")
    if not head:
        raise InputError(f"{path}: is empty, expected {_expected(role)}")
    kind = forced or _told(path, head)
    if kind in ("jsonl", "json", "parquet"):
        return Layout(kind)  # type: ignore[arg-type]
    if b"\x00" in head and kind is None:
        raise InputError(f"{path}: is a binary file, expected {_expected(role)}")
    if kind == "trec":
        return _trec(path, role, head)
    return _text(path, role, head, {"csv": ",", "tsv": "\t"}.get(kind or ""))


def _told(path: str, head: bytes) -> str | None:
    if head[:4] == b"PAR1":
        return "parquet"
    start = head.lstrip()[:1]
    if start in (b"{", b"["):
        first = head.lstrip().split(b"\n", 1)[0].strip()
        whole = first[-1:] in (b"}", b"]") and not path.removesuffix(".gz").endswith(".json")
        if start == b"{" and (whole or path.removesuffix(".gz").endswith((".jsonl", ".ndjson"))):
            return "jsonl"
        return "json" if start == b"[" or path.removesuffix(".gz").endswith(".json") or not whole else "jsonl"
    return None


def lines_of(head: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a piece of text with their numbers, without blank ones and comments."""
    for number, raw in enumerate(head.split(b"\n"), start=1):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if line.strip() and not line.startswith("#"):
            yield number, line


def _text(path: str, role: Literal["qrels", "run"], head: bytes, delimiter: str | None) -> Layout:
    first = next(lines_of(head), None)
    if first is None:
        raise InputError(f"{path}: holds no rows, expected {_expected(role)}")
    number, line = first
    for mark in (delimiter,) if delimiter else ("\t", ",", ";", "|", None):
        names = [n.strip().strip('"').lower() for n in (line.split(mark) if mark else line.split())]
        if len(names) >= 2 and (column(names, QUERY_NAMES) is not None or column(names, DOC_NAMES) is not None):
            return table_layout(f"{path}:{number}", role, names, mark)
    if delimiter is not None:
        raise InputError(
            f"{path}:{number}: no header, expected a first line that names the columns, such as {_header(role)}; "
            f"found {shown(line)}"
        )
    return _trec(path, role, head)


def table_layout(where: str, role: Literal["qrels", "run"], names: list[str], delimiter: str | None) -> Layout:
    """The columns of a table by the names in its header."""
    query = column(names, QUERY_NAMES)
    doc, parent = column(names, DOC_NAMES), None
    if role == "run" and "chunk_id" in names and doc is not None and names[doc] != "chunk_id":
        doc, parent = names.index("chunk_id"), doc
    values = GRADE_NAMES if role == "qrels" else SCORE_NAMES
    value = column(names, values)
    value = None if value == query else value
    wanted = {"query": (query, QUERY_NAMES), "doc": (doc, DOC_NAMES)}
    wanted["grade" if role == "qrels" else "score"] = (value, values)
    for idea, (index, known) in wanted.items():
        if index is None:
            raise InputError(
                f"{where}: no {idea} column; expected one of {', '.join(known)}; found {', '.join(map(shown, names))}. "
                "Rename a column"
            )
    assert query is not None and doc is not None and value is not None
    return Layout("table", delimiter, len(names), query, doc, value, parent, tuple(names))


def column(names: list[str], known: tuple[str, ...]) -> int | None:
    """Where the first known name stands among the columns."""
    return next((names.index(name) for name in known if name in names), None)


def _trec(path: str, role: Literal["qrels", "run"], head: bytes) -> Layout:
    first = next(lines_of(head), None)
    if first is None:
        raise InputError(f"{path}: holds no rows, expected {_expected(role)}")
    number, line = first
    width = len(line.split())
    if role == "qrels" and width == 4:
        return Layout("trec", None, 4, 0, 2, 3)
    if role == "run" and width in (5, 6):
        return Layout("trec", None, width, 0, 2, 4)
    other = "; this looks like a run: did you swap gold and run?" if role == "qrels" and width == 6 else ""
    other = "; this looks like qrels: did you swap gold and run?" if role == "run" and width == 4 else other
    raise AmbiguousFormat(
        f"{path}:{number}: found {width} column{'s' if width != 1 else ''} ({shown(line.strip())}), expected "
        f"{_expected(role)}{other}. Or state the format ({', '.join(FORMATS)})"
    )


def _expected(role: Literal["qrels", "run"]) -> str:
    shape = "TREC qrels (query iter doc grade)" if role == "qrels" else "a TREC run (query Q0 doc rank score tag)"
    return f"{shape}, a table with a header, JSONL or Parquet"


def _header(role: Literal["qrels", "run"]) -> str:
    return "query_id,doc_id,grade" if role == "qrels" else "query_id,doc_id,score"
