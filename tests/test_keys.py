"""Keys: shown once, stored hashed, known in every process at once, and gone at once."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from sqlalchemy import event

from conftest import run_refdesk
from library_samples import finish, open_desk, start
from refdesk import Refdesk, UsageError
from refdesk.adapters import keys as adapter
from refdesk.errors import NotFound
from timing import quickest, while_written


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        yield found


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
        assert caller is not None and caller.access is None and key.to_dict()["collections"] is None


@pytest.mark.parametrize("wrong", ["", "rd_", "rd_" + "A" * 43, "Anna", "rd_ü\ud83d", "%", "x" * 100_000], ids=repr)
def test_nothing_else_is_let_in(desk: Refdesk, wrong: str) -> None:
    key, secret = desk.keys.add("Anna", "reader")
    assert desk.keys.verify(wrong[:200_000]) is None
    for near in (secret[:-1], secret + "A", secret.swapcase(), secret.removeprefix("rd_"), f" {secret}", key.id):
        assert desk.keys.verify(near) is None


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
        pytest.param("Anna", "reader", None, "there is a key 'Anna' already", id="name_taken"),
        pytest.param(" Anna ", "reader", None, "there is a key 'Anna' already", id="name_taken:with_spaces"),
        pytest.param("", "reader", None, "a key's name has 1 to 80 characters", id="no_name"),
        pytest.param("a\nb", "reader", None, "none of them invisible", id="two_lines"),
        pytest.param("a" * 81, "reader", None, "1 to 80 characters", id="too_long"),
        pytest.param("Ben", "king", None, "there is no role 'king'", id="no_such_role"),
        pytest.param("Ben", "reader", ["../x"], "'../x' is not a collection", id="not_a_collection"),
        pytest.param("Ben", "reader", [""], "'' is not a collection", id="empty_collection:never_all"),
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


def test_last_used_is_written_once_a_minute(desk: Refdesk, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def watch(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("UPDATE keys"):
            written.append(statement)

    event.listen(desk.catalogue.engine, "before_cursor_execute", watch)
    _, secret = desk.keys.add("Anna", "reader")
    assert desk.keys.list()[0].last_used == ""
    for _ in range(50):
        desk.keys.verify(secret)
    first = desk.keys.list()[0].last_used
    assert first and len(written) == 1
    with open_desk(desk.folder) as other:  # another process writes too, and SQL keeps the first
        other.keys.verify(secret)
        assert other.keys.list()[0].last_used == first
    monkeypatch.setattr(adapter, "NOTED_EVERY_S", 0.0)
    time.sleep(0.01)
    desk.keys.verify(secret)
    assert desk.keys.list()[0].last_used > first


def test_verifying_takes_no_time_and_waits_for_no_writer(desk: Refdesk) -> None:
    secrets = [desk.keys.add(f"key {number}", "reader")[1] for number in range(50)]
    turns = cycle(secrets)
    with while_written(desk.folder / "library.db"):
        took = quickest(lambda: desk.keys.verify(next(turns)), 500)
    assert took < 0.5e-3  # measured .02 ms; a cached answer has 2 ms in all


# the command line


def test_keys_from_the_command_line(tmp_path: Path) -> None:
    library = ("--library", tmp_path / "library")
    made = run_refdesk(*library, "keys", "add", "Anna", "--role", "editor", "-c", "finance", "-c", "hr/2024")
    assert made.returncode == 0 and "not shown again" in made.stderr
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
    twice = run_refdesk(*library, "keys", "add", "Anna")
    assert twice.returncode == 2 and "There is a key 'Anna' already" in twice.stderr and twice.stdout == ""
    unknown = run_refdesk(*library, "keys", "revoke", "nobody")
    assert unknown.returncode == 2 and "Traceback" not in unknown.stderr
