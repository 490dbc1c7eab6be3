"""Killed at any point, a library opens, SQL and indexes agree, and everything is either there or taken up again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from library_samples import (
    ADDING,
    DYING_AT,
    SETTINGS,
    assert_repaired,
    assert_whole,
    finish,
    found_by,
    left_behind,
    open_desk,
    start,
    wait_until,
    word,
    write_mail,
    write_note,
    write_notes,
)
from refdesk import Refdesk
from timing import PATIENCE_S

ROUNDS = int(os.environ.get("REFDESK_KILLS", "20"))  # `make slow` has fifty
NOTES = 32
MAILS = 3


@pytest.mark.slow
def test_killed_again_and_again_at_random(tmp_path: Path) -> None:
    library, notes = tmp_path / "library", write_notes(tmp_path / "notes", NOTES)
    chance = random.Random(20)
    versions = dict.fromkeys(range(NOTES), 0)
    mails = dict.fromkeys(range(900, 900 + MAILS), 0)
    for number in mails:
        write_mail(notes, number)
    began = time.monotonic()
    finish(start(ADDING, tmp_path / "timing", notes))
    duration = time.monotonic() - began
    killed = 0
    for turn in range(ROUNDS):
        process, began = start(ADDING, library, notes), time.monotonic()
        try:
            process.wait(chance.uniform(0.0, duration))
            duration = min(duration, time.monotonic() - began)  # the machine has more time than when it was measured
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.communicate()
        assert wait_until(lambda session=process.pid: not left_behind(session)), "a worker outlived its program"
        with open_desk(library) as desk:
            assert_whole(desk)
            assert_repaired(desk)
        # From now on there is something to add, to replace and to remove in every round.
        for number in chance.sample(sorted(versions), 12):
            versions[number] += 1
            write_note(notes, number, versions[number])
        changed = chance.choice(sorted(mails))
        mails[changed] += 1
        write_mail(notes, changed, mails[changed])
        if turn % 3 == 2:
            gone = chance.choice(sorted(versions))
            del versions[gone]
            (notes / f"note-{gone}.md").unlink()
            versions[NOTES + turn] = 0
            write_note(notes, NOTES + turn)
    assert killed > ROUNDS // 2
    finish(start(ADDING, library, notes))
    with open_desk(library) as desk:
        assert_repaired(desk)
        names = (
            {f"note-{n}.md" for n in versions} | {f"mail-{n}.eml" for n in mails} | {f"sheet-{n}.txt" for n in mails}
        )
        assert {document.name for document in desk.documents(status="ready")} == names
        for number, version in versions.items():
            assert found_by(desk, word(number, version)) == [f"note-{number}.md"]
        for number, version in mails.items():
            assert found_by(desk, word(number, version)) == [f"sheet-{number}.txt"]
        assert_whole(desk)
        assert list((library / "runs").iterdir()) == []
        assert len([path for path in (library / "files").rglob("*") if path.is_file()]) == len(names)


# Runs one change of a library and ends, as kill -9 does, at the nth call of a function: before it, or after.
DYING = f"""
import json, os, sys
from refdesk import Refdesk
from refdesk import desk as engine
from refdesk.files import local as files
from refdesk.index import lexical as lexical_tantivy
from refdesk.index import local as index
from refdesk.store import jobs, rows, writer

change, place, name, nth, when = json.loads(sys.argv[2])
owner = eval(place)
{DYING_AT}
index.EXACT_BELOW = 2  # so that a snapshot is made of a library this small
desk = Refdesk(sys.argv[1], settings={SETTINGS!r})
desk.parts.index.refresh()
die_at(owner, name, nth, when)
if change == "add":
    desk.add_texts([(f"new {{n}}", f"The lamp zq{{n}}v7 was lit at dusk.") for n in range(3)])
elif change == "replace":
    desk.add_texts([(f"text {{n}}", f"The buoy zq{{n}}v1 was moored.") for n in range(4)])
elif change == "remove":
    desk.remove("text 0", "text 1")
elif change == "compact":
    desk.parts.compact(force=True)
elif change == "rebuild":
    desk.reindex()
os._exit(0)
"""

STORE_STEPS = [
    ("writer.SqlWriter", "_claim_space", 1, "after"),
    ("writer.SqlWriter", "_number", 1, "after"),
    ("writer.SqlWriter", "_keep_files", 1, "after"),
    ("lexical_tantivy.LexicalIndex", "write", 1, "before"),
    ("lexical_tantivy.LexicalIndex", "write", 1, "after"),
    ("writer.SqlWriter", "_insert_content", 1, "after"),
    ("writer", "unused", 1, "after"),
    ("files.LocalFiles", "remove", 1, "before"),
    ("writer.SqlWriter", "_purge", 2, "before"),
    ("lexical_tantivy.LexicalIndex", "merge", 1, "before"),
]
PURGE_STEPS = [
    ("lexical_tantivy.LexicalIndex", "write", 2, "before"),
    ("lexical_tantivy.LexicalIndex", "write", 2, "after"),
]
REMOVE_STEPS = [
    ("writer", "remove_family", 1, "after"),
    ("writer", "unused", 1, "after"),
    ("files.LocalFiles", "remove", 1, "before"),
    ("writer.SqlWriter", "_purge", 2, "before"),
    ("lexical_tantivy.LexicalIndex", "write", 1, "after"),
]
COMPACT_STEPS = [
    ("index.Graph", "save", 1, "after"),
    ("index.VectorIndex", "write_snapshot", 1, "after"),
    ("writer", "bump", 2, "after"),
    ("index.LocalIndex", "remove_old", 1, "before"),
]
REBUILD_STEPS = [
    ("lexical_tantivy.LexicalIndex", "write", 1, "after"),
    ("index.LocalIndex", "rebuild", 1, "after"),
    ("writer", "set_state", 2, "after"),
    ("jobs.Maintenance", "compact", 1, "before"),
    ("jobs.Maintenance", "compact", 1, "after"),
]
POINTS = [
    *(("add", *step) for step in STORE_STEPS[::2]),
    *(("replace", *step) for step in (*STORE_STEPS, *PURGE_STEPS)),
    *(("remove", *step) for step in REMOVE_STEPS),
    *(("compact", *step) for step in COMPACT_STEPS),
    *(("rebuild", *step) for step in REBUILD_STEPS),
]


@pytest.fixture(scope="module")
def small_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "library"
    with open_desk(folder) as desk:
        desk.add_texts([(f"text {number}", f"The buoy {word(number)} was moored.") for number in range(6)])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "replace", "remove", "compact", "rebuild"])
def test_killed_between_two_steps(change: str, small_library: Path, tmp_path: Path) -> None:
    for number, point in enumerate(one for one in POINTS if one[0] == change):
        library = tmp_path / str(number)
        shutil.copytree(small_library, library)
        process = start(DYING, library, json.dumps(point))
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 9, (point, errors)  # 0: the point was never reached
        with open_desk(library) as desk:
            assert_whole(desk)
            assert_expected(desk, change)
            assert_repaired(desk)
            assert_whole(desk)
            assert_expected(desk, change)
            # The same change once more completes.
            if change == "add":
                desk.add_texts([(f"new {n}", f"The lamp {word(n, 7)} was lit at dusk.") for n in range(3)])
                assert [found_by(desk, word(n, 7)) for n in range(3)] == [[f"new {n}"] for n in range(3)], point
            elif change == "replace":
                desk.add_texts([(f"text {n}", f"The buoy {word(n, 1)} was moored.") for n in range(4)])
                assert [found_by(desk, word(n, 1)) for n in range(4)] == [[f"text {n}"] for n in range(4)], point
            elif change == "rebuild":
                assert desk.reindex() == 6
            elif change == "compact":
                assert desk.parts.compact(force=True)
            assert_repaired(desk)
            assert_whole(desk)


def assert_expected(desk: Refdesk, change: str) -> None:
    """All of a batch, or nothing of it."""
    old = [bool(found_by(desk, word(number))) for number in range(6)]
    dense = {hit.document.name for hit in desk.search("The buoy was moored.", method="dense", k=20)}
    assert dense == {document.name for document in desk.documents(status="ready")}
    if change == "add":
        assert all(old) and len({bool(found_by(desk, word(number, 7))) for number in range(3)}) == 1
    elif change == "replace":
        new = [bool(found_by(desk, word(number, 1))) for number in range(4)]
        assert len(set(new)) == 1 and new == [not one for one in old[:4]] and all(old[4:])
    elif change == "remove":
        assert old[0] == old[1] and all(old[2:])
    else:
        assert all(old)
