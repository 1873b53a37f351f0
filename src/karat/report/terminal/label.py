"""Labelling at a terminal: one pair per screen, one key per label."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.errors import UsageError
from karat.judge.labelling import LabelSession, find_words
from karat.report.calibration import people
from karat.report.terminal.console import console, line
from karat.results.words import plain, plural, without_controls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from karat.report.terminal.console import Output


AROUND = 12
"""Lines of a screen that are not the doc."""
KEYS = "u undo · s skip · n note · m more · q quit"
ENDS = ("q", "\x04", "")
"""Keys that end a session: q, Ctrl-D, and a terminal that is gone."""


def run(session: LabelSession) -> None:
    """Show pairs and take keys until all are labelled or the person quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("karat judge label needs a terminal: run it in one, without a pipe")
    out = console()
    with _single_keys():
        _label_all(out, session)
    _show_end(out, session)


def _label_all(out: Output, session: LabelSession) -> None:
    more, message = False, ""
    while session.current is not None:
        _show(out, session, more, message)
        key = _read_key()
        more, message = False, ""
        if key in ENDS:
            return
        if key.isdecimal() and int(key) in session.scale.grades:
            session.label(int(key))
        elif key == "u":
            message = "" if session.undo() else "Nothing to undo in this session."
        elif key == "s":
            session.skip()
        elif key == "n":
            session.note = _read_note(out) or session.note
            more = True
        elif key == "m":
            more = True
        else:
            grades = ", ".join(map(str, session.scale.grades))
            message = f"{plain(key) if key.isprintable() else 'That key'} is not a grade: {grades}"


def _show(out: Output, session: LabelSession, more: bool, message: str) -> None:
    text = session.current
    assert text is not None
    out.rich.clear()
    for notice in session.notices:
        out.print(line(plain(notice), style="yellow"), soft_wrap=True)
    session.notices = ()
    role = ", adjudicating" if session.adjudicates else ""
    head = f"{plain(session.person.name)}{role}: {session.labelled + 1:,} of {session.total:,}"
    skips = f" · {session.skipped:,} skipped" if session.skipped else ""
    last = f" · last: {session.last}" if session.last is not None else ""
    out.print(line(f"{head}{skips}{last}", style="dim"))
    out.print()
    out.print(line((without_controls(text.query), "bold")))
    out.print()
    lines = _mark_words(text.query, text.doc).wrap(out.rich, out.width)
    opinions = len(session.opinions) + 2 if session.adjudicates else 0
    room = len(lines) if more else max(out.rich.height - AROUND - len(session.scale.grades) - opinions, 5)
    for one in lines[:room]:
        out.print(one)
    if len(lines) > room:
        out.print(line(f"… {plural(len(lines) - room, 'more line')}: m", style="dim"))
    out.print()
    for grade in reversed(session.scale.grades):
        out.print(line((f"{grade}", "bold cyan"), f"  {plain(session.scale.anchors[grade])}"))
    if session.adjudicates:
        _show_opinions(out, session)
    if session.note:
        out.print(line(f"Note: {plain(session.note)}", style="dim"))
    if message:
        out.print(line(message, style="yellow"))
    out.print(line(KEYS, style="dim"))


def _show_opinions(out: Output, session: LabelSession) -> None:
    """What people say of the pair, without their names."""
    out.print()
    for row in session.opinions:
        remark = f"  {plain(row.note)}" if row.note else ""
        out.print(line("Somebody says ", (f"{row.grade}", "bold cyan"), remark))
    out.print()


def _mark_words(query: str, doc: str) -> Text:
    """The doc with the words of the query marked."""
    clean = without_controls(doc)
    out = line(clean).styled()
    for start, end in find_words(query, clean):
        out.stylize("bold yellow", start, end)
    return out


def _show_end(out: Output, session: LabelSession) -> None:
    rest = session.total - session.labelled
    verb = "settled" if session.adjudicates else "labelled"
    if session.adjudicates and not session.total:
        text = "People disagree on no pair: there is nothing to settle."
    elif not rest:
        count = plural(session.total, "pair")
        everyone = f"All {count} are labelled by {plain(session.person.name)}."
        text = f"Every disagreement is settled: {count}." if session.adjudicates else everyone
    else:
        skips = f", {session.skipped:,} of them skipped" if session.skipped else ""
        text = f"{session.labelled:,} {verb}, {rest:,} left{skips}: run the same command to resume."
    out.print()
    out.print(line(f"{plain(session.path)}: {text}"), soft_wrap=True)
    if (agreement := session.agreement()) is not None:
        for each in people(agreement):
            out.print(line(plain(each)), soft_wrap=True)


def _read_note(out: Output) -> str:
    out.print(line("Note: "), end="")
    with _whole_lines():
        try:
            return " ".join(input().split())
        except EOFError:
            return ""


def _read_key() -> str:
    """The next key, without waiting for Enter; empty if the terminal is gone."""
    sys.stdout.flush()
    descriptor = sys.stdin.fileno()
    try:
        data = os.read(descriptor, 1)
        while data and data[0] >= 0xC0 and len(data) < 4:  # the rest of a character of several bytes
            try:
                return data.decode()
            except UnicodeDecodeError:
                data += os.read(descriptor, 1)
    except OSError:
        return ""
    return data.decode("utf-8", "replace")


@contextmanager
def _single_keys() -> Iterator[None]:
    """A terminal that gives each key at once and does not show it; as it was afterwards."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _whole_lines() -> Iterator[None]:
    """A terminal that gives whole lines and shows what is typed, for a moment."""
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    mode = termios.tcgetattr(descriptor)
    mode[3] |= termios.ICANON | termios.ECHO
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, mode)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
