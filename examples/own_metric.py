"""A metric of your own: declared once, it has a name, parameters, intervals, help and a place in gates."""

import numpy as np

import karat


@karat.metric(
    "first_relevant",
    title="Rank of the first relevant doc",
    tells="How far down a reader has to go.",
    formula="rank of the first relevant doc",
    bounds=(1, None),
    higher_is_better=False,
    no_results=float("nan"),
    empty_gold=float("nan"),
)
def first_relevant(r: karat.Rankings, k: int | None = None, rel: float = 1) -> np.ndarray:
    top = r.upto(k)
    hits = top.hits(rel)
    out = np.full(len(r), np.nan)
    query, at = np.unique(top.query[hits], return_index=True)  # rows are in order of rank
    out[query] = top.rank[hits][at]
    return out


qrels = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1}, "q3": {"d": 1}}
run = {"q1": ["x", "a", "b"], "q2": ["c"], "q3": ["x"]}
result = karat.evaluate(qrels, run, "first_relevant,first_relevant(rel=2)@10")
print(result.per_query("first_relevant"))
print("mean over the queries that have one:", result.mean["first_relevant"])
