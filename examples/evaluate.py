"""Metrics with confidence intervals, from plain dicts."""

import karat

qrels = {
    "how to reset": {"manual#reset": 3, "faq#power": 1},
    "battery life": {"specs#battery": 2},
    "open the lid": {"manual#lid": 3, "manual#hinge": 1},
}
run = {
    "how to reset": {"manual#reset": 9.1, "faq#returns": 7.4, "faq#power": 6.8},
    "battery life": {"specs#weight": 5.2, "specs#battery": 5.1},
    "open the lid": {"manual#hinge": 8.8, "specs#weight": 3.0},
}

result = karat.evaluate(qrels, run, "ndcg@10,recall@2,mrr")
for name, interval in result.intervals.items():
    print(f"{name:10} {interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}] over {interval.n} queries")
