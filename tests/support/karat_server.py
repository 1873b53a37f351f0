"""The command `karat` without the time that it takes to start: a process that has loaded Karat forks for every call.

`with serve_karat() as command:` gives the path of an executable. What it runs is a process of its own, with the
arguments, folder, environment and streams of the caller.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import karat

_SERVER = """
import gc, json, os, signal, socket, sys, traceback
import karat.cli.app, karat.report.markdown, karat.report.terminal.check, karat.report.terminal.evaluate
import jinja2, karat.cli.check, karat.report.html.page, karat.report.outputs, karat.verbs.check, karat.verbs.diagnose
import karat.verbs.sweep, karat.verbs.validate, msgspec, numpy, pydantic, ruamel.yaml, scipy.stats

def run(caller, streams):
    arguments, folder, environment = json.loads(caller.makefile().read())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    encoding, _, errors = environment.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdin = open(0, encoding=encoding, errors=errors or "strict", closefd=False)
    sys.stdout = open(1, "w", encoding=encoding, errors=errors or "strict", closefd=False)
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["karat", *arguments]
    try:
        karat.cli.main()
        return 0
    except SystemExit as end:
        return end.code or 0

gc.freeze()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1])
    server.listen()
    print("ready", flush=True)
    while True:
        caller, _ = server.accept()
        _, streams, *_ = socket.recv_fds(caller, 1, 3)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = 70
            try:
                code = run(caller, streams)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            caller.send(bytes([code]))
            os._exit(code)
        caller.close()
        for stream in streams:
            os.close(stream)
"""
_CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"-"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    code = server.recv(1)
sys.exit(code[0] if code else 70)
"""


@contextlib.contextmanager
def serve_karat() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        command, client, address = (Path(folder) / name for name in ("karat", "client.py", "socket"))
        client.write_text(_CLIENT)
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{client}" "{address}" "$@"\n')
        command.chmod(0o755)
        source = f"import sys; sys.path.insert(0, {str(Path(karat.__file__).parents[1])!r})\n"
        with subprocess.Popen(
            [sys.executable, "-c", source + _SERVER, str(address)], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout and server.stdout.readline() == "ready\n"
            yield command
            server.terminate()
