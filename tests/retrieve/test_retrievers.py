"""How retrievers are written, BM25, fusion, and what any retriever may return."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import karat
from karat.errors import InputError, KaratError, UsageError
from karat.retrieve import Base, all_kinds, make_retriever, ranking, retriever
from karat.retrieve.bm25 import BM25
from karat.retrieve.bm25_scores import METHODS
from karat.retrieve.corpus import Corpus, read_corpus, rechunk
from karat.retrieve.hybrid import Hybrid
from karat.retrieve.protocol import Answer, Query, everything_in, read_answer
from karat.retrieve.spec import Spec, parse_spec
from karat.store.built import Store
from places import ROOT

DOCS = {
    "d1": "The battery lasts nine months in a mild climate.",
    "d2": "Batteries drain faster in winter; lithium cells help.",
    "d3": "Return a box within forty five days.",
    "d4": "Delivery codes expire after one day.",
    "d5": "The courier enters a delivery code on the keypad.",
}


def corpus(texts: dict[str, Any] = DOCS) -> Corpus:
    return read_corpus(texts)


# How they are written


@pytest.mark.parametrize(
    ("text", "kind", "params", "args", "label"),
    [
        ("bm25", "bm25", {}, 0, None),
        (" bm25( k1 = 1.2 , b=.3 ) ", "bm25", {"k1": 1.2, "b": 0.3}, 0, None),
        ("mine=dense(model=a/b-c.d, batch=8)", "dense", {"model": "a/b-c.d", "batch": 8}, 0, "mine"),
        (
            "dense(query_prefix='query: ', normal=true, dims=null)",
            "dense",
            {"query_prefix": "query: ", "normal": True, "dims": None},
            0,
            None,
        ),
        (
            "hybrid(bm25, dense(model=x), weights=[1, .5], fusion=minmax)",
            "hybrid",
            {"weights": [1, 0.5], "fusion": "minmax"},
            2,
            None,
        ),
        ("rr=rerank(hybrid(bm25, dense), candidates=20)", "rerank", {"candidates": 20}, 1, "rr"),
        ("my_module:search", "my_module:search", {}, 0, None),
        ("pkg.mod:Class.make(k=3)", "pkg.mod:Class.make", {"k": 3}, 0, None),
        (
            "http(url=http://h:9200/i/_search, ids=$.hits.hits[*]._id)",
            "http",
            {"url": "http://h:9200/i/_search", "ids": "$.hits.hits[*]._id"},
            0,
            None,
        ),
    ],
)
def test_a_retriever_reads_as_it_is_written(text: str, kind: str, params: Any, args: int, label: str | None) -> None:
    spec = parse_spec(text)
    assert (spec.kind, dict(spec.params), len(spec.args), spec.label) == (kind, params, args, label)
    assert parse_spec(str(spec)) == Spec(spec.kind, spec.args, spec.params)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be written"),
        ("bm25(", "expected"),
        ("bm25(k1=)", "expected a value"),
        ("bm25(k1=1.2 b=3", "',' or ')'"),
        ("bm25(k1=1, k1=2)", "given twice"),
        ("bm25) ", "expected the end"),
        ("dense(model='x)", "closing '"),
        ("=bm25", "the name of a retriever"),
        (7, "must be written"),
    ],
)
def test_what_cannot_be_read_says_where(text: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told.replace("(", r"\(").replace(")", r"\)")):
        parse_spec(text)


VALUES = st.one_of(
    st.integers(-999, 999),
    st.booleans(),
    st.none(),
    st.text("abc/:.- _'", max_size=8).map(str.strip),
    st.lists(st.integers(0, 9), max_size=3),
    st.floats(-1e6, 1e6, allow_nan=False),
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["k", "model", "b1", "path"]), VALUES, max_size=3), st.integers(0, 2))
def test_a_printed_spec_reads_as_the_same(params: dict[str, Any], args: int) -> None:
    spec = Spec("hybrid", tuple(Spec("bm25", (), {"k1": i}) for i in range(args)), params)
    assert parse_spec(str(spec)) == spec


def test_a_mapping_says_the_same_as_a_text() -> None:
    written = parse_spec(
        {"kind": "hybrid", "name": "both", "of": ["bm25", {"kind": "dense", "model": "m"}], "constant": 9}
    )
    assert written == parse_spec("both=hybrid(bm25, dense(model=m), constant=9)")


def test_parameters_that_a_retriever_does_not_check_have_the_type_that_it_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("karat.retrieve.registry._KINDS", all_kinds())

    @retriever("lenient")
    class Lenient(Base):
        def __init__(self, *, n: int = 3, share: float | None = None, on: bool = True, text: str = "", any: Any = 1):
            self.values = (n, share, on, text, any)

    refused = {
        "n=abc": 'n must be an integer, found "abc"',
        "n=2.5": "n must be an integer, found 2.5",
        "n=true": "n must be an integer, found True",
        "n=none": "n must be an integer, found nothing",
        "share=x": 'share must be a number or none, found "x"',
        "on=2": "on must be true or false, found 2",
    }
    for parameter, message in refused.items():
        with pytest.raises(UsageError, match=f"^lenient: {re.escape(message)}$"):
            karat.make_retriever(f"lenient({parameter})")
    made = karat.make_retriever("lenient(n=5, share=none, on=false, text=7, any=[1, x])")
    assert made.values == (5, None, False, 7, [1, "x"])
    assert karat.make_retriever("lenient(share=2)").values[1] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bm52", "did you mean 'bm25'"),
        ("bm25(k2=1)", "it takes: k1, b"),
        ("bm25(metod=x)", "did you mean 'method'"),
        ("bm25(dense)", "not made of others"),
        ("bm25(method=okapi)", "must be one of"),
        ("bm25(language=germn)", "did you mean 'de'"),
        ("bm25(b=2)", "from 0 to 1"),
        ("bm25(k1=abc)", "k1 must be a number from 0"),
        ("bm25(stem=maybe)", 'bm25: stem must be true or false, found "maybe"'),
        ("math.sqrt", "did you mean 'math:sqrt'"),
        ("math.py:sqrt", "name the module, not its file: math:sqrt"),
        ("bm25,dense", "name each retriever separately"),
        ("hybrid(bm25)", "two retrievers or more"),
        ("hybrid(bm25, bm25, weights=[1])", "2 numbers"),
        ("hybrid(bm25, bm25, weights=[1, x])", "weights must be 2 numbers from 0, not all 0, found [1, 'x']"),
        ("hybrid(bm25, bm25, weights=2)", "weights must be 2 numbers from 0, not all 0, found 2"),
        ("hybrid(bm25, bm25, constant=abc)", 'hybrid: constant must be a number, found "abc"'),
        ("hybrid(bm25, bm25, depth=1.5)", "hybrid: depth must be an integer or none, found 1.5"),
        ("hybrid(bm25, bm25, depth=true)", "hybrid: depth must be an integer or none, found True"),
        ("hybrid(bm25, bm25, fusion=borda)", "must be one of"),
        ("no_such_module_here:f", "cannot be imported"),
        ("math:squirt", "did you mean 'sqrt'"),
        ("math:pi", "expected a function"),
    ],
)
def test_a_retriever_that_cannot_be_made_says_why(text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        karat.make_retriever(text)
    assert told in str(error.value)


def test_functions_classes_and_objects_are_retrievers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_search.py").write_text(
        "def find(query, k, bonus=0):\n    return [('d1', 2.0 + bonus), ('d2', 1.0)][:k]\n"
        "class Search:\n"
        "    def __init__(self, size=1): self.size = size\n"
        "    def index(self, corpus): self.ids = list(corpus.ids)[: self.size]\n"
        "    def retrieve(self, queries, k): return [self.ids[:k] for _ in queries]\n"
    )
    monkeypatch.chdir(tmp_path)
    assert karat.make_retriever("shop_search:find").retrieve([Query("x")], 1) == [Answer(["d1"], [2.0])]
    assert karat.make_retriever("shop_search:find(bonus=3)").retrieve([Query("x")], 2)[0].scores == [5.0, 1.0]
    made = karat.make_retriever("shop_search:Search(size=2)")
    made.index(corpus())
    assert made.retrieve([Query("x")], 9) == [["d1", "d2"]]
    assert karat.make_retriever(made) is made


def test_a_package_brings_retrievers_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_kinds()  # what is built in is declared first, since a copy of the table stands in for it below
    (tmp_path / "karat_extra_search.py").write_text("def find(query, k):\n    return ['d9']\n")
    info = tmp_path / "karat_extra_search-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: karat-extra-search\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[karat.retrievers]\nextra = karat_extra_search:make\n")
    (tmp_path / "karat_extra_search.py").write_text(
        "class Extra:\n"
        "    def __init__(self, *, size: int = 1): self.size = size\n"
        "    def index(self, corpus): pass\n"
        "    def retrieve(self, queries, k): return [['d9'] * self.size for _ in queries]\n"
        "make = Extra\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from karat.retrieve import registry

    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    assert karat.make_retriever("extra(size=2)").retrieve([Query("x")], 5) == [["d9", "d9"]]


# What they return


@pytest.mark.parametrize(
    ("given", "ids", "scores"),
    [
        (["a", "b"], ["a", "b"], None),
        ([3, "b"], ["3", "b"], None),
        ([("a", 2), ("b", 1)], ["a", "b"], [2.0, 1.0]),
        ({"a": 1, "b": 2}, ["b", "a"], [2.0, 1.0]),
        ([{"chunk_id": "a#1", "score": 1}, {"doc_id": "b", "score": 0}], ["a#1", "b"], [1.0, 0.0]),
        ([{"id": "a"}], ["a"], None),
        ([], [], None),
        (Answer(["x"], [1.0]), ["x"], [1.0]),
        (np.array(["a", "b"]), ["a", "b"], None),
    ],
)
def test_any_usual_shape_is_read(given: Any, ids: list[str], scores: list[float] | None) -> None:
    found = read_answer(given, "here")
    assert (list(found.ids), found.scores) == (ids, scores)


@pytest.mark.parametrize(
    "given",
    [None, "abc", 7, [1.5], [("a", "x")], [("a", math.nan)], {"a": math.inf}, [{"score": 1}], [("a", 1), "b"], [None]],
)
def test_other_shapes_are_errors_that_name_the_query(given: Any) -> None:
    with pytest.raises(InputError, match="find, query 7"):
        read_answer(given, "find, query 7")


# The best k


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 45), st.randoms())
def test_the_best_are_those_of_a_full_sort(scores: list[int], k: int, rng: random.Random) -> None:
    ids = [f"d{i}" for i in range(len(scores))]
    rng.shuffle(ids)
    place = ranking.precedence(ids)
    expected = sorted(range(len(ids)), key=lambda i: (scores[i], ids[i].encode()), reverse=True)
    assert ranking.best(np.array(scores, float), k, place).tolist() == expected[:k]
    above = [i for i in expected if scores[i] > 0][:k]
    assert ranking.best(np.array(scores, float), k, place, above=0).tolist() == above


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.integers(1, 400), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.25]))
def test_contenders_are_all_within_the_slack_of_the_kth_largest(k: int, n: int, seed: int, slack: float) -> None:
    scores = np.random.default_rng(seed).integers(-8, 8, n) / 8
    least = sorted(scores, reverse=True)[min(k, n) - 1] - slack if k < n else -9
    assert ranking.contenders(scores, k, slack).tolist() == [i for i, score in enumerate(scores) if score >= least]


# BM25


def lucene(texts: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """BM25 as Lucene has it, by its formula: idf · tf / (tf + k1 (1 − b + b · length / average))."""
    n, average = len(texts), sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        counts = Counter(text)
        total = 0.0
        for word in query:
            holding = sum(word in other for other in texts)
            idf = math.log(1 + (n - holding + 0.5) / (holding + 0.5))
            total += idf * counts[word] / (counts[word] + k1 * (1 - b + b * len(text) / average))
        scores.append(total)
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_bm25_is_the_formula(seed: int) -> None:
    rng = random.Random(seed)
    words = [f"w{i}x" for i in range(30)]
    texts = [[rng.choice(words) for _ in range(rng.randint(3, 20))] for _ in range(40)]
    made = BM25(k1=1.2, b=0.6, language="none")
    made.index(Corpus([f"d{i}" for i in range(40)], [" ".join(t) for t in texts]))
    query = [rng.choice(words) for _ in range(4)]
    found = made.retrieve([Query(" ".join(query))], 40)[0]
    expected = lucene(texts, query, 1.2, 0.6)
    assert dict(zip(found.ids, found.scores or (), strict=True)) == pytest.approx(
        {f"d{i}": s for i, s in enumerate(expected) if s > 0}, rel=1e-5
    )


WORDS = st.text(alphabet=st.sampled_from("abcDE12_ .,-\n\x1fßéİ漢"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(WORDS, min_size=1, max_size=8),
    st.sampled_from(METHODS),
    st.sampled_from([0.2, 0.9, 1.5]),
    st.sampled_from([0, 0.4, 1]),
    st.booleans(),
)
def test_an_index_is_that_of_bm25s_to_the_bit(
    texts: list[str], method: str, k1: float, b: float, stopwords: bool
) -> None:
    import bm25s
    from bm25s.stopwords import STOPWORDS_EN

    made = BM25(k1=k1, b=b, method=method, stem=False, stopwords=stopwords, language="en")
    stop = STOPWORDS_EN if stopwords else ()
    words = [[w for w in re.findall(r"(?u)\b\w\w+\b", text.lower()) if w not in stop] for text in texts]
    assume(any(words))
    made.index(Corpus([str(i) for i in range(len(texts))], texts))
    numbers = {word: i for word, i in made._index.vocab_dict.items() if word}
    theirs = bm25s.BM25(k1=k1, b=b, method=method, backend="numpy")
    theirs.index(([[numbers[w] for w in text] for text in words], numbers), show_progress=False)
    assert made._index.scores["num_docs"] == theirs.scores["num_docs"]
    for part in ("data", "indices", "indptr"):
        mine, expected = made._index.scores[part], theirs.scores[part]
        assert (mine.dtype, mine.tolist()) == (expected.dtype, expected.tolist())
    floors = [one.nonoccurrence_array for one in (made._index, theirs)]
    assert np.array_equal(*floors) if method in ("bm25l", "bm25+") else floors == [None, None]


ELSEWHERE = ("http", "langchain", "llamaindex", "qdrant", "pgvector")
"""Kinds that may search an index which is already there."""
SPECS = {"rerank": "rerank(bm25, model=builtins:len)"}
"""How a kind is written that its name alone does not make."""


@pytest.mark.parametrize("kind", [kind for kind in all_kinds() if kind not in ELSEWHERE])
def test_a_query_before_the_index_is_told(kind: str) -> None:
    with pytest.raises(UsageError, match=r"index\(\) comes before retrieve\(\)"):
        karat.make_retriever(SPECS.get(kind, kind)).retrieve([Query("x")], 3)


def test_bm25_finds_stems_and_not_stop_words() -> None:
    made = BM25()
    made.index(corpus())
    assert set(made.retrieve([Query("battery in the winter")], 5)[0].ids) == {"d1", "d2"}
    assert made.retrieve([Query("the in a")], 5)[0].ids == []
    assert made.retrieve([Query("zebra")], 5)[0].ids == []
    plain = BM25(stem=False, stopwords=False)
    plain.index(corpus())
    assert set(plain.retrieve([Query("battery")], 5)[0].ids) == {"d1"}


def test_each_passage_and_query_is_stemmed_in_its_own_language() -> None:
    made = BM25()
    made.index(
        corpus(
            {
                "de": {"text": "Die Häuser haben mehrere Schlüssel", "language": "de"},
                "es": {"text": "Las llaves de las casas grandes", "language": "es-MX"},
                "en": {"text": "Keys of several houses", "language": "en"},
            }
        )
    )
    assert made.retrieve([Query("Haus", fields={"language": "de"})], 3)[0].ids == ["de"]
    assert made.retrieve([Query("casa grande", fields={"language": "es"})], 3)[0].ids == ["es"]
    for language in ("en", "en-GB", "English"):
        assert made.retrieve([Query("house key", fields={"language": language})], 3)[0].ids == ["en"]
    assert made.retrieve([Query("die", fields={"language": "de"})], 3)[0].ids == []  # a stop word in German alone


def test_no_language_can_be_written_as_text_and_keeps_stop_words_and_endings() -> None:
    made = make_retriever("bm25(language=none)")
    made.index(Corpus(["a", "b"], ["the runner", "a running horse"]))
    assert [list(found.ids) for found in made.retrieve([Query("the"), Query("run"), Query("running")], 5)] == [
        ["a"],
        [],
        ["b"],
    ]


def test_a_corpus_of_stop_words_alone_is_told() -> None:
    with pytest.raises(InputError, match="corpus: no passage has a word to index apart from stop words"):
        make_retriever("bm25").index(Corpus(["a", "b"], ["the of", ""]))


def test_a_language_that_cannot_be_stemmed_is_matched_as_it_is() -> None:
    made = BM25()
    made.index(
        corpus({"ja": {"text": "battery kotoba", "language": "ja"}, "en": {"text": "batteries", "language": "en"}})
    )
    assert made.retrieve([Query("kotoba", fields={"language": "ja"})], 3)[0].ids == ["ja"]


def test_an_index_is_built_once_for_the_same_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import bm25s

    built = []
    real = bm25s.BM25.index
    monkeypatch.setattr(bm25s.BM25, "index", lambda self, *a, **k: (built.append(1), real(self, *a, **k))[1])
    store = Store(str(tmp_path / "kept"))

    def found(texts: dict[str, str], **params: Any) -> list[Any]:
        made = BM25(**params)
        made.store = store
        made.index(corpus(texts))
        return [(f.ids, f.scores) for f in made.retrieve([Query("delivery code battery")], 5)]

    first = found(DOCS)
    assert found(DOCS) == first and len(built) == 1
    found({**DOCS, "d1": "changed"})
    found(DOCS, k1=1.2)
    assert len(built) == 3
    for path in (tmp_path / "kept").rglob("*.npy"):
        path.write_bytes(b"broken")
    assert found(DOCS) == first and len(built) == 4  # damaged: built anew
    for path in (tmp_path / "kept").rglob("*.npy"):  # still arrays, of other numbers
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2].ljust(len(data), b"\0"))
    capsys.readouterr()
    assert found(DOCS) == first and len(built) == 5
    assert "this entry of the cache is damaged and is made again" in capsys.readouterr().err


def test_the_store_stays_within_its_limit_and_can_be_cleared(tmp_path: Path) -> None:
    import os

    store = Store(str(tmp_path / "kept"), limit=2500)

    def put(key: str) -> str:
        return store.get(
            key, lambda: key, lambda text, folder: Path(folder, "x").write_text(text * 1000), lambda f: "kept"
        )

    assert put("a") == "a" and put("a") == "kept"
    for age, (path, _, _) in enumerate(store.entries()):
        os.utime(path, (1000 + age, 1000 + age))
    put("b")
    put("c")
    assert len(store.entries()) == 2 and put("a") == "a"
    assert store.clear() == 2 and store.entries() == []


# Fusion


class Fixed:
    """A retriever whose lists are known."""

    def __init__(self, name: str, listed: dict[str, float] | list[str]) -> None:
        self.name, self.listed = name, listed

    def index(self, corpus: Corpus) -> None:
        pass

    def retrieve(self, queries: Any, k: int) -> list[Answer]:
        return [read_answer(self.listed, self.name).cut(k) for _ in queries]


def test_reciprocal_ranks_are_added() -> None:
    made = Hybrid(Fixed("a", ["x", "y", "z"]), Fixed("b", ["y", "w"]), weights=[1, 2], constant=10)
    found = made.retrieve([Query("q")], 3)[0]
    # x 1/11; y 1/12 + 2/11; z 1/13; w 2/12
    assert list(found.ids) == ["y", "w", "x"]
    assert found.scores == pytest.approx([1 / 12 + 2 / 11, 2 / 12, 1 / 11])
    assert list(found.stages["retrieve"]) == ["y", "w", "x", "z"] and list(found.stages["fuse"]) == ["y", "w", "x"]
    assert set(found.latency_ms) == {"a", "b", "fuse"} and min(found.latency_ms.values()) > 0


def test_scores_are_brought_to_one_scale_and_added() -> None:
    parts = (Fixed("a", {"x": 10.0, "y": 5.0, "z": 0.0}), Fixed("b", {"y": 0.3, "w": 0.1}))
    found = Hybrid(*parts, fusion="minmax", weights=[1, 1]).retrieve([Query("q")], 9)[0]
    # a: x 1, y .5, z 0, w lowest 0; b: y 1, w 0, x and z lowest 0
    assert dict(zip(found.ids, found.scores or (), strict=True)) == pytest.approx(
        {"y": 1.5, "x": 1.0, "z": 0.0, "w": 0.0}
    )
    assert list(found.ids) == ["y", "x", "z", "w"]  # the tie by falling id
    spread = math.sqrt(((10 - 5) ** 2 + 0 + 25) / 3)
    z = Hybrid(*parts, fusion="zscore").retrieve([Query("q")], 1)[0]
    assert z.scores == pytest.approx([0 + 1.0]) or z.scores == pytest.approx([5 / spread - 1.0])
    with pytest.raises(UsageError, match="needs scores"):
        Hybrid(Fixed("a", ["x"]), Fixed("b", ["y"]), fusion="minmax").retrieve([Query("q")], 1)


def test_a_list_that_found_nothing_takes_no_part() -> None:
    for fusion in ("rrf", "minmax", "zscore"):
        found = Hybrid(Fixed("a", {}), Fixed("b", {"y": 2.0, "x": 1.0}), fusion=fusion).retrieve([Query("q")], 5)[0]
        assert list(found.ids) == ["y", "x"]


def test_a_retriever_inside_another_is_the_one_that_is_known() -> None:
    known: dict[str, Any] = {"words": karat.make_retriever("bm25(k1=1.2)")}
    fused = karat.make_retriever("hybrid(words, bm25(b=.1))", known)
    assert fused.parts[0] is known["words"]
    assert list(everything_in(fused)) == [*fused.parts, fused]


# Corpora


def test_a_corpus_is_told_by_its_content_alone(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(
        '{"_id": "a", "title": "T", "text": "x", "source": "faq"}\n{"_id": 2, "text": "y"}\n'
    )
    found = read_corpus(str(tmp_path / "c.jsonl"))
    assert (list(found.ids), list(found.texts)) == (["a", "2"], ["T x", "y"])
    assert found.about("a") == {"source": "faq"} and found.about("nope") == {}
    assert found.fingerprint == read_corpus({"a": {"title": "T", "text": "x"}, "2": {"text": "y"}}).fingerprint
    assert found.fingerprint != read_corpus({"a": {"text": "x"}, "2": {"text": "y"}}).fingerprint
    assert Corpus(["ab"], ["c"]).fingerprint != Corpus(["a"], ["bc"]).fingerprint


@pytest.mark.parametrize("given", [{"a": {"x": "y"}}, {}])
def test_a_corpus_without_texts_is_an_error(given: Any) -> None:
    with pytest.raises(KaratError):
        read_corpus(given)


def test_docs_are_cut_into_overlapping_passages() -> None:
    words = " ".join(f"w{i}" for i in range(10))
    cut = rechunk(Corpus(["a#p1", "a#p2", "b"], [words, "x y", "z"], [{"source": "s"}, {}, {}]), 5, 2)
    # 12 words of a: 0–4, 3–7, 6–10, 9–11; each begins with the last two of the one before
    assert [t.split() for t in cut.texts[:4]] == [
        ["w0", "w1", "w2", "w3", "w4"],
        ["w3", "w4", "w5", "w6", "w7"],
        ["w6", "w7", "w8", "w9", "x"],
        ["w9", "x", "y"],
    ]
    assert list(cut.ids) == ["a#5-2-1", "a#5-2-2", "a#5-2-3", "a#5-2-4", "b#5-2-1"]
    assert cut.about("a#5-2-1") == {"source": "s"} and cut.chunker == {"algo": "words", "size": 5, "overlap": 2}
    with pytest.raises(UsageError):
        rechunk(corpus(), 5, 5)


def test_the_page_names_every_retriever_and_parameter() -> None:
    page = (ROOT / "docs/retrievers.md").read_text("utf-8")
    for name, kind in all_kinds().items():
        assert f"`{name}`" in page or f"`{name}(" in page, name
        for param in kind.params:
            assert re.search(rf"\b{param}\b", page), (name, param)


def test_the_working_folder_hides_no_installed_package(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "bm25s.py").write_text("raise SystemError('the package of this name was hidden')\n")
    (tmp_path / "mine.py").write_text("def find(query, k):\n    return ['d1']\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    code = (
        "from karat.retrieve import make_retriever\nfrom karat.retrieve.registry import import_object\n"
        "make_retriever('mine:find'); import bm25s; print(bm25s.__file__)\n"
        "from karat.errors import UsageError\n"
        "try:\n    import_object('leaves:find')\nexcept UsageError as error:\n    print(error)\n"
    )
    program = [sys.executable, "-P", "-c", code]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout.splitlines()[0]
    assert "module 'leaves' cannot be imported (SystemExit" in done.stdout
