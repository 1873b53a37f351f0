"""The command line in this process: what a subprocess would give, without starting one."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from karat.cli import main


def run_karat(
    *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `karat ARGUMENTS`: its exit code, standard output and standard error.

    What needs a process of its own (signals, closed pipes, limits, other encodings) starts one instead.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    folder = Path.cwd() if cwd is None else Path(cwd)
    before = set(sys.modules)
    code = 0
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["karat", *arguments]),
        mock.patch.object(sys, "path", list(sys.path)),
        mock.patch.object(sys, "dont_write_bytecode", True),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            importlib.invalidate_caches()
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    # The next command must read modules of the folder anew. Those of Karat and its packages are never in it.
    for name in set(sys.modules) - before if cwd is not None else ():
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    return subprocess.CompletedProcess(arguments, code, *(s.buffer.getvalue().decode() for s in (out, err)))  # type: ignore[attr-defined]
