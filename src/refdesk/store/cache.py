"""The answer cache: recent answers in the process, others in a table of the library or in Redis, for all processes."""

from __future__ import annotations

import hashlib
import secrets
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from refdesk.errors import LibraryError
from refdesk.redis_link import RedisAway, RedisLink
from refdesk.settings import Settings
from refdesk.store import rows as codec
from refdesk.store.database import BackgroundWriter, PreparedReader, SqlStatement, changes, storable
from refdesk.store.rows import SHARED, bump, set_state, state_text
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


# --- the same in Redis, shared by many machines; falls back to SQL while Redis is unavailable -------------------------
#
#   TOKEN:a:NAMESPACE:DIGEST    an answer, with the moment it was given
#   TOKEN:n:NAMESPACE       a stream of the namespace's questions with their vectors, which every process reads on in
#   TOKEN:g:GENERATION      what there is of a version of the corpus, by time: the oldest go first, older versions whole
#
# TOKEN is a row in SQL. Clearing puts another one there, so that no process finds what was kept before, whether or not
# Redis can be reached; and a backup holds none, so that a restored library never meets answers of its later self.


_MOMENT = struct.Struct("<d")
# Keeps one answer; lets go what is too old, too much, or of an older version of the corpus. In one step, so that two
# processes do not undo each other's work.
_PUT = """
local base, generation, now, seconds, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local index = base .. 'g:' .. ARGV[2]
local function drop(name, found)
    for at = 1, #found, 500 do
        redis.call('UNLINK', unpack(found, at, math.min(at + 499, #found)))
        redis.call('ZREM', name, unpack(found, at, math.min(at + 499, #found)))
    end
end
for _, older in ipairs(redis.call('ZRANGEBYSCORE', base .. 'versions', '-inf', '(' .. ARGV[2])) do
    drop(base .. 'g:' .. older, redis.call('ZRANGE', base .. 'g:' .. older, 0, -1))
    redis.call('ZREM', base .. 'versions', older)
end
redis.call('ZADD', base .. 'versions', generation, ARGV[2])
local answer, near = base .. 'a:' .. ARGV[6] .. ':' .. ARGV[7], base .. 'n:' .. ARGV[6]
redis.call('SET', answer, ARGV[8], 'EX', seconds)
redis.call('ZADD', index, now, answer)
if ARGV[9] ~= '' then
    redis.call('XADD', near, 'MAXLEN', '~', ARGV[11], '*', 'd', ARGV[7], 'v', ARGV[9], 'q', ARGV[10], 't', ARGV[3])
    redis.call('EXPIRE', near, seconds)
    redis.call('ZADD', index, now, near)
end
drop(index, redis.call('ZRANGEBYSCORE', index, '-inf', now - seconds))
local surplus = redis.call('ZCARD', index) - tonumber(most)
if surplus > 0 then drop(index, redis.call('ZRANGE', index, 0, surplus - 1)) end
redis.call('EXPIRE', index, seconds)
redis.call('EXPIRE', base .. 'versions', seconds)
"""


class RedisCache:
    """The `Cache` port."""

    def __init__(
        self,
        link: RedisLink,
        reader: PreparedReader,
        instead: SqlCache,
        settings: Callable[[], Settings] = Settings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._link, self._reader, self._instead = link, reader, instead
        self._settings, self._clock = settings, clock
        self._lock = Lock()
        self._namespaces: OrderedDict[str, _Followed] = OrderedDict()  # by their keys in Redis
        self._find_token = SqlStatement(select(state.c.value).where(state.c.name == SHARED))

    def get(self, namespace: str, question: str) -> bytes | None:
        key = self._key("a", namespace, digest_of(question))
        try:
            found = _opened(self._link.call(lambda client: client.get(key)))
        except RedisAway:
            return self._instead.get(namespace, question)
        since = self._clock() - self._settings().cache_exact_ttl_s
        return found[1] if found is not None and found[0] >= since else None

    def nearest(self, namespace: str, vector: Vector, k: int) -> list[tuple[str, float, bytes]]:
        settings = self._settings()
        since = self._clock() - settings.cache_ttl_s
        key = self._key("n", namespace)
        try:
            entries, matrix = self._followed(key, since, settings.cache_max_entries)
            if not entries:
                return []
            cosines = np.vecdot(matrix, vector)
            best = np.argsort(-cosines, kind="stable")[:k]
            wanted = [self._key("a", namespace, digest_of(entries[place].question)) for place in best]
            kept = [_opened(packed) for packed in self._link.call(lambda client: client.mget(wanted))]
        except RedisAway:
            return self._instead.nearest(namespace, vector, k)
        return [
            (entries[place].question, float(cosines[place]), answer[1])
            for place, answer in zip(best, kept, strict=True)
            if answer is not None and answer[0] >= since  # Redis may have let it go, or somebody answered it anew
        ]

    def put(self, namespace: str, question: str, vector: Vector | None, answer: bytes) -> None:
        settings, moment = self._settings(), self._clock()
        values = (
            self._base(),
            generation_of(namespace),
            moment,
            max(1, round(max(settings.cache_exact_ttl_s, settings.cache_ttl_s))),
            ROWS_PER_ENTRY * settings.cache_max_entries,
            namespace,
            digest_of(question),
            _MOMENT.pack(moment) + answer,
            b"" if vector is None else codec.pack_vector(vector),
            question.encode("utf-8", "surrogatepass"),
            settings.cache_max_entries,
        )
        try:
            self._link.call(lambda client: client.eval(_PUT, 0, *values))
        except RedisAway:
            self._instead.put(namespace, question, vector, answer)

    def clear(self) -> None:
        """Forgets every answer, in the other processes too; what is left in Redis nobody asks for, and it expires."""
        self._instead.clear()
        with changes(self._reader.engine) as connection:
            set_state(connection, SHARED, secrets.token_hex(8))

    def _followed(self, key: str, since: float, most: int) -> tuple[list[Near], Vector]:
        with self._lock:
            known = self._namespaces.setdefault(key, _Followed())
            self._namespaces.move_to_end(key)
            after = known.last
        found = self._link.call(lambda client: client.xrange(key, f"({after}" if after else "-", "+"))
        with self._lock:
            for number, fields in found:
                known.last = number.decode()
                question = fields[b"q"].decode("utf-8", "surrogatepass")
                entry = Near(question, unpacked(fields[b"v"]), b"", float(fields[b"t"]))
                known.near_questions.keep(fields[b"d"].decode(), entry)
            known.near_questions.expire(since, most)
            while len(self._namespaces) > 1 and self._held() > most:
                self._namespaces.popitem(last=False)
            return known.near_questions.stack()

    def _held(self) -> int:
        return sum(len(namespace.near_questions.entries) or 1 for namespace in self._namespaces.values())

    def _key(self, *parts: str) -> str:
        return self._base() + ":".join(parts)

    def _base(self) -> str:
        rows = self._reader.rows(self._find_token)
        if not rows:  # the first time, or the first after a restore; of two processes at once, one writes it
            with suppress(LibraryError), changes(self._reader.engine) as connection:
                if not state_text(connection, SHARED):
                    set_state(connection, SHARED, secrets.token_hex(8))
            rows = self._reader.rows(self._find_token)
        return f"{self._link.prefix}{rows[0][0]}:"


class _Followed:
    """The questions of a namespace that this process has read, and up to where."""

    def __init__(self) -> None:
        self.last = ""
        self.near_questions = NearQuestions()


def _opened(packed: bytes | None) -> tuple[float, bytes] | None:
    """When an answer was given, and the answer."""
    return None if packed is None else (_MOMENT.unpack_from(packed)[0], packed[_MOMENT.size :])
