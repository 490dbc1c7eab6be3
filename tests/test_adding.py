"""What becomes of files: added, left alone, replaced, removed or refused; a bad one does nothing to the others."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import threading
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from conftest import run_refdesk
from library_samples import (
    assert_repaired,
    assert_whole,
    found_by,
    left_behind,
    open_desk,
    start,
    wait_until,
    word,
    write_note,
    write_notes,
)
from memory_desk import ON_DISK
from refdesk.errors import UsageError
from refdesk.types import Added, Progress
from timing import PATIENCE_S

STORES = ON_DISK  # of those that take `new_folder`; the others ask how files are read, which no store knows of

EXAMPLES = Path(__file__).parents[1] / "examples" / "documents"
COMMAND = "from refdesk.serve.cli.documents import main; main()"


def outcomes(results: list[Added]) -> dict[str, str]:
    return {one.name: one.outcome for one in results}


# the same folder again


def test_folder_again_does_nothing(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 4)
    with open_desk(tmp_path / "library") as desk:
        assert set(outcomes(desk.add(notes)).values()) == {"added"}
        before = desk.documents(), desk.parts.documents.state()
        os.utime(notes / "note-0.md")  # touched, not changed
        assert set(outcomes(desk.add(notes)).values()) == {"unchanged"}
        assert set(outcomes(desk.add(notes / "note-1.md", notes, notes)).values()) == {"unchanged"}
        assert (desk.documents(), desk.parts.documents.state()) == before


def test_changed_file_is_replaced_and_keeps_its_id(new_folder: Path, tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 3)
    with open_desk(tmp_path / "library") as desk:
        desk.add(notes)
        known = desk.document("note-1.md")
        write_note(notes, 1, version=1)
        assert outcomes(desk.add(notes)) == {
            "note-0.md": "unchanged",
            "note-1.md": "replaced",
            "note-2.md": "unchanged",
        }
        assert desk.document("note-1.md").id == known.id
        assert found_by(desk, word(1)) == [] and found_by(desk, word(1, 1)) == ["note-1.md"]
        kept = [path.name for path in (tmp_path / "library" / "files").rglob("*") if path.is_file()]
        assert sorted(kept) == sorted(document.content_hash for document in desk.documents())


def test_same_content_is_taken_in_once(new_folder: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    write_note(notes, 0)
    shutil.copy(notes / "note-0.md", notes / "copy.md")
    with open_desk(tmp_path / "library") as desk:
        assert sorted(outcomes(desk.add(notes)).values()) == ["added", "unchanged"]
        again = {one.name: one.reason for one in desk.add(notes)}
        assert sorted(again.values()) == ["", f"same content as {desk.documents()[0].name}"]
        # The one that was taken in changes: the other holds the old content now.
        taken = Path(desk.documents()[0].source)
        taken.write_text(f"The buoy {word(5)} was moored.")
        assert sorted(outcomes(desk.add(notes)).values()) == ["added", "replaced"]
        assert len(found_by(desk, word(0))) == len(found_by(desk, word(5))) == 1
        # In another collection it is another document.
        assert "added" in outcomes(desk.add(notes, collection="other")).values()


def test_names_do_not_collide(tmp_path: Path) -> None:
    for number, folder in enumerate(("a", "b")):
        (tmp_path / "notes" / folder).mkdir(parents=True)
        (tmp_path / "notes" / folder / "readme.md").write_text(f"The buoy {word(number)} was moored.")
    with open_desk(tmp_path / "library") as desk:
        desk.add(tmp_path / "notes")
        assert {document.name for document in desk.documents()} == {"a/readme.md", "b/readme.md"}
        desk.add(tmp_path / "notes" / "a")  # the same file by another way is the same document
        desk.add(tmp_path / "notes" / "a" / "readme.md")
        assert len(desk.documents()) == 2
        assert_whole(desk)


def test_text_twice_in_one_call_is_one_document(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add_texts([("a", f"The buoy {word(1)} was moored."), ("a", f"The buoy {word(2)} was moored.")])
        assert len(desk.documents()) == 1 and found_by(desk, word(2)) == ["a"] and found_by(desk, word(1)) == []
        assert_repaired(desk)


def test_sync_removes_what_is_gone(tmp_path: Path) -> None:
    notes, beside = write_notes(tmp_path / "notes", 3), write_notes(tmp_path / "notes-beside", 1, first=9)
    with open_desk(tmp_path / "library") as desk:
        desk.add(notes, beside)
        desk.add_text("handed in", f"The buoy {word(20)} was moored.")
        (notes / "note-1.md").unlink()
        (beside / "note-9.md").unlink()
        assert outcomes(desk.add(notes)) == {"note-0.md": "unchanged", "note-2.md": "unchanged"}
        assert found_by(desk, word(1)) == ["note-1.md"]
        assert outcomes(desk.add(notes, sync=True))["note-1.md"] == "removed"
        assert {d.name for d in desk.documents()} == {"note-0.md", "note-2.md", "note-9.md", "handed in"}
        assert found_by(desk, word(1)) == []


def test_watch_follows_changes(tmp_path: Path) -> None:
    notes, stop = write_notes(tmp_path / "notes", 2), threading.Event()
    rounds: list[dict[str, str]] = []

    def follow() -> None:
        with open_desk(tmp_path / "library") as watching:
            for results in watching.watch(notes, stop=stop):
                rounds.append(outcomes(results))  # noqa: PERF401 (seen by the other thread at once)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        assert wait_until(lambda: len(rounds) == 1)
        with open_desk(tmp_path / "library") as desk:
            write_note(notes, 7)  # perhaps before the watching has begun
            assert wait_until(lambda: found_by(desk, word(7)) == ["note-7.md"])
            write_note(notes, 0, version=1)
            assert wait_until(lambda: found_by(desk, word(0, 1)) == ["note-0.md"])
            assert found_by(desk, word(0)) == []
            (notes / "note-1.md").unlink()
            assert wait_until(lambda: found_by(desk, word(1)) == [])
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert {"note-1.md": "removed"} in rounds


def test_watch_of_nothing_and_of_the_library_itself(tmp_path: Path) -> None:
    with open_desk(tmp_path / "here" / "library") as desk:
        with pytest.raises(UsageError, match="cannot be watched"):
            next(desk.watch(tmp_path / "nowhere"))
        write_note(tmp_path / "here", 1)
        assert outcomes(next(desk.watch(tmp_path / "here"))) == {"note-1.md": "added"}


# attachments


def mail(*attachments: tuple[str, str], text: str = "Please see the files.") -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Moorings", "a@example.org", "b@example.org"
    message.set_content(text)
    for name, content in attachments:
        message.add_attachment(content, filename=name)
    return message.as_bytes()


def test_example_mail_has_its_attachment(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        parent, child = desk.add(EXAMPLES / "warranty-enquiry.eml")
        assert parent.document is not None and child.document is not None
        assert (child.outcome, child.document.parent_id) == ("added", parent.document.id)
        hits = desk.search("calibration certificate", document=child.document.id)
        assert hits and hits[0].document.name.startswith("calibration-certificate")
        assert {document.id for document in desk.remove(parent.document.id)} == {parent.document.id, child.document.id}
        assert desk.documents() == [] and desk.search("calibration certificate") == []
        assert not [path for path in (tmp_path / "library" / "files").rglob("*") if path.is_file()]


def test_attachments_follow_their_mail(tmp_path: Path) -> None:
    path = tmp_path / "mail.eml"
    path.write_bytes(
        mail(("a.txt", f"Buoy {word(1)} here."), ("a.txt", f"Buoy {word(2)} here."), ("b.txt", "Lamp oil."))
    )
    with open_desk(tmp_path / "library") as desk:
        desk.add(path)
        assert found_by(desk, word(1)) == ["a.txt"] and found_by(desk, word(2)) == ["a (2).txt"]
        known = desk.document("b.txt")
        path.write_bytes(
            mail(("a.txt", f"Buoy {word(3)} here."), ("b.txt", "Lamp oil."), text="The files have changed.")
        )
        results = outcomes(desk.add(path))
        assert results == {"mail.eml": "replaced", "a.txt": "replaced"}
        assert desk.document("b.txt") == known
        assert [found_by(desk, word(n)) for n in (1, 2, 3)] == [[], [], ["a.txt"]]
        assert_repaired(desk)


def test_attachments_of_a_killed_run_are_taken_up_again(new_folder: Path, tmp_path: Path) -> None:
    """Killed after the mail was stored and before its attachments were."""
    path = tmp_path / "mail.eml"
    path.write_bytes(
        mail(("a.txt", f"Buoy {word(1)} here."), ("inner.eml", f"From: c@d.org\n\nBuoy {word(2)} here.\n"))
    )
    killed = """
import os, sys
from refdesk import Refdesk
with Refdesk(sys.argv[1]) as desk:
    desk.add(sys.argv[2], on_added=lambda added: os._exit(9))
"""
    process = start(killed, tmp_path / "library", path)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9
    with open_desk(tmp_path / "library") as desk:
        assert [(d.name, d.status) for d in desk.documents()] == [
            ("a.txt", "pending"),
            ("inner.eml", "pending"),
            ("mail.eml", "ready"),
        ]
        desk.add()  # what `refdesk add --resume` does
        assert {d.name: d.status for d in desk.documents()} == dict.fromkeys(
            ("a.txt", "inner.eml", "mail.eml"), "ready"
        )
        assert found_by(desk, word(1)) == ["a.txt"] and found_by(desk, word(2)) == ["inner.eml"]
        assert desk.add() == []
        assert_repaired(desk)


# bad files


def encrypted_pdf(sentence: str) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption("sesame", "owner", strength=128))
    canvas.drawString(72, 700, sentence)
    canvas.save()
    return buffer.getvalue()


def test_bad_files_in_the_middle_of_good_ones(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 4)
    (notes / "note-1b-empty.txt").touch()
    (notes / "note-1c-secret.pdf").write_bytes(encrypted_pdf(f"The buoy {word(30)} was moored."))
    (notes / "note-1d-broken.pdf").write_bytes(b"%PDF-1.7\n" + bytes(100))
    (notes / "note-1e-huge.txt").touch()
    os.truncate(notes / "note-1e-huge.txt", 2 << 30)
    (notes / "note-1f-gone.txt").symlink_to(tmp_path / "nowhere")
    with open_desk(tmp_path / "library") as desk:
        results = {one.name: one for one in desk.add(notes)}
        failed = {name: one.reason for name, one in results.items() if one.outcome == "failed"}
        assert {name.split("-")[-1].split(".")[0] for name in failed} == {"empty", "secret", "broken", "huge", "gone"}
        for reason in failed.values():
            assert reason and "\n" not in reason and "Traceback" not in reason
        assert "password" in failed["note-1c-secret.pdf"]
        assert "512 MB" in failed["note-1e-huge.txt"]
        assert len(desk.documents(status="ready")) == 4
        for document in desk.documents(status="failed"):
            assert document.error == failed[document.name] and document.chunk_count == 0
            assert desk.chunks(document.id) == [] and desk.search("buoy", document=document.id) == []
        assert_repaired(desk)
        # Tried again, and in when put right.
        results = {one.name: one for one in desk.add(notes, password="wrong")}
        assert results["note-1c-secret.pdf"].outcome == "failed"
        (notes / "note-1d-broken.pdf").write_text(f"The buoy {word(31)} was moored.")
        results = {one.name: one for one in desk.add(notes, password="sesame")}
        assert results["note-1c-secret.pdf"].outcome == results["note-1d-broken.pdf"].outcome == "added"
        assert found_by(desk, word(30)) == ["note-1c-secret.pdf"] and found_by(desk, word(31)) == ["note-1d-broken.pdf"]
        assert desk.document("note-1c-secret.pdf").error == ""


def test_a_file_that_breaks_keeps_its_old_content_until_it_is_whole(tmp_path: Path) -> None:
    path = write_note(tmp_path / "notes", 0)
    with open_desk(tmp_path / "library") as desk:
        desk.add(path)
        size = path.stat().st_size
        path.write_bytes(b"%PDF-1.7\n".ljust(size, b"\0"))
        assert outcomes(desk.add(path)) == {"note-0.md": "failed"}
        assert found_by(desk, word(0)) == ["note-0.md"]
        assert desk.document("note-0.md").status == "ready" and desk.document("note-0.md").error
        assert outcomes(desk.add(path)) == {"note-0.md": "failed"}  # not taken for unchanged
        write_note(tmp_path / "notes", 0, version=1)
        assert outcomes(desk.add(path)) == {"note-0.md": "replaced"}
        assert desk.document("note-0.md").error == "" and found_by(desk, word(0)) == []


def test_file_vanishes_before_it_is_read(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 5)
    with open_desk(tmp_path / "library") as desk:
        results = desk.add(notes, on_progress=lambda progress: (notes / "note-4.md").unlink(missing_ok=True))
        assert [(one.name, one.reason) for one in results if one.outcome == "failed"] == [
            (
                "note-4.md",
                "it cannot be read: No such file or directory; check that it exists and that you can read it",
            )
        ]
        assert len(desk.documents(status="ready")) == 4 and found_by(desk, word(4)) == []


def test_progress_rises_and_ends_complete(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 6)
    shutil.copy(EXAMPLES / "warranty-enquiry.eml", notes)
    shutil.copy(EXAMPLES / "tg4-drift-report.pdf", notes)
    (notes / "empty.txt").touch()
    seen: list[Progress] = []
    with open_desk(tmp_path / "library") as desk:
        results = desk.add(notes, on_progress=seen.append)
    for before, after in pairwise(seen):
        for name in ("documents_total", "documents_done", "documents_failed", "pages_done", "chunks_done", "seconds"):
            assert getattr(before, name) <= getattr(after, name), name
        assert after.documents_done <= after.documents_total
        assert after.pages_done <= after.pages_total and after.chunks_done <= after.chunks_total
    last = seen[-1]
    assert last.documents_total == last.documents_done == len(results) == 10
    assert last.documents_failed == 1
    assert last.pages_done == last.pages_total and last.chunks_done == last.chunks_total > 0
    assert last.working_on == () and last.chunks_per_second > 0
    assert any("tg4-drift-report.pdf" in one.working_on for one in seen)


def test_name_that_is_no_text(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 2)
    odd = os.fsencode(notes) + b"/caf\xe9.txt"
    try:
        with open(odd, "w") as file:  # noqa: PTH123 (a name in bytes)
            file.write("The lamp was lit.")
    except OSError:  # a file system that allows text only: nothing can go wrong there
        return
    with open_desk(tmp_path / "library") as desk:
        results = {one.name: one for one in desk.add(notes, sync=True)}
        assert results["caf?.txt"].outcome == "failed" and "rename it" in results["caf?.txt"].reason
        assert len(desk.documents()) == len(desk.documents(status="ready")) == 2


def test_mistyped_path_leaves_nothing_behind(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        [result] = desk.add(tmp_path / "nowhere.txt")
        assert (result.outcome, result.document) == ("failed", None) and "No such file" in result.reason
        assert desk.documents() == []


# the command line


def refdesk(library: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_refdesk("--library", library, "--set", "ingest.workers=1", *map(str, arguments))


def test_exit_codes(tmp_path: Path) -> None:
    notes, library = write_notes(tmp_path / "notes", 2), tmp_path / "library"
    assert refdesk(library, "add", notes).returncode == 0
    (notes / "empty.txt").touch()
    bad = refdesk(library, "add", notes)
    assert bad.returncode == 1 and "Traceback" not in bad.stderr
    assert refdesk(library, "add").returncode == 2
    assert refdesk(library, "add", tmp_path / "nowhere").returncode == 1
    assert refdesk(library, "search", word(1), "--json").returncode == 0
    assert refdesk(tmp_path / "other", "search", "anything").returncode == 3
    assert refdesk(library, "doctor").returncode == 0


MANY = 400  # notes; more than can be added before the test has seen the first


def test_interrupted_add_keeps_what_is_finished(tmp_path: Path) -> None:
    library, notes = tmp_path / "library", write_notes(tmp_path / "notes", MANY)
    environment = os.environ | {"REFDESK_LIBRARY": str(library)}
    process = start(COMMAND, "--set", "ingest.workers=1", "add", notes, env=environment)
    with open_desk(library) as desk:
        assert wait_until(lambda: len(desk.documents(status="ready")) > 0)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does it
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130, errors
        assert "Traceback" not in errors and "Stopped" in errors
        assert wait_until(lambda: not left_behind(process.pid))
        documents = desk.documents()
        assert 0 < len(documents) < MANY
        assert {document.status for document in documents} == {"ready"}
        assert list((library / "runs").iterdir()) == []
        assert_repaired(desk)
        finished = {document.name for document in documents}
        assert all((f"note-{n}.md" in finished) == bool(found_by(desk, word(n))) for n in range(0, MANY, 20))


def test_interrupt_from_a_callback_stops_the_add(tmp_path: Path) -> None:
    notes = write_notes(tmp_path / "notes", 6)

    def interrupt(added: Added) -> None:
        raise KeyboardInterrupt

    with open_desk(tmp_path / "library") as desk:
        try:
            desk.add(notes, on_added=interrupt)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the interrupt was swallowed")
        assert {document.status for document in desk.documents()} == {"ready"}
        assert_whole(desk)
        assert set(outcomes(desk.add(notes)).values()) <= {"added", "unchanged"}
        assert len(desk.documents()) == 6
