"""Answers of language models, kept under the keys of `judge/assessor.py`: nothing is paid for twice."""

from __future__ import annotations

import os
import sqlite3

from karat.records import dataclass
from karat.store.cache import cache_folder, say_damaged

PATIENCE = 30.0
"""Seconds that a write waits for that of another process."""
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, grade INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS forms (endpoint TEXT PRIMARY KEY, form TEXT NOT NULL);
"""


@dataclass(frozen=True)
class StoredAnswer:
    """A grade and its reason."""

    grade: int
    reason: str


class AnswerStore:
    """A file of the cache. Where none can be written, answers are kept as long as the process lives."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path or self.place()
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._database = _open(self.path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # no room, no permission, or held for too long
                self._database = _open(":memory:")
                return
            say_damaged(self.path)
            os.replace(self.path, f"{self.path}.damaged")
            self._database = _open(self.path)
        except OSError:
            self._database = _open(":memory:")

    @staticmethod
    def place() -> str:
        """Where answers are kept."""
        return os.path.join(cache_folder(), "answers.sqlite")

    @staticmethod
    def exists() -> bool:
        """Whether any answer was ever kept there."""
        return os.path.exists(AnswerStore.place())

    def get(self, key: str) -> StoredAnswer | None:
        """The answer to what was asked, if it was asked before."""
        row = self._database.execute("SELECT grade, reason FROM answers WHERE key = ?", (key,)).fetchone()
        return StoredAnswer(*row) if row else None

    def put(self, key: str, answer: StoredAnswer) -> None:
        """Keep an answer; it is on disk when this returns."""
        row = (key, answer.grade, answer.reason)
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)

    def form_of(self, endpoint: str) -> str | None:
        """How an endpoint last agreed to answer."""
        row = self._database.execute("SELECT form FROM forms WHERE endpoint = ?", (endpoint,)).fetchone()
        return str(row[0]) if row else None

    def keep_form(self, endpoint: str, form: str) -> None:
        """Remember how an endpoint agrees to answer."""
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO forms VALUES (?, ?)", (endpoint, form))

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM answers").fetchone()[0])

    def clear(self) -> int:
        """Forget all answers; how many there were."""
        count = len(self)
        with self._database:
            self._database.execute("DELETE FROM answers")
            self._database.execute("DELETE FROM forms")
        return count

    def close(self) -> None:
        self._database.close()


def _open(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=PATIENCE)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_TABLES)
    except sqlite3.Error:
        database.close()
        raise
    return database
