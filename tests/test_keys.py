"""Keys: shown once, stored hashed, known in every process at once, and gone at once."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from conftest import run_refdesk
from library_samples import finish, open_desk, start
from memory_desk import KINDS, open_either
from refdesk import Refdesk, UsageError
from refdesk.errors import NotFound
from refdesk.records import Caller
from refdesk.store import keys as adapter
from refdesk.store.database import PreparedReader, SqlStatement
from refdesk.types import EVERYTHING
from timing import PATIENCE_S, statements, while_written


@pytest.fixture(params=KINDS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Refdesk]:
    with open_either(request.param, tmp_path / "library") as found:
        yield found


IN_SQL = pytest.mark.parametrize("desk", ["sql"], indirect=True)


def test_a_key_is_known_by_its_secret(desk: Refdesk) -> None:
    key, secret = desk.keys.add("Anna", "editor", ["finance/2024", " hr ", "hr"])
    assert secret.startswith("rd_") and len(secret) >= 3 + 43  # 32 bytes in base 64
    caller = desk.keys.verify(secret)
    assert caller is not None
    assert (caller.id, caller.name, caller.role) == (key.id, "Anna", "editor")
    assert caller.access == ("finance/2024", "hr") == key.collections


def test_no_collection_named_is_every_collection(desk: Refdesk) -> None:
    for collections in (None, []):
        key, secret = desk.keys.add(f"with {collections}", "reader", collections)
        caller = desk.keys.verify(secret)
        assert caller is not None and caller.access is EVERYTHING and key.to_dict()["collections"] is None


@pytest.mark.parametrize("wrong", ["", "rd_", "rd_" + "A" * 43, "Anna", "rd_ü\ud83d", "%", "x" * 100_000], ids=repr)
def test_nothing_else_is_let_in(desk: Refdesk, wrong: str) -> None:
    key, secret = desk.keys.add("Anna", "reader")
    assert desk.keys.verify(wrong[:200_000]) is None
    for near in (secret[:-1], secret + "A", secret.swapcase(), secret.removeprefix("rd_"), f" {secret}", key.id):
        assert desk.keys.verify(near) is None


@IN_SQL
def test_secrets_are_different_and_stored_nowhere(desk: Refdesk, tmp_path: Path) -> None:
    secrets = [desk.keys.add(f"key {number}", "reader")[1] for number in range(5)]
    assert len(set(secrets)) == 5
    desk.backup(tmp_path / "backup.tar")
    desk.close()
    for path in [tmp_path / "backup.tar", *(tmp_path / "library").rglob("*")]:
        if path.is_file():
            held = path.read_bytes()
            assert not [one for one in secrets if one.encode() in held or one[3:].encode() in held], path


@pytest.mark.parametrize(
    "name, role, collections, sentence",
    [
        pytest.param("Anna", "reader", None, "there is already a key 'Anna'", id="name_taken"),
        pytest.param(" Anna ", "reader", None, "there is already a key 'Anna'", id="name_taken:with_spaces"),
        pytest.param("", "reader", None, "a key name must have 1 to 80 visible characters", id="no_name"),
        pytest.param("a\nb", "reader", None, "visible characters", id="two_lines"),
        pytest.param("a" * 81, "reader", None, "1 to 80 visible characters", id="too_long"),
        pytest.param("Ben", "king", None, "there is no role 'king'", id="no_such_role"),
        pytest.param("Ben", "reader", ["../x"], "'../x' is not a valid collection name", id="not_a_collection"),
        pytest.param("Ben", "reader", [""], "'' is not a valid collection name", id="empty_collection:never_all"),
    ],
)
def test_what_cannot_be_a_key_is_refused(
    desk: Refdesk, name: str, role: str, collections: list[str] | None, sentence: str
) -> None:
    desk.keys.add("Anna", "reader")
    with pytest.raises(UsageError, match=sentence):
        desk.keys.add(name, role, collections)
    assert [key.name for key in desk.keys.list()] == ["Anna"]


def test_a_name_never_stands_for_the_id_of_another(desk: Refdesk) -> None:
    key, _ = desk.keys.add("Anna", "reader")
    with pytest.raises(UsageError, match="already"):
        desk.keys.add(key.id, "admin")


def test_a_revoked_key_is_gone_and_its_name_free(desk: Refdesk) -> None:
    first, secret = desk.keys.add("Anna", "reader")
    other, other_secret = desk.keys.add("Ben", "reader")
    assert desk.keys.revoke("Anna") == first
    assert desk.keys.verify(secret) is None and desk.keys.verify(other_secret) is not None
    again, _ = desk.keys.add("Anna", "reader")
    assert again.id != first.id, "what was the first Anna's is not the second one's"
    desk.keys.revoke(other.id)
    assert [key.name for key in desk.keys.list()] == ["Anna"]
    with pytest.raises(NotFound, match="there is no key 'Ben'"):
        desk.keys.revoke("Ben")


def test_a_library_without_keys_says_so(desk: Refdesk) -> None:
    assert not desk.keys.exist()
    desk.keys.add("Anna", "reader")
    assert desk.keys.exist()
    desk.keys.revoke("Anna")
    assert not desk.keys.exist()


VERIFIES = """
import sys
from refdesk import Refdesk
with Refdesk(sys.argv[1]) as desk:
    for line in sys.stdin:
        print(desk.keys.verify(line.strip()) is not None, flush=True)
"""


@IN_SQL
def test_other_processes_know_at_once(desk: Refdesk) -> None:
    process = start(VERIFIES, desk.folder, stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    def is_known(secret: str) -> bool:
        process.stdin.write(f"{secret}\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        return process.stdout.readline() == "True\n"  # type: ignore[union-attr]

    assert not is_known("rd_unknown")
    _, secret = desk.keys.add("Anna", "reader")
    assert is_known(secret)
    desk.keys.revoke("Anna")
    assert not is_known(secret)
    finish(process)


# changing one


def test_a_key_is_changed_and_stays_the_same_key(desk: Refdesk) -> None:
    key, secret = desk.keys.add("Anna", "reader", ["finance"])
    assert desk.keys.change("Anna", role="editor").role == "editor"
    assert desk.keys.change(key.id, collections=["hr", " finance ", "hr"]).collections == ("finance", "hr")
    assert desk.keys.change("Anna", name=" Anne ").name == "Anne"
    caller = desk.keys.verify(secret)
    assert caller is not None and (caller.id, caller.name, caller.role) == (key.id, "Anne", "editor")
    assert caller.access == ("finance", "hr")
    assert desk.keys.change("Anne", every_collection=True).collections is None
    (listed,) = desk.keys.list()
    assert (listed.id, listed.created_at, listed.collections) == (key.id, key.created_at, None)


def test_who_is_signed_in_with_a_changed_key_is_what_it_is_now(desk: Refdesk) -> None:
    key, secret = desk.keys.add("Anna", "admin")
    caller = desk.keys.verify(secret)
    assert caller is not None
    token, _ = desk.sessions.begin(caller)
    desk.keys.change("Anna", role="reader", collections=["hr"])
    signed_in = desk.sessions.caller(token)
    assert signed_in is not None and (signed_in.id, signed_in.role, signed_in.access) == (key.id, "reader", ("hr",))


@pytest.mark.parametrize(
    "changes, sentence",
    [
        pytest.param({}, "there is nothing to change", id="nothing"),
        pytest.param({"role": "king"}, "there is no role 'king'", id="no_such_role"),
        pytest.param({"name": "Ben"}, "there is already a key 'Ben'", id="name_taken"),
        pytest.param({"name": " "}, "a key name must have 1 to 80 visible characters", id="no_name"),
        pytest.param({"collections": []}, "gives no access", id="no_collection:never_all"),
        pytest.param({"collections": ["../x"]}, "is not a valid collection name", id="not_a_collection"),
        pytest.param({"collections": ["hr"], "every_collection": True}, "not both", id="some_and_all"),
    ],
)
def test_what_cannot_be_changed_is_refused(desk: Refdesk, changes: dict[str, Any], sentence: str) -> None:
    desk.keys.add("Anna", "reader", ["finance"])
    desk.keys.add("Ben", "reader")
    before = desk.keys.list()
    with pytest.raises(UsageError, match=sentence):
        desk.keys.change("Anna", **changes)
    assert desk.keys.list() == before
    with pytest.raises(NotFound, match="there is no key 'nobody'"):
        desk.keys.change("nobody", role="reader")


def test_a_name_never_becomes_the_id_of_another(desk: Refdesk) -> None:
    key, _ = desk.keys.add("Anna", "admin")
    desk.keys.add("Ben", "reader")
    with pytest.raises(UsageError, match="already"):
        desk.keys.change("Ben", name=key.id)


def test_the_last_owner_does_not_lock_everyone_out(desk: Refdesk) -> None:
    desk.keys.add("Anna", "admin")
    desk.keys.add("Ben", "reader")
    desk.keys.add("Petra", "admin", ["hr"])  # may change no keys
    keys = desk.for_caller(Caller("anna", "Anna", "admin")).keys
    for changes in ({"role": "editor"}, {"collections": ["hr"]}):
        with pytest.raises(UsageError, match="'Anna' is the last key that can change keys"):
            keys.change("Anna", **changes)
    with pytest.raises(UsageError, match="last key"):
        keys.revoke("Anna")
    assert next((key.name, key.role) for key in desk.keys.list()) == ("Anna", "admin")
    keys.change("Anna", name="Anne")
    keys.change("Petra", every_collection=True)
    assert keys.change("Anne", role="reader").role == "reader"
    assert desk.keys.change("Petra", role="reader").role == "reader", "whoever sits at the machine can undo it"


def test_the_only_key_of_all_may_go(desk: Refdesk) -> None:
    desk.keys.add("Anna", "admin")
    desk.for_caller(Caller("anna", "Anna", "admin")).keys.revoke("Anna")
    assert not desk.keys.exist()


CHANGES = """
import sys
from refdesk import Refdesk
from refdesk.types import EVERYTHING
with Refdesk(sys.argv[1]) as desk:
    for line in sys.stdin:
        caller = desk.keys.verify(line.strip())
        print(caller.role, *(("all",) if caller.access is EVERYTHING else caller.access), flush=True)
"""


@IN_SQL
def test_other_processes_know_of_a_change_at_once(desk: Refdesk) -> None:
    _, secret = desk.keys.add("Anna", "reader", ["finance"])
    process = start(CHANGES, desk.folder, stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    def known() -> str:
        process.stdin.write(f"{secret}\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        return str(process.stdout.readline().strip())  # type: ignore[union-attr]

    assert known() == "reader finance"
    desk.keys.change("Anna", role="editor", collections=["hr"])
    assert known() == "editor hr"
    desk.keys.change("Anna", every_collection=True)
    assert known() == "editor all"
    finish(process)


# threads that read at the same time


class Held(PreparedReader):
    """A reader whose thread can be stopped just after it has read all the keys."""

    def __init__(self, reader: PreparedReader) -> None:
        super().__init__(reader.engine)
        self.stops: threading.Thread | None = None
        self.has_read, self.goes_on = threading.Event(), threading.Event()

    def rows(self, statement: SqlStatement, **values: Any) -> list[Any]:
        found = super().rows(statement, **values)
        if threading.current_thread() is self.stops and "digest" in statement.written(self.engine.dialect, values)[0]:
            self.has_read.set()
            assert self.goes_on.wait(PATIENCE_S)
        return found


class Lingering:
    """A lock after whose release something else happens before its holder goes on."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._lock, self._then = threading.Lock(), then

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        self._then()


@IN_SQL
def test_a_slow_thread_does_not_bring_back_a_revoked_key(desk: Refdesk) -> None:
    """It read the keys before one was revoked, and hands them in just after a quicker thread has read them anew."""
    key, secret = desk.keys.add("Anna", "reader")
    reader = Held(PreparedReader(desk.parts.documents.engine))
    store = adapter.SqlKeys(reader, desk._background)
    slow_said: list[adapter.Key | None] = []
    slow = reader.stops = threading.Thread(target=lambda: slow_said.append(store.verify(secret)))

    def let_the_slow_one_finish() -> None:
        if threading.current_thread() is not slow:
            reader.goes_on.set()
            slow.join(PATIENCE_S)

    store._lock = Lingering(let_the_slow_one_finish)  # type: ignore[assignment]
    slow.start()
    assert reader.has_read.wait(PATIENCE_S)
    desk.keys.revoke("Anna")
    assert store.verify(secret) is None, "what this thread has read itself"
    assert [one.id if one else None for one in slow_said] == [key.id], "it asked before the key was revoked"
    assert store.verify(secret) is None and store.of(key.id) is None and not store.exist()
    reader.close()


@IN_SQL
def test_last_used_is_written_once_a_minute(desk: Refdesk) -> None:
    written: list[str] = []

    def watch(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("UPDATE keys"):
            written.append(statement)

    event.listen(desk.parts.documents.engine, "before_cursor_execute", watch)
    _, secret = desk.keys.add("Anna", "reader")
    assert desk.keys.list()[0].last_used == ""
    for _ in range(50):
        desk.keys.verify(secret)
    first = desk.keys.list()[0].last_used
    assert first and len(written) == 1
    with open_desk(desk.folder) as other:  # another process writes too, and SQL keeps the first
        other.keys.verify(secret)
        assert other.keys.list()[0].last_used == first
    desk.parts.keys.noted_every_s = 0.0
    time.sleep(0.01)
    desk.keys.verify(secret)
    assert desk.keys.list()[0].last_used > first


@IN_SQL
def test_verifying_reads_the_keys_once_and_waits_for_no_writer(desk: Refdesk) -> None:
    secrets = [desk.keys.add(f"key {number}", "reader")[1] for number in range(50)]
    desk.keys.verify(secrets[0])
    with while_written(desk.folder / "library.db"), statements(desk._reads) as run:
        assert all(desk.keys.verify(secret) for secret in secrets)
    assert len(run) == len(secrets) and len(set(run)) == 1, "only whether they have changed"


# the command line


def test_keys_from_the_command_line(tmp_path: Path) -> None:
    library = ("--library", tmp_path / "library")
    made = run_refdesk(*library, "keys", "add", "Anna", "--role", "editor", "-c", "finance", "-c", "hr/2024")
    assert made.returncode == 0 and "shown only once" in made.stderr
    secret = made.stdout.strip()
    listed = run_refdesk(*library, "keys", "list")
    assert "Anna" in listed.stdout and "finance, hr/2024" in listed.stdout and secret not in listed.stdout
    (key,) = json.loads(run_refdesk(*library, "keys", "list", "--json").stdout)
    assert key["role"] == "editor" and key["collections"] == ["finance", "hr/2024"] and "digest" not in key
    with Refdesk(tmp_path / "library") as desk:
        assert desk.keys.verify(secret) is not None
        second = json.loads(run_refdesk(*library, "keys", "add", "Ben", "--json").stdout)
        assert second["role"] == "reader" and desk.keys.verify(second["secret"]) is not None
        assert run_refdesk(*library, "keys", "revoke", "Ben").returncode == 0
        assert desk.keys.verify(second["secret"]) is None
    changed = run_refdesk(*library, "keys", "change", "Anna", "--role", "reader", "-c", "hr")
    assert changed.returncode == 0 and "The key of Anna: reader of hr." in changed.stderr, changed.stderr
    whole = run_refdesk(*library, "keys", "change", key["id"], "--every-collection", "--name", "Anne", "--json")
    now = {"name": "Anne", "role": "reader", "collections": None}
    assert json.loads(whole.stdout) | {"last_used": ""} == key | now
    nothing = run_refdesk(*library, "keys", "change", "Anne")
    assert nothing.returncode == 2 and "There is nothing to change" in nothing.stderr
    assert run_refdesk(*library, "keys", "change", "Anne", "--name", "Anna").returncode == 0
    twice = run_refdesk(*library, "keys", "add", "Anna")
    assert twice.returncode == 2 and "There is already a key 'Anna'" in twice.stderr and twice.stdout == ""
    unknown = run_refdesk(*library, "keys", "revoke", "nobody")
    assert unknown.returncode == 2 and "Traceback" not in unknown.stderr
