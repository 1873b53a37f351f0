"""The command line: one module per command, each a thin layer over a function of the library.

`main` is the way in, and every way out: here errors become exit codes, and what nobody expected becomes 70.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from itertools import pairwise

from karat.exit_codes import FAULT, INTERRUPTED, NO_READER, WRONG_INPUT

DECIDING = ("check", "validate")
"""Verbs whose exit code is a verdict, which holds whether or not somebody reads the output."""
UNCONCERNED = frozenset(
    ("karat", "numpy", "scipy", "_cyutility", "msgspec", "pydantic_core", "markupsafe", "_ruamel_yaml")
)
"""Compiled libraries that need no last search for garbage; `_cyutility` is a part of scipy's."""


def main() -> None:
    """Run the command line; every way out has its exit code."""
    from karat.cli.streams import guarded

    # Work is divided among our own threads; those of the linear algebra would only wait for each other.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    closed = sys.stdout is None
    output = guarded()
    code = _exit_code()
    sys.stdout.flush()
    if closed and any(word == "-" and flag.startswith("--") for flag, word in pairwise(sys.argv)):
        print(
            "karat: standard output: is closed, and a result was to go there; open it, or name a file", file=sys.stderr
        )
        code = WRONG_INPUT
    if output is not None and output.error is not None:
        if not output.left:
            print(f"karat: standard output: cannot be written ({output.error.strerror}); make room", file=sys.stderr)
            code = WRONG_INPUT
        elif code == 0 and sys.argv[1:2] not in ([verb] for verb in DECIDING):
            code = NO_READER
    raise SystemExit(code)


def version_text() -> str:
    """What `karat --version` prints."""
    from karat import __version__
    from karat.model.kernel import described

    return f"karat {__version__} ({described()})"


def _end_quickly() -> None:
    """Skip the last search for garbage, unless a compiled library may count on it: DuckDB's names what it misses."""
    files = ((name.partition(".")[0], getattr(module, "__file__", None)) for name, module in sys.modules.items())
    compiled = {name for name, file in files if file and file.endswith((".so", ".pyd"))}
    if compiled - sys.stdlib_module_names <= UNCONCERNED:
        gc.freeze()


def _exit_code() -> int:
    """Run the command: each error has its exit code here; what nobody expected is 70, and `--verbose` shows where."""
    if sys.argv[1:] == ["--version"]:
        print(version_text())  # before anything is imported
        return 0
    gc.set_threshold(100_000)  # there is no garbage among what is imported: looking for it seldom is enough
    atexit.register(_end_quickly)
    from karat.errors import KaratError, visible

    try:
        from karat.cli.app import app_for

        app_for(sys.argv[1:])()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else WRONG_INPUT
    except KaratError as error:
        for line in str(error).splitlines():
            print(f"karat: {visible(line)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("karat: interrupted", file=sys.stderr)
        return INTERRUPTED
    except MemoryError:
        print(
            "karat: the data does not fit into memory; give it more, name smaller files, or bound it with --memory",
            file=sys.stderr,
        )
        return WRONG_INPUT
    except Exception as error:
        if "--verbose" in sys.argv:
            import traceback

            traceback.print_exc()
        print(
            f"karat: internal error (a bug in Karat): {type(error).__name__}: {visible(str(error))}\n"
            "karat: run again with --verbose for the details, and please report it",
            file=sys.stderr,
        )
        return FAULT
    return 0
