"""Several processes on one library, and workers that hang, swell or die."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from forked import ForkedProcess
from library_samples import (
    ADDING,
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
    write_note,
    write_notes,
)
from refdesk.errors import ParserDied, ParseTimeout
from refdesk.ingest.workers import PrepareTask, Setup, WorkerPool
from refdesk.types import Document, Progress
from timing import PATIENCE_S
from upload_samples import hand_in, work_off

REPLACING = f"""
import sys
from refdesk import Refdesk
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    for version in range(1, 31):
        desk.add_text("rota", f"The rota zq0v{{version}} names who keeps watch at the lighthouse.")
        print(version, flush=True)
"""

REMOVING = f"""
import sys
from refdesk import Refdesk
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    for number in range(12):
        desk.remove(f"text {{number}}")
        print(number, flush=True)
        desk.add_text(f"more {{number}}", f"The lamp zq{{number}}v1 was lit at dusk.")
        print(number, flush=True)
"""


def test_many_processes_open_a_new_library_at_once(tmp_path: Path) -> None:
    for turn in range(2):
        logs = [tmp_path / f"{turn}-{number}" for number in range(6)]
        command = ["--library", str(tmp_path / f"library {turn}"), "search", "buoy"]
        opening = [ForkedProcess(command, os.environ, log, log.with_suffix(".error")) for log in logs]
        codes = [process.wait(PATIENCE_S) for process in opening]
        assert codes == [3] * 6, [log.read_text() + log.with_suffix(".error").read_text() for log in logs]


def test_two_add_different_folders(tmp_path: Path) -> None:
    library = tmp_path / "library"
    one, two = write_notes(tmp_path / "one", 20), write_notes(tmp_path / "two", 20, first=20)
    adding = [start(ADDING, library, one), start(ADDING, library, two)]
    with open_desk(library) as desk:
        while any(process.poll() is None for process in adding):
            assert all(finding.well for finding in desk.check())  # at every moment
            time.sleep(0.1)
        for process in adding:
            finish(process)
        assert len(desk.documents(status="ready")) == len(desk.documents()) == 40
        assert_whole(desk)
        assert_repaired(desk)


def test_two_add_the_same_folder(tmp_path: Path) -> None:
    library, notes = tmp_path / "library", write_notes(tmp_path / "notes" / "deep", 20)
    for process in [start(ADDING, library, notes), start(ADDING, library, notes.parent), start(ADDING, library, notes)]:
        finish(process)
    with open_desk(library) as desk:
        assert len(desk.documents(status="ready")) == len(desk.documents()) == 20
        assert len({document.source for document in desk.documents()}) == 20
        assert_repaired(desk)
        assert [len(found_by(desk, word(number))) for number in range(20)] == [1] * 20


def test_two_threads_write_through_one_desk(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        failures: list[BaseException] = []

        def add(first: int) -> None:
            try:
                for number in range(first, first + 8):
                    desk.add_text(f"text {number}", f"The buoy {word(number)} was moored.")
                desk.remove(f"text {first}")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=add, args=(first,)) for first in (0, 8, 16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(desk.documents(status="ready")) == 21
        assert_whole(desk)
        assert_repaired(desk)


@pytest.mark.slow
def test_a_reader_sees_the_old_or_the_new(tmp_path: Path) -> None:
    library = tmp_path / "library"
    with open_desk(library) as desk:
        desk.add_text("rota", "The rota zq0v0 names who keeps watch at the lighthouse.")
        desk.add_texts([(f"other {n}", f"The lighthouse keeps a rota of boats, number {n}.") for n in range(12)])
        writer = start(REPLACING, library)
        looks, newest = 0, 0
        while writer.poll() is None:
            for method in ("bm25", "dense", "hybrid"):
                hits = desk.search("Who keeps watch at the lighthouse by the rota?", method=method, k=13)
                versions = [int(hit.chunk.text.split("zq0v")[1].split()[0]) for hit in hits if "zq0v" in hit.chunk.text]
                assert len(versions) == 1, (method, versions)
                assert len(hits) == 13
                assert versions[0] >= newest
                newest = versions[0]
                looks += 1
        finish(writer)
        assert looks > 100
        assert found_by(desk, word(0, 30)) == ["rota"]


def test_a_reader_never_sees_what_was_removed_and_at_once_what_was_added(tmp_path: Path) -> None:
    library = tmp_path / "library"
    with open_desk(library) as desk:
        desk.add_texts([(f"text {number}", f"The buoy {word(number)} was moored.") for number in range(12)])
        assert found_by(desk, word(0)) == ["text 0"]
        writer = start(REMOVING, library)
        assert writer.stdout is not None
        for number in range(12):
            assert writer.stdout.readline() == f"{number}\n"
            assert found_by(desk, word(number)) == found_by(desk, word(number), "dense") == []
            assert writer.stdout.readline() == f"{number}\n"
            assert found_by(desk, word(number, 1)) == [f"more {number}"]
        finish(writer)


def test_removed_chunks_do_not_crowd_out_others(tmp_path: Path) -> None:
    """A writer that was killed before it could purge: its dead chunks take no place among the hits."""
    killed = f"""
import os, sys
from refdesk import Refdesk
from refdesk.store.writer import SqlWriter
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    desk.parts.index.refresh()
    purge, calls = SqlWriter._purge, []
    SqlWriter._purge = lambda self: os._exit(9) if calls else calls.append(purge(self))
    desk.remove(*[document.id for document in desk.documents() if document.name.startswith("text")])
"""
    library = tmp_path / "library"
    with open_desk(library) as desk:
        desk.add_texts([(f"text {number}", "Anchor, anchor, anchor and again anchor.") for number in range(150)])
        desk.add_text("kept", "Among many other things an anchor is named here, in a much longer sentence than those.")
        process = start(killed, library)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 9
        assert [hit.document.name for hit in desk.search("anchor", method="bm25", k=1)] == ["kept"]
        assert [hit.document.name for hit in desk.search("anchor", k=10)] == ["kept"]


# workers


@pytest.fixture
def pool(tmp_path: Path) -> WorkerPool:
    with open_desk(tmp_path / "library", **{"ingest.memory_limit_mb": 512}) as desk:
        setup = Setup(desk.config, desk.settings)
    return WorkerPool(1, setup, memory_limit_mb=512)


def _task(path: Path) -> PrepareTask:
    return PrepareTask(Document("", path.name, "default", "", "pending"), path=path)


def _last_event(pool: WorkerPool, path: Path, time_limit_s: float = 60.0) -> tuple[str, object]:
    pool.submit(1, _task(path), time_limit_s=time_limit_s)
    while True:
        for event in pool.events(1.0):
            if event.kind != "progress":
                return event.kind, event.value


def test_a_worker_that_hangs_swells_or_dies_costs_one_document(pool: WorkerPool, tmp_path: Path) -> None:
    stuck, huge, fine = tmp_path / "stuck.txt", tmp_path / "huge.txt", write_note(tmp_path, 1)
    os.mkfifo(stuck)  # opening it waits for a writer that never comes
    huge.touch()
    os.truncate(huge, 500 << 20)
    try:
        assert _last_event(pool, fine)[0] == "done"
        kind, error = _last_event(pool, stuck, time_limit_s=1.0)
        assert (kind, type(error)) == ("failed", ParseTimeout)
        kind, error = _last_event(pool, huge)
        assert (kind, type(error)) == ("failed", ParserDied)
        assert "512 MB" in str(error)
        assert _last_event(pool, fine)[0] == "done"
        for pid in _workers():
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not _workers())
        time.sleep(0.2)  # the system takes a moment to close what the dead one held
        assert _last_event(pool, fine)[0] == "done"  # it died while idle: no fault of the next document
    finally:
        pool.close()
    assert _workers() == []


def test_a_worker_killed_in_the_middle_of_an_add(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 6)
    stuck = notes / "note-3.md"

    def on_progress(progress: Progress) -> None:
        if stuck.is_file():  # after the files were looked at, and before this one is read
            stuck.unlink()
            os.mkfifo(stuck)
        elif stuck.name in progress.working_on:
            for pid in _workers():
                os.kill(pid, signal.SIGKILL)

    with open_desk(tmp_path / "library") as desk:
        results = {one.name: one for one in desk.add(notes, on_progress=on_progress)}
        assert [name for name, one in results.items() if one.outcome == "failed"] == ["note-3.md"]
        assert "crashed" in results["note-3.md"].reason
        assert desk.document("note-3.md").status == "failed"
        assert len(desk.documents(status="ready")) == 5
        assert _workers() == []


def test_what_nobody_wants_any_more_is_put_down_and_the_others_go_on(tmp_path: Path) -> None:
    """One that waits for its turn, and one at which a worker is stuck this moment."""
    with open_desk(tmp_path / "library") as desk:
        jobs = {
            f"note-{n}.md": hand_in(desk, f"note-{n}.md", f"The buoy {word(n)} was moored.".encode()) for n in range(6)
        }
        stuck, waits = (desk.files.staged(jobs[name].id) for name in ("note-3.md", "note-5.md"))
        ids: dict[str, str] = {}

        def on_progress(progress: Progress) -> None:
            if stuck.is_file():
                ids.update({one.name: one.id for one in desk.documents()})
                stuck.unlink()
                os.mkfifo(stuck)
            elif "note-3.md" in progress.working_on:
                desk.jobs.cancel([stuck.name, waits.name])

        outcomes = {one.name: one.outcome for one in work_off(desk, on_progress)}
        assert outcomes == dict.fromkeys(jobs, "added") | {"note-3.md": "removed", "note-5.md": "removed"}
        stayed = {one.name: one.id for one in desk.documents()}
        assert stayed == {name: id for name, id in ids.items() if name not in ("note-3.md", "note-5.md")}
        assert _workers() == [] and not stuck.exists() and not waits.exists()


def test_a_new_version_that_nobody_wants_leaves_the_old_one(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        hand_in(desk, "note", b"The buoy was moored.")
        (first,) = work_off(desk)
        again = hand_in(desk, "note", b"Read anew.")
        (put_down,) = work_off(desk, lambda _: desk.jobs.cancel([again.id]))
        assert (first.outcome, put_down.outcome) == ("added", "removed")
        assert desk.documents() == [first.document]
        hand_in(desk, "note", b"Read anew.")
        assert [one.outcome for one in work_off(desk)] == ["replaced"]


def test_a_worker_killed_while_it_embeds_costs_no_document(tmp_path: Path) -> None:
    notes, killed = write_notes(tmp_path / "notes", 40), []

    def on_progress(progress: Progress) -> None:
        if not killed and progress.chunks_total == 40 and not progress.working_on:
            killed.extend(_workers())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with open_desk(tmp_path / "library") as desk:
        results = desk.add(notes, on_progress=on_progress)
        assert killed and {one.outcome for one in results} == {"added"}
        assert_whole(desk)


@pytest.mark.parametrize("limit", ["ingest.time_limit_s", "ingest.file_time_limit_s"])
def test_a_document_that_takes_too_long(limit: str, tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 4)
    stuck = notes / "note-2.md"

    def on_progress(progress: Progress) -> None:
        if stuck.is_file():
            stuck.unlink()
            os.mkfifo(stuck)

    # Long enough for the others on a busy machine: the first document of a worker waits for the parser's import.
    with open_desk(tmp_path / "library", **{limit: 8}) as desk:
        results = {one.name: one for one in desk.add(notes, on_progress=on_progress)}
        assert {name for name, one in results.items() if one.outcome == "failed"} == {"note-2.md"}
        assert "not finished after 8 seconds" in results["note-2.md"].reason and limit in results["note-2.md"].reason
        assert len(desk.documents(status="ready")) == 3


def test_workers_leave_in_the_middle_of_a_task(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 3)
    hanging = f"""
import os, sys
from pathlib import Path
from refdesk import Refdesk
stuck = Path(sys.argv[2]) / "note-1.md"
def on_progress(progress):
    if stuck.is_file():
        stuck.unlink()
        os.mkfifo(stuck)
    elif stuck.name in progress.working_on:
        print("stuck", flush=True)
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    desk.add(sys.argv[2], on_progress=on_progress)
"""
    process = start(hanging, tmp_path / "library", notes)
    assert process.stdout is not None and process.stdout.readline() == "stuck\n"
    assert len(left_behind(process.pid)) == 2
    process.kill()
    process.communicate()
    assert wait_until(lambda: not left_behind(process.pid))


def _workers() -> list[int]:
    """The worker processes of this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == os.getpid() and b"refdesk.worker" in command:
            found.append(int(path.name))
    return found
