"""The answer cache: recent answers in the process, the others in a table shared by all processes of a library."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from refdesk.settings import Settings
from refdesk.store import rows as codec
from refdesk.store.database import BackgroundWriter, PreparedReader, SqlStatement, changes, storable
from refdesk.store.rows import bump
from refdesk.store.schema import answer_cache, state

ROWS_PER_ENTRY = 10  # the table holds this many times cache.max_entries: it serves the very same question for a day
PURGE_EVERY_S = 60.0

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    answer: bytes
    created_at: float


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    question: str
    vector: Vector
    answer: bytes
    created_at: float


@dataclass(slots=True)
class NearQuestions:
    """The questions of one namespace that can be compared, by their digest, the oldest first."""

    seen: int = 0  # the last row of the table that was read
    entries: dict[str, Near] = field(default_factory=dict)
    stacked: tuple[list[Near], NDArray[np.float32]] | None = None  # None: to be stacked anew

    def keep(self, digest: str, entry: Near) -> None:
        self.entries.pop(digest, None)
        self.entries[digest] = entry
        self.stacked = None

    def expire(self, since: float, most: int) -> None:
        surplus = max(0, len(self.entries) - most)
        old = [
            digest
            for place, (digest, entry) in enumerate(self.entries.items())
            if place < surplus or entry.created_at < since
        ]
        for digest in old:
            del self.entries[digest]
        if old:
            self.stacked = None

    def stack(self) -> tuple[list[Near], NDArray[np.float32]]:
        found = self.stacked
        if found is None:
            entries = list(self.entries.values())
            rows = [entry.vector for entry in entries]
            found = self.stacked = entries, np.array(rows, dtype=np.float32)
        return found


class SqlCache:
    """The `Cache` port. A namespace begins with the corpus version and a dash (`17-…`): older versions are purged.

    `put` returns at once and is seen by this process at once, by others when the background writer has written it.
    """

    def __init__(
        self, reader: PreparedReader, background: BackgroundWriter, settings: Callable[[], Settings] = Settings
    ) -> None:
        self._reader = reader
        self._background = background
        self._settings = settings
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[str, str], _CachedAnswer] = OrderedDict()
        self._namespaces: OrderedDict[str, NearQuestions] = OrderedDict()
        self._epoch = ""
        self._purged = (0.0, -1)  # when, and at which generation
        table = answer_cache.c
        self._find_epoch = SqlStatement(select(state.c.value).where(state.c.name == "cache"))
        self._find = SqlStatement(
            select(table.answer, table.created_at).where(
                table.namespace == bindparam("namespace"), table.digest == bindparam("digest")
            )
        )
        self._find_near = SqlStatement(
            select(table.key, table.digest, table.question, table.vector, table.answer, table.created_at)
            .where(
                table.namespace == bindparam("namespace"),
                table.key > bindparam("seen"),
                table.created_at >= bindparam("since"),
                table.vector.is_not(None),
            )
            .order_by(table.key)
        )

    def get(self, namespace: str, question: str) -> bytes | None:
        digest = digest_of(question)
        since = time.time() - self._settings().cache_exact_ttl_s
        self._follow_clearing()
        with self._lock:
            kept = self._recent.get((namespace, digest))
            if kept is not None:
                self._recent.move_to_end((namespace, digest))
        if kept is None or kept.created_at < since:  # another process may have answered it anew
            for answer, created_at in self._reader.rows(self._find, namespace=namespace, digest=digest):
                kept = _CachedAnswer(bytes(answer), created_at)
                with self._lock:
                    self._remember(namespace, digest, kept)
        return kept.answer if kept is not None and kept.created_at >= since else None

    def nearest(self, namespace: str, vector: Vector, k: int) -> list[tuple[str, float, bytes]]:
        settings = self._settings()
        since = time.time() - settings.cache_ttl_s
        self._follow_clearing()
        with self._lock:
            seen = self._near_questions(namespace).seen
        rows = self._reader.rows(self._find_near, namespace=namespace, seen=seen, since=since)
        with self._lock:
            near_questions = self._near_questions(namespace)
            for key, digest, question, packed, answer, created_at in rows:
                near_questions.seen = max(near_questions.seen, key)
                near_questions.keep(digest, Near(question, unpacked(bytes(packed)), bytes(answer), created_at))
            near_questions.expire(since, settings.cache_max_entries)
            self._trim(settings.cache_max_entries)
            entries, matrix = near_questions.stack()
        if not entries:
            return []
        cosines = np.vecdot(matrix, vector)
        best = np.argsort(-cosines, kind="stable")[:k]
        return [(entries[place].question, float(cosines[place]), entries[place].answer) for place in best]

    def put(self, namespace: str, question: str, vector: Vector | None, answer: bytes) -> None:
        digest, moment = digest_of(question), time.time()
        packed = None if vector is None else codec.pack_vector(vector)
        with self._lock:
            self._remember(namespace, digest, _CachedAnswer(answer, moment))
            if packed is not None:
                self._near_questions(namespace).keep(digest, Near(question, unpacked(packed), answer, moment))
                self._trim(self._settings().cache_max_entries)
        row = {
            "namespace": namespace,
            "digest": digest,
            "generation": generation_of(namespace),
            "question": storable(question),
            "vector": packed,
            "answer": answer,
            "created_at": moment,
        }
        self._background.submit(lambda connection: self._write(connection, row))

    def clear(self) -> None:
        """Forgets every answer, in the other processes of this library too."""
        self._background.flush()
        with changes(self._reader.engine) as connection:
            connection.execute(delete(answer_cache))
            bump(connection, "cache")
        self._follow_clearing()

    # in the process

    def _follow_clearing(self) -> None:
        rows = self._reader.rows(self._find_epoch)
        epoch = str(rows[0][0]) if rows else ""
        if epoch != self._epoch:
            with self._lock:
                self._epoch = epoch
                self._recent.clear()
                self._namespaces.clear()

    def _remember(self, namespace: str, digest: str, kept: _CachedAnswer) -> None:
        self._recent[(namespace, digest)] = kept
        self._recent.move_to_end((namespace, digest))
        while len(self._recent) > self._settings().cache_recent_entries:
            self._recent.popitem(last=False)

    def _near_questions(self, namespace: str) -> NearQuestions:
        near_questions = self._namespaces.setdefault(namespace, NearQuestions())
        self._namespaces.move_to_end(namespace)
        return near_questions

    def _trim(self, most: int) -> None:
        total = sum(len(near_questions.entries) for near_questions in self._namespaces.values())
        while len(self._namespaces) > 1 and (total > most or len(self._namespaces) > most):
            total -= len(self._namespaces.popitem(last=False)[1].entries)

    # in the table, on the background writer's thread

    def _write(self, connection: Connection, row: dict[str, Any]) -> None:
        table = answer_cache.c
        connection.execute(
            delete(answer_cache).where(table.namespace == row["namespace"], table.digest == row["digest"])
        )
        connection.execute(insert(answer_cache).values(row))
        when, generation = self._purged
        if row["generation"] > generation or row["created_at"] - when > PURGE_EVERY_S:
            self._purge(connection, row["generation"], row["created_at"])
            self._purged = (row["created_at"], max(row["generation"], generation))

    def _purge(self, connection: Connection, generation: int, moment: float) -> None:
        settings = self._settings()
        table = answer_cache.c
        connection.execute(delete(answer_cache).where(table.generation < generation))
        oldest = moment - max(settings.cache_exact_ttl_s, settings.cache_ttl_s)
        connection.execute(delete(answer_cache).where(table.created_at < oldest))
        most = ROWS_PER_ENTRY * settings.cache_max_entries
        if connection.execute(select(func.count()).select_from(answer_cache)).scalar_one() > most:
            last = select(table.key).order_by(table.key.desc()).offset(most).limit(1).scalar_subquery()
            connection.execute(delete(answer_cache).where(table.key <= last))


def digest_of(question: str) -> str:
    return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def generation_of(namespace: str) -> int:
    number = namespace.partition("-")[0]
    return int(number) if number.isdigit() else 0


def unpacked(packed: bytes) -> Vector:
    return np.frombuffer(packed, dtype="<f2").astype(np.float32)
