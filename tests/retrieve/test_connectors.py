"""Qdrant, Postgres with pgvector, LangChain and LlamaIndex: the real things, against a ranking by brute force."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karat.errors import InputError, UsageError
from karat.retrieve import Corpus, Query, embedding, make_retriever

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 24
WORDS = [f"word{i}" for i in range(40)]
QUERIES = [Query(" ".join(WORDS[i : i + 3]), f"q{i}") for i in range(0, 36, 4)]


def word_vector(word: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(int(hashlib.sha256(word.encode()).hexdigest()[:8], 16)).normal(size=SIZE)


def embed(texts: list[str]) -> np.ndarray[Any, Any]:
    """The mean of the vectors of a text's words; not of unit length, so that metrics differ."""
    return np.array([np.mean([word_vector(w) for w in text.split()], axis=0) for text in texts], dtype=np.float32)


def _corpus(count: int = 150) -> Corpus:
    rng = np.random.default_rng(7)
    return Corpus([f"d{i}#p1" for i in range(count)], [" ".join(rng.choice(WORDS, size=6)) for _ in range(count)])


CORPUS = _corpus()
DOCS = embed(list(CORPUS.texts)).astype(np.float64)


def nearest(query: str, k: int, metric: str = "cosine") -> tuple[list[str], list[float]]:
    """The definition: all docs compared, in double precision."""
    q = embed([str(query)])[0].astype(np.float64)
    scores = {
        "cosine": DOCS @ q / (np.linalg.norm(DOCS, axis=1) * np.linalg.norm(q)),
        "ip": DOCS @ q,
        "l2": -np.linalg.norm(DOCS - q, axis=1),
    }[metric]
    order = np.argsort(-scores)[:k]
    assert np.diff(np.sort(scores)).min() > 1e-7  # no ties: there is one right order
    return [CORPUS.ids[i] for i in order], scores[order].tolist()


def assert_nearest(retriever: Any, k: int = 10, metric: str = "cosine") -> None:
    for query, found in zip(QUERIES, retriever.retrieve(QUERIES, k), strict=True):
        ids, scores = nearest(query, k, metric)
        assert list(found.ids) == ids
        assert list(found.scores) == pytest.approx(scores, abs=1e-5)


class Counted:
    """An encoder that counts its passages, and may fail."""

    name, identity = "counted", ["counted", 1]

    def __init__(self, fails_at: int | None = None) -> None:
        self.passages, self.fails_at = 0, fails_at

    def encode(self, texts: list[str], kind: str) -> np.ndarray[Any, Any]:
        if kind == "passage":
            self.passages += len(texts)
            if self.fails_at is not None and self.passages > self.fails_at:
                raise RuntimeError("out of memory")
        return embed(texts)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes a module of the user's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def write(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


# Qdrant


@pytest.fixture
def qdrant() -> Iterator[Any]:
    """Makes retrievers of Qdrant, and closes them."""
    made = []

    def make(**params: Any) -> Any:
        made.append(make_retriever({"kind": "qdrant", "encoder": embed, **params}))
        return made[-1]

    yield make
    for retriever in made:
        retriever.close()


@pytest.mark.parametrize("vector_name", [None, "text"])
@pytest.mark.parametrize("place", ["memory", "disk"])
def test_qdrant_ranks_by_cosine(place: str, vector_name: str | None, qdrant: Any, tmp_path: Path) -> None:
    where = {"url": ":memory:"} if place == "memory" else {"path": str(tmp_path / "q")}
    retriever = qdrant(**where, vector_name=vector_name)
    retriever.index(CORPUS)
    assert_nearest(retriever)
    assert set(retriever.retrieve(QUERIES[:1], 3)[0].latency_ms) == {"encode", "search"}
    assert len(retriever.retrieve(QUERIES[:1], 500)[0].ids) == len(CORPUS)
    facts = retriever.facts()
    assert facts["embedding_model"] == "embed"
    assert facts["index_version"].startswith("qdrant karat-")


def test_qdrant_keeps_a_collection_by_content(qdrant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "BATCH", 64)
    counted = Counted()
    first = qdrant(path=str(tmp_path), encoder=counted, collection="mine")
    first.index(CORPUS)
    assert counted.passages == 150
    other = qdrant(path=str(tmp_path), encoder=counted, collection="mine")  # a folder that is open here already
    other.index(CORPUS)
    assert counted.passages == 150
    assert other.facts() == first.facts()
    other.index(Corpus(CORPUS.ids, [*CORPUS.texts[:-1], "word1"]))
    assert counted.passages == 300
    assert other.facts()["index_version"] != first.facts()["index_version"]
    assert_nearest(first)
    first.close()
    other.close()
    again = qdrant(path=str(tmp_path), encoder=counted, collection="mine")
    again.index(CORPUS)
    assert counted.passages == 300
    assert_nearest(again)


def test_qdrant_completes_what_an_interrupted_run_left(
    qdrant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "BATCH", 64)
    broken = qdrant(path=str(tmp_path), encoder=Counted(fails_at=100))
    with pytest.raises(InputError, match=r"counted failed \(RuntimeError: out of memory\)"):
        broken.index(CORPUS)
    broken.close()
    whole = qdrant(path=str(tmp_path), encoder=Counted())
    whole.index(CORPUS)
    assert_nearest(whole)


def test_functions_are_told_apart_by_what_they_give(qdrant: Any) -> None:
    def other(texts: list[str]) -> Any:
        return embed(texts)[:, ::-1]

    other.__name__ = "embed"
    names = set()
    for encoder in (embed, other, embed):
        retriever = qdrant(url=":memory:", encoder=encoder)
        retriever.index(CORPUS)
        names.add(retriever.facts()["index_version"])
    assert len(names) == 2


@pytest.mark.parametrize(("distance", "metric"), [("Cosine", "cosine"), ("Dot", "ip"), ("Euclid", "l2")])
def test_qdrant_asks_a_collection_that_is_there(distance: str, metric: str, qdrant: Any, tmp_path: Path) -> None:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(tmp_path))
    params = models.VectorParams(size=SIZE, distance=models.Distance(distance))
    client.create_collection("theirs", vectors_config={"text": params, "title": params})
    rows = [
        models.PointStruct(id=i, vector={"text": v, "title": [1.0] * SIZE}, payload={"passage": id})
        for i, (id, v) in enumerate(zip(CORPUS.ids, DOCS.tolist(), strict=True))
    ]
    client.upsert("theirs", rows)
    client.close()
    there = {"path": str(tmp_path), "collection": "theirs", "create": False}
    retriever = qdrant(**there, id_field="passage", vector_name="text")
    assert_nearest(retriever, metric=metric)  # without index(): it is theirs
    retriever.index(CORPUS)
    assert_nearest(retriever, metric=metric)
    with pytest.raises(UsageError, match="has the vectors text, title; name one with vector_name=, found nothing"):
        qdrant(**there).retrieve(QUERIES, 3)
    with pytest.raises(InputError, match=r"no usable id in 'pasage'.*its fields: passage; did you mean 'passage'"):
        qdrant(**there, id_field="pasage", vector_name="text").retrieve(QUERIES, 3)
    with pytest.raises(InputError, match="has vectors of 24 numbers, and shorter makes 8; use the model"):
        qdrant(**there, id_field="passage", vector_name="text", encoder=shorter).retrieve(QUERIES, 3)
    with pytest.raises(InputError, match="has no collection 'theirz'; it has: theirs"):
        qdrant(**{**there, "collection": "theirz"}).retrieve(QUERIES, 3)
    own_ids = qdrant(**there, vector_name="text").retrieve(QUERIES[:1], 1)[0].ids
    assert [CORPUS.ids[int(i)] for i in own_ids] == nearest(QUERIES[0], 1, metric)[0]  # the points' own: their rows


def shorter(texts: list[str]) -> Any:
    return embed(texts)[:, :8]


def test_qdrant_answers_several_threads(qdrant: Any) -> None:
    retriever = qdrant(url=":memory:")
    retriever.index(CORPUS)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda q: list(retriever.retrieve([q], 5)[0].ids), QUERIES * 5))
    assert found == [nearest(q, 5)[0] for q in QUERIES * 5]


@pytest.mark.filterwarnings("ignore:Exception ignored in.*lock:pytest.PytestUnraisableExceptionWarning")  # Qdrant's
def test_a_folder_in_use_by_another_process_is_told(qdrant: Any, tmp_path: Path) -> None:
    import portalocker

    first = qdrant(path=str(tmp_path))
    first.index(CORPUS)
    first.close()
    with open(tmp_path / ".lock", "r+") as held:
        portalocker.lock(held, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        with pytest.raises(InputError, match="is in use by another process"):
            qdrant(path=str(tmp_path)).index(CORPUS)


def test_a_qdrant_server_that_is_not_there_is_told(qdrant: Any) -> None:
    retriever = qdrant(url="http://127.0.0.1:9", timeout=2)
    with pytest.raises(InputError, match=r"qdrant http://127.0.0.1:9, collection 'karat-.*: cannot be reached"):
        retriever.index(CORPUS)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "expected one of url="),
        ({"url": ":memory:", "path": "x"}, "expected one of url="),
        ({"url": ":memory:", "create": False}, "name it with collection="),
        ({"url": ":memory:", "api_key_env": "NOT_SET"}, "environment variable NOT_SET is not set"),
        ({"url": ":memory:", "encoder": "embed"}, "encoder must be module:function"),
        ({"url": ":memory:", "encoder": 3}, "encoder must be a function of a list of texts, found 3"),
    ],
)
def test_wrong_parameters_of_qdrant_are_told(params: dict[str, Any], told: str, qdrant: Any) -> None:
    with pytest.raises(UsageError, match=told):
        qdrant(**params)


@pytest.mark.parametrize(
    ("encoder", "told"),
    [
        (lambda texts: [[1.0, 2.0]], r"one vector for each of \d+ texts.*shape \(1, 2\)"),
        (lambda texts: [[1.0], [1.0, 2.0]], "one vector for each"),
        (lambda texts: [[float("nan")]] * len(texts), "not finite"),
    ],
)
def test_vectors_that_are_none_are_told(encoder: Any, told: str, qdrant: Any) -> None:
    with pytest.raises(InputError, match=told):
        qdrant(url=":memory:", encoder=encoder).index(CORPUS)


def test_asking_before_there_is_an_index_is_told(qdrant: Any) -> None:
    with pytest.raises(UsageError, match="index a corpus first"):
        qdrant(url=":memory:").retrieve(QUERIES, 3)


def test_an_encoder_by_its_name(qdrant: Any, module: Any) -> None:
    module("my_vectors", "def embed(texts):\n    return [[float(len(t)), 1.0] for t in texts]\n")
    retriever = qdrant(url=":memory:", encoder="my_vectors:embed")
    retriever.index(Corpus(["short", "long"], ["x", "x" * 50]))
    # (len, 1): of 40 the direction is nearer to that of 50 than to that of 1
    assert retriever.retrieve([Query("y" * 40)], 2)[0].ids == ["long", "short"]
    assert retriever.facts()["embedding_model"] == "my_vectors:embed"


# Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A Postgres with pgvector in a folder of its own.

    As root, pgserver adds a system user and runs the server as that one; it opens the folders above for it. Pytest
    closes its own folders again whenever it starts, so that the data is not in one of them; and workers go one by one.
    """
    with pytest.MonkeyPatch.context() as patch:
        folder = Path(tempfile.mkdtemp(prefix="karat-postgres-"))
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        import pgserver

        with open(Path(tempfile.gettempdir()) / f"karat-postgres-{os.getuid()}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            server = pgserver.get_server(folder / "data", cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgres: str) -> Iterator[Any]:
    """An empty database, and a connection to it."""
    import psycopg

    name = "t" + hashlib.sha256(os.urandom(8)).hexdigest()[:12]
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        url = postgres.replace("/postgres?", f"/{name}?")
        with psycopg.connect(url, autocommit=True) as connection:
            yield url, connection
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def pg(database: Any) -> Iterator[Any]:
    """Makes retrievers of the database, and closes them."""
    made = []

    def make(**params: Any) -> Any:
        made.append(make_retriever({"kind": "pgvector", "dsn": database[0], "encoder": embed, **params}))
        return made[-1]

    yield make
    for retriever in made:
        retriever.close()


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_pgvector_ranks_as_its_metric_says(metric: str, pg: Any) -> None:
    retriever = pg(metric=metric, text_column="body")
    retriever.index(CORPUS)
    assert_nearest(retriever, metric=metric)
    assert len(retriever.retrieve(QUERIES[:1], 500)[0].ids) == len(CORPUS)
    facts = retriever.facts()
    assert facts["embedding_model"] == "embed"
    assert facts["index_version"].startswith("pgvector karat_")
    assert facts["index_storage"] > 150 * SIZE * 4


def test_pgvector_with_hnsw_returns_as_many_as_asked(pg: Any, database: Any) -> None:
    retriever = pg(index="hnsw")
    retriever.index(CORPUS)
    database[1].execute("ALTER ROLE postgres SET enable_seqscan = off")  # so small a table would be scanned
    retriever.close()
    try:
        found = retriever.retrieve(QUERIES, 100)  # pgvector itself stops at 40
        plan = str(
            database[1].execute(f"SELECT indexdef FROM pg_indexes WHERE tablename = '{retriever._name}'").fetchall()
        )
        assert "USING hnsw (embedding vector_cosine_ops)" in plan
        assert [len(f.ids) for f in found] == [100] * len(QUERIES)
        hits = sum(len(set(f.ids) & set(nearest(q, 100)[0])) for q, f in zip(QUERIES, found, strict=True))
        assert hits / (100 * len(QUERIES)) > 0.95
        assert {len(f.ids) for f in retriever.retrieve(QUERIES[:2], 10)} == {10}
    finally:
        database[1].execute("ALTER ROLE postgres RESET enable_seqscan")


def test_pgvector_with_ivfflat_looks_at_as_many_lists_as_told(pg: Any) -> None:
    retriever = pg(index="ivfflat", probes=1)  # 150 docs have one list: all are looked at
    retriever.index(CORPUS)
    assert_nearest(retriever)


def test_pgvector_keeps_a_table_by_content(pg: Any, database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "BATCH", 64)
    counted = Counted()
    first, again = pg(encoder=counted, table="mine"), pg(encoder=counted, table="mine")
    first.index(CORPUS)
    again.index(CORPUS)
    assert counted.passages == 150
    assert_nearest(again)
    other = pg(encoder=counted, table="mine", metric="ip")
    other.index(CORPUS)
    names = [n for (n,) in database[1].execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'mine%'")]
    assert sorted(names) == sorted([first._name, other._name])


def test_an_interrupted_load_leaves_no_table(pg: Any, database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "BATCH", 64)
    with pytest.raises(InputError, match="out of memory"):
        pg(encoder=Counted(fails_at=100)).index(CORPUS)
    assert database[1].execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'karat%'").fetchone() == (0,)
    whole = pg(encoder=Counted())
    whole.index(CORPUS)
    assert_nearest(whole)


def test_two_that_load_at_once_load_once(pg: Any) -> None:
    counted = Counted()
    both = [pg(encoder=counted), pg(encoder=counted)]
    with ThreadPoolExecutor(2) as pool:  # in an empty database: the extension is made once too
        list(pool.map(lambda r: r.index(CORPUS), both))
    assert counted.passages == 150
    assert_nearest(both[0])
    assert_nearest(both[1])


@pytest.mark.parametrize("ids", ["text", "bigint", "uuid"])
def test_pgvector_asks_a_table_that_is_there(ids: str, pg: Any, database: Any) -> None:
    run = database[1].execute
    run("CREATE EXTENSION vector")
    run('CREATE SCHEMA "my app"')
    run(f'CREATE TABLE "my app"."Passages; --" ("Key" {ids}, "the ""vector" vector({SIZE}), note text)')
    given = {"text": CORPUS.ids, "bigint": range(150), "uuid": [f"00000000-0000-4000-8000-{i:012}" for i in range(150)]}
    for key, row in zip(given[ids], DOCS, strict=True):
        run('INSERT INTO "my app"."Passages; --" VALUES (%s, %s)', (key, str(row.tolist())))
    there = {"table": "my app.Passages; --", "id_column": "Key", "vector_column": 'the "vector', "create": False}
    retriever = pg(**there)
    back = dict(zip(map(str, given[ids]), CORPUS.ids, strict=True))
    for query, found in zip(QUERIES, retriever.retrieve(QUERIES, 10), strict=True):
        assert [back[id] for id in found.ids] == nearest(query, 10)[0]
    with pytest.raises(InputError, match=r"has no column 'id'; its columns: Key, the \"vector, note; name them with"):
        pg(**{**there, "id_column": "id"}).retrieve(QUERIES, 3)
    with pytest.raises(InputError, match="must be of type vector, found text"):
        pg(**{**there, "vector_column": "note"}).retrieve(QUERIES, 3)
    with pytest.raises(InputError, match="has vectors of 24 numbers, and shorter makes 8"):
        pg(**there, encoder=shorter).retrieve(QUERIES, 3)
    with pytest.raises(InputError, match="has no table 'nowhere'; fix the name"):
        pg(table="nowhere", create=False).retrieve(QUERIES, 3)


def test_workers_have_connections_of_their_own(pg: Any, database: Any) -> None:
    retriever = pg()
    retriever.index(CORPUS)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda q: list(retriever.retrieve([q], 5)[0].ids), QUERIES * 10))
    assert found == [nearest(q, 5)[0] for q in QUERIES * 10]
    assert 1 <= len(retriever._idle) <= 4
    retriever.close()
    assert retriever._idle == []
    assert_nearest(retriever)  # opens anew


def test_a_connection_that_broke_is_replaced(pg: Any, database: Any) -> None:
    retriever = pg()
    retriever.index(CORPUS)
    database[1].execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid()"
    )
    with pytest.raises(InputError, match=r"pgvector .*: failed \(AdminShutdown"):
        retriever.retrieve(QUERIES, 3)
    assert_nearest(retriever)


def test_a_database_without_pgvector_is_told(pg: Any) -> None:
    with pytest.raises(InputError, match="has no pgvector; run CREATE EXTENSION vector"):
        pg(table="theirs", create=False).retrieve(QUERIES, 3)


def test_ids_that_come_twice_are_told(pg: Any) -> None:
    with pytest.raises(InputError, match=r"UniqueViolation.*d1"):
        pg().index(Corpus(["d1", "d1"], ["word1", "word2"]))


def test_vectors_too_long_for_an_index_are_told(pg: Any) -> None:
    with pytest.raises(
        UsageError, match="makes vectors of 2001 numbers, and pgvector indexes up to 2000; use index=none"
    ):
        pg(index="hnsw", encoder=lambda texts: np.ones((len(texts), 2001))).index(CORPUS)


def test_a_postgres_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", "postgresql://me:hunter2@127.0.0.1:9/search")
    retriever = make_retriever({"kind": "pgvector", "dsn_env": "DSN", "encoder": embed})
    with pytest.raises(InputError, match=r"pgvector 127.0.0.1/search: cannot be reached") as error:
        retriever.index(CORPUS)
    told = [str(error.value), repr(error.value.__cause__), str(retriever.facts()), retriever.name]
    assert not [text for text in told if "hunter2" in text]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "expected one of dsn="),
        ({"dsn": "postgresql://me:hunter2@h/d"}, "dsn holds a password; .*dsn_env="),
        ({"dsn": "what is this"}, "dsn is not a connection string"),
        ({"dsn": "postgresql://h/d", "metric": "cos"}, "metric must be one of cosine, l2, ip"),
        ({"dsn": "postgresql://h/d", "index": "flat"}, "index must be one of none, hnsw, ivfflat"),
        ({"dsn": "postgresql://h/d", "create": False}, "name it with table="),
        ({"dsn": "postgresql://h/d", "ef_search": 5000}, "ef_search must be from 1 to 1000"),
        ({"dsn_env": "NOT_SET"}, "environment variable NOT_SET is not set"),
    ],
)
def test_wrong_parameters_of_pgvector_are_told(params: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as error:
        make_retriever({"kind": "pgvector", "encoder": embed, **params})
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("kind", ["qdrant", "pgvector"])
def test_texts_without_content_are_not_found_and_find_nothing(kind: str, qdrant: Any, pg: Any) -> None:
    def zeros(texts: list[str]) -> Any:  # what some models give for words they do not know
        return [[0.0] * SIZE if text == "unknown" else row for text, row in zip(texts, embed(texts), strict=True)]

    counted = Counted()
    retriever = qdrant(url=":memory:", encoder=counted) if kind == "qdrant" else pg(encoder=counted)
    corpus = Corpus(["blank", "one", "half"], ["  ", "word1", "word2 \ud800"])
    retriever.index(corpus)
    retriever.index(corpus)
    assert counted.passages == 2  # once, and without the blank
    assert sorted(retriever.retrieve([Query("word1")], 9)[0].ids) == ["half", "one"]
    assert retriever.retrieve([Query(" ")], 9)[0].ids == []
    other = qdrant(url=":memory:", encoder=zeros) if kind == "qdrant" else pg(encoder=zeros)
    other.index(CORPUS)
    assert other.retrieve([Query("unknown")], 9)[0].ids == []


def test_rows_whose_cosine_is_undefined_are_not_found(pg: Any) -> None:
    retriever = pg(encoder=lambda texts: [[float(len(t)), 0.0] if t != "unknown" else [0.0, 0.0] for t in texts])
    retriever.index(Corpus(["d1", "d2"], ["word", "unknown"]))
    assert retriever.retrieve([Query("x")], 9)[0].ids == ["d1"]


# LangChain


def _store(ids: bool = True, **about: list[Any]) -> Any:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Ours(Embeddings):
        model = "ours-v1"

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embed(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return embed([text])[0].tolist()

    store = InMemoryVectorStore(Ours())
    docs = [
        Document(text, metadata={n: values[i] for n, values in about.items()}) for i, text in enumerate(CORPUS.texts)
    ]
    store.add_documents(docs, ids=list(CORPUS.ids) if ids else None)
    return store


@pytest.mark.parametrize("form", ["object", "kind", "retriever"])
def test_langchain_ranks_as_its_store_does(form: str) -> None:
    store = _store()
    held = store.as_retriever(search_kwargs={"k": 2}) if form == "retriever" else store
    retriever = make_retriever(held if form == "object" else {"kind": "langchain", "retriever": held})
    retriever.index(CORPUS)
    found = retriever.retrieve(QUERIES, 12)
    assert [list(f.ids) for f in found] == [nearest(q, 12)[0] for q in QUERIES]
    assert retriever.facts() == {"embedding_model": "ours-v1"}
    if form == "retriever":
        assert held.search_kwargs == {"k": 2}  # what was given is as it was
        assert found[0].scores is None
    else:
        assert found[0].scores == pytest.approx(nearest(QUERIES[0], 12)[1], abs=1e-5)


def test_langchain_by_its_name(module: Any) -> None:
    module(
        "my_chain",
        """
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever

        class Always(BaseRetriever):
            k: int = 2
            def _get_relevant_documents(self, query, *, run_manager):
                return [Document(query, id=f"d{i}", metadata={"relevance": 9 - i}) for i in range(self.k)]

        one = Always()
        def make(): return Always()
        def broken(): raise ValueError("no index there")
        class Fixed(BaseRetriever):
            def _get_relevant_documents(self, query, *, run_manager):
                return [Document(query, id=f"d{i}") for i in range(3)]
        fixed = Fixed()
        text = "no retriever"
        """,
    )
    for spec in ("my_chain:one", "langchain(retriever=my_chain:one)", "langchain(retriever=my_chain:make)"):
        assert make_retriever(spec).retrieve([Query("x")], 4)[0].ids == ["d0", "d1", "d2", "d3"]
    scored = make_retriever("langchain(retriever=my_chain:one, score_field=relevance)").retrieve([Query("x")], 3)[0]
    assert scored.scores == [9.0, 8.0, 7.0]
    fixed = make_retriever("my_chain:fixed")
    assert fixed.retrieve([Query("x")], 2)[0].ids == ["d0", "d1"]  # cut
    assert len(fixed.retrieve([Query("x")], 9)[0].ids) == 3  # it has no more
    with pytest.raises(InputError, match="has no field 'rank'; its fields: relevance"):
        make_retriever("langchain(retriever=my_chain:one, score_field=rank)").retrieve([Query("x")], 3)
    with pytest.raises(UsageError, match=r"my_chain:broken was called .* failed \(ValueError: no index there\)"):
        make_retriever("langchain(retriever=my_chain:broken)")
    with pytest.raises(UsageError, match='must be a BaseRetriever or a VectorStore, found "no retriever"'):
        make_retriever("langchain(retriever=my_chain:text)")
    with pytest.raises(UsageError, match="nothing named 'onw' there; did you mean 'one'"):
        make_retriever("langchain(retriever=my_chain:onw)")


def test_ids_of_langchain_come_from_where_they_are() -> None:
    names = list(CORPUS.ids)
    best = nearest(QUERIES[0], 3)[0]
    for about, params in (
        ({"doc_id": names}, {}),  # the documents' own ids are random
        ({"chunk_id": names, "doc_id": ["x"] * 150}, {}),
        ({"_id": names}, {}),
        ({"source": names, "id": ["x"] * 150}, {"id_field": "source"}),
    ):
        retriever = make_retriever({"kind": "langchain", "retriever": _store(ids=False, **about), **params})
        assert retriever.retrieve(QUERIES[:1], 3)[0].ids == best
    with_both = make_retriever({"kind": "langchain", "retriever": _store(doc_id=["x"] * 150)})
    assert with_both.retrieve(QUERIES[:1], 3)[0].ids == best  # an id that a person gave comes before doc_id


def test_a_result_without_an_id_is_told() -> None:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Nameless(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [Document(query, metadata={"page": 3, "title": "T"})]

    with pytest.raises(
        InputError, match=r'query "q0": a result has no id: its own is nothing.*page, title; .*id_field='
    ):
        make_retriever(Nameless()).retrieve(QUERIES[:1], 3)
    with pytest.raises(InputError, match=r"no usable id in 'titel'.*did you mean 'title'"):
        make_retriever({"kind": "langchain", "retriever": Nameless(), "id_field": "titel"}).retrieve(QUERIES[:1], 3)


def _distances(values: list[float]) -> Any:
    from langchain_core.documents import Document
    from langchain_core.vectorstores import VectorStore

    class Distances(VectorStore):
        """Gives what it is told."""

        def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Any]:
            return [Document("", id=f"d{i}") for i in range(len(values))][:k]

        def similarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> list[Any]:
            return list(zip(self.similarity_search(query, k), values, strict=False))

        @classmethod
        def from_texts(cls, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Distances()


@pytest.mark.parametrize(
    ("values", "scores", "expected"),
    [
        ([0.1, 0.4, 0.9], "auto", [-0.1, -0.4, -0.9]),  # rising: distances
        ([0.9, 0.4, 0.1], "auto", [0.9, 0.4, 0.1]),
        ([0.5, 0.5, 0.5], "auto", [0.5, 0.5, 0.5]),
        ([0.5, 0.5, 0.5], "distance", [-0.5, -0.5, -0.5]),
        ([0.1, 0.4, 0.9], "similarity", [0.1, 0.4, 0.9]),
        ([0.1, 0.4, 0.9], "none", None),
        ([0.1, 0.4, 0.9], None, None),
    ],
)
def test_distances_are_told_from_similarities(values: list[float], scores: Any, expected: Any) -> None:
    retriever = make_retriever({"kind": "langchain", "retriever": _distances(values), "scores": scores})
    (found,) = retriever.retrieve([Query("x")], 3)
    assert found.ids == ["d0", "d1", "d2"]
    assert found.scores == expected
    alone = make_retriever({"kind": "langchain", "retriever": _distances(values), "scores": scores})
    one = alone.retrieve([Query("x")], 1)[0].scores  # one score tells nothing; more of them are looked at
    assert one == (None if expected is None else expected[:1])


def test_what_fails_within_langchain_is_told() -> None:
    from langchain_core.retrievers import BaseRetriever

    class Down(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            raise ConnectionError("store is down")

    with pytest.raises(InputError, match=r'langchain Down, query "q0": failed \(ConnectionError: "store is down"\)'):
        make_retriever(Down()).retrieve(QUERIES[:1], 3)


# LlamaIndex


def _llama(documents: bool = False, **about: list[Any]) -> Any:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import Document, TextNode

    class Ours(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed([text])[0].tolist()

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    ours = Ours(model_name="ours-v2")
    made: list[Any] = []
    for i, (id, text) in enumerate(zip(CORPUS.ids, CORPUS.texts, strict=True)):
        metadata = {n: values[i] for n, values in about.items()}
        hidden = {"excluded_embed_metadata_keys": list(about)}  # or it would be part of the text
        given = {} if about else {"id_": id}
        made.append((Document if documents else TextNode)(text=text, metadata=metadata, **hidden, **given))
    if documents:
        return VectorStoreIndex.from_documents(made, embed_model=ours)
    return VectorStoreIndex(nodes=made, embed_model=ours)


@pytest.mark.parametrize("form", ["index", "retriever"])
def test_llamaindex_ranks_as_its_store_does(form: str) -> None:
    held = _llama()
    held = held.as_retriever(similarity_top_k=2) if form == "retriever" else held
    retriever = make_retriever(held)
    retriever.index(CORPUS)
    assert_nearest(retriever, 12)
    assert_nearest(retriever, 5)
    assert retriever.facts() == {"embedding_model": "ours-v2"}
    if form == "retriever":
        assert held.similarity_top_k == 2  # what was given is as it was


def test_ids_of_llamaindex_come_from_where_they_are() -> None:
    names, best = list(CORPUS.ids), nearest(QUERIES[0], 3)[0]
    for held, params in (
        (_llama(doc_id=names), {}),  # the nodes' own ids are random
        (_llama(source=names), {"id_field": "source"}),
        (_llama(documents=True), {}),  # cut by LlamaIndex: the doc that each node is from
        (_llama(documents=True), {"id_field": "ref_doc_id"}),
    ):
        retriever = make_retriever({"kind": "llamaindex", "retriever": held, **params})
        assert retriever.retrieve(QUERIES[:1], 3)[0].ids == best
    with pytest.raises(InputError, match="no usable id in 'page', found nothing; its fields: source"):
        retriever = make_retriever({"kind": "llamaindex", "retriever": _llama(source=names), "id_field": "page"})
        retriever.retrieve(QUERIES[:1], 3)


def test_llamaindex_by_its_name_and_with_a_retriever_of_ones_own(module: Any) -> None:
    module(
        "my_llama",
        """
        from llama_index.core.base.base_retriever import BaseRetriever
        from llama_index.core.schema import NodeWithScore, TextNode

        class Always(BaseRetriever):
            def _retrieve(self, query_bundle):
                nodes = [TextNode(text=query_bundle.query_str, id_=f"d{i}") for i in range(3)]
                return [NodeWithScore(node=n, score=s) for n, s in zip(nodes, (0.5, None, 0.1))]

        class Down(BaseRetriever):
            def _retrieve(self, query_bundle):
                raise ConnectionError("store is down")

        one, down = Always(), Down()
        def make(): return Always()
        """,
    )
    for spec in ("my_llama:one", "llamaindex(retriever=my_llama:one)", "llamaindex(retriever=my_llama:make)"):
        (found,) = make_retriever(spec).retrieve([Query("x")], 2)
        assert found.ids == ["d0", "d1"]
        assert found.scores is None  # one of them has none
    with pytest.raises(InputError, match='llamaindex Down, query "q0": failed'):
        make_retriever("my_llama:down").retrieve(QUERIES[:1], 3)
    with pytest.raises(UsageError, match="must be a BaseRetriever or an index, found 3"):
        make_retriever({"kind": "llamaindex", "retriever": 3})
    with pytest.raises(UsageError, match="retriever is missing"):
        make_retriever("llamaindex")


def test_connectors_can_be_parts_of_others() -> None:
    parts = [
        {"kind": "langchain", "retriever": _store(), "name": "lc"},
        {"kind": "llamaindex", "retriever": _llama(), "name": "li"},
    ]
    fused = make_retriever({"kind": "hybrid", "of": parts})
    fused.index(CORPUS)
    (found,) = fused.retrieve(QUERIES[:1], 5)
    assert found.ids == nearest(QUERIES[0], 5)[0]  # two equal lists fuse to themselves
    assert {"lc", "li", "fuse"} == set(found.latency_ms)
