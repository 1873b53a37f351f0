"""The compiled kernel: C that aligns as numpy does, and faster. It is optional, and chosen here, at import.

`KARAT_KERNEL` in the environment chooses otherwise: `numpy` does without it, `compiled` makes it an error that it is
absent, and a folder (with a / in it) is where another build of it is.
Its parts are `text`, a library that knows nothing of Python, and `dicts`, a module that works with its dicts.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `karat --version` imports this module, and little else
if TYPE_CHECKING:
    from ctypes import CDLL
    from types import ModuleType

VARIABLE = "KARAT_KERNEL"
LIBRARY = "libkarat.so"

_choice = os.environ.get(VARIABLE, "")
if os.sep in _choice:
    __path__.insert(0, _choice)


def _load_text() -> CDLL | None:
    path = os.path.join(__path__[0], LIBRARY)
    if _choice == "numpy" or not os.path.exists(path):
        return None
    import ctypes

    try:
        return ctypes.CDLL(path)
    except OSError:  # built for another machine
        return None


def _load_dicts() -> ModuleType | None:
    if _choice == "numpy":
        return None
    try:
        from karat.model.kernel import dicts
    except ImportError:
        return None
    return dicts


text = _load_text()
dicts = _load_dicts()
parts = [name for name, part in (("text", text), ("dicts", dicts)) if part is not None]
"""The names of what is compiled and used."""

problem = ""
"""Why the environment's choice cannot be met; empty if it can."""
if _choice not in ("", "numpy", "compiled") and os.sep not in _choice:
    problem = f"{VARIABLE}: found {_choice!r}, expected 'numpy', 'compiled' or a folder; unset it to take what there is"
elif _choice not in ("", "numpy") and len(parts) < 2:
    problem = (
        f"{VARIABLE} asks for the compiled kernel, and it is not here for {'dicts' if text else 'text'}: "
        f"install Karat where there is a C compiler, or unset {VARIABLE}"
    )


def described() -> str:
    """What aligns runs, in words."""
    return problem or (f"compiled kernel for {' and '.join(parts)}" if parts else "without compiled kernel")
