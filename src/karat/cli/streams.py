"""Standard output and error that cannot fail: a reader who left, a full disk or an old encoding never change a verdict."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys

TYPE_CHECKING = False  # importing `typing` takes as long as all the rest of `karat --version`
if TYPE_CHECKING:
    from typing import Any, TextIO

READABLE = {
    "✓": "+",
    "✗": "x",
    "·": "-",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "Δ": "diff",
    "×": "x",
    "±": "+-",
    "’": "'",
    "“": '"',
    "”": '"',
    "½": "1/2",
}
"""What stands for a character that the output's encoding lacks; a question mark for all others."""
_HANDLER = "karat.readable"


class Output(io.FileIO):
    """Bytes to a descriptor; the first error is kept, and what comes after it is dropped."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except BlockingIOError:
                raise
            except OSError as error:
                self.error = error
        return len(data)

    @property
    def left(self) -> bool:
        """Whether the reader of a pipe closed it."""
        return self.error is not None and self.error.errno == errno.EPIPE


def guarded() -> Output | None:
    """Guard both streams; the raw standard output, unless it is somebody's own object."""
    codecs.register_error(_HANDLER, _readable)
    sys.stdout, output = _guarded(sys.stdout, 1)
    sys.stderr, _ = _guarded(sys.stderr, 2)
    return output


def _guarded(stream: TextIO | None, descriptor: int) -> tuple[TextIO, Output | None]:
    if stream is None:  # closed by whoever started us
        return open(os.devnull, "w", encoding="utf-8"), None
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # an unbuffered stream has no layer between
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.FileIO) or raw.fileno() != descriptor:
        return stream, None
    errors = stream.errors or "strict"
    if errors == "strict" or (errors == "surrogateescape" and not stream.encoding.lower().startswith("utf")):
        errors = _HANDLER
    output = Output(descriptor, "wb", closefd=False)
    guarded = io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=stream.encoding,
        errors=errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return guarded, output


def _readable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(READABLE.get(c, "?") for c in lacking), error.end
