"""Ids that look like others and match none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from karat.model.ids import is_decimal, is_stray
from karat.verbs.validate.findings import list_some, make_finding, many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karat.verbs.validate.findings import LintFinding

_FRACTION = re.compile(r"\d+\.\d*[1-9]\d*", re.ASCII)


def check_ids(path: str, kind: str, ids: Sequence[str], at: Callable[[int], str]) -> Iterator[LintFinding]:
    """The ids of one kind in one file; `at` gives the place of the i-th."""
    unique = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
    by_row = sorted(unique.items(), key=lambda pair: pair[1])
    stray = [(text, i) for text, i in by_row if is_stray(text)]
    if stray:
        yield make_finding(
            "F005",
            path,
            f"{many(len(stray), f'{kind} id has', f'{kind} ids have')} stray white space or invisible characters: "
            f"{list_some([s for s, _ in stray])}",
            (at(i) for _, i in stray),
            len(stray),
        )
    decimal = [(text, i) for text, i in by_row if is_decimal(text)]
    # Numbers of sections or versions (1.0, 1.1) are not integers gone wrong.
    if decimal and not any(_FRACTION.fullmatch(text) for text in unique):
        yield make_finding(
            "F006",
            path,
            f"{many(len(decimal), f'{kind} id looks', f'{kind} ids look')} like integers that became decimals: "
            f"{list_some([s for s, _ in decimal])}",
            (at(i) for _, i in decimal),
            len(decimal),
        )
