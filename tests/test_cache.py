"""The cache gives back what it was given, for as long as it may, and never across a border of the namespace."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, func, select, text

import postgres_server
from answer_samples import TYPICAL
from library_samples import open_desk
from redis_server import RedisServer, running_redis
from refdesk.answer import Question, Turn, encode_answer
from refdesk.ask.keep import cache_namespace, same_words
from refdesk.redis_link import RedisLink
from refdesk.settings import Settings
from refdesk.store.cache import RedisCache, SqlCache
from refdesk.store.database import BackgroundWriter, PreparedReader, open_database, open_server
from refdesk.store.jobs import clear_copy
from refdesk.store.memory_records import MemoryCache
from refdesk.store.postgres import PostgresServer
from refdesk.store.schema import answer_cache
from refdesk.types import Scope
from timing import statements, while_written

ASKED = Question("What does the anchor weigh?")
NAMESPACE = cache_namespace(ASKED, Settings(), "extractive", 3)
ANSWER = encode_answer(TYPICAL)


class Process:
    """A cache as one process has it, on a library that others use too."""

    def __init__(self, folder: Path, url: str = "", **settings: Any) -> None:
        self.settings, self.folder, self.url = Settings().changed(settings), folder, url
        server = PostgresServer(url)
        self.engine: Engine = open_server(server) if url else open_database(folder / "library.db")
        self.background = BackgroundWriter(self.engine)
        self.reader = PreparedReader(self.engine)
        self.cache = SqlCache(self.reader, self.background, lambda: self.settings)

    def written(self) -> int:
        self.background.flush()
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(answer_cache)).scalar_one())

    def age(self, seconds: float) -> None:
        self.background.flush()
        with self.engine.begin() as connection:
            connection.execute(text(f"UPDATE answer_cache SET created_at = created_at - {seconds}"))

    def flush(self) -> None:
        self.background.flush()

    def close(self) -> None:
        self.background.close()
        self.reader.close()
        self.engine.dispose()


class MemoryProcess:
    """The same of a cache in memory, which has one process."""

    def __init__(self) -> None:
        self.settings, self._later = Settings(), 0.0
        self.cache = MemoryCache(lambda: self.settings, lambda: time.time() + self._later)

    def written(self) -> int:
        return sum(len(known) for known in self.cache._namespaces.values())

    def age(self, seconds: float) -> None:
        self._later += seconds

    def flush(self) -> None:
        """All is there at once."""

    close = flush


class RedisProcess(Process):
    """The same with its answers in Redis, on which every test has a library of its own."""

    def __init__(self, folder: Path, redis: RedisServer, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.redis, self._later = redis, 0.0
        self.link = RedisLink(redis.url, str(folder))
        self.sql = self.cache
        clock = lambda: time.time() + self._later  # noqa: E731
        self.cache: Any = RedisCache(self.link, self.reader, self.sql, lambda: self.settings, clock)

    def written(self) -> int:
        pattern = f"{self.cache._base()}a:*"
        return self.link.call(lambda client: sum(1 for _ in client.scan_iter(match=pattern, count=1000)))

    def age(self, seconds: float) -> None:
        """Every answer, for every process: as if it had been put so long ago."""

        def older(client: Any) -> None:
            for key in client.scan_iter(match=f"{self.cache._base()}a:*"):
                packed = client.get(key)
                moment = struct.unpack_from("<d", packed)[0] - seconds
                client.set(key, struct.pack("<d", moment) + packed[8:], keepttl=True)

        self.link.call(older)

    def close(self) -> None:
        self.link.close()
        super().close()


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as found:
        yield found


@pytest.fixture(params=["sql", "memory", "redis", "postgres"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    found: Any = MemoryProcess() if request.param == "memory" else None
    if request.param == "redis":
        found = RedisProcess(tmp_path, request.getfixturevalue("redis"))
    with postgres_server.database() if request.param == "postgres" else nullcontext("") as url:
        found = found or Process(tmp_path, url)
        yield found
        found.close()


@pytest.fixture
def there(here: Any, tmp_path: Path) -> Iterator[Any]:
    found: Any = here
    if isinstance(here, Process):
        found = RedisProcess(tmp_path, here.redis) if isinstance(here, RedisProcess) else Process(tmp_path, here.url)
    yield found
    found.close()


IN_SQL = pytest.mark.parametrize("here", ["sql", "postgres"], indirect=True)


def unit(*values: float) -> np.ndarray:
    vector = np.array([*values, *[0.0] * (8 - len(values))], dtype=np.float32)
    return vector / np.linalg.norm(vector)


# the namespace


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"scope": Scope(collections=("finance",))}, id="collection"),
        pytest.param({"scope": Scope(documents=("d1",))}, id="document"),
        pytest.param({"scope": Scope(kinds=("table",))}, id="kind"),
        pytest.param({"scope": Scope(pages=(1, 3))}, id="pages"),
        pytest.param({"scope": Scope(date_from="2024-01-01")}, id="from"),
        pytest.param({"scope": Scope(date_to="2024-01-01")}, id="to"),
        pytest.param({"scope": Scope(metadata=(("year", "2024"),))}, id="metadata"),
        pytest.param({"scope": Scope(access=("finance",))}, id="access"),
        pytest.param({"scope": Scope(access=())}, id="no_access_is_not_every_access"),
        pytest.param({"level": "basic"}, id="level"),
        pytest.param({"mode": "general"}, id="mode"),
        pytest.param({"response_mode": "thorough"}, id="response_mode"),
        pytest.param({"verbatim": True}, id="verbatim"),
        pytest.param({"k": 5}, id="k"),
        pytest.param({"max_context_chars": 9000}, id="max_context_chars"),
    ],
)
def test_another_question_has_another_realm(change: dict[str, Any]) -> None:
    assert cache_namespace(replace(ASKED, **change), Settings(), "extractive", 3) != NAMESPACE


def test_other_surroundings_have_another_realm() -> None:
    turns = (Turn("user", "What is a buoy?"), Turn("assistant", "A float."))
    others = [
        cache_namespace(ASKED, Settings().changed({"rag.top_k": 9}), "extractive", 3),
        cache_namespace(ASKED, Settings(), "openai:gpt", 3),
        cache_namespace(ASKED, Settings(), "extractive", 4),
        cache_namespace(ASKED, Settings(), "extractive", 3, turns),
        cache_namespace(ASKED, Settings(), "extractive", 3, turns[:1]),
        cache_namespace(ASKED, Settings(), "extractive", 3, [Turn("assistant", turns[0].content)]),
        cache_namespace(replace(ASKED, conversation_id="talk"), Settings(), "extractive", 3, turns),
        cache_namespace(ASKED, Settings(), "extractive", 3, [Turn("user", "half \ud83d a pair")]),
    ]
    assert len({NAMESPACE, *others}) == len(others) + 1
    assert all(other.startswith("3-") != (other == others[2]) and len(other) <= 80 for other in others)


def test_what_does_not_matter_keeps_the_realm() -> None:
    assert cache_namespace(replace(ASKED, text="other words"), Settings(), "extractive", 3) == NAMESPACE
    assert cache_namespace(replace(ASKED, use_cache=False), Settings(), "extractive", 3) == NAMESPACE
    assert cache_namespace(replace(ASKED, conversation_id="talk"), Settings(), "extractive", 3) == NAMESPACE, (
        "nothing said yet"
    )
    one = replace(ASKED, scope=Scope(collections=("a", "b"), access=("c", "d")))
    other = replace(ASKED, scope=Scope(collections=("b", "a", "b"), access=("d", "c")))
    assert cache_namespace(one, Settings(), "extractive", 3) == cache_namespace(other, Settings(), "extractive", 3)


@pytest.mark.parametrize(
    "one, other, same",
    [
        pytest.param("What is  it?", " What is\nit? ", True, id="white_space"),
        pytest.param("café", "cafe\u0301", True, id="composition"),
        pytest.param("What do we owe the US?", "What do we owe the us?", False, id="case"),
        pytest.param("What is it", "What is it?", False, id="punctuation"),
        pytest.param("x²", "x2", False, id="a_power_is_no_digit"),
    ],
)
def test_same_words(one: str, other: str, same: bool) -> None:
    assert (same_words(one) == same_words(other)) is same


# the very same question


def test_what_was_put_comes_back(here: Any) -> None:
    assert here.cache.get(NAMESPACE, "q") is None
    here.cache.put(NAMESPACE, "q", None, ANSWER)
    assert here.cache.get(NAMESPACE, "q") == ANSWER
    assert here.cache.get(NAMESPACE, "Q") is None and here.cache.get("3-other", "q") is None


def test_another_process_finds_it_too(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", None, b"first")
    here.flush()
    assert there.cache.get(NAMESPACE, "q") == b"first"
    there.cache.put(NAMESPACE, "q", None, b"second")
    assert there.cache.get(NAMESPACE, "q") == b"second" and there.written() == 1


@IN_SQL
def test_only_the_last_ones_are_held_in_the_process(here: Any) -> None:
    most = here.settings.cache_recent_entries
    for number in range(most + 20):
        here.cache.put(NAMESPACE, f"q{number}", None, b"answer")
    here.cache.get(NAMESPACE, "q25")
    here.cache.put(NAMESPACE, "one more", None, b"answer")
    assert len(here.cache._recent) == most == 128
    here.flush()
    assert here.cache.get(NAMESPACE, "q0") == b"answer", "from the table"
    with here.engine.begin() as connection:
        connection.execute(text("DELETE FROM answer_cache"))
    assert here.cache.get(NAMESPACE, "q1") is None and here.cache.get(NAMESPACE, "q25") == b"answer"


@IN_SQL
def test_after_a_day_it_is_forgotten(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", None, ANSWER)
    here.age(86_300)
    assert there.cache.get(NAMESPACE, "q") == ANSWER
    there.age(200)
    fresh = Process(here.folder, here.url)
    assert fresh.cache.get(NAMESPACE, "q") is None
    fresh.close()


def test_a_shorter_time_holds_at_once(here: Any) -> None:
    here.cache.put(NAMESPACE, "q", unit(1), ANSWER)
    here.settings = Settings().changed({"cache.exact_ttl_seconds": 1, "cache.default_ttl_seconds": 1})
    assert here.cache.get(NAMESPACE, "q") == ANSWER and len(here.cache.nearest(NAMESPACE, unit(1), 1)) == 1
    time.sleep(1.1)
    assert here.cache.get(NAMESPACE, "q") is None and here.cache.nearest(NAMESPACE, unit(1), 1) == []


def test_what_another_process_has_answered_anew_is_found(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", None, b"old")
    here.settings = Settings().changed({"cache.exact_ttl_seconds": 1})
    time.sleep(1.1)
    assert here.cache.get(NAMESPACE, "q") is None
    there.cache.put(NAMESPACE, "q", None, b"new")
    there.flush()
    assert here.cache.get(NAMESPACE, "q") == b"new"


@pytest.mark.parametrize("question", ["x" * 100_000, "half \ud83d a pair", "zero \0 character", ""])
def test_any_question_can_be_kept(here: Any, there: Any, question: str) -> None:
    here.cache.put(NAMESPACE, question, unit(1), ANSWER)
    assert here.written() == 1
    assert there.cache.get(NAMESPACE, question) == ANSWER


# questions that resemble it


def test_the_nearest_come_first(here: Any, there: Any) -> None:
    for name, vector in (("far", unit(0, 1)), ("near", unit(1, 0.1)), ("same", unit(1)), ("middle", unit(1, 1))):
        here.cache.put(NAMESPACE, name, vector, name.encode())
    here.cache.put(NAMESPACE, "without a vector", None, b"x")
    here.cache.put("3-other", "elsewhere", unit(1), b"x")
    here.flush()
    for process in (here, there):
        found = process.cache.nearest(NAMESPACE, unit(1), 3)
        assert [(question, answer) for question, _, answer in found] == [
            ("same", b"same"),
            ("near", b"near"),
            ("middle", b"middle"),
        ]
        assert [cosine for _, cosine, _ in found] == pytest.approx([1.0, 0.995, 0.707], abs=1e-3)
    assert here.cache.nearest("3-nothing", unit(1), 3) == []


def test_what_others_put_meanwhile_is_seen(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "one", unit(1), b"1")
    here.flush()
    assert [found[0] for found in there.cache.nearest(NAMESPACE, unit(1), 5)] == ["one"]
    here.cache.put(NAMESPACE, "two", unit(1, 0.2), b"2")
    here.cache.put(NAMESPACE, "one", unit(1), b"1 again")
    here.flush()
    assert [found[::2] for found in there.cache.nearest(NAMESPACE, unit(1), 5)] == [("one", b"1 again"), ("two", b"2")]


def test_a_similar_question_counts_for_five_minutes(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", unit(1), ANSWER)
    here.age(301)
    assert there.cache.nearest(NAMESPACE, unit(1), 1) == [] and there.cache.get(NAMESPACE, "q") == ANSWER


def test_no_more_are_compared_than_allowed(tmp_path: Path) -> None:
    process = Process(tmp_path, **{"cache.max_entries": 10})
    for number in range(25):
        process.cache.put(NAMESPACE, f"q{number}", unit(1, number), b"x")
    assert {found[0] for found in process.cache.nearest(NAMESPACE, unit(1), 100)} == {f"q{n}" for n in range(15, 25)}
    for number in range(8):
        process.cache.put("3-other", f"o{number}", unit(1, number), b"x")
    assert len(process.cache.nearest("3-other", unit(1), 100)) == 8
    assert sum(len(shelf.entries) for shelf in process.cache._namespaces.values()) <= 10
    process.close()


# forgetting


def test_clearing_reaches_every_process(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", unit(1), ANSWER)
    here.flush()
    assert there.cache.get(NAMESPACE, "q") and there.cache.nearest(NAMESPACE, unit(1), 1)
    here.cache.put(NAMESPACE, "not yet written", unit(1), ANSWER)
    here.cache.clear()
    for process in (here, there):
        assert process.cache.get(NAMESPACE, "q") is None and process.cache.nearest(NAMESPACE, unit(1), 1) == []
    assert here.written() == 0
    there.cache.put(NAMESPACE, "q", unit(1), b"new")
    there.flush()
    assert here.cache.get(NAMESPACE, "q") == b"new"


def test_older_versions_of_the_corpus_are_purged(here: Any) -> None:
    for generation in (3, 3, 4):
        here.cache.put(f"{generation}-namespace", f"q{generation}", None, ANSWER)
    assert here.written() == 2 - 1
    assert here.cache.get("4-namespace", "q4") == ANSWER


def test_the_table_does_not_grow_without_end(tmp_path: Path) -> None:
    process = Process(tmp_path, **{"cache.max_entries": 1})
    for number in range(30):
        process.cache.put(NAMESPACE, f"q{number}", None, b"x")
    process.background.flush()
    process.cache._purged = (0.0, 3)  # a minute later
    process.cache.put(NAMESPACE, "last", None, b"x")
    assert process.written() == 10
    fresh = Process(tmp_path)
    assert fresh.cache.get(NAMESPACE, "last") == b"x" and fresh.cache.get(NAMESPACE, "q0") is None
    fresh.close()
    process.close()


# a real library


def test_every_change_of_the_corpus_is_another_realm(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk, open_desk(tmp_path / "library") as other:
        cache = SqlCache(PreparedReader(desk.parts.documents.engine), BackgroundWriter(desk.parts.documents.engine))
        namespaces = []

        def ask() -> bytes | None:
            """The cached answer; a new one is put."""
            assert desk.parts.reader.generation() == other.parts.reader.generation()
            now = cache_namespace(ASKED, desk.settings, desk.parts.embedder.name, desk.parts.reader.generation())
            namespaces.append(now)
            found = cache.get(now, ASKED.text)
            cache.put(now, ASKED.text, None, now.encode())
            return found

        assert ask() is None and ask() is not None
        other.add_text("anchor", "The anchor weighs 350 kg.")
        assert ask() is None and ask() is not None
        other.add_text("anchor", "The anchor weighs 400 kg.")
        assert ask() is None and ask() is not None
        other.add_text("anchor", "The anchor weighs 400 kg.")
        assert ask() is not None, "unchanged"
        other.remove("anchor")
        assert ask() is None
        other.parts.settings_store.change({"rag.top_k": 3})
        assert ask() is None
        assert len(set(namespaces)) == 5


def test_rights_are_a_border(here: Any) -> None:
    """Two readers ask the same; the second may read less and must not be answered from what the first was told."""
    boss = replace(ASKED, scope=Scope(access=("hr", "public")))
    clerk = replace(ASKED, scope=Scope(access=("public",)))
    names = [cache_namespace(one, Settings(), "extractive", 3) for one in (boss, clerk)]
    here.cache.put(names[0], ASKED.text, unit(1), ANSWER)
    assert here.cache.get(names[1], ASKED.text) is None and here.cache.nearest(names[1], unit(1), 5) == []
    assert here.cache.get(names[0], ASKED.text) == ANSWER


# what it reads


@pytest.mark.parametrize("here", ["sql"], indirect=True)
def test_few_statements_and_none_that_waits_for_a_writer(here: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((1000, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with while_written(tmp_path / "library.db"), statements(here.reader) as run:
        for number, vector in enumerate(rows):
            here.cache.put(NAMESPACE, f"q{number}", vector, ANSWER)
    assert run == [] and here.written() == len(rows)

    with while_written(tmp_path / "library.db"):
        with statements(here.reader) as run:
            assert here.cache.get(NAMESPACE, "q999") == ANSWER
        assert len(run) == 1, "whether it was cleared"
        here.cache._recent.clear()
        with statements(here.reader) as run:
            assert here.cache.get(NAMESPACE, "q500") == ANSWER
        assert len(run) == 2
        with statements(here.reader) as run:
            assert here.cache.nearest(NAMESPACE, rows[5], 3)[0][0] == "q5"
        assert len(run) == 2


# Redis comes and goes


IN_REDIS = pytest.mark.parametrize("here", ["redis"], indirect=True)


@IN_REDIS
def test_after_a_day_redis_has_forgotten_it(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", None, ANSWER)
    here.age(86_300)
    assert there.cache.get(NAMESPACE, "q") == ANSWER
    there.age(200)
    assert here.cache.get(NAMESPACE, "q") is None and there.cache.get(NAMESPACE, "q") is None


@IN_REDIS
def test_every_key_of_redis_ends_by_itself(here: Any) -> None:
    here.cache.put(NAMESPACE, "q", unit(1), ANSWER)
    lasting = here.link.call(
        lambda client: {key: client.ttl(key) for key in client.scan_iter(match=f"{here.link.prefix}*")}
    )
    assert len(lasting) == 4 and all(0 < seconds <= 86_400 for seconds in lasting.values())


@IN_REDIS
def test_redis_does_not_grow_without_end(here: Any) -> None:
    here.settings = Settings().changed({"cache.max_entries": 1})
    for number in range(30):
        here.cache.put(NAMESPACE, f"q{number}", None, b"x")
    assert here.written() == 10 and here.cache.get(NAMESPACE, "q29") == b"x" and here.cache.get(NAMESPACE, "q0") is None


@IN_REDIS
def test_few_namespaces_are_followed(here: Any) -> None:
    here.settings = Settings().changed({"cache.max_entries": 10})
    for namespace in range(30):
        here.cache.put(f"3-{namespace}", "q", unit(1), b"x")
        assert len(here.cache.nearest(f"3-{namespace}", unit(1), 5)) == 1
    assert len(here.cache._namespaces) <= 10


@IN_REDIS
def test_another_library_has_answers_of_its_own(here: Any, tmp_path: Path) -> None:
    """Also one that is a copy of this one, with the same token in SQL."""
    here.cache.put(NAMESPACE, "q", None, ANSWER)
    copy = RedisLink(here.redis.url, str(tmp_path / "copy"))
    assert RedisCache(copy, here.reader, here.sql).get(NAMESPACE, "q") is None
    copy.close()


@IN_REDIS
def test_a_restored_library_does_not_meet_what_came_after_the_backup(here: Any, there: Any) -> None:
    """Its versions are counted from where the backup stood, so those of Redis could be of other documents."""
    here.cache.put(NAMESPACE, "q", unit(1), ANSWER)
    clear_copy(here.engine)
    assert there.cache.get(NAMESPACE, "q") is None and here.cache.get(NAMESPACE, "q") is None


def test_while_redis_is_away_answers_are_kept_in_sql(tmp_path: Path) -> None:
    with running_redis() as redis:
        here = RedisProcess(tmp_path, redis)
        here.cache.put(NAMESPACE, "before", unit(1), b"from Redis")
        redis.stop()
        assert here.cache.get(NAMESPACE, "before") is None and "Redis is unavailable" in here.link.problem
        here.cache.put(NAMESPACE, "meanwhile", unit(1), b"from SQL")
        assert here.cache.get(NAMESPACE, "meanwhile") == b"from SQL"
        assert [one[0] for one in here.cache.nearest(NAMESPACE, unit(1), 3)] == ["meanwhile"]
        here.cache.clear()
        assert here.cache.get(NAMESPACE, "meanwhile") is None and here.cache.nearest(NAMESPACE, unit(1), 3) == []
        redis.start()
        until = time.monotonic() + 10
        while not here.link.is_there():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert here.link.problem == ""
        here.cache.put(NAMESPACE, "after", unit(1), b"from Redis")
        assert here.cache.get(NAMESPACE, "after") == b"from Redis" and here.sql.get(NAMESPACE, "after") is None
        here.close()


@IN_REDIS
def test_an_emptied_redis_is_an_empty_cache(here: Any, there: Any) -> None:
    here.cache.put(NAMESPACE, "q", unit(1), ANSWER)
    assert len(there.cache.nearest(NAMESPACE, unit(1), 3)) == 1
    here.link.call(lambda client: client.flushdb())
    assert there.cache.nearest(NAMESPACE, unit(1), 3) == [] and there.cache.get(NAMESPACE, "q") is None
    here.cache.put(NAMESPACE, "q", unit(1), b"new")
    assert [one[2] for one in there.cache.nearest(NAMESPACE, unit(1), 3)] == [b"new"]
