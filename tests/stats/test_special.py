"""The special functions are scipy's own, and loading them alone leaves `scipy.special` as it is."""

from __future__ import annotations

import subprocess
import sys


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_the_functions_are_loaded_without_the_rest_of_scipy_special() -> None:
    code = "import sys, karat.stats.special as ours; print('scipy.special' in sys.modules, ours.ndtr(0.0))"
    assert printed(code).split() == ["False", "0.5"]


def test_scipy_special_is_whole_where_it_is_imported_later_or_was_before() -> None:
    names = "print(sorted(n for n in dir(s) if not n.startswith('_')), s.ndtr is ours.ndtr, s.stdtrit is ours.stdtrit)"
    later = printed(f"import karat.stats.special as ours, scipy.special as s, scipy.stats, scipy.optimize; {names}")
    before = printed(f"import scipy.special as s, scipy.stats, scipy.optimize, karat.stats.special as ours; {names}")
    assert later == before
    assert later.endswith("True True\n")


def test_all_of_scipy_special_is_imported_where_its_compiled_part_is_elsewhere() -> None:
    hide = (
        "import sys, importlib.abc\n"
        "class Hidden(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'scipy.special._ufuncs' and not hasattr(sys.modules['scipy.special'], '__file__'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    assert printed(hide + "import karat.stats.special as ours; print('scipy.special' in sys.modules)") == "True\n"
