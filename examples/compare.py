"""Is the new system better? Paired differences over the same queries."""

import random

import karat

rng = random.Random(7)
queries = [f"q{i}" for i in range(300)]
qrels = {q: {f"{q}-answer": 1} for q in queries}


def search(skill: float) -> dict[str, list[str]]:
    """A made-up system: the answer is at rank 1 with this probability, else somewhere below."""
    lists = {}
    for q in queries:
        others = [f"{q}-other{i}" for i in range(9)]
        rank = 0 if rng.random() < skill else rng.randint(1, 9)
        lists[q] = [*others[:rank], f"{q}-answer", *others[rank:]]
    return lists


comparison = karat.compare(qrels, {"old": search(0.5), "new": search(0.75)}, "mrr,hit@1")
for row in comparison.rows:
    print(f"{row.metric}: {row.delta:+.3f} [{row.difference.low:+.3f}, {row.difference.high:+.3f}]", end=" ")
    print("significant" if row.significant else f"not significant; about {row.needed} queries would settle it")
