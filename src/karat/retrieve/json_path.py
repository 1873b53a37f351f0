"""Parts of a JSON answer by JSONPath: ids, scores, stages and times."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from karat.errors import InputError, UsageError, missing_package, shown

_LAST = re.compile(r"(?s)^(?P<before>.*)(?P<mark>\[\*\]|\.\*|\[\s*\?|\[\s*-?\d*\s*:)")
"""The last part of a path that may match many things, or none."""


class JsonPath:
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
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"http: {name}={path} is not a JSONPath ({reason}); expected one like $.hits[*].id"
            ) from None

    def find(self, data: Any) -> list[Any]:
        """All matches; if the only match is a list, its items."""
        matches: list[Any] = self._compiled.findall(data)
        is_list = len(matches) == 1 and isinstance(matches[0], list) and not self._mark
        return list(matches[0]) if is_list else matches

    def find_results(self, data: Any, where: str) -> list[Any]:
        """The results; none only if the answer shows that there are none."""
        matches = self.find(data)
        if not matches and not self._means_none(data):
            raise InputError(
                f"{where}: {self.name}={self.path} finds nothing in the answer, which has {self._describe(data)}; "
                "fix the path, or, if this is an answer without results, say where its number of results is: total=$.…"
            )
        return matches

    def find_number(self, data: Any, where: str) -> float:
        """The one number that it must find."""
        matches = self.find(data)
        if len(matches) != 1:
            raise InputError(
                f"{where}: {self.name}={self.path} must find one number, found {len(matches)} values; "
                f"the answer has {self._describe(data)}"
            )
        value = matches[0]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise InputError(f"{where}: {self.name}={self.path} must be a number from 0, found {shown(value)}")
        return float(value)

    def _means_none(self, data: Any) -> bool:
        """Whether there is an empty list, or a list of which a filter leaves nothing."""
        if self._before is None:
            return any(value == [] for value in self._compiled.findall(data))
        within = self._before.findall(data)
        selects = self._mark not in ("[*]", ".*")
        return bool(within) and (selects or not any(within))

    def _describe(self, data: Any) -> str:
        within = self._before.findall(data) if self._before is not None else []
        first = next((v[0] for v in within if isinstance(v, list) and v), None)
        return describe(data) + (f", with {describe(first)} where {self._mark} is" if first is not None else "")


def describe(data: Any) -> str:
    """What a person needs to know of a value to fix a path."""
    if isinstance(data, Mapping):
        return "the keys " + ", ".join(map(str, data)) if data else "no keys"
    return f"a list of {len(data)}" if isinstance(data, list) else shown(data)
