"""The answer of a model → its grade and reason, or why it is neither. What cannot be read is never a grade of 0."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from karat.errors import shown
from karat.read.json_lines import repeated_key
from karat.records import dataclass

if TYPE_CHECKING:
    from karat.judge.scale import Scale
    from karat.model.json_data import Json, JsonObject

AnswerForm = Literal["json_schema", "json_object", "text"]
FORMS: tuple[AnswerForm, ...] = ("json_schema", "json_object", "text")
"""How an endpoint is made to answer in JSON, the strictest first."""
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.S)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.S)


class InvalidAnswer(Exception):
    """An answer that holds no grade of the scale; says why."""


@dataclass(frozen=True)
class Usage:
    """The tokens of calls."""

    input: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.output + other.output)

    @property
    def total(self) -> int:
        return self.input + self.output


@dataclass(frozen=True)
class Opinion:
    """The grade that a model gives, and why."""

    grade: int
    reason: str = ""


def response_format(form: AnswerForm, scale: Scale, *, reason: bool) -> JsonObject | None:
    """The field `response_format` of a request; None for answers as text. The reason comes before the grade."""
    if form != "json_schema":
        return {"type": "json_object"} if form == "json_object" else None
    properties: JsonObject = {"reason": {"type": "string"}} if reason else {}
    properties["grade"] = {"type": "integer", "enum": list(scale.grades)}
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "judgment", "strict": True, "schema": schema}}


class ChatMessage(Struct):
    """What a model says."""

    content: str | None = None
    refusal: str | None = None


class ChatChoice(Struct):
    """One of its answers; only the first counts."""

    message: ChatMessage
    finish_reason: str | None = None


class Completion(Struct):
    """The body of a chat completion, as far as it is read."""

    choices: Annotated[list[ChatChoice], Meta(min_length=1)]


class Bill(Struct):
    """The tokens that a chat completion reports."""

    prompt_tokens: Annotated[int, Meta(ge=0)]
    completion_tokens: Annotated[int, Meta(ge=0)]


class BilledCompletion(Struct):
    """A chat completion that reports its tokens."""

    usage: Bill


def read_completion(answer: Json, scale: Scale, *, reason: bool) -> Opinion:
    """The opinion in a chat completion."""
    try:
        choice = msgspec.convert(answer, Completion).choices[0]
    except msgspec.ValidationError:
        raise InvalidAnswer(f"the answer has no choices[0].message: {shown(answer)}") from None
    if choice.finish_reason == "length":
        raise InvalidAnswer("the answer was cut at its limit of tokens; raise max_tokens")
    text = choice.message.content or ""
    if not text.strip():
        refusal = choice.message.refusal
        raise InvalidAnswer(f"the model refused: {shown(refusal)}" if refusal else "the answer is empty")
    return read_opinion(text, scale, reason=reason)


def read_opinion(text: str, scale: Scale, *, reason: bool) -> Opinion:
    """The opinion in a text that is one JSON object; thoughts before it, and a code fence around it, are allowed."""
    body = _THOUGHT.sub("", text).strip()
    if fence := _FENCE.match(body):
        body = fence[1].strip()
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidAnswer(f"the answer is not JSON: {shown(body)}") from None
    if not isinstance(fields, dict) or "grade" not in fields:
        raise InvalidAnswer(f'the answer has no "grade": {shown(body)}')
    if problem := repeated_key(body.encode("utf-8", "replace")):
        raise InvalidAnswer(problem)
    grade = scale.read_grade(fields["grade"])
    if grade is None:
        grades = ", ".join(map(str, scale.grades))
        raise InvalidAnswer(f"the grade must be one of {grades}, found {shown(fields['grade'])}")
    why = fields.get("reason", "")
    if not isinstance(why, str) or (reason and not why.strip()):
        raise InvalidAnswer(f'the answer has no "reason": {shown(body)}')
    return Opinion(grade, why.strip())


def read_usage(answer: Json) -> Usage | None:
    """The tokens that a chat completion reports; None if it reports none."""
    try:
        bill = msgspec.convert(answer, BilledCompletion).usage
    except msgspec.ValidationError:
        return None
    return Usage(bill.prompt_tokens, bill.completion_tokens)
