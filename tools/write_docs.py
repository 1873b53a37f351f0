"""The pages of docs/ that are generated: `python tools/write_docs.py` writes them, `--check` compares."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from karat.judge.calibration_document import CalibrationJson
from karat.judge.judgments import Judgment
from karat.metrics import DEFAULT_METRICS, LOG_METRICS, all_metrics
from karat.model.limits import LIMITS
from karat.read.cases import CATEGORIES, DIFFICULTIES, case_schema, read_cases
from karat.read.files import InputFile, read_head
from karat.read.formats import all_formats
from karat.read.problems import Problems
from karat.report.terminal.metrics import constant, example, over_queries, value_range
from karat.verbs.diagnose.rules import RULES, THRESHOLDS
from karat.verbs.validate.rules import LINT_RULES, RULE_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.metrics import Metric
    from karat.metrics.registry import Param
    from karat.verbs.diagnose.rules import Rule

DOCS = Path(__file__).resolve().parents[1] / "docs"
SOURCE = DOCS.parent / "src" / "karat"
_NEEDS = {
    "items": "the docs returned, of any kind of run",
    "item_scores": "scores on the items",
    "returned": "how many docs were returned, of any kind of run",
    "doc_version": "`doc_version` on the items of a run log",
    "as_of": "`as_of` in the table of queries",
    "latency": "`latency_ms` on the lines of a run log",
    "cost": "`cost` on the lines of a run log",
    "route": "`route` on the lines of a run log",
    "expected_source": "`expected_source` in the table of queries",
    "retrieved": "`retrieved` on the lines of a run log",
    "scores": "scores on the items",
    "no_answer": "`no_answer` in the table of queries",
    "needs_retrieval": "`needs_retrieval` in the table of queries",
    "embeddings": "embeddings of the docs returned (`--embeddings`)",
    "gold_embeddings": "embeddings of the gold",
    "texts": "title and text of the docs returned (`--docs`)",
    "subtopics": "gold by subtopic (a column `subtopic`, or `--subtopics`)",
    "ontology": "an ontology whose terms gold and runs name (`--ontology hpo` or an OBO file)",
}


def metrics_page() -> str:
    """docs/metrics.md, from the declarations."""
    lines = [
        "# Metrics",
        "",
        "Generated from the registry by `make docs`; do not edit. The same text is shown by `karat metrics NAME`.",
        "",
        "A metric is named `name(param=value,…)@k`. Names are case-insensitive; the spellings of trec_eval,",
        "ir_measures, ranx and MTEB are understood; what differs from a default is part of the printed name. A shell",
        "that dislikes brackets takes `ndcg:gain=exp@10`. Lists expand: `recall@{1,3,5}`. Used when none is named:",
        f"{', '.join(f'`{m}`' for m in DEFAULT_METRICS)};",
        f"for run logs with latency also {', '.join(f'`{m}`' for m in LOG_METRICS)}.",
        "",
        "With `--like trec_eval`, `ir_measures`, `ranx` or `beir`, a name that this tool writes means what it means",
        "there, upper and lower case included: `hits@5` of ranx is a mean, `Judged@10` of ir_measures counts missing",
        "queries as 0, `P` of trec_eval is precision at its nine cutoffs. A name whose number Karat does not have is",
        "refused, in gates too. Lower-case names that the tool does not write are Karat's own.",
        "",
        "`rel` is the lowest grade that counts as relevant (1 unless stated). A query without results or without",
        "relevant gold scores 0 unless the table of a metric says otherwise. *Undefined* values are left out of the",
        "mean; *as computed* means that the formula itself gives the value.",
        "",
    ]
    metrics = all_metrics()
    for family in dict.fromkeys(m.family for m in metrics):
        lines += [f"## {family.capitalize()}", "", "| metric | what it tells | formula |", "|---|---|---|"]
        chosen = [m for m in metrics if m.family == family]
        lines += [f"| [`{example(m)}`](#{m.name}) | {m.tells} | {_cell(m.formula)} |" for m in chosen]
        lines.append("")
    for metric in metrics:
        lines += _section(metric)
    return "\n".join(lines).rstrip() + "\n"


def validate_page() -> str:
    """docs/validate.md, from the table of checks."""
    lines = [
        "# What `karat validate` looks for",
        "",
        "Generated from the table of rules by `make docs`; do not edit.",
        "",
        "```console",
        "$ karat validate qrels.tsv queries.jsonl corpus.jsonl bm25.run dense.jsonl",
        "$ karat validate scifact/        # a folder: its karat.yaml and all it names, its corpus, queries and gold",
        "$ karat validate --qrels labels.csv --run out.csv --ignore Q204,X503 --strict --json findings.json",
        "```",
        "",
        "The role of a file is detected from its content and its name; `--qrels`, `--queries`, `--run` and `--corpus`",
        "state it. `--select` and `--ignore` take codes or their beginnings (`R`, `R3`). Each rule yields one finding",
        "per file, with a count and its first places; F001 yields one per problem.",
        "",
        "Exit code 0: no errors (with `--strict`: no warnings either), 1: at least one, 2: wrong usage, for example a",
        "missing file. The JSON follows [its schema](schemas/validation.schema.json).",
        "",
        "**error**: numbers would be wrong, or the file is refused · **warning**: probably wrong · **info**: worth",
        "knowing.",
        "",
    ]
    for letter, group in RULE_GROUPS.items():
        lines += [
            f"## {group}",
            "",
            "| code | level | finding | what goes wrong | what to do |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {r.code} | {r.severity} | {_cell(r.title)} | {_cell(r.why)} | {_cell(r.fix)} |"
            for r in LINT_RULES.values()
            if r.code.startswith(letter)
        ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


_DIAGNOSIS = """\
# What `karat diagnose` says

Generated from the table of rules by `make docs`; do not edit. The figures at the end are written by
`make bench-diagnosis`.

```console
$ karat diagnose qrels.tsv log.jsonl --queries queries.jsonl
$ karat diagnose qrels.tsv new.jsonl --baseline old.jsonl --misses misses.md --docs corpus.jsonl
$ karat diagnose result.json --json -      # a saved result says what its run log says: stages, routes, dates, times too
```

Rules over measured values name the likely cause of what is lost, with the evidence, what to try, and the queries
concerned. A value is *low* when the upper end of its interval is below the threshold, and *high* when the lower
end is above it: what these queries cannot show is not said. Values that are all equal, and not at an end of their
scale, have no interval: the value itself is compared, and the evidence says so. Rules are asked in this order. Queries
that are explained by a wrong route or a failing segment are left out of the rules after it; once docs newer than as_of
are found, later rules look at gold, stages and final lists without them; a rule rests once one holds that explains the
same loss. Queries without a relevant doc in the gold can lose nothing, and no rule is about them.

The **weight** is what a finding costs on average over all queries, in points of recall@5 (routes and segments: of
the recall that shows the gap, at 5 or of the pool; order and unjudged docs: of ndcg and precision; newer docs: of the
top 5; time: all of it weighs as much as half of the recall). Findings are listed by weight, after the queries that have
no line in the run. Ids that differ in spelling and scores that rise with the rank come before everything else: the
findings rest on them. A rule that lacks a field is named with it, and one
that is undecided is named too: the interval of a value holds the threshold; of segments, those whose gap is surely
one and beyond the threshold as measured, but not surely beyond it. Recall is capped: `recall(cap=true)@5` is 1 when all
5 places hold
relevant docs. The *pool* is the first 50 of the first stage of a run log, or of the run itself where it is that deep.
Rules about time look at all queries of the log, with gold or without; the others at those with gold.

Why precision at R and not precision@5: whenever a query has no more than 5 relevant docs, precision@5 beside the best
that the gold allows is the same number as recall@5, so that one cannot be low while the other is high.

With `--judgments` (see [judges](judges.md)), precision, ndcg and judged@k count a judge's grades where the gold has
none, as `judged: raw` does; so do the rules that say so below, and each value that rests on them names the judge. R
stays the number of relevant docs in the gold. Recall, mrr and all other rules stay on the gold alone; one that thin
gold would mislead is skipped, and named, where the gold alone is thin. A saved result brings its judgments.
"""
_THRESHOLDS = """\
## Thresholds

Changed by `--threshold recall@5.low=0.6`, by `karat.diagnose(…, thresholds={…})`, or in `karat.yaml` (`--config`):

```yaml
diagnosis:
  thresholds: {recall@5.low: 0.6, stage.share: 0.9}
```

| name | value | meaning |
|---|---:|---|"""
_RIGHT = """
## How often it is right

Pipelines made by `bench/pipelines.py` (100 to 400 queries in 2 to 5 languages, router, retriever, reranker) with a
planted fault. The generator, and what counts as a clear fault, was written before the rules; rules and thresholds
were chosen on seeds 0 to 99, and what follows is as seen on seeds that nothing was chosen on. It says that the rules
tell these faults apart, in pipelines of this make; it does not say how often they are right about yours.
"""
MEASURED = ("<!-- measured by bench/diagnosis.py -->", "<!-- end of what was measured -->")


def diagnosis_page(before: str = "") -> str:
    """docs/diagnosis.md, from the table of rules; what was measured stays as it is in the page before."""
    begin, end = MEASURED
    kept = before.partition(begin)[2].partition(end)[0] or "\n\nNot measured yet: `make bench-diagnosis`\n\n"
    lines = [_DIAGNOSIS]
    for rule in RULES:
        lines += _rule(rule)
    lines.append(_THRESHOLDS)
    lines += [f"| `{name}` | {t.value:g} | {t.about} |" for name, t in THRESHOLDS.items()]
    lines.append(_RIGHT)
    return "\n".join(lines) + f"\n{begin}{kept}{end}\n"


_VALUES = {
    "misrouted": "the share of misrouted queries",
    "gap": "recall here, at 5 or of the pool at 50, minus that of the rest",
    "pool": "recall@50 of the pool",
    "pool of docs": "recall@50 of the pool by doc",
    "gap to docs": "recall@50 by doc minus that by chunk",
    "rerank gain": "ndcg@10 after reranking minus that before",
    "recall@5 of pool": "recall@5 of what the pool holds",
    "recall@10 of pool": "recall@10 of what the pool holds",
    "rprec of pool": "precision at R of what the pool holds",
    "mrr of pool": "mrr of queries with gold in the pool",
    "share of time": "a stage's share of the time",
    "tail": "p95 / p50 of a stage",
    "time in the tail": "the share of the time in that tail",
}


def _rule(rule: Rule) -> list[str]:
    says = {"low": "is low", "high": "is high"}
    when = " and ".join(f"{_VALUES.get(b.value, b.value)} {says[b.side]} (`{b.threshold}`)" for b in rule.when)
    when = when or "there is any"
    of = ", for a segment" if rule.over == "segments" else ""
    rests = f" Skipped when one of {', '.join(f'`{c}`' for c in rule.unless)} holds." if rule.unless else ""
    judge = " Takes a judge's grades." if rule.by_judge else ""
    return [
        f"## {rule.code}",
        "",
        f"{rule.title}. When {when}{of}.{rests}{judge}",
        "",
        f"- **Likely cause:** {rule.cause}",
        *([f"- **Try first**, where that is so: {rule.ranked_low}"] if rule.ranked_low else []),
        *(f"- **Try:** {advice}" for advice in rule.advice),
        "",
    ]


def _section(metric: Metric) -> list[str]:
    facts = {
        "Formula": metric.formula,
        **{f"`{written}`": text for written, text in metric.variants.items()},
        "Use when": metric.use_when,
        "Beware": metric.caution,
        "Range": value_range(metric),
        "Over queries": over_queries(metric),
        "No results": "; ".join(
            [_constant(metric.no_results)]
            + [f"{_constant(value)} with `{n}={v}`" for (n, v), value in metric.no_results_when.items()]
        ),
        "No relevant gold": _constant(metric.empty_gold),
        "Needs": "; ".join(
            [_needed(metric.needs), *(f"{p}={v}: {_needed(n)}" for (p, v), n in metric.needs_when.items())]
        ),
        "Parameters": ", ".join(_param(p) for p in metric.params),
        "Other names": ", ".join(f"`{a}`" for a in metric.aliases),
        "Reading": "; ".join(
            f"`{n}` " + ", ".join(f"{word} from {at:g}" for at, word in bands) for n, bands in metric.bands.items()
        ),
        "Targets": ", ".join(
            f"`{n}` {t:g}" + (f" (strict {metric.strict_targets[n]:g})" if n in metric.strict_targets else "")
            for n, t in metric.targets.items()
        ),
        "Suits": ", ".join(f"{purpose} (`{name}`)" for purpose, name in metric.suits.items()),
        "Source": metric.cites,
    }
    if "gold" not in metric.needs:  # the value does not depend on it
        del facts["No relevant gold"]
    body = [f"- **{label}:** {text}" for label, text in facts.items() if text]
    return [f"### {metric.name}", "", f"{metric.title}. {metric.tells}", "", *body, ""]


def _constant(value: float | None) -> str:
    text = constant(value)
    return text if isinstance(text, str) else f"{text:g}"


def _needed(needs: tuple[str, ...]) -> str:
    return ", ".join(_NEEDS[n] for n in needs if n != "gold")


def _param(param: Param) -> str:
    name, default, choices = param.name, param.default, param.choices
    shown = "none" if default == () else str(default).lower() if isinstance(default, bool) else str(default)
    return (f"`{name}`" if param.required else f"`{name}={shown}`") + (f" ({', '.join(choices)})" if choices else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def config_schema() -> str:
    """The JSON Schema of karat.yaml."""
    from karat.config.models import schema

    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def result_schema() -> str:
    """docs/schemas/result.schema.json, from the types of the document."""
    import msgspec

    from karat.results.document import DocumentJson

    schema = msgspec.json.schema(DocumentJson)
    document = schema["$defs"].pop("DocumentJson")
    text = json.dumps(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **document,
            "title": "Karat result",
            "anyOf": [{"required": [part]} for part in ("runs", "curves", "plan", "reliability", "datasets", "error")],
            "$defs": schema["$defs"],
        },
        ensure_ascii=False,
        indent=2,
    )
    return text.replace('"#/$defs/DocumentJson"', '"#"') + "\n"


def record_schema(record: type, title: str) -> str:
    """The JSON Schema of a typed record, with its parts."""
    import msgspec

    schema = msgspec.json.schema(record)
    own = schema["$defs"].pop(record.__name__)
    out = {"$schema": "https://json-schema.org/draft/2020-12/schema", **own, "title": title, "$defs": schema["$defs"]}
    return json.dumps(out, ensure_ascii=False, indent=2) + "\n"


def architecture_page(before: str) -> str:
    """docs/architecture.md with its list of modules."""
    return with_section(before, "modules", "\n".join(_modules()))


def data_page(before: str) -> str:
    """docs/data.md with its tables of input formats and limits."""
    rows = ["| format | name | gold | runs | queries, docs |", "|---|---|---|---|---|"]
    for form in all_formats().values():
        name = f"`{form.name}`" if form.read else ""
        cells = (form.title, name, form.gold, form.runs, form.tables)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    limits = ["| variable | default | what is limited |", "|---|---|---|"]
    limits += (f"| `{one.variable}` | {one.default_text} | {one.tells} |" for one in LIMITS)
    return with_section(with_section(before, "formats", "\n".join(["", *rows])), "limits", "\n".join(["", *limits]))


def cases_page(before: str) -> str:
    """docs/cases.md with how many cases each file has, in total and by category, difficulty and domain."""
    files = {}
    for path in sorted((SOURCE / "example" / "cases").glob("*/*.json")):
        name = f"{path.parent.name} {path.stem.removesuffix('_v1')}"
        files[name] = read_cases(InputFile(str(path), read_head(str(path))), Problems(str(path)))
    names = sorted(files, key=lambda name: (-len(files[name]), name))
    rows = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    rows.append(f"| cases | {' | '.join(str(len(files[name])) for name in names)} |")
    for field, order in {"category": CATEGORIES, "difficulty": DIFFICULTIES, "domain": ()}.items():
        counts = {name: Counter((case.fields or {})[field] for case in files[name]) for name in names}
        total = sum(counts.values(), Counter[str]())
        for value in order or sorted(total, key=lambda value: (-total[value], value)):
            rows.append(f"| {value} | {' | '.join(str(counts[name][value] or '') for name in names)} |")
    return with_section(before, "coverage", "\n".join(["", *rows, ""]))


def with_section(page: str, name: str, section: str) -> str:
    """A page with the part between two comments replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = page.split(begin)
    return head + begin + "\n" + section + "\n" + end + rest.split(end)[1]


def _modules() -> Iterator[str]:
    """A table for each room: its modules and what they are for."""
    rooms = sorted(p.parent for p in SOURCE.rglob("__init__.py"))
    for room in rooms:
        name = room.relative_to(SOURCE.parent)
        yield f"\n### `{name}/`\n\n{_purpose(room / '__init__.py')}\n\n| module | |\n|---|---|"
        if names := _public_names(room / "__init__.py"):
            yield f"| `__init__.py` | {', '.join(f'`{each}`' for each in names)} |"
        yield from (f"| `{m.name}` | {_cell(_purpose(m))} |" for m in sorted(room.glob("*.py")) if m.stem[0] != "_")
        yield from (f"| `assets/{a.name}` | {_cell(_first_comment(a))} |" for a in sorted(room.glob("assets/*.*")))


def _public_names(path: Path) -> list[str]:
    """The functions and classes that a module itself defines."""
    body = ast.parse(path.read_text("utf-8")).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"]


def _purpose(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return doc.split("\n\n")[0].replace("\n", " ")


def _first_comment(path: Path) -> str:
    """What the first comment of a script, style or template says it is for."""
    comment = re.search(r"^(?://|/\*|\{#) (.*?)(?: \*/| -?#\})?$", path.read_text("utf-8"), re.MULTILINE)
    return comment[1] if comment else ""


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check say which are not in sync."""
    diagnosis = DOCS / "diagnosis.md"
    before = diagnosis.read_text("utf-8") if diagnosis.exists() else ""
    architecture, data, cases = DOCS / "architecture.md", DOCS / "data.md", DOCS / "cases.md"
    pages = {
        architecture: architecture_page(architecture.read_text("utf-8")),
        data: data_page(data.read_text("utf-8")),
        cases: cases_page(cases.read_text("utf-8")),
        DOCS / "metrics.md": metrics_page(),
        DOCS / "validate.md": validate_page(),
        diagnosis: diagnosis_page(before),
        DOCS / "schemas" / "cases.schema.json": json.dumps(case_schema(), indent=2, ensure_ascii=False) + "\n",
        DOCS / "schemas" / "config.schema.json": config_schema(),
        DOCS / "schemas" / "result.schema.json": result_schema(),
        DOCS / "schemas" / "judgment.schema.json": record_schema(Judgment, "A line of a file of judgments"),
        DOCS / "schemas" / "calibration.schema.json": record_schema(CalibrationJson, "The calibration of a judge"),
    }
    stale = [p for p, text in pages.items() if not p.exists() or p.read_text("utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path} is not in sync with the code: run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(pages[path], "utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
