"""Texts that are the same, nearly the same, or quote each other."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

WORDS, LETTERS = 0.8, 0.85
"""The share of words, or of groups of three letters, from which two texts are nearly the same."""
FEWEST_WORDS, FEWEST_LETTERS = 4, 15
SPAN, WHOLE = 8, 6
"""Words in a row that make a quotation, and of a shorter query that is quoted as a whole."""
MOST_PAIRS = 2_000_000
"""Pairs that are compared at most: queries made from one template are all alike."""
_WORD_MARKS = frozenset("#%&@*/+")
_UNSPACED = r"\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_NUMBERS = re.compile(r"\d+")


def fold(text: str) -> str:
    """The text without case, punctuation and needless spaces; signs that can change its meaning stay (C++, C#)."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    if plain.isascii() and plain.replace(" ", "").isalnum():
        return " ".join(plain.split())
    letters = (c if c in _WORD_MARKS or unicodedata.category(c)[0] not in "PZC" else " " for c in plain)
    return " ".join("".join(letters).split())


def words_of(text: str) -> list[str]:
    """The words of a folded text; scripts that write no spaces are taken by character."""
    return _WORD.findall(text)


class Groups:
    """Things that belong together, directly or through others."""

    def __init__(self, count: int) -> None:
        self._leader = list(range(count))

    def lead(self, i: int) -> int:
        """The first member of the group that this one belongs to."""
        leader = self._leader
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    def join(self, i: int, j: int) -> None:
        """Make one group of two."""
        low, high = sorted((self.lead(i), self.lead(j)))
        self._leader[high] = low

    def larger_than_one(self) -> list[list[int]]:
        """The groups with several members."""
        members: dict[int, list[int]] = defaultdict(list)
        for i in range(len(self._leader)):
            members[self.lead(i)].append(i)
        return [g for g in members.values() if len(g) > 1]


def join_near(sets: Sequence[frozenset[str]], keys: Sequence[Hashable], threshold: float, groups: Groups) -> bool:
    """Join all sets of one key whose Jaccard overlap reaches the threshold; say whether all pairs were compared.

    Prefix filter (Chaudhuri et al. 2006): sets that overlap so much share one of their few rarest elements.
    """
    frequency = Counter(element for s in sets for element in s)
    holders: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    budget = MOST_PAIRS
    for i in sorted(range(len(sets)), key=lambda i: len(sets[i])):
        mine = sets[i]
        if not mine:
            continue
        least = math.ceil(threshold * len(mine) - 1e-9)
        rare = sorted(mine, key=lambda e: (frequency[e], e))[: len(mine) - least + 1]
        candidates = {j for element in rare for j in holders[keys[i], element]}
        budget -= len(candidates)
        if budget < 0:
            return False
        for j in candidates:
            other = sets[j]
            if len(other) < least or groups.lead(i) == groups.lead(j):
                continue
            if len(mine & other) >= threshold * len(mine | other) - 1e-9:
                groups.join(i, j)
        for element in rare:
            holders[keys[i], element].append(i)
    return True


def near_groups(texts: Sequence[str]) -> tuple[list[list[int]], bool]:
    """Groups of folded texts that share nearly all words or letters, and whether all pairs were compared.

    Texts whose numbers differ ask for different things, however near they are.
    """
    numbers = [tuple(_NUMBERS.findall(t)) for t in texts]
    words = [frozenset(words_of(t)) for t in texts]
    letters = [
        frozenset(t[i : i + 3] for i in range(len(t) - 2)) if len(t) >= FEWEST_LETTERS else frozenset() for t in texts
    ]
    groups = Groups(len(texts))
    all_words = join_near([w if len(w) >= FEWEST_WORDS else frozenset() for w in words], numbers, WORDS, groups)
    all_letters = join_near(letters, numbers, LETTERS, groups)
    return groups.larger_than_one(), all_words and all_letters


def quoted_words(query: str, doc: str) -> list[str]:
    """The longest span of the query that stands word for word in the doc, if it is long enough to be a quotation."""
    words = words_of(fold(query))
    unspaced = sum(len(w) == 1 and not w.isascii() for w in words) > len(words) / 2
    span, whole = (2 * SPAN, 2 * WHOLE) if unspaced else (SPAN, WHOLE)
    least = min(span, len(words))
    if least < whole:
        return []
    text = f" {' '.join(words_of(fold(doc)))} "
    best: list[str] = []
    for start in range(len(words) - least + 1):
        end = start + max(least, len(best) + 1)
        while end <= len(words) and f" {' '.join(words[start:end])} " in text:
            best = words[start:end]
            end += 1
    return best
