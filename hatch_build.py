"""Compile the kernel where there is a C compiler; without one, Karat is installed as plain Python, and works.

Hatchling calls `KernelHook` for wheels and editable installs. `python hatch_build.py [FOLDER] [--sanitize]` compiles
by hand: beside the sources, or into another folder, which `KARAT_KERNEL=FOLDER` then names.
With `KARAT_KERNEL=compiled` in the environment it is an error if something cannot be compiled.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCES = Path(__file__).parent / "src" / "karat" / "model" / "kernel"
LIBRARY = "libkarat.so"
MODULE = {"win32": "dicts.pyd"}.get(sys.platform, "dicts.abi3.so")
FLAGS = ("-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def find_compiler() -> list[str] | None:
    """The command that compiles C, if there is one."""
    if named := shlex.split(os.environ.get("CC", "")):
        return named if shutil.which(named[0]) else None
    path = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    return [path] if path else None


def python_flags() -> list[str] | None:
    """What a module of Python is compiled with; None where its headers are absent or it has no stable ABI."""
    include = sysconfig.get_path("include")
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not os.path.exists(os.path.join(include, "Python.h")):
        return None
    link = {
        "darwin": ["-undefined", "dynamic_lookup"],
        "win32": [f"-L{os.path.join(sys.base_prefix, 'libs')}", "-lpython3"],
    }
    return [f"-I{include}", *link.get(sys.platform, [])]


def build(folder: Path = SOURCES, *, sanitize: bool = False) -> list[Path]:
    """Compile what can be compiled, and remove what an earlier build left; the files that are there now."""
    compiler = find_compiler()
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    for source, name, more in (("text.c", LIBRARY, []), ("dicts.c", MODULE, python_flags())):
        target = folder / name
        target.unlink(missing_ok=True)
        if compiler is None or more is None:
            continue
        partial = target.with_name(f"{os.getpid()}-{name}")
        own = shlex.split(os.environ.get("CFLAGS", ""))
        options = (*FLAGS, *(SANITIZED if sanitize else ("-O3",)), *own)
        command = [*compiler, *options, "-o", str(partial), str(SOURCES / source), *more]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode == 0:
            partial.replace(target)
            done.append(target)
        elif os.environ.get("KARAT_KERNEL") == "compiled":
            raise SystemExit(f"{shlex.join(command)}\n{told.stderr}")
        partial.unlink(missing_ok=True)
    if len(done) < 2 and os.environ.get("KARAT_KERNEL") == "compiled":
        raise SystemExit("KARAT_KERNEL asks for the compiled kernel: needs a C compiler (cc, gcc, clang) and Python.h")
    return done


def wheel_tag(files: list[Path]) -> str:
    """The tag of a wheel with these files."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if not files:
        return "py3-none-any"
    return f"cp311-abi3-{platform}" if any(f.name == MODULE for f in files) else f"py3-none-{platform}"


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # compiling by hand, or in a test
    pass
else:

    class KernelHook(BuildHookInterface):
        """Compiles the kernel into the wheel, or beside the sources of an editable install."""

        def initialize(self, version: str, build_data: dict) -> None:
            """Compile, and say what the wheel holds."""
            files = build()
            if files:
                build_data["pure_python"] = False
                build_data["tag"] = wheel_tag(files)
                build_data["artifacts"] += [f.relative_to(self.root).as_posix() for f in files]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCES)
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UndefinedBehaviorSanitizer")
    arguments = parser.parse_args()
    for file in build(arguments.folder, sanitize=arguments.sanitize) or ["nothing: there is no C compiler"]:
        print(f"compiled {file}")
