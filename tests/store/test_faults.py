"""The points at which tests stop the process are all declared, and each is somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import karat
from karat.store.faults import POINTS


def test_every_point_is_declared_and_passed_in_one_place() -> None:
    sources = Path(karat.__file__).parent.rglob("*.py")
    names = [name for path in sources for name in re.findall(r'\bfault\("([^"]+)"\)', path.read_text("utf-8"))]
    assert sorted(names) == sorted(POINTS)
