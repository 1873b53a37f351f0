"""Postgres with pgvector."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, KaratError, UsageError, missing_package, shown
from karat.read.objects import text_id
from karat.retrieve.embedding import Embedding, in_order
from karat.retrieve.protocol import Answer, Base, Stopwatch
from karat.retrieve.registry import retriever
from karat.retrieve.secrets import conceal, spellings, variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.embedding import Vectors
    from karat.retrieve.protocol import Query, RetrieverFacts

METRICS = {"cosine": ("<=>", "vector_cosine_ops"), "l2": ("<->", "vector_l2_ops"), "ip": ("<#>", "vector_ip_ops")}
INDEXES = ("none", "hnsw", "ivfflat")
MOST_INDEXED = 2000
"""Numbers of a vector beyond which pgvector builds no index."""
MOST_SEARCHED = 1000
"""The largest hnsw.ef_search; lists that are longer are found without the index."""


@retriever("pgvector", tells="Postgres with pgvector: fills a table, or searches an existing one.")
class PgVector(Base):
    """Vector search by Postgres with pgvector, at `dsn` or at what the variable `dsn_env` holds.

    With create=true (the default) the corpus is put into a table named by its content and model after `table`,
    and found there the next time. With create=false `table` is asked as it is. index=none compares all vectors;
    hnsw and ivfflat are approximate. HNSW looks at `ef_search` rows, but at least k; ivfflat at `probes` lists.
    Scores are 1 − cosine distance, −distance (l2) or the inner product (ip).
    """

    def __init__(
        self,
        *,
        dsn: str | None = None,
        dsn_env: str | None = None,
        table: str | None = None,
        id_column: str = "id",
        vector_column: str = "embedding",
        text_column: str | None = None,
        model: str = "wordllama",
        encoder: Any = None,
        metric: str = "cosine",
        index: str | None = "none",
        ef_search: int | None = None,
        probes: int | None = None,
        create: bool = True,
        timeout: int = 30,
    ) -> None:
        if metric not in METRICS:
            raise UsageError(f"pgvector: metric must be one of {', '.join(METRICS)}, found {metric!r}")
        if index not in (*INDEXES, None):
            raise UsageError(f"pgvector: index must be one of {', '.join(INDEXES)}, found {index!r}")
        if not create and not table:
            raise UsageError("pgvector: create=false searches an existing table; name it with table=")
        if not 1 <= (ef_search or 1) <= MOST_SEARCHED or not (probes or 1) >= 1:
            raise UsageError(
                f"pgvector: ef_search must be from 1 to {MOST_SEARCHED} and probes from 1, "
                f"found {shown(ef_search)} and {shown(probes)}"
            )
        self._pg = _library()
        self._dsn = self._read_dsn(dsn, dsn_env)
        self.where = "pgvector" + self._address()
        self._embedding = Embedding(model, encoder, self.where)
        self.table, self.create, self.metric, self.ann = table, create, metric, index or "none"
        self.id_column, self.vector_column, self.text_column = id_column, vector_column, text_column
        self.ef_search, self.probes, self._timeout = ef_search, probes, int(timeout)
        self._name = table if not create else None
        self._size: int | None = None
        self._storage: int | None = None
        self._idle: list[Any] = []
        self._depth: dict[Any, int] = {}
        self._lock = threading.Lock()

    def index(self, corpus: Corpus) -> None:
        """Fill the table of this corpus and model, unless it exists; an existing one is complete."""
        if self.create:
            columns = (self.id_column, self.vector_column, self.text_column)
            key = self._embedding.key(corpus, self.metric, self.ann, columns)
            self._name = f"{self.table or 'karat'}_{key}"
            with self._connection() as connection, connection.transaction():
                # one at a time: others wait, and then it exists
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._name,))
                if not self._has_table(connection):
                    self._fill(connection, corpus)
        self._inspect_table()

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """The nearest rows of each query; the model's time is the stage `encode`."""
        if self._name is None:
            raise UsageError(f"{self.where}: index a corpus first, or search an existing table with create=false")
        if self._storage is None:
            self._inspect_table()
        return [self._search(q, k) for q in queries]

    def facts(self) -> RetrieverFacts:
        storage: RetrieverFacts = {} if self._storage is None else {"index_storage": self._storage}
        return {"embedding_model": self._embedding.name, "index_version": f"pgvector {self._name}", **storage}

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._drop(connection)
        self._embedding.close()

    def _fill(self, connection: Any, corpus: Corpus) -> None:
        sql, size = self._pg.sql, 0
        names = [self.id_column, self.vector_column, *([self.text_column] if self.text_column else [])]
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        for rows, vectors in self._embedding.batches(corpus):
            if not size:
                size = vectors.shape[1]
                if self.ann != "none" and size > MOST_INDEXED:
                    raise UsageError(
                        f"{self.where}: {self._embedding.name} makes vectors of {size} numbers, and pgvector indexes "
                        f"up to {MOST_INDEXED}; use index=none"
                    )
                types = ["text PRIMARY KEY", f"vector({size}) NOT NULL", "text"]
                declarations = sql.SQL(", ").join(
                    sql.SQL("{} " + kind).format(sql.Identifier(name)) for name, kind in zip(names, types, strict=False)
                )
                connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table(), declarations))
            self._copy(connection, columns, corpus, rows, vectors)
        if self.ann != "none":
            # as many lists as pgvector's own advice for tables of up to a million rows
            lists = sql.SQL(f" WITH (lists = {max(len(corpus) // 1000, 1)})") if self.ann == "ivfflat" else sql.SQL("")
            connection.execute(
                sql.SQL("CREATE INDEX ON {} USING {} ({} {})").format(
                    self._table(),
                    sql.SQL(self.ann),
                    sql.Identifier(self.vector_column),
                    sql.SQL(METRICS[self.metric][1]),
                )
                + lists
            )

    def _copy(self, connection: Any, columns: Any, corpus: Corpus, rows: Sequence[int], vectors: Vectors) -> None:
        copy = self._pg.sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT BINARY)").format(self._table(), columns)
        with connection.cursor().copy(copy) as into:
            into.set_types(["text", "vector", "text"][: 3 if self.text_column else 2])
            for i, row in zip(rows, vectors, strict=True):
                text = (corpus.texts[i].replace("\x00", " "),) if self.text_column else ()
                into.write_row((corpus.ids[i], row, *text))

    def _has_table(self, connection: Any) -> bool:
        return connection.execute("SELECT to_regclass(%s)", (self._table().as_string(),)).fetchone()[0] is not None

    def _table(self) -> Any:
        """The table's quoted name; `schema.table` names one of a schema."""
        return self._pg.sql.Identifier(*str(self._name).split("."))

    def _inspect_table(self) -> None:
        """Check that table and columns exist, and learn the length of the vectors."""
        with self._connection() as connection:
            if not self._has_table(connection):
                raise InputError(
                    f"{self.where}: has no table {self._name!r}; fix the name, or leave out create=false to fill one "
                    "from the corpus"
                )
            name = self._table().as_string()
            types = dict(
                connection.execute(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                    "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
                    (name,),
                ).fetchall()
            )
            for column in (self.id_column, self.vector_column):
                if column not in types:
                    raise InputError(
                        f"{self.where}: table {self._name!r} has no column {column!r}; its columns: "
                        f"{', '.join(types)}; name them with id_column= and vector_column="
                    )
            kind = types[self.vector_column]
            if kind.split("(")[0].split(".")[-1] != "vector":
                raise InputError(
                    f"{self.where}: column {self.vector_column!r} of table {self._name!r} must be of type vector, "
                    f"found {kind}; name another with vector_column="
                )
            self._size = int(kind.split("(")[1].rstrip(")")) if "(" in kind else None
            self._storage = connection.execute("SELECT pg_total_relation_size(%s::regclass)", (name,)).fetchone()[0]

    def _search(self, query: Query, k: int) -> Answer:
        with self._connection() as connection:
            self._set_depth(connection, k)
            stopwatch = Stopwatch()
            vector = self._embedding.of_query(str(query))
            if vector is None:
                return Answer([])
            if self._size is not None and len(vector) != self._size:
                raise InputError(
                    f"{self.where}: column {self.vector_column!r} of table {self._name!r} has vectors of {self._size} "
                    f"numbers, and {self._embedding.name} makes {len(vector)}; use the model that filled it"
                )
            stopwatch.lap("encode")
            rows = connection.execute(self._statement(), {"query": vector, "k": k}).fetchall()
            stopwatch.lap("search")
        base = 1.0 if self.metric == "cosine" else 0.0
        near = [(self._id(id), base - far) for id, far in rows if not math.isnan(far)]  # of zeros the cosine is none
        ids, scores = in_order([id for id, _ in near], [score for _, score in near])
        return Answer(ids, scores, latency_ms=stopwatch.ms)

    def _statement(self) -> Any:
        sql = self._pg.sql
        far = sql.SQL("{} {} %(query)s").format(sql.Identifier(self.vector_column), sql.SQL(METRICS[self.metric][0]))
        return sql.SQL("SELECT {}, {} FROM {} ORDER BY {} LIMIT %(k)s").format(
            sql.Identifier(self.id_column), far, self._table(), far
        )

    def _set_depth(self, connection: Any, k: int) -> None:
        """Let indexes look at k rows or more: otherwise they return fewer without a word."""
        if self._depth.get(connection) == k:
            return
        current = connection.execute("SELECT current_setting('hnsw.ef_search', true)").fetchone()[0]
        rows = min(max(self.ef_search or int(current or 40), k), MOST_SEARCHED)
        connection.execute(
            "SELECT set_config('hnsw.ef_search', %s, false), set_config('enable_indexscan', %s, false)",
            (str(rows), "on" if k <= MOST_SEARCHED else "off"),
        )
        if self.probes:
            connection.execute("SELECT set_config('ivfflat.probes', %s, false)", (str(self.probes),))
        self._depth[connection] = k

    def _id(self, value: Any) -> str:
        id = text_id(value if isinstance(value, (str, int)) else str(value))
        if id is None:
            raise InputError(
                f"{self.where}: column {self.id_column!r} of table {self._name!r} holds no id: {shown(value)}"
            )
        return id

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection for one thread, from the idle ones; its errors become ours."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._connect()
            yield connection
        except KaratError:
            self._give_back(connection)
            raise
        except (self._pg.Error, UnicodeError) as error:
            self._drop(connection)
            raise self._explain(error) from None
        except BaseException:
            self._drop(connection)
            raise
        self._give_back(connection)

    def _give_back(self, connection: Any) -> None:
        if connection is not None:
            with self._lock:
                self._idle.append(connection)

    def _drop(self, connection: Any) -> None:
        if connection is not None:
            self._depth.pop(connection, None)
            connection.close()

    def _connect(self) -> Any:
        from pgvector.psycopg import register_vector

        connection = self._pg.connect(self._dsn, autocommit=True, connect_timeout=self._timeout)
        try:
            if self.create and self._pg.types.TypeInfo.fetch(connection, "vector") is None:
                with connection.transaction():  # Postgres fails where two make it at once
                    connection.execute("SELECT pg_advisory_xact_lock(hashtext('karat'))")
                    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            if self._pg.types.TypeInfo.fetch(connection, "vector") is None:
                raise InputError(f"{self.where}: has no pgvector; run CREATE EXTENSION vector in this database")
            register_vector(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _explain(self, error: Exception) -> InputError:
        text = " ".join(str(error).split())
        secret = self._pg.conninfo.conninfo_to_dict(self._dsn).get("password")
        text = conceal(text, spellings([secret])) if secret else text
        errors = self._pg.errors
        if isinstance(error, self._pg.OperationalError) and getattr(error, "sqlstate", None) is None:
            why = f"cannot be reached ({shown(text, 160)}); is the server running, and is the address right?"
        elif isinstance(error, (errors.UndefinedFile, errors.FeatureNotSupported)) and "extension" in text:
            why = f"has no pgvector ({shown(text, 160)}); install it on the server"
        elif isinstance(error, errors.InsufficientPrivilege):
            why = f"is not allowed ({shown(text, 160)}); get permission, or search an existing table with create=false"
        else:
            why = f"failed ({type(error).__name__}: {shown(text, 200)})"
        return InputError(f"{self.where}: {why}")

    def _read_dsn(self, dsn: str | None, dsn_env: str | None) -> str:
        if (dsn is None) == (dsn_env is None):
            raise UsageError(
                "pgvector: expected one of dsn=postgresql://host/database and dsn_env=, the name of a variable that "
                "holds it"
            )
        text = variable_of(dsn_env, "pgvector") if dsn_env else str(dsn)
        try:
            about = self._pg.conninfo.conninfo_to_dict(text)
        except self._pg.Error:
            raise UsageError(
                f"pgvector: {'dsn' if dsn else dsn_env} is not a connection string; "
                "expected one like postgresql://user@host:5432/database"
            ) from None
        if dsn and about.get("password"):
            raise UsageError(
                "pgvector: dsn holds a password; put the whole string into an environment variable and its name "
                "into dsn_env=, or the password into PGPASSWORD or ~/.pgpass, so that it appears in no file, run or log"
            )
        return text

    def _address(self) -> str:
        about = self._pg.conninfo.conninfo_to_dict(self._dsn)
        host, name = about.get("host"), about.get("dbname")
        return f" {host or 'localhost'}/{name or ''}"


def _library() -> Any:
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg
        import psycopg.sql
        import psycopg.types
    except ImportError:
        raise missing_package("pgvector", "psycopg", "pgvector") from None
    return psycopg
