"""BM25 by bm25s, with the stemming and stop words of each passage's language."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from karat.errors import MissingPackage, UsageError, nearest
from karat.retrieve import ranking
from karat.retrieve.found import Base, Found, Laps
from karat.retrieve.registry import retriever
from karat.retrieve.store import kept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.found import Query

LANGUAGES = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
"""Codes of languages that can be stemmed; stop words are there for a part of them."""
METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
_TOKEN = re.compile(r"(?u)\b\w\w+\b")
_FALLBACK = "en"


@retriever("bm25", tells="BM25 over stemmed words (bm25s); words decide, so that other words are not found.")
class BM25(Base):
    """BM25 over the words of title and text.

    `language` is a code such as de, `none` for no stemming and no stop words, or `auto`: then the field
    `language` of each passage and query decides, and English where there is none.
    """

    def __init__(
        self,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        method: str = "lucene",
        language: str = "auto",
        stem: bool = True,
        stopwords: bool = True,
    ) -> None:
        if method not in METHODS:
            raise UsageError(f"bm25: method must be one of {', '.join(METHODS)}, found {method!r}")
        if not k1 >= 0 or not 0 <= b <= 1:
            raise UsageError(f"bm25: k1 must be a number from 0, and b one from 0 to 1, found {k1!r} and {b!r}")
        if language not in ("auto", "none"):
            _known(language)
        self.k1, self.b, self.method, self.language = k1, b, method, language
        self.stem, self.stopwords = stem, stopwords
        self._corpus: Corpus | None = None
        self._default = _FALLBACK if language == "auto" else language

    def index(self, corpus: Corpus) -> None:
        """Build the index, or load the one that was built from the same texts."""
        if self._corpus is corpus:
            return
        library = _library()
        of = [self._language(corpus.language(i)) for i in range(len(corpus))]
        only = set(of)
        if len(only) == 1 and self.language == "auto":
            self._default = only.pop()  # a corpus in one language: queries that do not say theirs are in it too
        key = ["bm25", library.__version__, self.k1, self.b, self.method, self.stem, self.stopwords, corpus.fingerprint,
               sorted(set(of)) if len(set(of)) == 1 else of]  # fmt: skip

        def build() -> Any:
            index = library.BM25(k1=self.k1, b=self.b, method=self.method, backend="numpy")
            index.index(self._tokens(corpus.texts, of), show_progress=False)
            return index

        self._index = kept(
            self.store, key, build,
            lambda index, folder: index.save(folder, show_progress=False),
            lambda folder: library.BM25.load(folder, show_progress=False),
        )  # fmt: skip
        self._corpus, self._ids = corpus, list(corpus.ids)
        self._place = ranking.precedence(corpus.ids)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Found]:
        """The passages that share words with each query; those that share none are not found."""
        return [self._found(q, k) for q in queries]

    @property
    def rests_on(self) -> Any:
        return _library().__version__

    def facts(self) -> dict[str, Any]:
        held = sum(int(part.nbytes) for part in self._index.scores.values() if hasattr(part, "nbytes"))
        return {"index_storage": held, "index_version": f"bm25s {_library().__version__}"}

    def _found(self, query: Query, k: int) -> Found:
        laps = Laps()
        scores = self._scores(query)
        if scores is None:
            ids, values = [], []
        else:
            rows = ranking.best(scores, k, self._place, above=0.0)
            ids, values = [self._ids[i] for i in rows.tolist()], scores[rows].tolist()
        laps.lap("retrieve")
        return Found(ids, values, latency_ms=laps.ms)

    def _scores(self, query: Query) -> Any:
        fields = getattr(query, "fields", {})
        language = self._language(fields.get("language"))
        known = self._index.vocab_dict
        words = [w for word in _TOKEN.findall(query.lower()) if (w := self._word(word, language)) in known]
        return self._index.get_scores(words) if words else None

    def _word(self, word: str, language: str) -> str | None:
        """A word as the index has it; None for a stop word."""
        if self.stopwords and word in _stop_words(language):
            return None
        return _stemmer(language)(word) if self.stem else word

    def _tokens(self, texts: Sequence[str], of: Sequence[str]) -> Any:
        """All texts cut into words: at once where they are in one language."""
        library = _library()
        only = sorted(set(of))

        def cut(part: list[str], language: str, ids: bool) -> Any:
            stems = _stem_all(language) if self.stem else None
            stop = sorted(_stop_words(language)) if self.stopwords else []
            return library.tokenize(part, stopwords=stop, stemmer=stems, return_ids=ids, show_progress=False)

        if len(only) == 1:
            return cut(list(texts), only[0], True)
        out: list[list[str]] = [[]] * len(texts)
        for language in only:
            rows = [i for i, name in enumerate(of) if name == language]
            for i, words in zip(rows, cut([texts[i] for i in rows], language, False), strict=True):
                out[i] = words
        return out

    def _language(self, told: str | None) -> str:
        """The language of a text: as it says itself, where that is asked for and can be stemmed."""
        if self.language != "auto":
            return self.language
        code = str(told).lower().replace("_", "-").split("-")[0] if told else self._default
        return code if code in LANGUAGES else "none" if told else self._default


def _known(language: str) -> str:
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
        raise MissingPackage("bm25 needs bm25s and PyStemmer: pip install 'karat[retrieve]'") from None
    return bm25s


@cache
def _stop_words(language: str) -> frozenset[str]:
    from bm25s import stopwords

    name = "EN" if language == "en" else LANGUAGES.get(language, "").upper()
    return frozenset(getattr(stopwords, f"STOPWORDS_{name}", ()))


@cache
def _stem_all(language: str) -> Callable[[list[str]], list[str]] | None:
    if language not in LANGUAGES:
        return None
    try:
        import Stemmer
    except ImportError:
        raise MissingPackage("bm25 needs PyStemmer: pip install 'karat[retrieve]', or bm25(stem=false)") from None
    stemmer: Any = Stemmer.Stemmer(LANGUAGES[language])
    return lambda words: list(stemmer.stemWords(words))


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    stems = _stem_all(language)
    return (lambda word: word) if stems is None else (lambda word: stems([word])[0])
