"""Every check, declared once: its code, how grave it is, what goes wrong, and what to do.

error    numbers would be wrong, or the file is refused
warning  probably wrong: look at it
info     worth knowing
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

KINDS = {
    "F": "Any file",
    "G": "Gold",
    "Q": "Queries",
    "R": "Runs",
    "C": "Corpus",
    "X": "Files together",
    "K": "Configurations",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked for."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str


_DECLARED = (
    Check(
        "F001",
        "error",
        "A line or file that cannot be read",
        "Karat refuses the file; a broken line is never skipped.",
        "Mend the line, or write the file again.",
    ),
    Check(
        "F002",
        "error",
        "What a file is for cannot be told",
        "Neither its content nor its name says whether it is gold, queries, a run or a corpus.",
        "Name its role: --qrels FILE, --queries FILE, --run FILE or --corpus FILE.",
    ),
    Check(
        "F003",
        "info",
        "A file that is not checked",
        "Results of Karat and configurations are no data to lint.",
        "Leave it out.",
    ),
    Check(
        "F004",
        "info",
        "Only the first part of a large file was looked at",
        "What comes later was not checked, nor what needs the whole file.",
        "Check a smaller file, or a sample of its queries, if the rest matters.",
    ),
    Check(
        "F005",
        "warning",
        "Ids with stray white space or invisible characters",
        "Such an id looks like another one and matches none.",
        "Strip the ids where the file is written.",
    ),
    Check(
        "F006",
        "warning",
        "Integer ids written as decimals",
        'A table library read integer ids as floats: "12.0" never matches "12".',
        "Read the id column as text (dtype=str) where the file is written.",
    ),
    Check(
        "G101",
        "error",
        "Contradictory judgments",
        "The same doc is judged with two grades for one query; Karat refuses such gold.",
        "Keep one grade for each pair of query and doc.",
    ),
    Check(
        "G102",
        "warning",
        "Repeated judgments",
        "The same pair stands there twice with one grade; it counts once. Often a file that was put together twice.",
        "Remove the repeated lines.",
    ),
    Check(
        "G103",
        "warning",
        "Queries without a relevant doc in the gold",
        "No doc of the query has a grade from 1 on: it scores 0 with every system and lowers the mean.",
        "Judge a relevant doc, mark the query no_answer, or evaluate with empty_gold=skip.",
    ),
    Check(
        "G104",
        "error",
        "No relevant doc in the whole gold",
        "Every relevance metric is 0 for every run.",
        "Check the grade column: from 1 on a doc is relevant.",
    ),
    Check(
        "G105",
        "info",
        "All grades are the same",
        "The gold only lists relevant docs: graded metrics see no grades, and judged and unjudged docs that are "
        "not relevant cannot be told apart.",
        "Nothing, if only relevant docs were meant to be listed; else judge on a scale, with grade 0 too.",
    ),
    Check(
        "G106",
        "info",
        "Fractional grades",
        "A grade below 1 is not relevant, but earns gain in ndcg.",
        "State the threshold in the metric, as in recall(rel=0.5)@10, or round the grades.",
    ),
    Check(
        "G107",
        "info",
        "Negative grades",
        "A negative grade means pooled but not judged, as trec_eval has it.",
        "Write 0 for docs that were judged not relevant.",
    ),
    Check(
        "G108",
        "warning",
        "Grades above 4",
        "The usual scales end at 4, and err counts higher grades as 4. Perhaps the column holds scores.",
        "Check the grade column; with a longer scale state it: err(max_grade=10)@10.",
    ),
    Check(
        "Q201",
        "error",
        "A query id that is there twice",
        "Karat refuses a table of queries in which an id stands for two queries.",
        "Keep one line for each id.",
    ),
    Check(
        "Q202",
        "warning",
        "Queries without text",
        "The system was asked nothing, or the text was lost on the way.",
        "Write the text of the query, or remove it.",
    ),
    Check(
        "Q203",
        "warning",
        "Queries with the same text",
        "Equal but for case, spaces and punctuation: they count twice, and make intervals too narrow.",
        "Keep one of them, or put them in one conversation.",
    ),
    Check(
        "Q204",
        "info",
        "Queries with nearly the same text",
        "They share nearly all their words or letters, so they are no independent observations.",
        "Keep one of each group where they ask the same, or put them in one conversation.",
    ),
    Check(
        "Q205",
        "warning",
        "as_of that is no date",
        "Dates are compared as ISO dates; anything else is in no order.",
        "Write dates as YYYY-MM-DD.",
    ),
    Check(
        "Q206",
        "warning",
        "as_of in the future",
        "Gold cannot have been true on a day that has not come.",
        "Correct the date; day and month may be swapped.",
    ),
    Check(
        "Q207",
        "warning",
        "One value of a field in several spellings",
        "Values that differ only in case, spaces or hyphens make segments of their own.",
        "Write each value in one way.",
    ),
    Check(
        "Q208",
        "warning",
        "One language in several spellings",
        "A language that is named in several ways falls apart into several segments.",
        "Write each language in one way, such as its BCP 47 tag: en, pt-BR.",
    ),
    Check(
        "Q209",
        "info",
        "Segments with fewer than 10 queries",
        "So small a segment is shown, and never judged alone.",
        "Add queries to it, or slice by a coarser field.",
    ),
    Check(
        "Q210",
        "error",
        "A weight that is no number from 0",
        "Karat refuses the table of queries.",
        "Write a number from 0 on, or leave the weight out.",
    ),
    Check(
        "Q211",
        "error",
        "All weights are zero",
        "Every weighted mean is undefined.",
        "Give at least one query a weight above 0.",
    ),
    Check(
        "Q212",
        "info",
        "Conversations of one query each",
        "Clusters of one change nothing in the intervals; perhaps the field holds the wrong id.",
        "Give the queries of one conversation the same value, or leave the field out.",
    ),
    Check(
        "Q213",
        "warning",
        "no_answer that is neither yes nor no",
        "Anything but true, 1, yes or y counts as no.",
        "Write true or false.",
    ),
    Check(
        "R301",
        "warning",
        "Docs returned twice for one query",
        "Only the best place counts, so the list is shorter than it looks.",
        "Remove duplicates in the retriever before it cuts at k.",
    ),
    Check(
        "R302",
        "warning",
        "Ranks that contradict the scores",
        "Karat orders by score, as trec_eval does, and ignores the rank column: the order is not the one written.",
        "Write scores that fall with the rank, such as 1/rank, or write a run log with ranks.",
    ),
    Check(
        "R303",
        "error",
        "Scores that rise with the rank",
        "The run was written with a distance instead of a similarity: ordered by score it is upside down.",
        "Negate the scores, or write 1/rank.",
    ),
    Check(
        "R304",
        "warning",
        "Scores that rise down the file",
        "Without ranks the order is by score, so the last line of each query is its best result; with distances "
        "the run is upside down.",
        "If the file lists the best first, negate the scores or write 1/rank.",
    ),
    Check(
        "R305",
        "info",
        "A run log whose scores rise with the rank",
        "The order is by rank, so metrics are right; thresholds on the score would be upside down.",
        "Log a similarity, or the negative distance.",
    ),
    Check(
        "R306",
        "warning",
        "Queries whose docs all have one score",
        "Ties are broken by doc id, so their order says nothing about the system.",
        "Write the scores of the system, or 1/rank.",
    ),
    Check(
        "R307",
        "info",
        "Ranks that start at 0",
        "Ranks start at 1. Here they are ignored, since the order is by score; in a run log they are refused.",
        "Write ranks from 1.",
    ),
    Check(
        "R308",
        "info",
        "Lists much shorter than the others of the run",
        "One query in twenty or more has less than half of the usual number of results, which costs recall.",
        "Check filters, thresholds and time-outs of these queries.",
    ),
    Check(
        "R309",
        "warning",
        "The last query has fewer results than all others",
        "All others have the same number: the file seems to break off.",
        "Write or copy the file again.",
    ),
    Check(
        "R310",
        "warning",
        "Queries with an empty list of results",
        "They score 0. Often a time-out, a filter or an error that was logged as no results.",
        'Run them again; where the system skips retrieval on purpose, log "retrieved": false.',
    ),
    Check(
        "R311",
        "warning",
        "Latencies on some lines only",
        "Quantiles over the lines that have one are biased: the slow or failed ones are often those that lack it.",
        "Log latency_ms, with the same stages, on every line.",
    ),
    Check(
        "R312",
        "error",
        "Latencies that are no numbers from 0",
        "Quantiles and gates of latency would be wrong.",
        "Log milliseconds from a monotonic clock.",
    ),
    Check(
        "R313",
        "warning",
        "Facts that vary inside one run",
        "Lines of two systems or index versions stand in one file: the numbers belong to neither.",
        "Write one run log for each system and index version.",
    ),
    Check(
        "R314",
        "warning",
        "Gaps in the ranks of a run log",
        "Positions are renumbered from 1, so a doc moves up. Often results were dropped after they were ranked.",
        "Number the results that are returned, from 1.",
    ),
    Check(
        "R315",
        "warning",
        "doc_version that is no date",
        "Freshness and as_of_filter compare ISO dates; anything else is in no order.",
        "Write dates as YYYY-MM-DD.",
    ),
    Check(
        "C401",
        "error",
        "A doc id that is there twice",
        "Two docs under one id: which of them was judged and retrieved cannot be told.",
        "Give each doc an id of its own, or remove the repetition.",
    ),
    Check(
        "C402",
        "warning",
        "Docs without text",
        "An empty doc cannot be found, and cannot be relevant.",
        "Remove it, or mend the extraction of its text.",
    ),
    Check(
        "C403",
        "info",
        "Docs with the same text",
        "Copies under several ids take places in the lists from other docs.",
        "Keep one copy in the index.",
    ),
    Check(
        "C404",
        "warning",
        "doc_version that is no date",
        "Freshness compares ISO dates; anything else is in no order.",
        "Write dates as YYYY-MM-DD.",
    ),
    Check(
        "X501",
        "error",
        "Gold docs that the corpus lacks",
        "They can never be retrieved, so recall can never be 1.",
        "Use the corpus that was judged, or remove these judgments.",
    ),
    Check(
        "X502",
        "warning",
        "Returned docs that the corpus lacks",
        "The run comes from another version of the corpus, or its ids are written differently.",
        "Run the system on this corpus.",
    ),
    Check(
        "X503",
        "info",
        "Queries without gold",
        "They are left out of every metric.",
        "Nothing, if the table holds other splits too; else judge them.",
    ),
    Check(
        "X504",
        "warning",
        "Gold of queries that the table lacks",
        "They are evaluated, but have no text and fall in no segment.",
        "Add them to the table of queries, or use the table that belongs to this gold.",
    ),
    Check(
        "X505",
        "info",
        "Queries of a run without gold",
        "They are left out of every metric, and counted.",
        "Nothing, if the run covers other splits too; else judge them.",
    ),
    Check(
        "X506",
        "warning",
        "Queries of the gold that a run lacks",
        "They score 0.",
        "Run them, or evaluate with missing=skip if they were left out on purpose.",
    ),
    Check(
        "X507",
        "error",
        "A run and the gold have no query in common",
        "Nothing can be measured.",
        "Compare how both files write the query ids; use the gold that belongs to this run.",
    ),
    Check(
        "X508",
        "error",
        "A run never returns a judged doc",
        "Every metric is 0, most likely because doc ids are written differently.",
        "Compare how both files write the doc ids.",
    ),
    Check(
        "X509",
        "error",
        "Ids that differ only in case, Unicode form, white space or leading zeros",
        "Two files write the same ids in two ways, so they do not match.",
        "Write the ids the same way in all files.",
    ),
    Check(
        "X510",
        "warning",
        "A copy of a gold doc that is not judged",
        "A system that returns the copy gets no credit for the same text.",
        "Judge all copies alike, or keep one of them in the corpus.",
    ),
    Check(
        "X511",
        "warning",
        "Queries that quote their relevant doc",
        "A long span of the query stands word for word in the doc: keyword search finds it without understanding, "
        "and real users do not know the text.",
        "Paraphrase the queries, or report them as a segment of their own.",
    ),
    Check(
        "X512",
        "warning",
        "Gold that is the top of one run",
        "The gold of nearly every query is exactly that run's first results: it scores perfectly against itself, "
        "and whatever other systems find is not judged.",
        "Judge the pooled results of several systems, by someone or something other than that run.",
    ),
    Check(
        "X513",
        "warning",
        "Returned docs newer than the query's as_of",
        "The gold was true before they were written: they cannot be right answers for that date.",
        "Filter the index by as_of, evaluate with as_of_filter, or renew the gold.",
    ),
    Check(
        "X514",
        "error",
        "no_answer queries with relevant gold",
        "A query cannot both have no answer and have one; Karat leaves it out of relevance metrics.",
        "Remove the mark, or the judgments.",
    ),
    Check(
        "X515",
        "warning",
        "Most of the top 10 was never judged, though docs were judged not relevant",
        "The gold was pooled from other systems: for this run all values are lower bounds.",
        "Judge this run's top 10 before comparing it with others.",
    ),
    Check(
        "X516",
        "info",
        "Most of the top 10 is not in the gold",
        "The gold lists relevant docs only, so unlisted docs count as not relevant, whether they are or not.",
        "Read precision and ndcg as lower bounds; judge the top 10 where decisions are close.",
    ),
    Check(
        "X517",
        "warning",
        "Two runs with the same content",
        "Comparing them compares a file with itself.",
        "Check which of the files was meant.",
    ),
    Check(
        "X518",
        "warning",
        "A run that was cut earlier than the others",
        "Metrics at larger k cannot be compared between lists of different depth.",
        "Retrieve equally many results, or compare at a cutoff that all runs reach.",
    ),
    Check(
        "X519",
        "error",
        "Hard negatives that the gold calls relevant",
        "A doc in a query's negatives is relevant in its gold: one of the two is wrong.",
        "Remove it from the negatives, or correct its grade.",
    ),
    Check(
        "X520",
        "error",
        "One file for two things, or a run that is the gold",
        "A file stands for gold and for a run, say, or a run holds the judgments themselves: it scores perfectly "
        "against itself.",
        "Name what the system returned as the run.",
    ),
    Check(
        "K601",
        "error",
        "A configuration that cannot be read",
        "karat check refuses it.",
        "Mend the key or value that is named; `karat init --schema` gives editors the schema.",
    ),
    Check(
        "K602",
        "error",
        "A file that the configuration names is not there",
        "karat check cannot evaluate.",
        "Correct the path: it is relative to the configuration's folder.",
    ),
    Check(
        "K603",
        "error",
        "A configuration that cannot be followed",
        "What it asks for does not fit the data.",
        "Correct what the message names.",
    ),
    Check(
        "K604",
        "warning",
        "No gates",
        "Nothing decides: karat check refuses a configuration without gates.",
        "Add gates, such as recall@5 >= 0.90.",
    ),
    Check(
        "K605",
        "warning",
        "All gates are warnings",
        "A gate at level warn never changes the verdict: it is always SHIP.",
        "Put at least one gate at level error.",
    ),
    Check(
        "K606",
        "warning",
        "A gate on a segment without queries",
        "No query has the value that the gate asks for, so it is always undecided.",
        "Write the value as the queries have it.",
    ),
    Check(
        "K610",
        "warning",
        "Too few queries for a gate",
        "However good the run is, the gate stays undecided, or passes too rarely: the interval is too wide.",
        "Add queries, widen the margin, lower the threshold, or gate at the mean.",
    ),
)

CHECKS: dict[str, Check] = {check.code: check for check in _DECLARED}
