"""A restore that is killed anywhere leaves the old library or the new one, whole; damage is seen and said."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import run_refdesk
from library_samples import assert_repaired, assert_whole, finish, found_by, open_desk, start, word, write_note
from refdesk import Refdesk
from refdesk.errors import LibraryDamaged, UsageError
from refdesk.serve.cli.admin import examine
from upload_samples import hand_in

OLD, NEW = 1, 2  # the numbers of the notes that tell the two libraries apart

# For every number from 1 on: copies the library, and in a process of its own restores the backup over the copy, which
# the process kills with SIGKILL when it asks the system for the nth time to open, make, rename or remove a file. Ends
# with the first number that was not reached. One interpreter is warmed up and forked, or this would take an hour.
STEPPING = """
import os, shutil, signal, sys
from pathlib import Path
from refdesk.files.backup import restore
from refdesk.store.jobs import is_anyone_at_work

library, backup, target = map(Path, sys.argv[1:])
WATCHED = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "sqlite3.connect"}
count, limit = 0, 0

def step(event, arguments):
    global count
    if limit and event in WATCHED:
        count += 1
        if count == limit:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(step)
number = 0
while True:
    number += 1
    place = target / str(number)
    if library.exists():
        shutil.copytree(library, place)
    child = os.fork()
    if not child:
        try:
            limit = number
            restore(backup, place, is_anyone_at_work, replace=True)
        finally:
            limit = 0
            os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        break
print(number)
"""


def make(folder: Path, number: int, notes: Path) -> Path:
    """A library of one file and one text, each with a word that only it has."""
    with open_desk(folder) as desk:
        desk.add(write_note(notes, number))
        desk.add_text(f"text {number}", f"The lamp {word(number, 9)} was lit at dusk.")
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A library, and the backup of another."""
    folder = tmp_path_factory.mktemp("both")
    make(folder / "old", OLD, folder / "notes")
    make(folder / "other", NEW, folder / "notes")
    with open_desk(folder / "other") as desk:
        desk.backup(folder / "new.tar")
    return folder / "old", folder / "new.tar"


def assert_is(desk: Refdesk, number: int) -> None:
    """All of this library, and nothing of the other."""
    assert {one.name for one in desk.documents(status="ready")} == {f"note-{number}.md", f"text {number}"}
    assert found_by(desk, word(number)) == [f"note-{number}.md"] and found_by(desk, word(number, 9)) == [
        f"text {number}"
    ]
    assert found_by(desk, word(OLD + NEW - number)) == []
    assert all(finding.well for finding in desk.check_files())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("is_there", [True, False], ids=["replaced", "new"])
def test_killed_at_any_step_of_a_restore(both: tuple[Path, Path], is_there: bool, tmp_path: Path) -> None:
    library, backup = both
    (tmp_path / "steps").mkdir()
    steps = int(finish(start(STEPPING, library if is_there else tmp_path / "none", backup, tmp_path / "steps"), 250))
    assert steps > 20
    kinds = []
    for number in range(1, steps + 1):
        place = tmp_path / "steps" / str(number)
        with open_desk(place) as desk:
            names = {one.name for one in desk.documents()}
            if not is_there and not names:
                kinds.append("nothing")
            else:
                kinds.append("old" if f"text {OLD}" in names else "new")
                assert_is(desk, OLD if kinds[-1] == "old" else NEW)
        assert not list(place.glob("restore.*[!k]")), number  # no leftovers but the lock
        if number % 10 == 0:
            with open_desk(place) as desk:
                assert_whole(desk)
                assert_repaired(desk)
        shutil.rmtree(place)
    # First the old one, from one step on the new one: never back again.
    before = "old" if is_there else "nothing"
    turned = kinds.index("new")
    assert kinds == [before] * turned + ["new"] * (steps - turned) and turned > 5 and steps - turned > 5


def test_a_restore_that_fails_leaves_nothing_behind(both: tuple[Path, Path], tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(both[0], library)
    cut = tmp_path / "cut.tar"
    cut.write_bytes(both[1].read_bytes()[: both[1].stat().st_size // 2])
    with pytest.raises(LibraryDamaged):
        Refdesk.restore(cut, library, replace=True)
    assert not list(library.glob("restore.*[!k]"))
    with open_desk(library) as desk:
        assert_is(desk, OLD)
    with pytest.raises(LibraryDamaged):
        Refdesk.restore(cut, tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()


# a database that is gone


@pytest.mark.parametrize("harm", ["emptied", "removed", "emptied beside its log", "without tables"])
def test_a_database_that_is_gone_is_no_empty_library(harm: str, both: tuple[Path, Path], tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(both[0], library)
    database = library / "library.db"
    if harm == "removed":
        database.unlink()
    else:
        database.write_bytes(b"")
    if harm == "emptied beside its log":
        shutil.rmtree(library / "files")
        shutil.rmtree(library / "index")
        (library / "library.db-wal").write_bytes(b"x" * 5000)
    if harm == "without tables":
        import sqlite3

        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE other (x)")
        connection.close()
    touched = {"writer.lock", "library.db"} if harm == "without tables" else {"writer.lock"}  # opening it sets WAL mode
    before = {path: path.read_bytes() for path in library.rglob("*") if path.is_file() and path.name not in touched}
    for command in (["list"], ["doctor"], ["reindex"], ["search", "lamp"]):
        done = run_refdesk("--library", library, *command)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert "refdesk restore FILE --replace" in done.stderr and "cannot help" in done.stderr
        if harm != "without tables":
            break
    after = {path: path.read_bytes() for path in before if path.exists()}
    assert after == before  # nothing that was left is cleared
    with pytest.raises(UsageError, match="already"):
        Refdesk.restore(both[1], library)
    Refdesk.restore(both[1], library, replace=True)
    with open_desk(library) as desk:
        assert_is(desk, NEW)


def test_a_folder_without_a_library_is_one_that_can_be_begun(tmp_path: Path) -> None:
    library = tmp_path / "library"
    for folder in ("files", "renders", "uploads", "runs"):  # a start that was killed before the database was made
        (library / folder).mkdir(parents=True)
    (library / "library.db").touch()
    (library / "refdesk.toml").write_text('[settings]\n"rag.top_k" = 5\n')
    with open_desk(library) as desk:
        assert desk.documents() == [] and desk.settings.top_k == 5


# originals and uploads


def findings(desk: Refdesk) -> dict[str, str]:
    return {one.name: one.text for one in examine(desk) if not one.well and one.name != "disk"}


def test_doctor_and_backup_see_originals_and_uploads_that_are_missing_or_altered(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    library = tmp_path / "library"
    shutil.copytree(both[0], library)
    with open_desk(library) as desk:
        desk.add(write_note(tmp_path, 7))
        kept, gone, changed = (hand_in(desk, name, name.encode()) for name in ("kept.txt", "gone.txt", "changed.txt"))
        assert findings(desk) == {}
        told: list[str] = []
        desk.backup(tmp_path / "whole.tar", on_damage=told.append)
        assert told == []
        desk.original("note-1.md").unlink()
        desk.original("note-7.md").write_bytes(b"something else")
        desk.files.staged(gone.id).unlink()
        desk.files.staged(changed.id).write_bytes(b"something else")
        ill = findings(desk)
        assert set(ill) == {"originals", "uploads"}
        assert "note-1.md is missing" in ill["originals"] and "note-7.md is altered" in ill["originals"]
        assert "gone.txt is missing" in ill["uploads"] and "changed.txt is altered" in ill["uploads"]
        assert "kept.txt" not in ill["uploads"]
        desk.backup(tmp_path / "less.tar", on_damage=told.append)
        assert sorted(told) == [
            "changed.txt is altered",
            "gone.txt is missing",
            "note-1.md is missing",
            "note-7.md is altered",
        ]
    done = run_refdesk("--library", library, "backup", tmp_path / "said.tar")
    assert done.returncode == 1 and "note-1.md is missing" in done.stderr and (tmp_path / "said.tar").is_file()
    Refdesk.restore(tmp_path / "whole.tar", tmp_path / "restored")
    with open_desk(tmp_path / "restored") as desk:  # the whole one holds them all
        assert findings(desk) == {}
        assert {one.name for one in desk.jobs.all().values()} == {"kept.txt", "gone.txt", "changed.txt"}
        assert desk.files.staged(kept.id).read_bytes() == b"kept.txt"


def test_an_upload_keeps_its_hash_as_it_goes_on(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        accepted = hand_in(desk, "a.txt", b"The lamp was lit.")
        desk.jobs.change([replace(accepted, status="processing")])
        assert desk.jobs.all()[accepted.id].content_hash == accepted.content_hash != ""
        assert "content_hash" not in accepted.to_dict()


# rights


def wide(folder: Path) -> dict[str, str]:
    """What others may reach; the folder itself is `.`."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        if path.lstat().st_mode & 0o077:
            found[path.relative_to(folder).as_posix()] = stat.filemode(path.lstat().st_mode)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="other rights")
def test_only_the_owner_can_read_a_library_and_its_backups(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        library = make(tmp_path / "library", OLD, tmp_path / "notes")
        with open_desk(library) as desk:
            hand_in(desk, "a.txt", b"The lamp was lit.")
            with desk.at_work():
                desk.search("lamp")
                assert (library / "library.db-wal").exists() and wide(library) == {}
            desk.remove("text 1")
            desk.reindex()
            assert wide(library) == {}
            backup = desk.backup(tmp_path / "backup.tar")
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        Refdesk.restore(backup, tmp_path / "restored")
        assert wide(tmp_path / "restored") == {} and wide(library) == {}
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform == "win32", reason="other rights")
def test_a_library_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    library = make(tmp_path / "library", OLD, tmp_path / "notes")
    for path in (library, *library.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with open_desk(library) as desk:
        assert wide(library) == {}
        said = {one.name: one for one in examine(desk)}["rights"]
        assert said.well and "were open to other users" in said.text
        (library / "files").chmod(0o755)
        said = {one.name: one for one in examine(desk)}["rights"]
        assert not said.well and "chmod" in said.advice
