"""State shared by the processes of a server: usage per key, and the answers being streamed.

Two ports, each for one machine (SQLite, in a folder that its processes share, or in memory) and for many (Redis).
None of it is kept for long, and a service that loses all of it goes on.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from filelock import FileLock

from refdesk.redis_link import RedisAway, RedisLink
from refdesk.serve import is_alive

HOUR_S = 3600.0
logger = logging.getLogger("refdesk.http")

# How much has a key done?


class Counts(Protocol):
    """Requests of an hour and questions at a time, by the id of a key."""

    def count(self, key: str, most: int) -> float:
        """One more request, and 0; or, when there were `most` already, for how many seconds to wait."""

    def begin(self, key: str, most: int) -> tuple[str, int]:
        """A place among the questions of a key, to be handed to `end`; or "" and how many are being answered.

        `most` 0 is no limit. What a process that died had begun is ended.
        """

    def end(self, place: str) -> None: ...


def hour_of(now: float, began: float, count: int, earlier: int) -> tuple[float, int, int]:
    """When this hour began, its requests, and those of the hour before."""
    if now - began < HOUR_S:
        return began, count, earlier
    return (began + HOUR_S, 0, count) if now - began < 2 * HOUR_S else (now, 0, 0)


def wait_for(now: float, began: float, count: int, earlier: int, most: int) -> float:
    """Seconds until one more request is within the limit; 0: it is now.

    The requests of this hour and a share of the hour before estimate those of the last sixty minutes.
    """
    recent = count + earlier * (1 - (now - began) / HOUR_S)
    if recent < most:
        return 0.0
    # Until enough of the hour before has faded, or else until this hour is over.
    fading = (recent - most + 1) / earlier * HOUR_S if earlier else math.inf
    return min(fading, HOUR_S - (now - began))


LIMITS = "limits.sqlite"  # not .db: Prometheus takes those of the same folder for its own
# `began`: when the hour of `count` began; `earlier`: requests of the hour before. One row of `asking` is one question.
COUNT_TABLES = """
CREATE TABLE IF NOT EXISTS requests (key TEXT PRIMARY KEY, began REAL, count INTEGER, earlier INTEGER);
CREATE TABLE IF NOT EXISTS asking (id INTEGER PRIMARY KEY, key TEXT, process INTEGER);
"""


class SqlCounts:
    """The `Counts` port in a database in the folder that all workers share; in memory where there is one worker."""

    def __init__(self, shared: Path | None = None, clock: Any = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        place = ":memory:" if shared is None else str(shared / LIMITS)
        self._database = sqlite3.connect(place, timeout=10, isolation_level=None, check_same_thread=False)
        # The counts outlive a killed worker; they need not outlive a crash of the machine.
        self._database.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = PERSIST;" + COUNT_TABLES)

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """No other worker counts meanwhile."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            finally:
                self._database.execute("COMMIT")

    def count(self, key: str, most: int) -> float:
        now = self._clock()
        with self._alone() as database:
            row = database.execute("SELECT began, count, earlier FROM requests WHERE key = ?", (key,)).fetchone()
            began, count, earlier = hour_of(now, *(row or (now, 0, 0)))
            if wait := wait_for(now, began, count, earlier, most):
                return wait
            database.execute("REPLACE INTO requests VALUES (?, ?, ?, ?)", (key, began, count + 1, earlier))
        return 0.0

    def begin(self, key: str, most: int) -> tuple[str, int]:
        with self._alone() as database:
            if most and _running(database, key) >= most:
                for (process,) in database.execute("SELECT DISTINCT process FROM asking").fetchall():
                    if not is_alive(process):  # a worker that was killed ends no question
                        database.execute("DELETE FROM asking WHERE process = ?", (process,))
            running = _running(database, key)
            if most and running >= most:
                return "", running
            row = database.execute("INSERT INTO asking (key, process) VALUES (?, ?)", (key, os.getpid()))
            return str(row.lastrowid), running

    def end(self, place: str) -> None:
        with self._alone() as database:
            database.execute("DELETE FROM asking WHERE id = ?", (int(place),))


def _running(database: sqlite3.Connection, key: str) -> int:
    return int(database.execute("SELECT count(*) FROM asking WHERE key = ?", (key,)).fetchone()[0])


# Which answers are being streamed?


@dataclass(frozen=True, slots=True)
class Told:
    """A stream as the other processes see it."""

    id: str
    owner: str
    conversation: str
    question: str
    is_done: bool = False
    is_stopped: bool = False  # somebody has asked that it ends
    last_read: float = 0.0  # seconds since 1970, by who follows it in another process


class EventLog(Protocol):
    """The streams of all processes. What is told here is seen by the others a moment later; nobody waits for it."""

    patience_s: float  # for how long a stream that was there may not be found, before it counts as gone

    def begin(self, stream: Told, parts: Sequence[bytes]) -> None:
        """`parts` will hold its events, in this process, for as long as it runs."""

    def grew(self, stream_id: str) -> None:
        """There is one more event in its parts."""

    def finish(self, stream_id: str) -> None: ...

    def stop(self, stream_id: str) -> None:
        """Asks the process that writes it to end it."""

    def read(self, stream_id: str) -> None:
        """Somebody is reading it here."""

    def forget(self, stream_id: str) -> None: ...

    def find(self, stream_id: str) -> Told | None:
        """None also for a stream of a process that was killed: nobody goes on with it."""

    def running(self, conversation: str, owner: str) -> Told | None:
        """The one that answers in this conversation at this moment."""

    def after(self, stream_id: str, number: int) -> list[bytes]:
        """Its events after the first `number` of them."""


STREAM_TABLES = """
PRAGMA synchronous = OFF;
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS streams (
    id TEXT PRIMARY KEY, owner TEXT, conversation TEXT, question TEXT, process INTEGER,
    is_done INTEGER DEFAULT 0, is_stopped INTEGER DEFAULT 0, last_read REAL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS events (stream TEXT, number INTEGER, data BLOB, PRIMARY KEY (stream, number));
"""


class SqlEvents:
    """The `EventLog` port in a database in the folder of the processes of one server.

    A thread writes, in the order of the calls, so that no token waits on the event loop for the lock of the database;
    readers do not wait for a writer (WAL).
    """

    patience_s = 0.0

    def __init__(self, folder: Path) -> None:
        self._place = folder / "streams.sqlite"
        self._waiting: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
        self._own: dict[str, Sequence[bytes]] = {}
        self._database = self._open()
        threading.Thread(target=self._write, name="shared-events", daemon=True).start()

    def _open(self) -> sqlite3.Connection:
        with FileLock(f"{self._place}.lock"):  # two workers that start at once: WAL is switched on by one of them
            database = sqlite3.connect(self._place, timeout=10, isolation_level=None, check_same_thread=False)
            database.executescript(STREAM_TABLES)
        database.row_factory = sqlite3.Row
        return database

    def _write(self) -> None:
        database = self._open()
        while True:
            changes = [self._waiting.get()]
            while not self._waiting.empty():
                changes.append(self._waiting.get())
            try:
                database.execute("BEGIN IMMEDIATE")
                for statement, values in changes:
                    database.execute(statement, values)
                database.execute("COMMIT")
            except sqlite3.Error:  # a full disk: whoever follows in another process misses these events
                logger.exception("events could not be shared with the other workers")
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def _change(self, statement: str, *values: Any) -> None:
        self._waiting.put((statement, values))

    def begin(self, stream: Told, parts: Sequence[bytes]) -> None:
        self._own[stream.id] = parts
        new = (stream.id, stream.owner, stream.conversation, stream.question, os.getpid())
        self._change("INSERT INTO streams (id, owner, conversation, question, process) VALUES (?, ?, ?, ?, ?)", *new)

    def grew(self, stream_id: str) -> None:
        parts = self._own[stream_id]
        self._change("INSERT INTO events VALUES (?, ?, ?)", stream_id, len(parts), parts[-1])

    def finish(self, stream_id: str) -> None:
        self._own.pop(stream_id, None)
        self._change("UPDATE streams SET is_done = 1 WHERE id = ?", stream_id)

    def stop(self, stream_id: str) -> None:
        self._change("UPDATE streams SET is_stopped = 1 WHERE id = ?", stream_id)

    def read(self, stream_id: str) -> None:
        self._change("UPDATE streams SET last_read = ? WHERE id = ?", time.time(), stream_id)

    def forget(self, stream_id: str) -> None:
        self._change("DELETE FROM streams WHERE id = ?", stream_id)
        self._change("DELETE FROM events WHERE stream = ?", stream_id)

    def find(self, stream_id: str) -> Told | None:
        return self._told("id = ?", stream_id)

    def running(self, conversation: str, owner: str) -> Told | None:
        return self._told("conversation = ? AND owner = ? AND NOT is_done", conversation, owner)

    def _told(self, condition: str, *values: str) -> Told | None:
        query = f"SELECT * FROM streams WHERE {condition} ORDER BY id DESC LIMIT 1"
        for row in self._database.execute(query, values).fetchall():
            if row["is_done"] or is_alive(row["process"]):
                about = (row["id"], row["owner"], row["conversation"], row["question"])
                return Told(*about, bool(row["is_done"]), bool(row["is_stopped"]), row["last_read"])
        return None

    def after(self, stream_id: str, number: int) -> list[bytes]:
        query = "SELECT data FROM events WHERE stream = ? AND number > ? ORDER BY number"
        return [row["data"] for row in self._database.execute(query, (stream_id, number)).fetchall()]


# --- the same in Redis, for processes on many machines ----------------------------------------------------------------
#
#     requests:KEY     a key's requests of this hour and the one before
#     asking:KEY       its questions that are being answered, each with the process that answers it
#     stream:ID, events:ID, talk:OWNER:CONVERSATION    a stream, its events, and which one answers in a conversation
#     alive:PROCESS    for as long as a process is heard of; what one that is gone had begun is nobody's
#
# While Redis is away, counts are those of this machine, and a stream can be followed where it is written.


BEAT_S = 2.0
DEAD_S = 6  # seconds; a process that was not heard of for so long is gone
KEPT_S = 3600  # seconds a stream is kept when nobody says that it has ended
GATHER_S = 0.02  # events that come within this time go together
TEXTS = ("id", "owner", "conversation", "question")

# As `hour_of` and `wait_for` compute it: one more request, or the seconds to wait. Numbers come back as texts, Redis
# would cut off what is behind the point.
_COUNT = """
local found = redis.call('HMGET', KEYS[1], 'began', 'count', 'earlier')
local now, most, hour = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local began, count, earlier = tonumber(found[1] or now), tonumber(found[2] or 0), tonumber(found[3] or 0)
if now - began >= 2 * hour then began, count, earlier = now, 0, 0
elseif now - began >= hour then began, count, earlier = began + hour, 0, count end
local recent = count + earlier * (1 - (now - began) / hour)
if recent >= most then
    local wait = hour - (now - began)
    if earlier > 0 then wait = math.min(wait, (recent - most + 1) / earlier * hour) end
    return tostring(wait)
end
redis.call('HSET', KEYS[1], 'began', string.format('%.6f', began), 'count', count + 1, 'earlier', earlier)
redis.call('EXPIRE', KEYS[1], 2 * hour)
return '0'
"""
_BEGIN = """
local most, base = tonumber(ARGV[1]), ARGV[3]
if most > 0 and redis.call('SCARD', KEYS[1]) >= most then
    for _, place in ipairs(redis.call('SMEMBERS', KEYS[1])) do
        local process = string.match(place, '^[^ ]+')
        if redis.call('EXISTS', base .. 'alive:' .. process) == 0 then redis.call('SREM', KEYS[1], place) end
    end
end
local running = redis.call('SCARD', KEYS[1])
if most > 0 and running >= most then return {0, running} end
redis.call('SADD', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], 86400)
return {1, running}
"""


class Presence:
    """Says in Redis that this process is alive, and does there what could not be done while Redis was away."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link
        self.process = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        self.later: list[Callable[[Any], object]] = []
        self._ended = threading.Event()
        self._beat()
        threading.Thread(target=self._run, name="refdesk-presence", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.wait(BEAT_S):
            self._beat()

    def _beat(self) -> None:
        with suppress(RedisAway):
            self.link.call(lambda client: client.set(f"{self.link.prefix}alive:{self.process}", 1, ex=DEAD_S))
            while self.later:
                work = self.later[0]
                self.link.call(work)
                self.later.remove(work)

    def close(self) -> None:
        self._ended.set()
        with suppress(RedisAway):
            self.link.call(lambda client: client.delete(f"{self.link.prefix}alive:{self.process}"))


class RedisCounts:
    """The `Counts` port; `instead` counts while Redis is away."""

    def __init__(self, presence: Presence, instead: Counts, clock: Callable[[], float] = time.time) -> None:
        self._presence, self._link, self._instead, self._clock = presence, presence.link, instead, clock

    def count(self, key: str, most: int) -> float:
        name, now = f"{self._link.prefix}requests:{key}", self._clock()
        try:
            return float(self._link.call(lambda client: client.eval(_COUNT, 1, name, f"{now:.6f}", most, HOUR_S)))
        except RedisAway:
            return self._instead.count(key, most)

    def begin(self, key: str, most: int) -> tuple[str, int]:
        name = f"{self._link.prefix}asking:{key}"
        place = f"{self._presence.process} {secrets.token_hex(8)}"
        try:
            is_in, running = self._link.call(
                lambda client: client.eval(_BEGIN, 1, name, most, place, self._link.prefix)
            )
        except RedisAway:
            place, running = self._instead.begin(key, most)
            return (f"here {place}" if place else ""), running
        return (f"{key} {place}" if is_in else ""), int(running)

    def end(self, place: str) -> None:
        key, _, own = place.partition(" ")
        if key == "here":
            self._instead.end(own)
            return

        def leave(client: Any) -> object:
            return client.srem(f"{self._link.prefix}asking:{key}", own)

        try:
            self._link.call(leave)
        except RedisAway:  # or the key would have a place less for as long as this process lives
            self._presence.later.append(leave)


class RedisEvents:
    """The `EventLog` port. One thread sends what is new of all streams of this process.

    What Redis has lost, because it was restarted, is sent again from the beginning with the next event.
    """

    patience_s = 5.0

    def __init__(self, presence: Presence) -> None:
        self._presence, self._link = presence, presence.link
        self._own: dict[str, tuple[Told, Sequence[bytes]]] = {}
        self._sent: dict[str, int] = {}
        self._finished: set[str] = set()
        self._news = threading.Event()
        threading.Thread(target=self._run, name="shared-events", daemon=True).start()

    def _name(self, kind: str, *parts: str) -> bytes:
        return f"{self._link.prefix}{kind}:{':'.join(parts)}".encode("utf-8", "surrogatepass")

    # what this process writes

    def begin(self, stream: Told, parts: Sequence[bytes]) -> None:
        self._own[stream.id] = (stream, parts)
        self._news.set()

    def grew(self, stream_id: str) -> None:
        self._news.set()

    def finish(self, stream_id: str) -> None:
        self._finished.add(stream_id)
        self._news.set()

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            time.sleep(GATHER_S)
            for stream_id, (stream, parts) in list(self._own.items()):
                try:
                    self._send(stream, parts)
                except RedisAway:
                    if stream_id in self._finished:  # its own readers have it; nobody can come from elsewhere now
                        self._let_go(stream_id)

    def _send(self, stream: Told, parts: Sequence[bytes]) -> None:
        is_done = stream.id in self._finished  # before the parts are counted: none comes after it
        new = list(parts[self._sent.get(stream.id, 0) :])
        if not (new or is_done or stream.id not in self._sent):
            return
        stored = self._link.call(lambda client: self._appended(client, stream, new, is_done))
        if stored != self._sent.get(stream.id, 0) + len(new):  # Redis was restarted in between
            new = list(parts)
            stored = self._link.call(lambda client: self._appended(client, stream, new, is_done, is_anew=True))
        self._sent[stream.id] = stored
        if is_done and stored == len(parts):
            self._let_go(stream.id)

    def _appended(self, client: Any, stream: Told, new: list[bytes], is_done: bool, is_anew: bool = False) -> int:
        """How many events Redis holds of it now."""
        events, about, talk = self._names(stream)
        fields = {name: value for name, value in asdict(stream).items() if name in TEXTS}
        batch = client.pipeline(transaction=True)
        if is_anew:
            batch.delete(events)
        known = {name: value.encode("utf-8", "surrogatepass") for name, value in fields.items()}
        batch.hset(about, mapping=known | {"process": self._presence.process, "is_done": int(is_done)})
        if new:
            batch.rpush(events, *new)
        for name in (events, about):
            batch.expire(name, KEPT_S)
        if is_done:
            batch.delete(talk)
        else:
            batch.set(talk, stream.id, ex=KEPT_S)
        batch.llen(events)
        return int(batch.execute()[-1])

    def _names(self, stream: Told) -> tuple[bytes, bytes, bytes]:
        talk = self._name("talk", stream.owner, stream.conversation)
        return self._name("events", stream.id), self._name("stream", stream.id), talk

    def _let_go(self, stream_id: str) -> None:
        self._own.pop(stream_id, None)
        self._sent.pop(stream_id, None)
        self._finished.discard(stream_id)

    # what others say of it

    def stop(self, stream_id: str) -> None:
        self._set(stream_id, "is_stopped", 1)

    def read(self, stream_id: str) -> None:
        self._set(stream_id, "last_read", time.time())

    def _set(self, stream_id: str, field: str, value: float) -> None:
        name = self._name("stream", stream_id)
        with suppress(RedisAway):
            self._link.call(lambda client: client.exists(name) and client.hset(name, field, value))

    def forget(self, stream_id: str) -> None:
        with suppress(RedisAway):
            self._link.call(
                lambda client: client.delete(self._name("stream", stream_id), self._name("events", stream_id))
            )

    # what is read

    def find(self, stream_id: str) -> Told | None:
        with suppress(RedisAway):
            found = self._link.call(lambda client: client.hgetall(self._name("stream", stream_id)))
            if not found.get(b"id"):
                return None
            alive = self._name("alive", found[b"process"].decode())
            is_done = found[b"is_done"] == b"1"
            if is_done or self._link.call(lambda client: client.exists(alive)):
                about: Any = {name: found[name.encode()].decode("utf-8", "surrogatepass") for name in TEXTS}
                is_stopped = found.get(b"is_stopped") == b"1"
                return Told(
                    **about, is_done=is_done, is_stopped=is_stopped, last_read=float(found.get(b"last_read", 0))
                )
        return None

    def running(self, conversation: str, owner: str) -> Told | None:
        with suppress(RedisAway):
            found = self._link.call(lambda client: client.get(self._name("talk", owner, conversation)))
            record = self.find(found.decode()) if found else None
            return record if record is not None and not record.is_done else None
        return None

    def after(self, stream_id: str, number: int) -> list[bytes]:
        with suppress(RedisAway):
            return list(self._link.call(lambda client: client.lrange(self._name("events", stream_id), number, -1)))
        return []
