"""Names of other tools that mean something else in Karat's grammar, alone or under `--like`: `rbp.95`, `P`.

A name that a tool spells so has the meaning that it has there: always where no other tool writes it (`rbp.95`), and
under `like` where several do. A name whose number Karat does not have is refused. Tools tell upper and lower case
apart, so `Judged@10` is a name of ir_measures, and `judged@10` is Karat's own.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.errors import MetricError
from karat.metrics.registry import is_known
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PARTS = re.compile(r"(?P<name>[^\W\d_][\w-]*)(?:\((?P<args>.*)\))?(?:@(?P<k>.+))?", re.DOTALL)
_SUFFIX = re.compile(r"(?P<name>rbp\.|set_f[._]|rprec_mult[._])(?P<value>\d+(?:\.\d+)?|\.\d+)", re.IGNORECASE)
_LEVEL = re.compile(r"(?P<name>rbp\.\d+|[a-z][\w-]*?)(?P<cut>@\d+)?-l(?P<rel>\d+)", re.IGNORECASE)
LONGEST_MEMORY = 0.975
"""With a larger p, what cwl_eval leaves out beyond 1,000 docs shows in RBP."""


@dataclass(frozen=True)
class Spelling:
    """A name in its parts, as it is written."""

    name: str
    params: Mapping[str, str]
    k: str | None = None

    def __str__(self) -> str:
        args = ",".join(f"{n}={v}" for n, v in self.params.items())
        return self.name + (f"({args})" if args else "") + (f"@{self.k}" if self.k is not None else "")

    def named(self, name: str, **params: str) -> Spelling:
        """The same with another name and further parameters."""
        return replace(self, name=name, params={**self.params, **params})

    def without(self, *params: str) -> Spelling:
        """The same without some parameters."""
        return replace(self, params={n: v for n, v in self.params.items() if n not in params})


def split_outside_brackets(text: str) -> list[str]:
    """The parts between commas outside of (), [] and {}."""
    parts, depth, start, is_open = [], 0, 0, False
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c in ":@" and depth == 0:
            is_open = c == ":"
        elif c == "," and depth == 0:
            # `ndcg:gain=exp,rel=2@10`: a comma inside open parameters belongs to them.
            if is_open and re.match(r"\s*\w+=", text[i + 1 :]):
                continue
            parts.append(text[start:i])
            start, is_open = i + 1, False
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def respell(text: str, like: str | None, *, need_cutoff: bool = True) -> list[str]:
    """A name as Karat writes it; several where the tool reports several under it."""
    if like == "trec_eval":
        return [_respell_always(one) for one in _respell_trec_eval(text, need_cutoff)]
    if like == "ranx":
        return [_respell_always(_respell_ranx(text))]
    parts = _PARTS.fullmatch(text)
    changes = {"ir_measures": IR_MEASURES, "beir": BEIR}.get(like or "", {})
    if parts is None or parts["name"] not in changes:
        return [_respell_always(text)]
    spelling = Spelling(parts["name"], _read_params(parts["args"] or ""), parts["k"])
    return [str(changes[spelling.name](spelling, need_cutoff))]


def _read_params(args: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in split_outside_brackets(args))
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}


# --- what only one tool writes, and so means the same everywhere ----------------------------------------


def _respell_always(text: str) -> str:
    if is_known(text):
        return text
    if suffix := _SUFFIX.fullmatch(text):
        name, value = suffix["name"].lower().rstrip("._"), suffix["value"]
        if name == "rbp":  # ranx: the digits of the persistence
            return f"rbp(p=0.{value})" if value.isdigit() else text
        return f"f1(beta={math.sqrt(float(value))!r})" if name == "set_f" else f"rprec(multiple={value})"
    if level := _LEVEL.fullmatch(text):  # ranx: the lowest relevant grade
        name = _respell_always(level["name"])
        args = f"{name[:-1]},rel={level['rel']})" if name.endswith(")") else f"{name}(rel={level['rel']})"
        return args + (level["cut"] or "")
    if text.startswith("α_") and (parts := _PARTS.fullmatch(text)):  # ir_measures: a weight of subtopics
        return str(_by_subtopic(Spelling(parts["name"], _read_params(parts["args"] or ""), parts["k"])))
    return text


# --- ir_measures ------------------------------------------------------------------------------------------


def _refuse(spelling: Spelling, tool: str, reason: str) -> MetricError:
    return MetricError(f"metric {str(spelling)!r} cannot be scored as {tool} does: {reason}")


def _plain(spelling: Spelling, need_cutoff: bool) -> Spelling:
    """The same name, with the parameters that all measures of ir_measures have."""
    if spelling.params.get("judged_only", "False").lower() == "true":
        raise _refuse(
            spelling, "ir_measures", "in Karat, to drop unjudged docs is a convention of all metrics: use condensed"
        )
    at = spelling.params.get("cutoff", spelling.params.get("recall", spelling.k))
    return replace(spelling.without("judged_only", "cutoff", "recall"), k=at)


def _at_cutoff(spelling: Spelling, need_cutoff: bool) -> Spelling:
    plain = _plain(spelling, need_cutoff)
    if plain.k is None and need_cutoff:
        raise _refuse(spelling, "ir_measures", f"it needs a cutoff there, such as {spelling.name}@10")
    return plain


def _scaled(spelling: Spelling, need_cutoff: bool) -> Spelling:
    if "max_rel" not in spelling.params:
        raise _refuse(
            spelling, "ir_measures", f"it needs max_rel there, such as {spelling.named(spelling.name, max_rel='4')}"
        )
    return _plain(spelling, need_cutoff).without("dcg")


def _scaled_at_cutoff(spelling: Spelling, need_cutoff: bool) -> Spelling:
    return _scaled(_at_cutoff(spelling, need_cutoff), need_cutoff)


def _ndcg(spelling: Spelling, need_cutoff: bool) -> Spelling:
    plain = _plain(spelling, need_cutoff)
    return plain.named("ndcg", unlisted="grade") if "gains" in plain.params else plain


def _judged(spelling: Spelling, need_cutoff: bool) -> Spelling:
    return _plain(spelling, need_cutoff).named("judged", missing="zero", pooled="true")


def _set_f(spelling: Spelling, need_cutoff: bool) -> Spelling:
    plain = _plain(spelling, need_cutoff)
    beta = plain.params.get("beta", "1")  # (1 + beta) · P · R / (beta · P + R): the square of what others call beta
    try:
        return plain.named("f1", beta=repr(math.sqrt(float(beta))))
    except ValueError:
        return plain.named("f1")  # the grammar says what is wrong with it


def _set_p(spelling: Spelling, need_cutoff: bool) -> Spelling:
    plain = _plain(spelling, need_cutoff)
    relative = plain.params.get("relative", str(spelling.name == "SetRelP")).lower() == "true"
    return plain.without("relative").named("set_relative_p" if relative else "precision")


def _rbp(spelling: Spelling, need_cutoff: bool) -> Spelling:
    plain = _plain(spelling, need_cutoff)
    if "rel" not in plain.params:
        raise _refuse(spelling, "ir_measures", "it needs rel there, such as RBP(rel=1); for grades, rbp(gain=graded)")
    if float(plain.params.get("p", "0.8")) > LONGEST_MEMORY:
        raise _refuse(spelling, "ir_measures", f"it scales RBP with p above {LONGEST_MEMORY} to 1,000 docs")
    return plain


def _by_subtopic(spelling: Spelling) -> Spelling:
    name = spelling.name.lower().replace("α", "alpha")
    return spelling.named(name, kind="subtopic").without("rel" if spelling.params.get("rel") == "1" else "")


def _alpha(spelling: Spelling, need_cutoff: bool) -> Spelling:
    return _by_subtopic(_at_cutoff(spelling, need_cutoff))


def _beyond_1(change: Callable[[Spelling, bool], Spelling]) -> Callable[[Spelling, bool], Spelling]:
    """The same where the cutoff is not 1: ndeval does not divide these by their best value there."""

    def refuse_1(spelling: Spelling, need_cutoff: bool) -> Spelling:
        ours = change(spelling, need_cutoff)
        if ours.k == "1":
            raise _refuse(spelling, "ir_measures", "at cutoff 1 ndeval does not divide it by its best value")
        return ours

    return refuse_1


IR_MEASURES: dict[str, Callable[[Spelling, bool], Spelling]] = {
    **dict.fromkeys(("AP", "MAP", "Rprec", "RPrec", "Bpref", "BPref", "infAP", "RR", "MRR", "ERR"), _plain),
    **dict.fromkeys(("SetR", "SetAP", "Accuracy", "Compat"), _plain),
    **dict.fromkeys(("nERR_IA", "AP_IA", "MAP_IA", "NRBP", "nNRBP"), _plain),
    **dict.fromkeys(("P", "Precision", "R", "Recall", "Success", "IPrec", "P_IA", "StRecall"), _at_cutoff),
    **dict.fromkeys(("nDCG", "NDCG"), _ndcg),
    **dict.fromkeys(("INST", "INSQ", "NERR10", "NERR11"), _scaled),
    **dict.fromkeys(("BPM", "SDCG", "NERR8", "NERR9"), _scaled_at_cutoff),
    **dict.fromkeys(("alpha_nDCG", "α_nDCG"), _alpha),
    **dict.fromkeys(("alpha_DCG", "α_DCG"), _beyond_1(_alpha)),
    "ERR_IA": _beyond_1(_at_cutoff),
    "RBP": _rbp,
    "SetF": _set_f,
    **dict.fromkeys(("SetP", "SetRelP"), _set_p),
    "Judged": _judged,
    "NumQ": lambda spelling, need_cutoff: spelling.named("num_q", missing="zero"),
    "NumRel": lambda spelling, need_cutoff: spelling.named("num_rel", missing="zero"),
    "NumRet": lambda spelling, need_cutoff: spelling.named("num_rel_ret" if "rel" in spelling.params else "num_ret"),
    "NumRelRet": lambda spelling, need_cutoff: spelling.named("num_rel_ret"),
}
"""What each name of ir_measures is called here, with the parameters that reproduce it."""


# --- BEIR -------------------------------------------------------------------------------------------------


def _hole(spelling: Spelling, need_cutoff: bool) -> Spelling:
    raise _refuse(
        spelling, "BEIR", "it counts docs that no query has a judgment for; unj@10 counts those of each query"
    )


def _top_accuracy(spelling: Spelling, need_cutoff: bool) -> Spelling:
    raise _refuse(
        spelling, "BEIR", "it sorts docs by a letter of their id there; write hit@10 for what it is meant to be"
    )


BEIR: dict[str, Callable[[Spelling, bool], Spelling]] = {
    "R_cap": lambda spelling, need_cutoff: spelling.named("recall", cap="true"),
    "Hole": _hole,
    "Accuracy": _top_accuracy,
}


# --- trec_eval --------------------------------------------------------------------------------------------

CUTS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
TREC_CUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("P", "recall", "map_cut", "ndcg_cut", "relative_P"), CUTS),
    "success": ("1", "5", "10"),
    "unj": ("5", "10", "20"),
    "iprec_at_recall": tuple(f"{i / 10:g}" for i in range(11)),
    "Rprec_mult": tuple(f"{i / 5:g}" for i in range(1, 11)),
}
"""The cutoffs that trec_eval reports where a name has none."""
NO_NUMBER = {"runid": "the name of the run", "relstring": "a string of grades"}


def _respell_trec_eval(text: str, need_cutoff: bool) -> list[str]:
    if text in NO_NUMBER:
        raise _refuse(Spelling(text, {}), "trec_eval", f"it is {NO_NUMBER[text]}, not a number")
    return [f"{text}_{cut}" for cut in TREC_CUTS[text]] if need_cutoff and text in TREC_CUTS else [text]


# --- ranx -------------------------------------------------------------------------------------------------


def _respell_ranx(text: str) -> str:
    level = _LEVEL.fullmatch(text)
    whole = f"{level['name']}{level['cut'] or ''}" if level else text
    if persistence := re.fullmatch(r"rbp[.@](\d+)", whole):  # grades are its gains there, not scaled
        rel = {"rel": level["rel"]} if level else {}
        return str(Spelling("rank_biased_gain", {"p": f"0.{persistence[1]}", **rel}))
    name, at, cut = whole.partition("@")
    if name in _REFUSED_BY_RANX or (level and name in ("dcg", "ndcg", "dcg_burges", "ndcg_burges")):
        reason = "grades below the level gain nothing there; list the others as gains"
        raise _refuse(Spelling(text, {}), "ranx", _REFUSED_BY_RANX.get(name, reason))
    name = "hits_per_query" if name == "hits" else name
    return f"{name}{at}{cut}" + (f"-l{level['rel']}" if level else "")


_REFUSED_BY_RANX = {
    "rbp": "it needs a persistence there, such as rbp.95",
    "bpref": "it counts grades below 0 as judged there; without like it is trec_eval's",
}
