"""Judging what the gold lacks: pools of pairs, the scale, people, and language models as judges."""
