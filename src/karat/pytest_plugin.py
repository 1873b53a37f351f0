"""For pytest: `def test_retrieval_ships(karat_check): assert karat_check("karat.yaml")`.

Nothing heavy is imported before a test asks for the fixture.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from karat.gates.judge import JudgedGate
    from karat.verbs.check import Check

Inconclusive = Literal["pass", "fail", "skip"]
CHOICES = ("pass", "fail", "skip")
LISTED = 20
"""The most judgements that an explanation lists of one kind."""
CHECKS: pytest.StashKey[list[Check]] = pytest.StashKey()
"""The checks of a test that did not pass."""


@pytest.fixture
def karat_check(request: pytest.FixtureRequest) -> Generator[Callable[..., Check]]:
    """`karat.check`, with the same arguments; a relative path is looked for beside the test, then in the root folder.

    The check that it returns is true if the verdict is SHIP. `inconclusive` says what an INCONCLUSIVE one does to the
    test: "fail" (the default), "pass", or "skip". A check that did not ship and that nobody asked for its truth or its
    verdict is warned of: it was most likely meant to be asserted. What makes figures
    misleading is a `KaratWarning` where the check passes, and stands in the explanation where it does not.
    """
    folders = [request.path.parent, request.config.rootpath]
    uses: dict[int, bool] = {}
    open_: list[Check] = []

    def judge(config: Any = None, *arguments: Any, inconclusive: Inconclusive = "fail", **keywords: Any) -> Check:
        __tracebackhide__ = True
        from karat.errors import KaratError, UsageError
        from karat.verbs.check import check
        from karat.verbs.warn import warn_of

        if inconclusive not in CHOICES:
            raise UsageError(f"inconclusive must be one of {', '.join(CHOICES)}, found {inconclusive!r}")
        try:
            for name in ("baseline", "result"):
                if name in keywords:
                    keywords[name] = _find(keywords[name], folders)
            outcome = check(_config(config, folders), *arguments, **keywords)
        except KaratError as error:
            # The message says all; where in Karat it was raised does not help whoever reads the test.
            raise error.with_traceback(None) from None
        if outcome.verdict == "INCONCLUSIVE" and inconclusive == "skip":
            pytest.skip(explained(outcome))
        if outcome:
            warn_of(outcome.warnings, stacklevel=3)
            return outcome
        accepted = outcome.verdict == "INCONCLUSIVE" and inconclusive == "pass"
        if accepted:
            warn_of(outcome.warnings, stacklevel=3)
        else:
            request.node.stash.setdefault(CHECKS, []).append(outcome)
            open_.append(outcome)
        key = id(outcome)
        return _watched(outcome, lambda: uses.update({key: True}), accepted=accepted)

    yield judge
    for open_check in open_:
        if id(open_check) not in uses:
            advice = "nothing asserts it; write `assert karat_check(…)`"
            message = f"karat_check: {open_check.verdict}, and {advice}: {open_check.why}"
            warnings.warn(pytest.PytestWarning(_printable(message)), stacklevel=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain every check that did not pass below the assertion that failed; an assertion itself shows one line."""
    report = yield
    if report.failed and call.when == "call":
        for check in item.stash.get(CHECKS, []):
            title = f"karat check {check.name}".rstrip()
            add = getattr(report.longrepr, "addsection", None)
            if add is not None:
                add(title, explained(check), "-")
            else:
                report.sections.append((title, explained(check)))
    return report


def explained(check: Check) -> str:
    """The verdict and every gate that fails or is undecided: value, interval, number of queries, queries needed."""
    from karat.gates.wording import explain_undecided

    lines = [f"{check.verdict}: {check.why}"]
    if check.verdict == "INCONCLUSIVE":
        lines.append(explain_undecided(check.rows))
    lines += check.notes
    for outcome, title in (("fail", "fails"), ("undecided", "undecided")):
        for level, kind in (("error", ""), ("warn", " (warning)")):
            lines += _lines(check.of(outcome, level), f"{title}{kind}")
    return "\n".join(_printable(line) for line in lines)


def _printable(line: str) -> str:
    """A line that any terminal and any process can take: names may hold controls and halves of characters."""
    from karat.results.words import plain

    return " " * (len(line) - len(line.lstrip(" "))) + plain(line)


def _lines(rows: Sequence[JudgedGate], title: str) -> list[str]:
    from karat.gates.wording import advise, evidence_text, figure_of, label_gate

    out = []
    for row in rows[:LISTED]:
        where = f" [{row.where}]" if row.gate.every and row.where else ""
        label = label_gate(row.gate)
        out += ["", f"{row.run}: {label}{where}: {title}"]
        if figure_of(row).defined:
            of = row.gate.metric if row.against is None else f"{row.gate.metric} against {row.against}"
            out.append(f"    {of}: {evidence_text(row)}, n = {row.found.n}")
        out.append(f"    {advise(row) or row.judged.why}")
    if len(rows) > LISTED:
        out += ["", f"and {len(rows) - LISTED} more: {title}"]
    return out


def _watched(check: Check, notify: Callable[[], None], *, accepted: bool) -> Check:
    """The same check, which tells when somebody asks how it ended; `accepted` is true although it is undecided."""
    from dataclasses import fields

    from karat.verbs.check import Check

    class Watched(Check):
        def __bool__(self) -> bool:
            shipped = super().__bool__()
            return shipped or accepted

        @property
        def verdict(self) -> Any:
            notify()
            return super().verdict

    return Watched(**{f.name: getattr(check, f.name) for f in fields(check)})


def _config(config: Any, folders: Sequence[Path]) -> Any:
    """The config's place: a path that was named, or the karat.yaml of the first folder that has one."""
    from karat.config.reading import DEFAULT_NAMES
    from karat.errors import InputError

    if config is not None and not isinstance(config, (str, os.PathLike)):
        return config
    names = DEFAULT_NAMES if config is None else (os.fspath(config),)
    for folder in folders:
        for name in names:
            if (folder / name).exists():
                return str(folder / name)
    looked = " and ".join(dict.fromkeys(map(str, folders)))
    raise InputError(f"{names[0]}: no such file; looked in {looked} (beside the test, and in pytest's root folder)")


def _find(source: Any, folders: Sequence[Path]) -> Any:
    """A file in the first folder that has it; what names none, such as a run, is left as it is."""
    if isinstance(source, (str, os.PathLike)):
        return next((str(f / source) for f in folders if (f / source).is_file()), os.fspath(source))
    return source
