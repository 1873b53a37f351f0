"""TREC topics: `<top>` in the SGML of the ad hoc tracks, whose fields are never closed, and `<topic>` in XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from karat.model.docs import TEXT_FIELDS, TITLE
from karat.model.queries import TopicNumber
from karat.read.formats import InputFormat
from karat.read.text_tables import decode_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.model.docs import Fields
    from karat.read.columns import FieldRow, TableKind
    from karat.read.files import InputFile
    from karat.read.problems import Problems

_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>", re.IGNORECASE)
_TOPIC_BYTES = rb"(?i)<top(ic)?\b[^>]*>"
_TAG = re.compile(r"<([A-Za-z][\w.:-]*)([^>]*)>")
_ANY_TAG = re.compile(r"</?[A-Za-z][^>]*>")
_ATTRIBUTE = re.compile(r"([\w.:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_LABEL = re.compile(
    r"(?:number|topic|title|domain|description|desc|summary|narrative|narr|concept\(s\)|factor\(s\)|definition\(s\))"
    r"\s*:\s*",
    re.IGNORECASE,
)
_NAMES = {"desc": "description", "narr": "narrative", "dom": "domain", "smry": "summary", "con": "concepts"}
_ID_NAMES = ("num", "number", "id", "qid")
_TEXT_NAMES = (TITLE, *TEXT_FIELDS, "description", "")
"""What the text of a topic is, the likeliest first; "" is text outside of any field."""


def recognise(file: InputFile) -> bool:
    """Whether a file begins like TREC topics."""
    return file.head.lstrip().startswith(b"<") and file.holds(_TOPIC_BYTES)


def read_table(file: InputFile, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """The topics of a file, each with its line and its fields: `_id`, `text`, `description`, `narrative`, …"""
    text = decode_text(file)
    text = re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    starts = list(_TOPIC.finditer(text))
    starts = [s for s in starts if s[1].lower() == starts[0][1].lower()]  # a <topic> in a <top> is a field of it
    line, place = 1, 0
    for start, after in zip(starts, [*starts[1:], None], strict=True):
        line += text.count("\n", place, start.start())
        place = start.start()
        body = text[start.end() : after.start() if after else len(text)]
        end = re.search(rf"</{start[1]}\s*>", body, re.IGNORECASE)
        if end is None:
            problems.add(line, f"this topic has no </{start[1]}>; the file may break off here: copy or write it again")
            continue
        fields = _fields_of(start[2], body[: end.start()])
        if "_id" in fields:
            yield line, fields
        else:
            problems.add(line, 'no topic number; expected <num> or <topic number="…">')


def _fields_of(attributes: str, body: str) -> Fields:
    fields: dict[str, object] = {}
    for name, value in _elements(attributes, body):
        if value:
            before = fields.get(name)
            both = [*before, value] if isinstance(before, list) else [before, value]
            fields[name] = value if before is None else both
    number = next((name for name in _ID_NAMES if name in fields), None)
    text = next((name for name in _TEXT_NAMES if name in fields), None)
    out = {"_id": fields.pop(number)} if number is not None else {}
    if text is not None:
        out["text"] = fields.pop(text)
    return {**out, **{name: value for name, value in fields.items() if name}}


def _elements(attributes: str, body: str) -> Iterator[tuple[str, str]]:
    """The attributes and fields of a topic, and "" for text outside of them."""
    for name, one, other in _ATTRIBUTE.findall(attributes):
        yield name.lower(), _plain(one or other)
    place, outside = 0, ""
    while tag := _TAG.search(body, place):
        outside += body[place : tag.start()]
        name = tag[1].lower()
        end = re.compile(rf"</{re.escape(tag[1])}\s*>", re.IGNORECASE).search(body, tag.end())
        following = _TAG.search(body, tag.end())
        stop = end.start() if end else following.start() if following else len(body)
        content = _plain(body[tag.end() : stop])
        label = _LABEL.match(content)
        if label:
            content = content[label.end() :]
        if name in _ID_NAMES and label and content.isdecimal():
            content = TopicNumber.of(content)  # "Number: 051" is query 51 in the qrels
        yield _NAMES.get(name, name), content
        place = end.end() if end else stop
    yield "", _plain(outside + body[place:])


def _plain(text: str) -> str:
    """The text without tags, entities and needless white space."""
    import html

    return " ".join(html.unescape(_ANY_TAG.sub(" ", text)).split())


FORMAT = InputFormat(
    "topics", "TREC topics", recognise, tables="`<top>` or `<topic>`, as TREC writes its queries", read_table=read_table
)
