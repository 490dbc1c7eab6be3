"""Files handed in over the network: added in the background, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import resource
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas
from sqlalchemy import update

import upload_samples
from library_samples import open_desk, start, wait_until
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.errors import AccessDenied, DiskFull, NotFound, UsageError
from refdesk.records import LOCAL, Caller
from refdesk.serve.uploads import Uploads, label
from refdesk.store.schema import jobs, state
from refdesk.types import Job
from upload_samples import done, hand_in

STORES = ON_DISK
pytestmark = pytest.mark.usefixtures("new_folder")  # in `tmp_path / "library"`

desk, uploads = upload_samples.desk, upload_samples.running
READER = Caller("r1", "Rita", "reader", ("open",))
ANNA = Caller("a1", "Anna", "editor", ("open", "finance"))
BERT = Caller("b1", "Bert", "editor", ("open",))
CHIEF = Caller("c1", "Carla", "admin", ("open",))

# Accepts two files, says so, and begins to add them.
ACCEPTING = """
import sys, time
from refdesk import Refdesk
from refdesk.records import LOCAL
from refdesk.serve.uploads import Uploads, new_upload
with Refdesk(sys.argv[1], settings={"ingest.workers": 1, "ingest.ocr": False}) as desk:
    uploads = Uploads(desk)
    for number in range(2):
        with uploads.receiving() as (upload_id, file):
            text = f"# Tide {number}\\n\\n" + f"The gauge {number} was read at noon. " * 2500
            size = file.write(text.encode())
            uploads.accept(new_upload(upload_id, f"tide-{number}.md", "default", LOCAL, size=size), file)
    with uploads.receiving() as (upload_id, file):
        file.write(b"half of a fi")
        uploads.start()
        while not any(one.status == "processing" for one in uploads.listed(LOCAL)):
            time.sleep(0.02)
        print("processing", flush=True)
        time.sleep(60)
"""


def locked_pdf(password: str) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption(password))
    canvas.drawString(72, 700, "The vault is behind the chandlery.")
    canvas.save()
    return buffer.getvalue()


def test_files_become_documents_and_bad_ones_say_why(desk: Refdesk, uploads: Uploads) -> None:
    hand_in(desk, "a.md", b"# Harbour\n\nThe mole was finished in 1911.", metadata={"year": "1911"})
    hand_in(desk, "b.pdf", b"%PDF-1.7 and then nothing")
    hand_in(desk, "c.bin", bytes(range(256)) * 8, collection="odd")
    uploads.wake()
    good, broken, odd = done(uploads)
    assert (good.status, good.outcome, good.reason) == ("ready", "added", "")
    assert good.chunks_done == good.chunks_total == 1 and good.seconds_left is None
    document = desk.document(good.document_id)
    assert (document.name, document.metadata["year"], document.source) == ("a.md", "1911", f"upload:{good.id}")
    assert desk.search("When was the mole finished?")[0].document.id == document.id
    assert desk.original(document.id).read_bytes().startswith(b"# Harbour")
    assert not desk.files.staged(good.id).exists(), "the original is kept once"
    for failed in (broken, odd):
        assert failed.status == "failed" and len(failed.reason) > 20
        assert desk.document(failed.document_id).error == failed.reason
        assert desk.files.staged(failed.id).exists(), "for another try"


def test_the_same_name_replaces_and_the_same_content_is_left(desk: Refdesk, uploads: Uploads) -> None:
    hand_in(desk, "tariff.md", b"The berth costs 12 crowns a day.")
    hand_in(desk, "tariff.md", b"The berth costs 15 crowns a day.")  # waits for the first
    uploads.wake()
    done(uploads)
    hand_in(desk, "copy.md", b"The berth costs 15 crowns a day.")
    uploads.wake()
    done(uploads)
    copy, second, first = uploads.listed(LOCAL)
    assert (first.outcome, second.outcome, copy.outcome) == ("added", "replaced", "unchanged")
    assert copy.reason == "same content as tariff.md"
    assert first.document_id == second.document_id == copy.document_id
    assert [one.name for one in desk.documents()] == ["tariff.md"]
    assert "15 crowns" in desk.search("berth")[0].chunk.text


def test_of_two_that_come_in_one_moment_the_second_is_the_later(desk: Refdesk) -> None:
    moments = [desk.jobs.submit([Job(str(number), "plan.md", "default")])[0].created_at for number in range(200)]
    assert sorted(set(moments)) == moments
    assert list(desk.jobs.all()) == [str(number) for number in range(200)]


@pytest.mark.only_on("sql", reason="what is read again is the same for every store")
def test_a_renamed_document_is_not_replaced_by_a_new_file_of_its_old_name(desk: Refdesk, uploads: Uploads) -> None:
    hand_in(desk, "contract.md", b"The lease of 2023 is for one year.")
    uploads.wake()
    (first,) = done(uploads)
    desk.rename(first.document_id, "contract-2023.md")
    hand_in(desk, "contract.md", b"The lease of 2024 is for two years.")
    uploads.wake()
    assert [one.outcome for one in done(uploads)] == ["added", "added"]
    assert sorted(one.name for one in desk.documents()) == ["contract-2023.md", "contract.md"]


@pytest.mark.only_on("sql", reason="what is read again is the same for every store")
def test_a_failed_one_is_tried_again_with_its_password(desk: Refdesk, uploads: Uploads) -> None:
    hand_in(desk, "secret.pdf", locked_pdf("tide"))
    uploads.wake()
    (locked,) = done(uploads)
    assert locked.status == "failed" and "password" in locked.reason
    uploads.retry(locked.id, LOCAL, "tide")
    (opened,) = done(uploads)
    assert (opened.status, opened.document_id, opened.password) == ("ready", locked.document_id, None)
    assert "password" not in opened.to_dict()
    with pytest.raises(UsageError, match="has not failed"):
        uploads.retry(opened.id, LOCAL)


def test_a_failed_one_is_superseded_by_its_next_edition(desk: Refdesk, uploads: Uploads) -> None:
    hand_in(desk, "plan.pdf", b"%PDF-1.7 torn")
    uploads.wake()
    (torn,) = done(uploads)
    hand_in(desk, "plan.pdf", b"The new quay is 90 metres long.")  # what it is, its content says
    uploads.wake()
    (whole,) = done(uploads)
    assert (whole.status, whole.document_id) == ("ready", torn.document_id)
    assert [one.status for one in desk.documents()] == ["ready"]


@pytest.mark.only_on("sql", reason="for PostgreSQL tests/test_workers.py kills and stops them")
def test_a_killed_server_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    process = start(ACCEPTING, folder)
    assert process.stdout is not None and process.stdout.readline() == "processing\n"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list((folder / "files" / "waiting").glob("*.part"))) == 1
    with open_desk(folder) as desk:
        left = desk.jobs.all().values()
        assert sorted(one.name for one in left) == ["tide-0.md", "tide-1.md"], "the half file was never accepted"
        uploads = Uploads(desk)
        uploads.start()
        assert [one.status for one in done(uploads)] == ["ready", "ready"]
        uploads.stop()
        assert sorted((one.name, one.status) for one in desk.documents()) == [
            ("tide-0.md", "ready"),
            ("tide-1.md", "ready"),
        ]


@pytest.mark.only_on("sql", reason="for PostgreSQL tests/test_workers.py kills and stops them")
def test_what_a_dead_server_accepted_another_add_may_take_over(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    process = start(ACCEPTING, folder)
    assert process.stdout is not None and process.stdout.readline() == "processing\n"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with open_desk(folder) as desk:
        desk.add()
        names = [one.name for one in desk.documents(status="ready")]
        assert set(names) <= {"tide-0.md", "tide-1.md"} and names
        uploads = Uploads(desk)
        uploads.start()
        assert [one.status for one in done(uploads)] == ["ready", "ready"]
        uploads.stop()
        assert len(desk.documents()) == 2, "nothing is there twice"


@pytest.mark.only_on("sql", reason="for PostgreSQL tests/test_workers.py kills and stops them")
def test_a_stopped_server_puts_its_work_down(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with open_desk(folder) as desk:
        hand_in(desk, "long.md", b"The gauge was read at noon. " * 6_000)
        uploads = Uploads(desk)
        uploads.start()
        assert wait_until(lambda: any(one.status == "processing" for one in uploads.listed(LOCAL)))
        uploads.stop()
        assert [one.status for one in uploads.listed(LOCAL)] == ["processing"]
        (begun,) = desk.documents()
        assert begun.status in ("pending", "processing") and not desk.search("gauge")
    with open_desk(folder) as desk:
        uploads = Uploads(desk)
        uploads.start()
        assert [(one.status, one.document_id) for one in done(uploads)] == [("ready", begun.id)]
        uploads.stop()


def test_what_a_stopped_server_had_begun_is_taken_back(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        upload = hand_in(desk, "long.md", b"The gauge was read at noon. " * 6_000)
        first, second = Uploads(desk), Uploads(desk)
        first.start()
        assert wait_until(lambda: any(one.status == "processing" for one in first.listed(LOCAL)))
        first.stop()
        assert len(desk.documents()) == 1
        second.forget(upload.id, LOCAL)
        second.start()
        assert wait_until(lambda: not desk.documents() and not desk.files.staged(upload.id).exists())
        second.stop()
        assert second.listed(LOCAL) == []


def test_two_processes_share_one_queue(desk: Refdesk) -> None:
    with open_desk(desk.folder) as other:
        here, there = Uploads(desk), Uploads(other)
        for number in range(6):
            hand_in(desk if number % 2 else other, f"n{number}.md", f"Buoy {number} is red.".encode())
        here.start(), there.start()
        assert [one.outcome for one in done(here)] == ["added"] * 6
        assert [one.outcome for one in done(there)] == ["added"] * 6
        here.stop(), there.stop()
    assert len(desk.documents(status="ready")) == 6


@pytest.mark.only_on("sql", reason="it is told by the process, not by the store")
def test_subscribers_see_every_step_and_only_what_is_theirs(desk: Refdesk, uploads: Uploads) -> None:
    async def follow(caller: Caller) -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []
        async for changed in uploads.changes(caller):
            seen += [(one.name, one.status) for one in changed]
            if all(one.status == "ready" for one in desk.jobs.all().values()) and not changed:
                return seen
        return seen

    async def both() -> list[list[tuple[str, str]]]:
        return await asyncio.gather(follow(ANNA), follow(ANNA), follow(BERT), follow(CHIEF))

    hand_in(desk, "f.md", b"The levy is 4 per cent. " * 2500, ANNA, "finance")
    hand_in(desk, "o.md", b"The gate opens at eight.", ANNA, "open")
    hand_in(desk, "b.md", b"The gate closes at five.", BERT, "open")
    threading.Timer(0.3, uploads.wake).start()
    anna, twice, bert, chief = asyncio.run(both())
    assert {name for name, _ in anna} == {name for name, _ in twice} == {"f.md", "o.md"}
    assert [status for name, status in anna if name == "f.md"][-1] == "ready"
    assert ("f.md", "processing") in anna and ("f.md", "processing") in twice
    assert {name for name, _ in bert} == {"b.md"}
    assert {name for name, _ in chief} == {"o.md", "b.md"}, "an admin sees everyone's, within the collections"


def test_what_belongs_to_another_is_not_there(desk: Refdesk, uploads: Uploads) -> None:
    own = hand_in(desk, "f.pdf", b"%PDF-1.7 torn", ANNA, "finance")
    uploads.wake()
    done(uploads)
    with pytest.raises(NotFound) as hidden:
        uploads.get(own.id, BERT)
    with pytest.raises(NotFound) as unknown:
        uploads.get("0" * 24, BERT)
    assert str(hidden.value).replace(own.id, "") == str(unknown.value).replace("0" * 24, "")
    with pytest.raises(NotFound):
        uploads.retry(own.id, BERT)
    with pytest.raises(AccessDenied):
        uploads.forget(own.id, Caller("a1", "Anna", "reader", ("finance",)))
    uploads.forget(own.id, ANNA)
    assert uploads.listed(LOCAL) == [] and not desk.files.staged(own.id).exists()


def test_what_is_old_is_cleared_away_and_nothing_else(desk: Refdesk) -> None:
    old, new, waiting = (hand_in(desk, name, name.encode()) for name in ("old.md", "new.md", "waiting.md"))
    desk.jobs.change([replace(one, status="failed") for one in (old, new)])
    long_ago = {"updated_at": "2020-01-01T00:00:00.000+00:00"}
    with desk._engine.begin() as connection:
        connection.execute(update(jobs).where(jobs.c.id.in_([old.id, waiting.id])).values(long_ago))
        connection.execute(update(state).where(state.c.name == "jobs").values(value="1000"))
    stale, fresh = (desk.files.waiting / name for name in ("0123.part", "4567.part"))
    for part in (stale, fresh):
        part.write_bytes(b"half")
    os.utime(stale, (0, 0))
    for path in desk.files.waiting.glob("????????????????????????"):
        os.utime(path, (0, 0))
    uploads = Uploads(desk)
    uploads._worker.clear()
    assert sorted(one.name for one in desk.jobs.all().values()) == ["new.md", "waiting.md"]
    assert [desk.files.staged(one.id).exists() for one in (old, new, waiting)] == [False, True, True]
    assert fresh.exists() and not stale.exists()


def test_a_full_disk_is_said_and_leaves_nothing(desk: Refdesk) -> None:
    with pytest.raises(DiskFull, match="the server's disk is full"), Uploads(desk).receiving() as (_, file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(desk.files.waiting.iterdir()) == []


@pytest.mark.only_on("sql", reason="the record is a file of the library's own")
def test_a_disk_that_has_no_room_for_the_record_keeps_no_file_either(desk: Refdesk) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # the file fits, the record does not
    try:
        with pytest.raises(DiskFull, match="the server's disk is full"):
            hand_in(desk, "a.md", b"half")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(desk.files.waiting.iterdir()) == [] and desk.jobs.all() == {}


def test_uploads_of_a_library_from_before_jobs_were_rows_are_read_in(tmp_path: Path) -> None:
    folder = tmp_path / "library" / "uploads"
    with open_desk(folder.parent) as desk, desk._engine.begin() as connection:
        jobs.drop(connection)
    folder.mkdir()
    for number, status in enumerate(("pending", "ready", "failed")):
        record = {"id": f"{number}" * 24, "name": f"{number}.md", "collection": "default", "status": status}
        moment = {"created_at": f"2026-10-0{number + 1}", "updated_at": datetime.now(UTC).isoformat()}
        (folder / f"{record['id']}.json").write_text(json.dumps(record | moment | {"of_another_version": 1}))
        if status != "ready":
            (folder / f"{record['id']}.data").write_bytes(b"The lamp was lit at dusk.")
    (folder / "bad.json").write_text('{"id": ')
    (folder / "worse.json").write_text('["id"]')
    (folder / "worker.lock").touch()
    with open_desk(folder.parent) as desk:
        assert [(one.name, one.status) for one in desk.jobs.all().values()] == [
            ("0.md", "pending"),
            ("1.md", "ready"),
            ("2.md", "failed"),
        ]
        assert not folder.exists() and len(list(desk.files.waiting.iterdir())) == 2
        uploads = Uploads(desk)
        uploads.start()
        assert [one.status for one in done(uploads)] == ["ready", "ready", "failed"]
        uploads.stop()
        assert [one.name for one in desk.documents()] == ["0.md"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "etc/passwd"),
        ("C:\\Users\\a\\..\\b.txt", "Users/a/b.txt"),
        ("/", "unnamed"),
        ("", "unnamed"),
        ("a\x00\n\u202eb.txt", "ab.txt"),
        ("<img src=x onerror=alert(1)>.md", "<img src=x onerror=alert(1)>.md"),
        ("x" * 400 + ".pdf", "x" * 251 + ".pdf"),
        ("\ud800.txt", "?.txt"),
    ],
)
def test_names_are_labels(name: str, shown: str) -> None:
    assert label(name) == shown
