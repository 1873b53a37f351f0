"""BM25 by bm25s, with the stemming and stop words of each passage's language."""

from __future__ import annotations

import re
from array import array
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, UsageError, missing_package, nearest
from karat.retrieve import ranking
from karat.retrieve.bm25_scores import METHODS, Words, quick_index
from karat.retrieve.protocol import Answer, Base, Stopwatch
from karat.retrieve.registry import retriever
from karat.store.built import get_or_build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query, RetrieverFacts

    Stems = Callable[[list[str]], list[str]]

LANGUAGES = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""Codes of the languages that can be stemmed; some of them have stop words too."""
_CODES = {name: code for code, name in LANGUAGES.items()}
_TOKEN = re.compile(r"(?u)\b\w\w+\b")
_ASCII = "".join(chr(c).lower() if chr(c).isalnum() or chr(c) == "_" else " " for c in range(128))
"""Of each ASCII character: itself in lower case if words are made of it, else a space."""
_FALLBACK = "en"
_AT_ONCE = 10_000
"""Passages whose words are held as Python's own numbers at a time."""


@retriever("bm25", tells="BM25 over stemmed words (bm25s); finds words, not synonyms.")
class BM25(Base):
    """BM25 over the words of title and text.

    `language` is a code like de, `none` for no stemming and no stop words, or `auto`: the field `language` of
    each passage and query decides, and English if there is none.
    """

    def __init__(
        self,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        method: str = "lucene",
        language: str | None = "auto",
        stem: bool = True,
        stopwords: bool = True,
    ) -> None:
        if method not in METHODS:
            raise UsageError(f"bm25: method must be one of {', '.join(METHODS)}, found {method!r}")
        if not all(isinstance(x, (int, float)) for x in (k1, b)) or not k1 >= 0 or not 0 <= b <= 1:
            raise UsageError(f"bm25: k1 must be a number from 0, and b one from 0 to 1, found {k1!r} and {b!r}")
        language = "none" if language is None else language  # what `language=none` in a spec is read as
        if language not in ("auto", "none"):
            _check_language(language)
        self.k1, self.b, self.method, self.language = k1, b, method, language
        self.stem, self.stopwords = stem, stopwords
        self._corpus: Corpus | None = None
        self._default = _FALLBACK if language == "auto" else language

    def index(self, corpus: Corpus) -> None:
        """Build the index, or load the one that was built from the same texts."""
        if self._corpus is corpus:
            return
        library = _library()
        languages = [self._language(corpus.language(i)) for i in range(len(corpus))]
        only = set(languages)
        if len(only) == 1 and self.language == "auto":
            self._default = only.pop()  # a corpus in one language: queries without one are in it too
        key = [
            "bm25",
            library.__version__,
            self.k1,
            self.b,
            self.method,
            self.stem,
            self.stopwords,
            corpus.fingerprint,
            sorted(set(languages)) if len(set(languages)) == 1 else languages,
        ]

        def build() -> Any:
            tokens = self._tokens(corpus.texts, languages)
            if not tokens.vocab:
                raise InputError(
                    f"{corpus.source}: no passage has a word to index apart from stop words; expected texts"
                )
            index = quick_index(library, k1=self.k1, b=self.b, method=self.method)
            index.index(tokens, show_progress=False)
            return index

        self._index = get_or_build(
            self.store,
            key,
            build,
            lambda index, folder: index.save(folder, show_progress=False),
            lambda folder: library.BM25.load(folder, show_progress=False),
        )
        self._corpus, self._ids = corpus, list(corpus.ids)
        self._place = ranking.precedence(corpus.ids)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """The passages that share words with each query; those that share none are not found."""
        if self._corpus is None:
            raise UsageError("bm25: index() comes before retrieve()")
        return [self._search(q, k) for q in queries]

    @property
    def rests_on(self) -> Any:
        return _library().__version__

    def facts(self) -> RetrieverFacts:
        size = sum(int(part.nbytes) for part in self._index.scores.values() if hasattr(part, "nbytes"))
        return {"index_storage": size, "index_version": f"bm25s {_library().__version__}"}

    def _search(self, query: Query, k: int) -> Answer:
        stopwatch = Stopwatch()
        scores = self._scores(query)
        if scores is None:
            ids, values = [], []
        else:
            rows = ranking.best(scores, k, self._place, above=0.0)
            ids, values = [self._ids[i] for i in rows.tolist()], scores[rows].tolist()
        stopwatch.lap("retrieve")
        return Answer(ids, values, latency_ms=stopwatch.ms)

    def _scores(self, query: Query) -> Any:
        language = self._language(getattr(query, "fields", {}).get("language"))
        stop, stems = self._reading(language)
        words = [word for word in _TOKEN.findall(query.lower()) if word not in stop]
        vocabulary = self._index.vocab_dict
        numbers = [vocabulary[word] for word in (words if stems is None else stems(words)) if word in vocabulary]
        return self._index.get_scores_from_ids(numbers) if numbers else None

    def _tokens(self, texts: Sequence[str], of: Sequence[str]) -> Any:
        """All texts as numbers of words, and the vocabulary, in the form of `tokenize` of bm25s."""
        from bm25s.tokenization import Tokenized

        vocabulary: dict[str, int] = {}
        tables = {language: _Numbers(vocabulary, *self._reading(language)) for language in set(of)}
        blocks, lengths = [], []
        for start in range(0, len(texts), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            numbers = array("i")
            ends = []
            for text, language in zip(texts[part], of[part], strict=True):
                numbers.extend(map(tables[language].__getitem__, _words(text)))
                ends.append(len(numbers))
            all_numbers = np.frombuffer(numbers, np.int32)
            kept = all_numbers >= 0
            blocks.append(all_numbers[kept])
            lengths.append(np.diff(np.concatenate(([0], np.cumsum(kept)))[[0, *ends]]))
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        return Tokenized(ids=Words(np.concatenate(blocks), starts), vocab=vocabulary)

    def _reading(self, language: str) -> tuple[frozenset[str], Stems | None]:
        """The stop words of a language, and what stems its words; empty and None if switched off."""
        stop = _stop_words(language) if self.stopwords else frozenset[str]()
        return stop, _stem_all(language) if self.stem else None

    def _language(self, label: str | None) -> str:
        """The language to use for a text with this label: its own with `auto`, if it can be stemmed."""
        if self.language != "auto":
            return self.language
        if not label:
            return self._default
        word = str(label).strip().lower().replace("_", "-").split("-")[0]
        return word if word in LANGUAGES else _CODES.get(word, "none")


class _Numbers(dict[str, int]):
    """The number of each word of a language, assigned when the word first occurs; −1 for stop words and letters."""

    def __init__(self, vocabulary: dict[str, int], stop: frozenset[str], stems: Stems | None) -> None:
        super().__init__(dict.fromkeys(stop, -1))
        self.vocabulary, self.stems = vocabulary, stems

    def __missing__(self, word: str) -> int:
        if len(word) < 2:
            return -1
        stem = word if self.stems is None else self.stems([word])[0]
        number = self[word] = self.vocabulary.setdefault(stem, len(self.vocabulary))
        return number


def _words(text: str) -> list[str]:
    """The words of a text in lower case; single letters may be among them."""
    return text.translate(_ASCII).split() if text.isascii() else _TOKEN.findall(text.lower())


def _check_language(language: str) -> str:
    if language not in LANGUAGES:
        near = nearest(language, LANGUAGES) or nearest(language, LANGUAGES.values())
        near = next((c for c, n in LANGUAGES.items() if n == near), near)
        raise UsageError(
            f"bm25: unknown language {language!r}"
            + (f"; did you mean {near!r}?" if near else "")
            + f" Known: auto, none, {', '.join(LANGUAGES)}"
        )
    return language


def _library() -> Any:
    try:
        import bm25s
    except ImportError:
        raise missing_package("bm25", "bm25s", "Stemmer") from None
    return bm25s


@cache
def _stop_words(language: str) -> frozenset[str]:
    from bm25s import stopwords

    name = "EN" if language == "en" else LANGUAGES.get(language, "").upper()
    return frozenset(getattr(stopwords, f"STOPWORDS_{name}", ()))


@cache
def _stem_all(language: str) -> Stems | None:
    if language not in LANGUAGES:
        return None
    try:
        import Stemmer
    except ImportError:
        raise missing_package("bm25", "Stemmer", advice=", or use bm25(stem=false)") from None
    stemmer: Any = Stemmer.Stemmer(LANGUAGES[language])
    stem: Stems = stemmer.stemWords
    return stem
