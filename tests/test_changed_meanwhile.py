"""Documents that are moved, renamed or removed while they, or their new versions, are being read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from library_samples import assert_whole, found_by, open_desk, seen_by, word, write_mail, write_note
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.types import Added, Progress
from upload_samples import hand_in as upload
from upload_samples import work_off

STORES = ON_DISK
pytestmark = pytest.mark.usefixtures("new_folder")  # in `tmp_path / "library"`


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        yield found


def once(work: Callable[[], object]) -> Callable[[Progress], None]:
    """Does it the first time that progress is told: the file is accepted by then, and not yet stored."""
    done: list[object] = []

    def on_progress(_: Progress) -> None:
        if not done:
            done.append(None)
            work()

    return on_progress


def hand_in(desk: Refdesk, path: Path, on_progress: Callable[[Progress], None] | None = None) -> Added:
    """As uploads are: the second of a name is a new version of the first."""
    upload(desk, "note.md", path.read_bytes(), collection="a")
    (added,) = work_off(desk, on_progress)
    return added


def test_what_is_moved_while_its_new_version_is_read_stays_moved(desk: Refdesk, tmp_path: Path) -> None:
    first = hand_in(desk, write_note(tmp_path, 1))
    assert first.document is not None
    move = once(lambda: desk.move(first.document.id, "b", name="renamed.md"))  # type: ignore[union-attr]
    again = hand_in(desk, write_note(tmp_path, 1, version=1), move)
    assert again.outcome == "replaced" and again.document is not None
    (only,) = desk.documents()
    assert (only.id, only.collection, only.name) == (first.document.id, "b", "renamed.md")
    assert seen_by(desk, "a").search(word(1, 1), method="bm25") == []
    (hit,) = seen_by(desk, "b").search(word(1, 1), method="bm25")
    assert hit.document.id == only.id and found_by(desk, word(1, 0)) == []
    assert_whole(desk)


def test_what_is_removed_while_its_new_version_is_read_stays_away(desk: Refdesk, tmp_path: Path) -> None:
    first = hand_in(desk, write_note(tmp_path, 1))
    assert first.document is not None
    again = hand_in(desk, write_note(tmp_path, 1, version=1), once(lambda: desk.remove(first.document.id)))  # type: ignore[union-attr]
    assert again.outcome == "removed" and desk.documents() == []
    assert found_by(desk, word(1, 1)) == [] and not list((desk.folder / "files").glob("??/*"))
    assert_whole(desk)


@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "broken"])
def test_a_new_one_that_is_removed_while_it_is_read(desk: Refdesk, tmp_path: Path, is_broken: bool) -> None:
    path = tmp_path / "new.pdf" if is_broken else write_note(tmp_path, 1)
    if is_broken:
        path.write_bytes(b"%PDF-1.7 torn")
    kept = write_note(tmp_path, 2)
    results = desk.add(path, kept, on_progress=once(lambda: desk.remove(path.name)))
    assert {one.name: one.outcome for one in results} == {path.name: "removed", kept.name: "added"}
    assert [one.name for one in desk.documents()] == [kept.name]
    assert_whole(desk)


@pytest.mark.only_on("sql", reason="what a mail holds is read the same for every store")
def test_a_mail_that_is_removed_before_its_attachment_is_read(desk: Refdesk, tmp_path: Path) -> None:
    mail = write_mail(tmp_path, 3)

    def on_added(added: Added) -> None:
        if added.name == mail.name and added.outcome == "added":
            desk.remove(mail.name)

    desk.add(mail, on_added=on_added)
    assert desk.documents() == [] and found_by(desk, word(3)) == []
    assert_whole(desk)


@pytest.mark.only_on("sql", reason="what a mail holds is read the same for every store")
def test_a_mail_whose_attachment_is_called_like_another_document(desk: Refdesk, tmp_path: Path) -> None:
    desk.add(write_mail(tmp_path, 3), collection="post")
    desk.add_text("sheet-3.txt", "Another sheet.", collection="post")
    everything = [one.id for one in desk.documents()]
    desk.move("mail-3.eml", "letters")
    assert {one.name: one.collection for one in desk.documents() if one.parent_id} == {"sheet-3.txt": "letters"}
    desk.move_all(everything, "all")  # the attachment goes with its mail, whether it is named or not
    assert {one.collection for one in desk.documents()} == {"all"}
    desk.rename_collection("all", "post")
    assert {one.collection for one in desk.documents()} == {"post"}
    assert_whole(desk)


@pytest.mark.only_on("sql", reason="what a mail holds is read the same for every store")
def test_a_mail_within_a_mail_goes_with_the_outermost(desk: Refdesk, tmp_path: Path) -> None:
    inner = EmailMessage()
    inner["Subject"], inner["From"], inner["To"] = "Inner", "a@example.org", "b@example.org"
    inner.set_content("See the sheet.")
    inner.add_attachment(f"The buoy {word(8)} was moored.", filename="sheet.txt")
    outer = EmailMessage()
    outer["Subject"], outer["From"], outer["To"] = "Outer", "a@example.org", "b@example.org"
    outer.set_content("Forwarded.")
    outer.add_attachment(inner.as_bytes(), maintype="application", subtype="octet-stream", filename="inner.eml")
    path = tmp_path / "outer.eml"
    path.write_bytes(outer.as_bytes())
    desk.add(path)
    assert len(desk.documents()) == 3
    desk.move_all([one.id for one in desk.documents()], "letters")
    assert {one.collection for one in desk.documents()} == {"letters"}
    assert_whole(desk)
