"""Files as bytes: opened, unpacked, without a byte-order mark, and their first bytes."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, cast

from karat.errors import InputError, Problem, missing_package, nearest
from karat.model.limits import LINE, PIPE_SECONDS, bomb_problem
from karat.read.problems import describe_bad_bytes
from karat.records import dataclass

if TYPE_CHECKING:
    from karat.read.problems import Problems

PACKED = (".gz", ".zst", ".zstd")
BROKEN_PACKING = (EOFError, OSError, zlib.error)
"""What reading a packed file raises when it breaks off or is damaged."""
HEAD = 1 << 16
"""Bytes from which a format is recognised; more where the first row is longer, or stands further down."""
_PIECE = 1 << 10
"""Packed bytes of zstd that are unpacked at once: at most 32,768 times as many come out."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read: its path, its first bytes, and for standard input all of them."""

    path: str
    head: bytes
    """Unpacked, without a byte-order mark."""
    stdin: bytes | None = None
    """Standard input is read whole, since it comes only once."""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their numbers."""
        return numbered_lines(self.path, self.stdin)

    def text_lines(self, problems: Problems) -> Iterator[tuple[int, str]]:
        """The lines that are not blank, with their numbers, as text; one that is not UTF-8 is a problem."""
        for number, raw in self.lines():
            try:
                yield number, raw.decode()
            except UnicodeDecodeError as error:
                problems.add(number, describe_bad_bytes(error))

    def has_ending(self, endings: tuple[str, ...]) -> bool:
        """Whether the name, without that of a packing, ends so; Parquet is Parquet, whatever its name."""
        path = self.path
        for packing in PACKED:
            path = path.removesuffix(packing)
        return path.endswith(endings) and not self.head.startswith(b"PAR1")

    def holds(self, pattern: bytes) -> bool:
        """Whether a pattern matches somewhere, in the first bytes or in all of them."""
        if re.search(pattern, self.head):
            return True
        return len(self.head) >= HEAD and re.search(pattern, self.all_bytes()) is not None

    def all_bytes(self) -> bytes:
        """All bytes, unpacked, without a byte-order mark."""
        try:
            with _open(self.path, self.stdin) as file:
                data = b"".join(iter(lambda: file.read(1 << 20), b""))
        except BROKEN_PACKING as error:
            raise unpacking_error(self.path, error) from None
        return data.removeprefix(BYTE_ORDER_MARK)


def open_input(path: str) -> InputFile:
    """The file at a path; `-` is standard input, which is read whole, as pipes are."""
    if path != "-" and is_plain(path):
        return InputFile(path, read_head(path))
    if path != "-":
        data = _read_pipe(path)
    elif sys.stdin is None:
        raise InputError("-: standard input is closed; name a file, or pipe the data in")
    else:
        data = sys.stdin.buffer.read()
    if not data:
        what = "standard input" if path == "-" else "the pipe"
        raise InputError(f"{path}: {what} is empty, or was read already; name at most one input -")
    try:
        data = _unpack(path, io.BytesIO(data), len(data)).read()
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None
    return InputFile(path, _head_of(io.BytesIO(data)), data)


def is_plain(path: str) -> bool:
    """Whether a path names a regular file, which can be opened again and again; else it comes only once, if ever."""
    return os.path.isfile(path) or not os.path.exists(path)


def is_repeatable(source: object) -> bool:
    """Whether data can be read again: standard input, pipes and iterators come only once."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return path != "-" and (is_plain(path) or os.path.isdir(path))
    return not isinstance(source, Iterator)


def require_plain(path: str, what: str) -> None:
    """Refuse a pipe or a device where the file is opened more than once."""
    if not is_plain(path):
        raise InputError(f"{path}: is a pipe or a device, and {what} from regular files only; store it in one")


def _read_pipe(path: str) -> bytes:
    """All that comes from a pipe. One that nobody writes to is an error, and so is a device, which may never end."""
    import select

    mode = os.stat(path).st_mode
    if not stat.S_ISFIFO(mode):
        kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InputError(f"{path}: is {kind}, expected a file or a pipe; store the data in a file")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if not select.select([handle], [], [], PIPE_SECONDS.value)[0]:
                raise InputError(f"{path}: is a pipe that nobody writes to; start the writer first, or name a file")
            os.set_blocking(handle, True)
            return file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); store the data in a file") from None


def numbered_lines(path: str, stdin: bytes | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers."""
    try:
        with _open(path, stdin) as file:
            buffered = file if hasattr(file, "peek") or stdin is not None else io.BufferedReader(cast("Any", file))
            most = LINE.value
            for number, raw in enumerate(iter(lambda: buffered.readline(most + 1), b""), start=1):
                if len(raw) > most:
                    raise InputError(Problem(path, number, f"the line is longer than {LINE.text}; {LINE.advice}"))
                line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
                if line.strip():
                    yield number, line
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None


def line_blocks(path: str, size: int = 1 << 18) -> Iterator[bytes]:
    """Whole lines of a file, about as many bytes at a time."""
    rest, mark = b"", BYTE_ORDER_MARK
    try:
        with open_bytes(path) as file:
            while piece := file.read(size):
                piece, mark = piece.removeprefix(mark), b""
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                rest = piece[cut:] if cut else rest + piece
                if len(rest) > LINE.value:
                    break
            if len(rest) <= LINE.value:
                yield rest
                return
        for _ in numbered_lines(path):  # says which line is too long
            pass
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None


def _open(path: str, stdin: bytes | None) -> IO[bytes]:
    return open_bytes(path) if stdin is None else io.BytesIO(stdin)


def check_path(path: str) -> str:
    """The path, if there is a file there that can be read."""
    if path == "-":
        return path
    if os.path.isdir(path):
        raise InputError(f"{path}: is a directory, expected a file; name a file in it")
    if not os.path.exists(path):
        folder, base = os.path.split(path)
        beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        pattern = any(c in base for c in "*?[")
        # The endings of names are alike in any case: what comes before them has to be near.
        alike = [name for name in beside if nearest(base.partition(".")[0], [name.partition(".")[0]])]
        near = nearest(base, alike) if not pattern else None
        hint = f"did you mean {os.path.join(folder, near)!r}?" if near else "check the path"
        if pattern:
            hint = "patterns are understood for runs alone: name the file"
        elif folder and not os.path.isdir(folder):
            hint = f"the folder {folder!r} does not exist"
        raise InputError(f"{path}: no such file; {hint}")
    if not is_plain(path):
        return path  # opening a pipe would lose what comes out of it
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check its permissions") from None


def open_bytes(path: str) -> IO[bytes]:
    """The file's bytes, unpacked if it is gzip or zstd. `-` is standard input."""
    if path == "-":
        return sys.stdin.buffer
    require_plain(path, "this is read")
    if is_packed(path):
        return _unpack(path, open(path, "rb"), os.path.getsize(path))
    return open(path, "rb", buffering=0)


def _unpack(path: str, file: IO[bytes], size: int) -> IO[bytes]:
    """What is packed in a gzip or zstd file of this size; other files as they are."""
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        import gzip

        return io.BufferedReader(_Guarded(path, gzip.GzipFile(fileobj=file), file, size), 1 << 16)
    if magic == b"\x28\xb5\x2f\xfd":
        try:
            import zstandard
        except ImportError:
            raise missing_package(f"{path}: reading zstd", "zstandard") from None
        return io.BufferedReader(_Guarded(path, _Zstd(file, zstandard), file, size), 1 << 16)
    return file


class _Guarded(io.RawIOBase):
    """Unpacked bytes, until there are so many that the file is taken for a bomb."""

    def __init__(self, path: str, unpacked: Any, packed: IO[bytes], size: int) -> None:
        self._path, self._unpacked, self._packed, self._size = path, unpacked, packed, size
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._unpacked.readinto(buffer)
        self._count += count
        if (problem := bomb_problem(self._count, self._size)) is not None:
            raise InputError(f"{self._path}: {problem}")
        return count

    def close(self) -> None:
        self._unpacked.close()
        self._packed.close()
        super().close()


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
            self._packed = self._packed or self._file.read(_PIECE)
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


def is_packed(path: str) -> bool:
    """Whether the file is gzip or zstd."""
    if path == "-" or not is_plain(path):
        return False
    with open(path, "rb") as file:
        magic = file.read(4)
    return magic[:2] == b"\x1f\x8b" or magic == b"\x28\xb5\x2f\xfd"


def unpacking_error(path: str, error: Exception) -> InputError:
    """The error for a packed file that breaks off or is damaged."""
    return InputError(f"{path}: the compressed data breaks off or is damaged ({error}); copy or pack the file again")


def read_head(path: str) -> bytes:
    """The first bytes of the unpacked file, without a byte-order mark."""
    try:
        with open_bytes(path) as file:
            return _head_of(file)
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None


def _head_of(file: IO[bytes]) -> bytes:
    """The first bytes without a byte-order mark, as many as hold the first row."""
    head, size, most = b"", HEAD, LINE.value
    while len(head) < size and (more := file.read(size - len(head))):
        head += more
        if len(head) == size and size < most and not _holds_a_row(head):
            size = min(2 * size, most)
    return head.removeprefix(BYTE_ORDER_MARK)


def _holds_a_row(head: bytes) -> bool:
    """Whether a whole line is there that is neither blank nor a comment; Parquet has no lines."""
    return head.startswith(b"PAR1") or re.search(rb"^[ \t\r]*[^#\s][^\n]*\n", head, re.MULTILINE) is not None


def check_line_sizes(path: str, text: bytes | bytearray, begin: int, end: int, stdin: bytes | None) -> None:
    """Refuse a line in a piece of a file, text[begin:end], that is longer than a line may be."""
    most = LINE.value
    while end - begin > most:
        begin = text.rfind(b"\n", begin, begin + most) + 1
        if not begin:
            for _ in numbered_lines(path, stdin):  # knows its number
                pass
            return


def first_line(head: bytes) -> bytes:
    """The first line that is not blank."""
    return head.lstrip().split(b"\n", 1)[0]


def is_run_log(head: bytes) -> bool:
    """Whether the first line has a list of results in it."""
    line = first_line(head)
    return re.search(rb'"topk"\s*:\s*\[\s*[{\]]', line) is not None or (
        b'"query_id"' in line and re.search(rb'"topk"\s*:', line) is not None
    )
