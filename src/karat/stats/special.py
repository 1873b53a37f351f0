"""Special functions of scipy, without the rest of `scipy.special`: importing all of that takes longer than a check."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_PACKAGE, _COMPILED = "scipy.special", "scipy.special._ufuncs"


def _functions() -> ModuleType:
    """The compiled functions: of `scipy.special` where somebody imported it, or where they cannot be had apart."""
    if _PACKAGE in sys.modules:
        return import_module(_PACKAGE)
    scipy = find_spec("scipy")
    package = ModuleType(_PACKAGE)
    package.__path__ = [f"{place}/special" for place in (scipy and scipy.submodule_search_locations) or ()]
    sys.modules[_PACKAGE] = package  # stands for the package while its compiled part is loaded
    try:
        return import_module(_COMPILED)
    except (ImportError, AttributeError):
        pass
    finally:
        del sys.modules[_PACKAGE]
    return import_module(_PACKAGE)


_ALL = _functions()
bdtr = _ALL.bdtr
bdtrc = _ALL.bdtrc
bdtrik = _ALL.bdtrik
betainc = _ALL.betainc
chdtr = _ALL.chdtr
fdtr = _ALL.fdtr
fdtri = _ALL.fdtri
ncfdtr = _ALL.ncfdtr
nctdtr = _ALL.nctdtr
ndtr = _ALL.ndtr
ndtri = _ALL.ndtri
stdtr = _ALL.stdtr
stdtrit = _ALL.stdtrit
