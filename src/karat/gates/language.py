"""The language of gates: text or mapping → Gate, or why a key is refused; and Gate → its canonical text.

recall@5 >= 0.90 where language = pt-BR · ndcg@5 >= 0.80 for every topic · latency.p50 <= 60ms ·
ndcg@10 no worse than baseline by 0.01 · mrr better than baseline · hit@1 >= 80% at the mean · map > 0.3 on splade
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, cast, get_args

from karat.errors import MetricError, UsageError, nearest, shown
from karat.gates.gate import POOLED_MARK, Gate, Level
from karat.gates.kinds import KINDS, Slot, index_kinds
from karat.gates.units import check_decides, given, leading
from karat.metrics.component_figures import check_component_figure, is_component_figure
from karat.metrics.grammar import parse, parse_all
from karat.model.field_group import INSIDE, FieldGroup

if TYPE_CHECKING:
    from karat.results.by_judge import Basis


LEVELS: tuple[str, ...] = get_args(Level)


BY_KEY = index_kinds(KINDS, lambda kind: (kind.key,))
SPELLINGS = index_kinds(KINDS, lambda kind: (kind.name, *kind.spellings))
SLOT_KEYS = tuple(dict.fromkeys(slot.word for kind in KINDS for slot in kind.slots if slot.word))
"""The keys of a mapping that hold further numbers and runs: `by`."""


def _pattern(spelling: str) -> str:
    return rf"\b{spelling}\b".replace(" ", r"\s+") if spelling[0].isalpha() else re.escape(spelling)


_KIND = "|".join(_pattern(spelling) for spelling in sorted(SPELLINGS, key=len, reverse=True))
_HEAD = re.compile(rf"\s*(?P<metric>[^<>=≥≤\s].*?)\s*(?P<kind>{_KIND})\s*(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
Token = Literal["word", "quoted", "mark"]
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([=,])|([^\s=,"']+))""")
BASES: tuple[Basis, ...] = ("none", "raw", "corrected")
_CLAUSES = ("where", "for every", "for each", "at the mean", "at any depth", "on", *(f"judged {b}" for b in BASES))
KEYS = (
    *("metric", *BY_KEY, *SLOT_KEYS, "where", "for_every", "at_least_queries", "pooled", "at", "depth", "run"),
    *("judged", "level", "name", "gate"),
)


def parse_gate(source: str | Mapping[str, object] | Gate) -> Gate:
    """A gate from its text, or from a mapping as `karat.yaml` has it."""
    if isinstance(source, Gate):
        return source
    if isinstance(source, str):
        return _from_text(source)
    if isinstance(source, Mapping):
        return _from_mapping(source)
    raise UsageError(f"a gate is a text such as 'recall@5 >= 0.90', or a mapping; found {shown(source)}")


def gate_like(gate: Gate, tool: str | None) -> Gate:
    """The gate with the metric that its name means in another tool; a name whose number Karat lacks is refused."""
    if tool is None or is_component_figure(parse(gate.metric)):
        return gate
    try:
        measure, *others = parse_all(gate.spelling or gate.metric, like=tool)
    except MetricError as error:
        raise UsageError(f"gate '{gate}': {error}").about(gate) from None
    if others:
        names = ", ".join(m.name for m in (measure, *others))
        text = f"gate '{gate}': {gate.spelling} is several metrics in {tool} ({names}); name one of them"
        raise UsageError(text).about(gate)
    return replace(gate, metric=measure.name)


def _from_text(text: str) -> Gate:
    for level in LEVELS:
        if re.match(rf"\s*{level}\s*:", text, re.IGNORECASE):
            return replace(_from_text(text.partition(":")[2]), level=cast("Level", level))
    head = _HEAD.fullmatch(text)
    if head is None:
        raise UsageError(
            f"cannot read gate {text!r}; expected a metric, a comparison and a value, such as 'recall@5 >= 0.90' or "
            f"'ndcg@10 no worse than baseline by 0.01'{_near_kind(text)}"
        )
    kind = SPELLINGS[" ".join(head["kind"].lower().split())]
    if head["metric"].endswith("="):
        swapped = f"={head['kind']}"
        raise UsageError(f"gate {text!r}: found {swapped!r}; did you mean {swapped[::-1]!r}?")
    gate = Gate(_metric(head["metric"], text), kind, 0.0, spelling=head["metric"])
    rest, before = head["rest"], kind.name.split()[-1]
    for slot in kind.slots:
        if slot.word:
            word = re.match(rf"\s*{slot.word}\b\s*", rest, re.IGNORECASE)
            if word is None and slot.optional:
                continue
            if word is None:
                raise UsageError(f"gate {text!r}: expected {slot.word!r}, found {shown(rest.strip()[:20] or None)}")
            rest, before = rest[word.end() :], slot.word
        if slot.name == "run":
            tokens = _tokens(rest, text)
            if not tokens:
                raise UsageError(f"gate {text!r}: expected 'baseline' or the name of a run after {before!r}")
            gate, rest = replace(gate, against=tokens[0][0]), rest[tokens[0][2] :]
        else:
            margin = slot.name == "margin"
            number, rest, relative = leading(rest, gate.metric, text, margin=margin, after=SLOT_KEYS)
            gate = _with_number(gate, slot, number, relative)
    return _with_clauses(gate, rest, text)


def _near_kind(text: str) -> str:
    """The hint at the comparison whose spelling is nearest to words of a gate; empty where none is near."""
    words = text.lower().split()
    for count in (3, 2, 1):
        spellings = [spelling for spelling in SPELLINGS if len(spelling.split()) == count]
        for begin in range(1, len(words) - count + 1):  # the first word is the metric
            if near := nearest(" ".join(words[begin : begin + count]), spellings):
                return f"; did you mean {near!r}?"
    return ""


def _with_number(gate: Gate, slot: Slot, number: float, relative: bool) -> Gate:
    if slot.name == "high":
        return replace(gate, upper=number)
    return replace(gate, value=number, relative=relative)


def _metric(written: str, text: str) -> str:
    try:
        measure = parse(written)
        if is_component_figure(measure):
            check_component_figure(measure)
        return measure.name
    except MetricError as error:
        raise UsageError(f"gate {text!r}: {error}") from None


def _tokens(rest: str, text: str) -> list[tuple[str, Token, int]]:
    """Words, quoted texts and marks, each with its kind and where it ends."""
    out, at = [], 0
    while rest[at:].strip():
        match = _TOKEN.match(rest, at)
        if match is None:
            raise UsageError(f"gate {text!r}: a quotation mark is not closed after {shown(rest[at:].strip()[:20])}")
        double, single, mark, word = match.groups()
        plain = re.sub(r"\\(.)", r"\1", double) if double is not None else single if single is not None else ""
        kind: Token = "mark" if mark is not None else "word" if word is not None else "quoted"
        out.append((mark or word or plain, kind, match.end()))
        at = match.end()
    return out


def _with_clauses(gate: Gate, rest: str, text: str) -> Gate:
    """The gate with what follows its condition: where, for every, on, at the mean; each at most once."""
    tokens = [(t, kind) for t, kind, _ in _tokens(rest, text)]
    seen: set[str] = set()
    while tokens:
        clause = _clause(tokens)
        if clause is None:
            written = " ".join(t for t, _ in tokens[:3])
            near = nearest(tokens[0][0], ("where", "for every", "at the mean", "at any depth", "on"))
            hint = f"; did you mean {near!r}?" if near else ""
            if gate.against is not None and not near and not seen and not gate.value:
                hint = f'; quote a name that has spaces: than "{gate.against} {tokens[0][0]}"'
            raise UsageError(f"gate {text!r}: expected one of {', '.join(_CLAUSES)}, found {shown(written)}{hint}")
        if clause in seen:
            raise UsageError(f"gate {text!r}: {clause!r} is there twice; write it once")
        seen.add(clause)
        del tokens[: len(clause.split())]
        if clause == "where":
            gate = replace(gate, where=_pairs(tokens, text))
        elif clause == "for every":
            gate = _for_every(gate, tokens, text)
        elif clause == "on":
            gate = replace(gate, run=_phrase(tokens, text, "a run's name after 'on'"))
        elif clause == "at the mean":
            gate = replace(gate, at_mean=True)
        elif clause.startswith("judged"):
            gate = replace(gate, judged=cast("Basis", clause.split()[1]))
        else:
            gate = replace(gate, any_depth=True)
    return _checked(gate, text)


def _clause(tokens: Sequence[tuple[str, Token]]) -> str | None:
    """The clause that begins here, under its canonical name."""
    bare = [t.lower() if kind == "word" else "" for t, kind in tokens[:3]]
    for clause in _CLAUSES:
        if bare[: len(clause.split())] == clause.split():
            return "for every" if clause == "for each" else clause
    return None


def _phrase(tokens: list[tuple[str, Token]], text: str, expected: str, ends: Sequence[str] = ()) -> str:
    """A quoted text, or all words up to the next clause."""
    words: list[str] = []
    while tokens:
        token, kind = tokens[0]
        if kind == "mark" or (kind == "word" and _clause(tokens) is not None):
            break
        if words and (kind == "quoted" or token.lower() in ends):
            break
        words.append(token)
        del tokens[0]
        if kind == "quoted":
            break
    if not words:
        first = tokens[0][0] if tokens else None
        raise UsageError(f"gate {text!r}: expected {expected}, found {shown(first)}")
    return " ".join(words)


def _pairs(tokens: list[tuple[str, Token]], text: str) -> tuple[tuple[str, str], ...]:
    out: list[tuple[str, str]] = []
    while True:
        for i, (token, kind) in enumerate(takewhile(lambda t: t != ("=", "mark"), tokens)):
            if kind == "word" and (wrong := re.search("[!<>]+", token)):
                written = wrong[0] + (
                    "=" if token.endswith(wrong[0]) and tokens[i + 1 : i + 2] == [("=", "mark")] else ""
                )
                raise UsageError(f"gate {text!r}: only = and in are understood in where, found {written!r}")
        field = _phrase(tokens, text, "a field of the queries", ends=("in",))
        if tokens and tokens[0] == ("in", "word"):
            del tokens[0]
            out.append((str(FieldGroup(field, _group_values(tokens, text, field))), INSIDE))
            if not tokens or tokens[0] != ("and", "word"):
                return tuple(out)
            del tokens[0]
            continue
        if not tokens or tokens[0] != ("=", "mark"):
            first = shown(tokens[0][0] if tokens else None)
            raise UsageError(f"gate {text!r}: expected '=' after {field!r}, found {first}")
        del tokens[0]
        out.append((field, _phrase(tokens, text, f"a value for {field!r}", ends=("and",))))
        if not tokens or tokens[0] != ("and", "word"):
            return tuple(out)
        del tokens[0]


def _group_values(tokens: list[tuple[str, Token]], text: str, field: str) -> tuple[str, ...]:
    """The values in brackets after `in`."""
    values: list[str] = []
    words: list[str] = []
    wrong = UsageError(f"gate {text!r}: expected values in brackets after '{field} in', such as (pt-BR, es-AR)")
    if not tokens or tokens[0][1] != "word" or not tokens[0][0].startswith("("):
        raise wrong
    tokens[0] = (tokens[0][0][1:], "word")
    while tokens:
        token, kind = tokens.pop(0)
        end = kind == "word" and token.endswith(")")
        if kind != "mark" and (part := token[:-1] if end else token):
            words.append(part)
        if end or (token, kind) == (",", "mark"):
            if not words:
                raise wrong
            values.append(" ".join(words))
            words = []
        if end:
            return tuple(dict.fromkeys(values))
    raise wrong


def _for_every(gate: Gate, tokens: list[tuple[str, Token]], text: str) -> Gate:
    ends = ("of", "and", POOLED_MARK)
    fields = [_phrase(tokens, text, "a field of the queries after 'for every'", ends=ends)]
    while tokens and tokens[0] in ((",", "mark"), ("and", "word")):
        del tokens[0]
        fields.append(_phrase(tokens, text, "a field of the queries after the comma", ends=ends))
    least, pooled = None, _take_pooled(tokens)
    if [t.lower() for t, _ in tokens[:3]] == ["of", "at", "least"]:
        del tokens[:3]
        number = tokens.pop(0)[0] if tokens else None
        if number is None or not number.isdecimal() or int(number) < 1:
            raise UsageError(f"gate {text!r}: expected a number of queries after 'at least', found {shown(number)}")
        least = int(number)
        if tokens and tokens[0][0].lower() == "queries":
            del tokens[0]
    return replace(gate, every=tuple(fields), least=least, pooled=_take_pooled(tokens) or pooled)


def _take_pooled(tokens: list[tuple[str, Token]]) -> bool:
    """Whether `(pooled)` comes next; it is taken away."""
    pooled = bool(tokens) and tokens[0][1] == "word" and tokens[0][0].lower() == POOLED_MARK
    del tokens[: int(pooled)]
    return pooled


def _checked(gate: Gate, text: str) -> Gate:
    if len(set(gate.fields)) < len(gate.fields):
        raise UsageError(f"gate {text!r}: a field is named twice; name each once")
    if gate.against is not None and gate.against == gate.run:
        raise UsageError(f"gate {text!r}: {gate.run!r} is compared with itself; name another run")
    if gate.against is not None and parse(gate.metric).metric.higher_is_better is None:
        raise UsageError(f"gate {text!r}: {gate.metric} has no better or worse; compare it with a number")
    if gate.scale == "ratio" and gate.value and not gate.relative:
        raise UsageError(
            f"gate {text!r}: {gate.metric} is a geometric mean, and is compared as a ratio; "
            f"write the margin as a percentage, such as '{replace(gate, value=0.05, relative=True)}'"
        )
    if is_component_figure(parse(gate.metric)) and (gate.fields or gate.against is not None):
        excess = "where and for every" if gate.fields else "the baseline"
        raise UsageError(
            f"gate {text!r}: figures of components are of one run and over all queries; leave out {excess}"
        )
    if gate.pooled and (not gate.every or parse(gate.metric).aggregate != "mean"):
        lack = f"{gate.metric} is not a mean" if gate.every else "it names no segments; add for_every"
        raise UsageError(f"gate {text!r}: the means of segments are pooled, and {lack}")
    check_decides(gate, text)
    return gate


def _from_mapping(source: Mapping[str, object]) -> Gate:
    if len(source) == 1 and (only := next(iter(source))) in LEVELS:
        return replace(parse_gate(cast("str", source[only])), level=cast("Level", only))
    keys = dict(source)
    for key in keys:
        if key not in KEYS:
            near = nearest(str(key), KEYS)
            hint = f"; did you mean {near!r}?" if near else f"; expected some of {', '.join(KEYS)}"
            raise UsageError(f"gate: unknown key {key!r}{hint}")
    level, name = keys.pop("level", None), keys.pop("name", "")
    if level not in (None, *LEVELS):
        raise UsageError(f"gate: level must be one of {', '.join(LEVELS)}, found {shown(level)}")
    depth = keys.pop("depth", None)
    if depth not in (None, "as_is"):
        raise UsageError(f"gate: depth must be 'as_is' (judge lists of any depth), found {shown(depth)}")
    judged = keys.pop("judged", None)
    if judged not in (None, *BASES):
        raise UsageError(f"gate: judged must be one of {', '.join(BASES)}, found {shown(judged)}")
    if "gate" in keys and len(keys) > 1:
        others = ", ".join(sorted(set(keys) - {"gate"}))
        raise UsageError(f"gate: beside 'gate' only level, name, depth and judged are taken, found {others}")
    gate = _from_text(str(keys["gate"])) if "gate" in keys else _from_keys(keys)
    return replace(
        gate,
        level=gate.level if level is None else cast("Level", level),
        name=str(name),
        any_depth=gate.any_depth or depth is not None,
        judged=judged or gate.judged,
    )


def _from_keys(keys: dict[str, object]) -> Gate:
    text = ", ".join(f"{k}: {v}" for k, v in keys.items())
    if "metric" not in keys:
        raise UsageError(f"gate {{{text}}}: no metric; expected a key 'metric' such as ndcg@10")
    spelling = str(keys.pop("metric"))
    metric = _metric(spelling, text)
    conditions = [key for key in BY_KEY if key in keys]
    if len(conditions) != 1:
        known, number = ", ".join(BY_KEY), ", ".join(conditions) or "none"
        raise UsageError(f"gate {{{text}}}: expected one of {known}, found {number}")
    gate = Gate(metric, BY_KEY[conditions[0]], 0.0, spelling=spelling)
    for slot in gate.kind.slots:
        key = slot.word or gate.kind.key
        if key not in keys and slot.optional:
            continue
        if key not in keys:
            raise UsageError(f"gate {{{text}}}: {gate.kind.key} needs a key {key!r} beside it")
        if slot.name == "run":
            gate = replace(gate, against=str(keys.pop(key)))
        else:
            gate = _with_number(gate, slot, *given(keys.pop(key), metric, text, margin=slot.name == "margin"))
    where = keys.pop("where", {})
    if not isinstance(where, Mapping):
        raise UsageError(f"gate {{{text}}}: where must map fields to values, found {shown(where)}")
    every = keys.pop("for_every", ())
    fields = every.split(",") if isinstance(every, str) else list(map(str, cast("Sequence[object]", every)))
    at = keys.pop("at", "bound")
    if at not in ("bound", "mean"):
        raise UsageError(f"gate {{{text}}}: at must be 'bound' (of the interval) or 'mean', found {shown(at)}")
    least = keys.pop("at_least_queries", None)
    if least is not None and (type(least) is not int or least < 1):
        raise UsageError(f"gate {{{text}}}: at_least_queries must be an integer from 1, found {shown(least)}")
    pooled = keys.pop("pooled", False)
    if not isinstance(pooled, bool):
        raise UsageError(f"gate {{{text}}}: pooled must be true or false, found {shown(pooled)}")
    run = keys.pop("run", None)
    if keys:
        key = next(iter(keys))
        others = " or ".join(k.key for k in KINDS if any(slot.word == key for slot in k.slots))
        raise UsageError(f"gate {{{text}}}: {key} goes with {others} alone")
    gate = replace(
        gate,
        where=tuple(
            (str(FieldGroup(str(f), tuple(map(str, v)))), INSIDE) if isinstance(v, list) else (str(f), str(v))
            for f, v in where.items()
        ),
        every=tuple(p.strip() for p in fields),
        least=least,
        pooled=pooled,
        at_mean=at == "mean",
        run=str(run) if run is not None else None,
    )
    return _checked(gate, text)
