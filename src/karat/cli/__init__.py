"""The command line: one module a verb, each a thin layer over a function of the library."""

from __future__ import annotations

import os
import sys

from karat.cli.codes import FAULT, INTERRUPTED


def main() -> None:
    """Run the command line; every way out has its exit code."""
    from karat.errors import KaratError

    # Work is divided among our own threads; those of the linear algebra would only wait for each other.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    try:
        from karat.cli.app import app

        app()
    except KaratError as error:
        for line in str(error).splitlines():
            print(f"karat: {line}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("karat: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        if "--verbose" in sys.argv:
            import traceback

            traceback.print_exc()
        print(
            f"karat: a fault of ours, not of your data: {type(error).__name__}: {error}\n"
            "karat: run again with --verbose for the details, and please report it",
            file=sys.stderr,
        )
        raise SystemExit(FAULT) from None
