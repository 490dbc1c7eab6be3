"""A disk that fills up gives one clear sentence, an intact library, and the same add completes once there is room.

Two ways to fill it: a small file system of its own, where this machine lets us make one, and a limit on the size of
files, which the system enforces for everybody.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from library_samples import (
    SETTINGS,
    assert_repaired,
    assert_whole,
    finish,
    found_by,
    open_desk,
    start,
    word,
    write_notes,
)
from refdesk.errors import DiskFull, LibraryError
from timing import PATIENCE_S

BEFORE, AFTER = 10, 150
ROOM = 700_000  # bytes left: enough to begin with, too little for the rest

LIMITED = f"""
import resource, sys
from refdesk import Refdesk
from refdesk.errors import RefdeskError
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    if int(sys.argv[3]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    try:
        desk.add(sys.argv[2])
    except RefdeskError as error:
        print(type(error).__name__, error.sentence, sep="|")
"""


def _mount(folder: Path) -> bool:
    """A file system of eight megabytes; false where only the administrator may."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    folder = tmp_path / "disk"
    mounted = _mount(folder)
    yield folder if mounted else None
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["file_system", "file_size"])
def test_full_disk(way: str, tmp_path: Path, small_disk: Path | None) -> None:
    disk = small_disk if way == "file_system" else None  # without the right to mount, both ways limit the files
    library = (disk or tmp_path) / "library"
    notes = write_notes(tmp_path / "notes", BEFORE)
    finish(start(LIMITED, library, notes, 0))
    write_notes(notes, AFTER, first=BEFORE)
    ballast, limit = library.parent / "ballast", 0
    if disk is not None:
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - ROOM))
    else:
        limit = max(path.stat().st_size for path in library.rglob("*") if path.is_file()) + 100_000
    said = finish(start(LIMITED, library, notes, limit))
    kind, _, sentence = said.strip().partition("|")
    assert kind == DiskFull.__name__, said
    assert sentence.count("\n") == 0 and "full" in sentence and "run the same command again" in sentence
    ballast.unlink(missing_ok=True)
    with open_desk(library) as desk:
        assert_whole(desk)
        assert_repaired(desk)
        ready = {document.name for document in desk.documents(status="ready")}
        assert {f"note-{number}.md" for number in range(BEFORE)} <= ready
        assert len(ready) < BEFORE + AFTER
    assert finish(start(LIMITED, library, notes, 0)) == ""
    with open_desk(library) as desk:
        assert_repaired(desk)
        assert len(desk.documents(status="ready")) == len(desk.documents()) == BEFORE + AFTER
        for number in range(0, BEFORE + AFTER, 7):
            assert found_by(desk, word(number)) == [f"note-{number}.md"]
        assert list((library / "runs").iterdir()) == []


def test_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 100)
    script = 'ulimit -f 600; exec "$0" -c \'from refdesk.serve.cli.documents import main; main()\' -l "$1" add "$2"'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, str(tmp_path / "library"), str(notes)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "full" in done.stderr


# reading

READING = f"""
import sys
from refdesk import Refdesk
from refdesk.errors import RefdeskError
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    print([one.name for one in desk.documents()])
    print([hit.document.name for hit in desk.search("zq3v0", k=1)])
    print("buoy" in desk.pages("note-3.md")[0].text)
    print("zq3v0" in desk.ask_sync("Where was the buoy zq3v0 moored?").content)
    print("zq4v0" in desk.ask_sync("Where was the buoy zq4v0 moored?", conversation_id="c").content)
    try:
        desk.add_text("more", "One text more.")
    except RefdeskError as error:
        print(error.sentence)
    try:
        desk.parts.settings_store.change({{"rag.top_k": 5}})
    except RefdeskError as error:
        print(error.sentence)
"""


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_a_library_is_read_on_a_disk_that_takes_nothing(state: str, tmp_path: Path, small_disk: Path | None) -> None:
    if small_disk is None:
        pytest.skip("mounting is not permitted here")
    library = small_disk / "library"
    with open_desk(library) as desk:
        desk.add_texts([(f"note-{n}.md", f"The buoy {word(n)} was moored in the outer harbour.") for n in range(6)])
        desk.search("buoy")
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    assert shutil.disk_usage(small_disk).free == 0
    if state == "read-only":
        (small_disk / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    lines = finish(start(READING, library)).splitlines()
    assert lines[0] == str([f"note-{n}.md" for n in range(6)]) and lines[1] == "['note-3.md']"
    assert lines[2:5] == ["True"] * 3
    for sentence in lines[5:]:
        assert "I/O error" not in sentence and "Traceback" not in sentence
        assert ("is full" if state == "full" else "cannot be written") in sentence, sentence
    assert len(lines) == 7
    done = subprocess.run(
        [sys.executable, "-m", "refdesk", "-l", str(library), "add", str(write_notes(tmp_path / "notes", 1))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert ("is full" if state == "full" else "cannot be written") in done.stderr


def test_changes_that_are_not_in_the_database_yet_are_never_left_out(tmp_path: Path, small_disk: Path | None) -> None:
    """A killed writer leaves them in library.db-wal: without them, the library would be an older one."""
    if small_disk is None:
        pytest.skip("mounting is not permitted here")
    killed = f"""
import os, sys
from refdesk import Refdesk
desk = Refdesk(sys.argv[1], settings={SETTINGS!r})
desk.add_text("one", "The buoy zq1v0 was moored.")
os._exit(9)
"""
    library = small_disk / "library"
    start(killed, library).communicate(timeout=PATIENCE_S)
    assert (library / "library.db-wal").stat().st_size
    (library / "library.db-shm").unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(LibraryError, match="does not open"):
        open_desk(library)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    with open_desk(library) as desk:
        assert [one.name for one in desk.documents()] == ["one"]
