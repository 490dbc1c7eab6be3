"""The answer cache in Redis, shared by many machines; falls back to SQL while Redis is unavailable.

    TOKEN:a:NAMESPACE:DIGEST    an answer, with the moment it was given
    TOKEN:n:NAMESPACE       a stream of the namespace's questions with their vectors, which every process reads on in
    TOKEN:g:GENERATION      what there is of a version of the corpus, by time: the oldest go first, older versions whole

TOKEN is a row in SQL. Clearing puts another one there, so that no process finds what was kept before, whether or not
Redis can be reached; and a backup holds none, so that a restored library never meets answers of its later self.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

import numpy as np
from sqlalchemy import select

from refdesk.errors import LibraryError
from refdesk.redis_link import RedisAway, RedisLink
from refdesk.settings import Settings
from refdesk.store import rows as codec
from refdesk.store.cache import (
    ROWS_PER_ENTRY,
    Near,
    NearQuestions,
    SqlCache,
    Vector,
    digest_of,
    generation_of,
    unpacked,
)
from refdesk.store.database import PreparedReader, SqlStatement, changes
from refdesk.store.rows import SHARED, set_state, state_text
from refdesk.store.schema import state

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
