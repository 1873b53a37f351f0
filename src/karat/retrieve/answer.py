"""What an answer in JSON holds, found by JSONPath: ids, scores, stages and times."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from karat.errors import InputError, UsageError, missing_package, shown

_LAST = re.compile(r"(?s)^(?P<before>.*)(?P<mark>\[\*\]|\.\*|\[\s*\?|\[\s*-?\d*\s*:)")
"""The last part of a path that may match many things, or none."""


class Path:
    """A JSONPath, and whether finding nothing by it means that there is nothing."""

    def __init__(self, path: Any, name: str) -> None:
        try:
            import jsonpath
        except ImportError:
            raise missing_package("http", "httpx", "jsonpath") from None
        if not isinstance(path, str) or not path.startswith("$"):
            raise UsageError(f"http: {name} must be a JSONPath such as $.hits[*].id, found {shown(path)}")
        self.path, self.name = path, name
        last = _LAST.match(path)
        self._mark = last["mark"] if last else ""
        try:
            self._compiled = jsonpath.compile(path)
            self._before = jsonpath.compile(last["before"]) if last else None
        except jsonpath.JSONPathError as error:
            told = str(error).splitlines()[0]
            raise UsageError(f"http: {name}={path} is no JSONPath ({told}); such as $.hits[*].id") from None

    def find(self, data: Any) -> list[Any]:
        """All that it finds; the items of a list where it finds just that one list."""
        found = self._compiled.findall(data)
        return found[0] if len(found) == 1 and isinstance(found[0], list) and not self._mark else found

    def find_results(self, data: Any, where: str) -> list[Any]:
        """Results; none where the answer shows that there are none, else an error that says what is there."""
        found = self.find(data)
        if not found and not self._means_none(data):
            raise InputError(
                f"{where}: {self.name}={self.path} finds nothing in the answer, which has {self._seen(data)}; "
                f"mend the path, or, if an answer without results looks so, name its number of results by total=$.…"
            )
        return found

    def find_number(self, data: Any, where: str) -> float:
        """The one number that it must find."""
        found = self.find(data)
        if len(found) != 1:
            raise InputError(
                f"{where}: {self.name}={self.path} must find one number, found {len(found)} values; "
                f"the answer has {self._seen(data)}"
            )
        value = found[0]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise InputError(f"{where}: {self.name}={self.path} must be a number from 0, found {shown(value)}")
        return float(value)

    def _means_none(self, data: Any) -> bool:
        """An empty list is there, or a list of which a filter took all."""
        if self._before is None:
            return any(value == [] for value in self._compiled.findall(data))
        within = self._before.findall(data)
        selects = self._mark not in ("[*]", ".*")
        return bool(within) and (selects or not any(within))

    def _seen(self, data: Any) -> str:
        within = self._before.findall(data) if self._before is not None else []
        first = next((v[0] for v in within if isinstance(v, list) and v), None)
        return seen(data) + (f", with {seen(first)} where {self._mark} is" if first is not None else "")


def seen(data: Any) -> str:
    """What a person needs to know of a value to mend a path."""
    if isinstance(data, Mapping):
        return "the keys " + ", ".join(map(str, data)) if data else "no keys"
    return f"a list of {len(data)}" if isinstance(data, list) else shown(data)
