"""What kind of file this is, from its first bytes."""

from __future__ import annotations

import io
import os
import sys
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from karat.errors import AmbiguousFormat, InputError, Problem, UsageError, missing_package, nearest, shown
from karat.read.columns import DOC_NAMES, GRADE_NAMES, QUERY_NAMES, SCORE_NAMES, SUBTOPIC, column, rivals_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.read.columns import Rival

Kind = Literal["trec", "table", "jsonl", "json", "parquet"]
FORMATS = ("trec", "csv", "tsv", "jsonl", "json", "parquet")

PACKED = (".gz", ".zst", ".zstd")

BROKEN_PACKING = (EOFError, OSError, zlib.error)
"""What reading a packed file raises when it breaks off or is damaged."""

_HEAD = 1 << 16
_MARKS = {b"\xff\xfe": "UTF-16 text", b"\xfe\xff": "UTF-16 text", b"%PDF": "a PDF file", b"PK\x03\x04": "a ZIP file"}


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows lie in a file: its kind, and for text the delimiter and where the columns are.

    `delimiter` None means any white space. `value` is the grade of gold or the score of a run; `parent` is the doc
    that a chunk of a run belongs to, or the subtopic of a judgment.
    """

    kind: Kind
    delimiter: str | None = None
    width: int = 0
    query: int = 0
    doc: int = 0
    value: int = 0
    parent: int | None = None
    header: tuple[str, ...] = ()
    rivals: tuple[Rival, ...] = ()


def checked_path(path: str) -> str:
    """The path, if there is a file there that can be read."""
    if path == "-":
        return path
    if os.path.isdir(path):
        raise InputError(f"{path}: is a directory, expected a file; name a file in it")
    if not os.path.exists(path):
        folder, base = os.path.split(path)
        beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        pattern = any(c in base for c in "*?[")
        near = nearest(base, beside) if not pattern else None
        hint = f"did you mean {os.path.join(folder, near)!r}?" if near else "check the path"
        if pattern:
            hint = "patterns are understood for runs alone: name the file"
        elif folder and not os.path.isdir(folder):
            hint = f"there is no folder {folder!r}"
        raise InputError(f"{path}: no such file; {hint}")
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
        return unpacked_zstd(path, open(path, "rb"))
    return open(path, "rb", buffering=0)


def unpacked_zstd(path: str, file: IO[bytes]) -> IO[bytes]:
    """What is packed in a zstd file."""
    try:
        import zstandard
    except ImportError:
        raise missing_package(f"{path}: reading zstd", "zstandard") from None
    return io.BufferedReader(_Zstd(file, zstandard), 1 << 16)


class _Zstd(io.RawIOBase):
    """The unpacked bytes of all frames of a zstd file; unlike zstandard's own reader it tells when one breaks off."""

    def __init__(self, file: IO[bytes], zstandard: Any) -> None:
        self._file, self._zstandard = file, zstandard
        self._frame: Any = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            self._packed = self._packed or self._file.read(1 << 16)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ended before the end of its last frame")
                return 0
            self._frame = self._frame or self._zstandard.ZstdDecompressor().decompressobj()
            try:
                self._ready = memoryview(self._frame.decompress(self._packed))
            except self._zstandard.ZstdError as error:
                raise OSError(str(error)) from None
            self._packed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


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
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None
    return head.removeprefix(b"\xef\xbb\xbf")


def all_of(path: str, stdin: bytes | None = None) -> bytes:
    """All bytes of the unpacked file, without a byte-order mark."""
    try:
        with open_bytes(path) if stdin is None else io.BytesIO(stdin) as file:
            data = b"".join(iter(lambda: file.read(1 << 20), b""))
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None
    return data.removeprefix(b"\xef\xbb\xbf")


def detect(path: str, role: Literal["qrels", "run"], forced: str | None, head: bytes) -> Layout:
    """The layout of a file of gold or of a run. A forced format is taken at its word."""
    if forced is not None and forced not in FORMATS:
        near = nearest(forced, FORMATS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"{path}: the format must be one of {', '.join(FORMATS)}, found {forced!r}{hint}")
    if not head:
        raise InputError(f"{path}: is empty, expected {_expected(role)}")
    kind = forced or _told(path, head)
    if kind == "parquet" and (path == "-" or is_packed(path)):
        raise InputError(f"{path}: Parquet is read from plain files only; unpack or store it, and name that file")
    if kind == "jsonl":
        return Layout("jsonl", rivals=rivals_of(_checked_fields(path, role, head), role))
    if kind in ("json", "parquet"):
        return Layout("json" if kind == "json" else "parquet")
    for mark, what in _MARKS.items():
        if head.startswith(mark):
            advice = ": convert it, e.g. with iconv" if what == "UTF-16 text" else ""
            raise InputError(f"{path}: is {what}, expected {_expected(role)} as UTF-8 text{advice}")
    if b"\x00" in head:
        line = 1 + head.count(b"\n", 0, head.index(b"\x00"))
        raise InputError(
            Problem(path, line, f"found a NUL byte: a binary file, or damaged text; expected {_expected(role)}")
        )
    if kind == "trec":
        return _trec(path, role, head)
    return _text(path, role, head, {"csv": ",", "tsv": "\t"}.get(kind or ""))


def _checked_fields(path: str, role: Literal["qrels", "run"], head: bytes) -> tuple[str, ...]:
    """The fields of the first row. Rows that are plainly something else are refused: once, not line by line."""
    import json

    try:
        row = json.loads(head.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return ()
    if not isinstance(row, dict):
        return ()
    names = list(row)
    doc, value = (column(names, known) is not None for known in (DOC_NAMES, (*GRADE_NAMES, *SCORE_NAMES)))
    scored = column(names, SCORE_NAMES) is not None
    what = advice = ""
    if role == "qrels" and "topk" in row:
        what, advice = "a run log", "did you swap gold and run?"
    elif role == "run" and doc and value and not scored:
        what, advice = "gold", "did you swap gold and run?"
    elif not doc and not value and "topk" not in row and column(names, ("_id", "id", *QUERY_NAMES)) is not None:
        what, advice = "a table of queries or docs", "give it as queries or corpus"
    if what:
        listed = ", ".join(map(shown, names[:8]))
        problem = f"expected {_expected(role)}; found {listed}. This looks like {what}: {advice}"
        raise InputError(Problem(path, 1, problem))
    return tuple(names)


def _told(path: str, head: bytes) -> str | None:
    if head[:4] == b"PAR1":
        return "parquet"
    text = head.lstrip()
    if text[:1] not in (b"{", b"["):
        return None
    for ending in PACKED:
        path = path.removesuffix(ending)
    first, _, rest = text.partition(b"\n")
    row = b'"topk"' in first or all(_names_one_of(first, names) for names in (QUERY_NAMES, DOC_NAMES))
    many = first.rstrip().endswith(b"}") and rest.lstrip()[:1] == b"{"
    return "jsonl" if path.endswith((".jsonl", ".ndjson")) or row or many else "json"


def _names_one_of(line: bytes, names: tuple[str, ...]) -> bool:
    return any(f'"{name}"'.encode() in line for name in names)


def ascii_split(line: str) -> list[str]:
    """The fields of a line between white space. A no-break space, say, is part of an id."""
    return line.split() if line.isascii() else [cell.decode() for cell in line.encode().split()]


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
            return table_layout(path, role, names, mark, line=number)
    as_table = len(ascii_split(line)) < 4 and any(line.count(mark) >= 2 for mark in "\t,;|")
    if delimiter is not None or (as_table and not line.startswith("{")):
        raise InputError(
            Problem(
                path,
                number,
                f"no header, expected a first line with column names such as {_header(role)}; found {shown(line)}",
            )
        )
    return _trec(path, role, head)


def table_layout(
    source: str, role: Literal["qrels", "run"], names: list[str], delimiter: str | None, line: int | None = None
) -> Layout:
    """The columns of a table by the names in its header."""
    query = column(names, QUERY_NAMES)
    doc, parent = column(names, DOC_NAMES), None
    if role == "run" and "chunk_id" in names and doc is not None and names[doc] != "chunk_id":
        doc, parent = names.index("chunk_id"), doc
    if role == "qrels" and SUBTOPIC in names:
        parent = names.index(SUBTOPIC)
        if names.count(SUBTOPIC) > 1:
            raise InputError(Problem(source, line, f"the column {shown(SUBTOPIC)} appears twice; rename or remove one"))
    values = GRADE_NAMES if role == "qrels" else SCORE_NAMES
    value = column(names, values)
    value = None if value == query else value
    wanted = {"query": (query, QUERY_NAMES), "doc": (doc, DOC_NAMES)}
    wanted["grade" if role == "qrels" else "score"] = (value, values)
    for idea, (index, known) in wanted.items():
        if index is None:
            gold = idea == "score" and column(names, GRADE_NAMES) is not None
            advice = "This looks like gold: did you swap gold and run?" if gold else "Rename a column"
            columns = ", ".join(map(shown, names))
            problem = f"no {idea} column; expected one of {', '.join(known)}; found {columns}. {advice}"
            raise InputError(Problem(source, line, problem))
        if names.count(names[index]) > 1:
            raise InputError(
                Problem(source, line, f"the column {shown(names[index])} appears twice; rename or remove one")
            )
    assert query is not None and doc is not None and value is not None
    return Layout(
        "table", delimiter, len(names), query, doc, value, parent, tuple(names), rivals_of(tuple(names), role)
    )


def _trec(path: str, role: Literal["qrels", "run"], head: bytes) -> Layout:
    first = next(lines_of(head), None)
    if first is None:
        raise InputError(f"{path}: holds no rows, expected {_expected(role)}")
    number, line = first
    width = len(ascii_split(line))
    if role == "qrels" and width == 4:
        return Layout("trec", None, 4, 0, 2, 3)
    if role == "run" and width in (5, 6):
        return Layout("trec", None, width, 0, 2, 4)
    advice = f"Or state the format ({', '.join(FORMATS)})"
    if role == "qrels" and width == 6:
        advice = "This looks like a run: did you swap gold and run?"
    if role == "run" and width == 4:
        advice = "This looks like qrels: did you swap gold and run?"
    columns = f"{width} column{'s' if width != 1 else ''} ({shown(line.strip())})"
    raise AmbiguousFormat(Problem(path, number, f"found {columns}, expected {_expected(role)}. {advice}"))


def _expected(role: Literal["qrels", "run"]) -> str:
    shape = "TREC qrels (query iter doc grade)" if role == "qrels" else "a TREC run (query Q0 doc rank score tag)"
    return f"{shape}, a table with a header, JSONL or Parquet"


def _header(role: Literal["qrels", "run"]) -> str:
    return "query_id,doc_id,grade" if role == "qrels" else "query_id,doc_id,score"
