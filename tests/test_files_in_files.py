"""Archives, mailboxes and messages are added with what they hold, and never without end."""

from __future__ import annotations

from pathlib import Path

import format_samples as samples
import old_samples as old
from library_samples import assert_repaired, found_by, open_desk, word
from refdesk.ingest.nested import MAX_DEPTH
from refdesk.ingest.worker import _distinct


def test_an_archive_is_added_with_its_files_and_removed_with_them(tmp_path: Path) -> None:
    path = tmp_path / "case.zip"
    path.write_bytes(
        samples.zipped({
            "letters/first.txt": f"The buoy {word(1)} was moored.",
            "prices.xls": old.old_workbook(),
            "mail.msg": old.outlook_message(),
            "song.mp3": b"ID3\x04\0\0\0\0\0\0",
        })
    )  # fmt: skip
    with open_desk(tmp_path / "library") as desk:
        results = {one.name: one for one in desk.add(path)}
        assert {name: one.outcome for name, one in results.items()} == {
            "case.zip": "added",
            "letters/first.txt": "added",
            "prices.xls": "added",
            "mail.msg": "added",
            "song.mp3": "failed",
            "prices.csv": "added",
            "Old news.eml": "added",
        }
        assert "an audio file (MP3)" in results["song.mp3"].reason
        assert found_by(desk, word(1)) == ["letters/first.txt"]
        message, attached = results["mail.msg"].document, results["prices.csv"].document
        assert message is not None and attached is not None and attached.parent_id == message.id
        assert desk.search("When does the contract end?")[0].document.name == "mail.msg"
        desk.remove("case.zip")
        assert desk.documents() == []
        assert_repaired(desk)


def test_archives_in_archives_end(tmp_path: Path) -> None:
    data = samples.zipped({"end.txt": f"The buoy {word(1)} was moored."})
    for level in range(MAX_DEPTH + 3, 0, -1):
        data = samples.zipped({f"level-{level}.zip": data, f"note-{level}.txt": f"At level {level} lies {word(9)}."})
    (tmp_path / "level-0.zip").write_bytes(data)
    with open_desk(tmp_path / "library") as desk:
        desk.add(tmp_path / "level-0.zip")
        documents = {document.name: document for document in desk.documents()}
        assert sorted(documents) == sorted(
            [f"level-{level}.zip" for level in range(MAX_DEPTH + 1)] + [f"note-{n + 1}.txt" for n in range(MAX_DEPTH)]
        )
        assert documents[f"level-{MAX_DEPTH - 1}.zip"].notes == ()
        (note,) = documents[f"level-{MAX_DEPTH}.zip"].notes
        assert (
            note == f"the files in it (2) were left out: they lie in more than {MAX_DEPTH} files, one inside the other"
        )
        assert found_by(desk, word(1)) == []


def test_what_one_archive_unpacks_to_is_limited_in_all(tmp_path: Path) -> None:
    """Each of the inner archives is within the limit of 1 MB, both together are not."""
    inner = {f"{name}.zip": samples.zipped({f"{name}.txt": f"{name} " * 150_000}) for name in ("one", "two")}
    (tmp_path / "both.zip").write_bytes(samples.zipped(inner))
    with open_desk(tmp_path / "library", **{"ingest.max_unpacked_mb": 1}) as desk:
        desk.add(tmp_path / "both.zip")
        names = sorted(document.name for document in desk.documents())
        assert names == ["both.zip", "one.txt", "one.zip", "two.zip"]
        assert desk.document("two.zip").notes == (
            "the files in it (1) were left out: with them, more than 1 MB would be unpacked from one file",
        )


def test_a_password_opens_what_lies_inside(tmp_path: Path) -> None:
    path = tmp_path / "locked.zip"
    path.write_bytes(old.locked_archive(f"The buoy {word(1)} was moored.".encode(), b"open sesame"))
    with open_desk(tmp_path / "library") as desk:
        (refused,) = desk.add(path)
        assert refused.reason == "this archive is encrypted; use --password, or the field `password` over HTTP"
        desk.add(path, password="open sesame")
        assert found_by(desk, word(1)) == ["a.txt"]


def test_many_messages_about_the_same_are_named_before_anybody_loses_patience() -> None:
    names = _distinct(["Re: Lunch.eml"] * 20_000)
    assert (names[1], names[-1], len(set(names))) == ("Re: Lunch (2).eml", "Re: Lunch (20000).eml", 20_000)
