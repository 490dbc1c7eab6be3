"""The queue of uploads as a team sees it: turns, second thoughts, twins, and what a killed server leaves half done."""

from __future__ import annotations

import asyncio
import os
import signal
from email.message import EmailMessage
from pathlib import Path

import httpx2
import pytest

import upload_samples
from http_server import Server, served
from library_samples import open_desk, start, wait_until
from refdesk import Refdesk
from refdesk.errors import LibraryBusy
from refdesk.records import LOCAL, Caller
from refdesk.serve.uploads import Uploads
from refdesk.serve.worker import BATCH_BYTES, batch
from refdesk.types import EVERYTHING, Job
from upload_samples import done, hand_in

desk, uploads = upload_samples.desk, upload_samples.waiting
ANNA = Caller("a1", "Anna", "editor", None)
LONG = b"The gauge was read at noon, and the tide was falling. " * 1_000

# Accepts a mail with two attachments and is killed once the mail is in and they are not.
HALF_DONE = """
import sys, time
from refdesk import Refdesk
from refdesk.records import LOCAL
from refdesk.serve.uploads import Uploads, new_upload
with Refdesk(sys.argv[1], settings={"ingest.workers": 1, "ingest.ocr": False}) as desk:
    uploads = Uploads(desk)
    with uploads.receiving() as (upload_id, file):
        size = file.write(open(sys.argv[2], "rb").read())
        uploads.accept(new_upload(upload_id, "mail.eml", "default", LOCAL, size=size), file)
    uploads.start()
    while not any(one.status == "ready" for one in desk.documents()):
        time.sleep(0.005)
    print("half", flush=True)
    time.sleep(60)
"""


def test_twins_share_a_document_and_the_fate_of_what_cannot_be_read(desk: Refdesk, uploads: Uploads) -> None:
    """UploadedFile in together, so that the second is looked at before it is known what became of the first."""
    for name in ("a.pdf", "b.pdf"):
        hand_in(desk, name, b"%PDF-1.7 torn")
    for name in ("c.md", "d.md"):
        hand_in(desk, name, b"The lamp was lit at dusk.")
    uploads.start()
    torn, again, lamp, twin = done(uploads)
    assert (torn.status, again.status) == ("failed", "failed") and again.reason == torn.reason
    assert (lamp.outcome, twin.outcome, twin.reason) == ("added", "unchanged", "same content as c.md")
    assert twin.document_id == lamp.document_id != ""


def upload(name: str, owner: str, size: int = 1000, number: int = 0) -> Job:
    return Job(f"{number}{owner}{name}", name, "default", owner=owner, size=size)


def test_whoever_handed_in_takes_turns_with_the_others() -> None:
    waiting = [upload(f"{number}.pdf", "anna") for number in range(200)] + [upload("memo.txt", "bert")]
    assert "memo.txt" in [one.name for one in batch(waiting)]
    assert [one.name for one in batch(waiting)][:3] == ["0.pdf", "memo.txt", "1.pdf"]


def test_a_batch_is_a_minutes_work() -> None:
    large = [upload(f"{number}.pdf", "anna", BATCH_BYTES // 3) for number in range(9)]
    assert [one.name for one in batch(large)] == ["0.pdf", "1.pdf", "2.pdf"]
    assert [one.name for one in batch([upload("huge.pdf", "anna", 5 * BATCH_BYTES), *large])] == ["huge.pdf"]


def test_of_one_name_the_oldest_is_first_whose_turn_it_may_be() -> None:
    first = upload("plan.md", "anna", number=1)
    second = upload("plan.md", "bert", number=2)
    assert batch([upload("a.md", "anna"), first, second]) == [upload("a.md", "anna"), first]


def test_one_that_waits_for_its_turn_is_taken_back(desk: Refdesk, uploads: Uploads) -> None:
    """It is in the batch that is being added, but nobody has begun with it."""
    for number in range(4):
        hand_in(desk, f"{number}.md", LONG[: len(LONG) // 8] + str(number).encode())
    unwanted = hand_in(desk, "unwanted.md", LONG * 4)  # so much that it cannot be finished before it is taken back
    uploads.start()
    assert wait_until(lambda: any(one.status == "processing" for one in uploads.listed(LOCAL)))
    uploads.forget(unwanted.id, LOCAL)
    assert "unwanted.md" not in [one.name for one in uploads.listed(LOCAL)], "at once"
    assert [one.status for one in done(uploads)] == ["ready"] * 4
    assert wait_until(lambda: not desk.jobs.cancelled()), "put down, or removed if it was finished at that moment"
    assert sorted(one.name for one in desk.documents()) == ["0.md", "1.md", "2.md", "3.md"]
    assert not desk.files.staged(unwanted.id).exists()


def test_one_that_is_finished_while_it_is_taken_back_is_removed(desk: Refdesk, uploads: Uploads) -> None:
    """Whoever took it back saw it waiting, and was told that it is not added."""
    unwanted, wanted = (hand_in(desk, name, name.encode()) for name in ("unwanted.md", "wanted.md"))
    uploads.start()
    assert [one.status for one in done(uploads)] == ["ready", "ready"]
    desk.jobs.cancel([unwanted.id])  # as `forget` does that has read `processing` just before
    uploads.wake()
    assert wait_until(lambda: not desk.jobs.cancelled())
    assert [one.name for one in desk.documents()] == ["wanted.md"]
    assert [one.id for one in uploads.listed(LOCAL)] == [wanted.id]


def test_one_that_is_being_added_is_cancelled(desk: Refdesk, uploads: Uploads) -> None:
    """As whoever deletes its document does. The others keep their documents, which may be deleted next."""
    unwanted = hand_in(desk, "unwanted.md", LONG * 8)
    wanted = hand_in(desk, "wanted.md", b"The lamp was lit at dusk.")
    uploads.start()
    assert wait_until(lambda: uploads.get(unwanted.id, LOCAL).status == "processing")
    (document,) = (one for one in desk.documents() if one.name == "unwanted.md")
    uploads.cancel(uploads.waiting_for([document]))
    desk.remove_found([document])  # it may be gone already
    assert wait_until(lambda: desk.parts.documents.visible(document.id, EVERYTHING) is None)
    assert desk.remove_found([document]) == [document], "gone is gone, whoever removed it"
    assert [(one.id, one.status) for one in done(uploads)] == [(wanted.id, "ready")]
    assert wait_until(lambda: not desk.files.staged(unwanted.id).exists())


def test_whoever_follows_hears_of_one_that_is_gone(desk: Refdesk, uploads: Uploads) -> None:
    kept = hand_in(desk, "a.md", b"The gate opens at eight.", ANNA)

    async def follow() -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []
        async for changed in uploads.changes(ANNA):
            seen += [(one.name, one.status) for one in changed]
            if len(seen) == 1:
                uploads.forget(kept.id, ANNA)
            elif len(seen) > 1:
                break
        return seen

    assert asyncio.run(follow()) == [("a.md", "pending"), ("a.md", "gone")]
    assert desk.jobs.all() == {}


def test_attachments_that_a_killed_server_left_are_finished(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "Quay", "a@example.org", "b@example.org"
    mail.set_content("The plans of the quay are attached.")
    for name in ("one.md", "two.md"):
        mail.add_attachment(LONG + name.encode(), maintype="text", subtype="markdown", filename=name)
    (tmp_path / "mail.eml").write_bytes(bytes(mail))
    process = start(HALF_DONE, tmp_path / "library", tmp_path / "mail.eml")
    assert process.stdout is not None and process.stdout.readline() == "half\n"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with open_desk(tmp_path / "library") as desk:
        assert {one.name: one.status for one in desk.documents()}["two.md"] != "ready"
        uploads = Uploads(desk)
        uploads.start()
        assert wait_until(lambda: {one.status for one in desk.documents()} == {"ready"})
        uploads.stop()
        assert sorted(one.name for one in desk.documents()) == ["mail.eml", "one.md", "two.md"]
        assert list((desk.folder / "runs").glob("*")) == [], "what the dead one had put aside is gone too"


def test_a_backup_holds_what_was_accepted_and_waits(desk: Refdesk, uploads: Uploads, tmp_path: Path) -> None:
    hand_in(desk, "waits.md", LONG, password="sesame")
    hand_in(desk, "torn.pdf", b"%PDF-1.7 torn")
    before = desk.backup(tmp_path / "before.tar")
    assert b"sesame" not in before.read_bytes(), "nobody shall keep a password"
    uploads.start()
    done(uploads)
    after = desk.backup(tmp_path / "after.tar")
    for file_, waiting in ((before, ["torn.pdf", "waits.md"]), (after, ["torn.pdf", "waits.md"])):
        with open_desk(Refdesk.restore(file_, tmp_path / file_.stem)) as restored:
            assert sorted(one.name for one in restored.jobs.all().values()) == waiting
            queue = Uploads(restored)
            queue.start()
            assert {one.name: one.status for one in done(queue)} == {"torn.pdf": "failed", "waits.md": "ready"}
            queue.stop()
            assert {one.name: one.status for one in restored.documents()} == {"torn.pdf": "failed", "waits.md": "ready"}


def test_a_library_that_is_served_is_not_replaced(desk: Refdesk, uploads: Uploads, tmp_path: Path) -> None:
    file = desk.backup(tmp_path / "backup.tar")
    uploads.start()
    assert wait_until(lambda: desk.jobs.alive() != set())
    with pytest.raises(LibraryBusy, match="is being served or added to"):
        Refdesk.restore(file, desk.folder, replace=True)
    uploads.stop()
    assert Refdesk.restore(file, desk.folder, replace=True) == desk.folder


def test_a_server_says_when_a_process_dies_and_when_the_library_is_empty(tmp_path: Path) -> None:
    with served(tmp_path / "library", "--workers", "2") as server:
        assert server.process is not None
        sent = server.post("/api/documents", files=[("files", ("a.md", b"The lamp was lit at dusk."))])
        assert sent.status_code == 202
        master = server.process.pid
        mine = _child(master)
        os.kill(mine, signal.SIGKILL)
        assert wait_until(lambda: mine not in _children(master))
        assert wait_until(lambda: _is_ready(server))
        server.process.terminate()
        said = server.log_at_end()
    assert f"{tmp_path / 'library'} (empty) on http" in said
    assert f"Child process [{mine}] died" in said


def _children(parent: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _child(parent: int) -> int:
    """One of the processes that serve; the first one keeps count of what they share."""
    return _children(parent)[-1]


def _is_ready(server: Server) -> bool:
    try:
        (upload,) = server.client.get("/api/uploads", headers={"Connection": "close"}).json()["uploads"]
    except httpx2.TransportError:
        return False
    return bool(upload["status"] == "ready")
