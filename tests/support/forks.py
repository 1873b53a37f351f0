"""One process that does the slow preparation once and forks for every trial: real processes, which may be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import karat

_SERVER = """
import gc, json, os, signal, sys, traceback
gc.freeze()
signal.signal(signal.SIGINT, signal.default_int_handler)
for line in sys.stdin:
    arguments, environment = json.loads(line)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        os.environ.update(environment)
        code = 1
        try:
            code = work(*arguments) or 0
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    os.close(writer)
    with open(reader, errors="replace") as output:
        text = output.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text]), flush=True)
"""
KARAT = """
import os, resource, signal, sys
import karat.cli.app, karat.report.markdown, karat.report.terminal.check, karat.report.terminal.evaluate
import karat.verbs.check, karat.verbs.validate, msgspec, numpy, pydantic

def work(folder, output, limit, *arguments):
    os.chdir(folder)
    sys.argv = ["karat", *arguments]
    if output == "a pipe without a reader":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
    elif output:
        os.dup2(os.open(output, os.O_WRONLY), 1)
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.dont_write_bytecode = True  # half a module would be kept for everybody
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    karat.cli.main()
"""
"""`karat ARGUMENTS` in a folder, with another standard output and a limit to the size of files, if these are not ""."""
PYTEST = """
import os
import karat.config.reading, karat.verbs.check, msgspec, numpy, pydantic, pytest, scipy.special

def work(folder, *arguments):
    os.chdir(folder)
    loaded_before = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
    return int(pytest.main([*loaded_before, *arguments]))
"""
"""`pytest ARGUMENTS` in a folder."""


class Forks:
    """`with Forks(code, folder) as forks: forks.run(…)`: the code defines `work(*arguments)`, which each fork calls."""

    def __init__(self, code: str, folder: Path) -> None:
        self._code, self._folder = code, folder

    def __enter__(self) -> Forks:
        source = f"import sys; sys.path.insert(0, {str(Path(karat.__file__).parents[1])!r})\n"
        self._server = subprocess.Popen(
            [sys.executable, "-c", source + self._code + _SERVER],
            cwd=self._folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.communicate(timeout=60)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call `work` in a fork: its exit code, or minus the signal that ended it, and all that it wrote."""
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps([arguments, environment]) + "\n")
        self._server.stdin.flush()
        code, text = json.loads(self._server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, text)
