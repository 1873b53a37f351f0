"""`karat judge ask`: a language model grades pairs."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.judge.flags import ConfigFile, Corpus, Judgments, Pairs, Queries, ScaleName
from karat.errors import UsageError
from karat.exit_codes import INCONCLUSIVE, INTERRUPTED

_MODEL, _HOW, _BUDGET = "The judge", "How", "Budget"


def ask(
    pairs: Pairs,
    queries: Queries,
    corpus: Corpus,
    judgments: Judgments,
    model: Annotated[str, o.option("The model, as the endpoint calls it.", metavar="NAME", panel=_MODEL)],
    url: Annotated[
        str | None,
        o.option(
            "An OpenAI-compatible endpoint: http://localhost:8080/v1. Default: OPENAI_BASE_URL, else OpenAI's own.",
            metavar="URL",
            panel=_MODEL,
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        o.option("The environment variable that holds the key (default OPENAI_API_KEY).", metavar="NAME", panel=_MODEL),
    ] = None,
    prompt: Annotated[
        str | None,
        o.option("Your own template, with {query}, {doc}, {scale} and {answer}.", metavar="FILE", panel=_MODEL),
    ] = None,
    scale: ScaleName = None,
    config: ConfigFile = None,
    grade_only: Annotated[bool, o.option("Ask for no reason before the grade.", "--grade-only", panel=_MODEL)] = False,
    param: Annotated[
        list[str] | None,
        o.option("Of the request: max_tokens=400; temperature is 0 (null: none).", metavar="NAME=VALUE", panel=_MODEL),
    ] = None,
    doc_chars: Annotated[
        int | None, o.option("Cut docs after so many characters.", metavar="N", min=1, panel=_MODEL)
    ] = None,
    votes: Annotated[
        int, o.option("Ask N times about each pair; the median counts.", metavar="N", min=1, panel=_MODEL)
    ] = 1,
    answers: Annotated[
        str | None,
        o.option(
            "json_schema, json_object or text; the strictest that the endpoint takes by default.",
            metavar="FORM",
            panel=_HOW,
        ),
    ] = None,
    workers: Annotated[int, o.option("Calls at once (default 8).", metavar="N", min=1, panel=_HOW)] = 8,
    tries: Annotated[
        int, o.option("Calls for an answer without a grade (default 3).", metavar="N", min=1, panel=_HOW)
    ] = 3,
    timeout: Annotated[
        float, o.option("Seconds to wait for an answer (default 120).", metavar="SECONDS", panel=_HOW)
    ] = 120.0,
    batch_out: Annotated[
        str | None, o.option("Write the requests for a batch API instead of sending them.", metavar="FILE", panel=_HOW)
    ] = None,
    batch_in: Annotated[
        str | None, o.option("Read the answers of a batch API instead of asking.", metavar="FILE", panel=_HOW)
    ] = None,
    bias_test: Annotated[
        int | None,
        o.option(
            "Instead of judging, ask again about N judged pairs, reordered and twice as long.",
            "--bias-test",
            metavar="N",
            min=2,
            panel=_HOW,
        ),
    ] = None,
    max_calls: Annotated[int | None, o.option("Send at most N requests.", metavar="N", min=0, panel=_BUDGET)] = None,
    max_total_tokens: Annotated[
        int | None, o.option("Use at most N tokens, of input and output.", metavar="N", min=0, panel=_BUDGET)
    ] = None,
    max_cost: Annotated[
        float | None, o.option("Spend at most this much; needs --price.", metavar="AMOUNT", min=0, panel=_BUDGET)
    ] = None,
    price: Annotated[
        str | None, o.option("Of a million tokens of input and output: 0.15,0.60.", metavar="IN,OUT", panel=_BUDGET)
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Have a language model judge pairs, with a reason for each grade.

    karat judge ask pairs.jsonl --queries queries.jsonl --corpus corpus.jsonl --judgments judged.jsonl --model gpt-4.1-mini

    karat judge ask pairs.jsonl … --model qwen --url http://localhost:8080/v1 --max-calls 500

    The texts of queries and docs are sent to the endpoint. Work that was stopped resumes: run the same command again,
    and nothing is asked twice. An answer that holds no grade is asked for again, then counted as a failure, never as 0.
    Exit code 3 if some pairs have no grade.

    karat judge ask pairs.jsonl … --model gpt-4.1-mini --bias-test 50    (3 × 50 calls: does it grade by order or length?)
    """
    from karat.report.terminal import judge as view
    from karat.verbs.judge.ask import (
        JudgeOptions,
        ask_pairs,
        judge_template,
        probe_bias,
        read_answers,
        read_limits,
        read_parameters,
        write_requests,
    )
    from karat.verbs.judge.scale import choose_scale

    if batch_out is not None and batch_in is not None:
        raise UsageError("--batch-out and --batch-in are two steps; expected one of them")
    if bias_test is not None and (batch_out is not None or batch_in is not None):
        raise UsageError("--bias-test asks the endpoint directly; leave out --batch-out and --batch-in")
    judge = JudgeOptions(
        model,
        url=url,
        key_env=key_env,
        template=judge_template(prompt),
        scale=choose_scale(scale, config),
        reason=not grade_only,
        parameters=read_parameters(param or ()),
        votes=votes,
        doc_chars=doc_chars,
        answers=answers,
        timeout=timeout,
    )
    if batch_out is not None:
        count, outcome = write_requests(
            pairs, batch_out, queries=queries, docs=corpus, judgments=judgments, judge=judge
        )
        if not quiet:
            view.show_requests(batch_out, count, outcome)
        return
    limits = read_limits(max_calls, max_total_tokens, max_cost, price)
    test = None
    try:
        if bias_test is not None:
            with view.progress(quiet) as watch:
                test = probe_bias(
                    pairs,
                    bias_test,
                    queries=queries,
                    docs=corpus,
                    judgments=judgments,
                    judge=judge,
                    limits=limits,
                    workers=workers,
                    tries=tries,
                    watch=watch,
                )
            outcome = test.outcome
        elif batch_in is not None:
            outcome = read_answers(
                pairs, batch_in, queries=queries, docs=corpus, judgments=judgments, judge=judge, limits=limits
            )
        else:
            with view.progress(quiet) as watch:
                outcome = ask_pairs(
                    pairs,
                    queries=queries,
                    docs=corpus,
                    judgments=judgments,
                    judge=judge,
                    limits=limits,
                    workers=workers,
                    tries=tries,
                    watch=watch,
                )
    except KeyboardInterrupt:
        typer.echo("karat: stopped; run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if test is not None:
        view.show_bias_test(test, limits, quiet=quiet)
    else:
        view.show_outcome(outcome, judgments, limits, quiet=quiet)
    if outcome.failures or outcome.open:
        raise typer.Exit(INCONCLUSIVE)
