"""Which files are meant by a path: real folders with what people and programs leave in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refdesk import Refdesk
from refdesk.ingest.pipeline import discover


def names(folder: Path) -> list[str]:
    return [found.name for found in discover(folder) if not found.error]


def write(path: Path, text: str = "The pilot boat is red.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_folder_gives_its_files_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/deep/c.txt", "Sub.txt"):
        write(tmp_path / name)
    assert names(tmp_path) == ["Sub.txt", "a.txt", "b.txt", "sub/deep/c.txt"]


def test_hidden_files_and_junk_are_left_out(tmp_path: Path) -> None:
    junk = (".git/config", ".hidden", "~$report.docx", "Thumbs.db", "__MACOSX/a.txt", "node_modules/x.md")
    for name in ("kept.txt", *junk):
        write(tmp_path / name)
    assert names(tmp_path) == ["kept.txt"]
    assert names(tmp_path / ".hidden") == [".hidden"], "a file that is named is meant"


def test_a_link_to_the_folder_above_ends(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert names(tmp_path) == ["a.txt"]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    said = {found.name: found.error for found in discover(tmp_path)}
    assert said == {
        "dangling": "it cannot be read: No such file or directory",
        "pipe": "it is not a regular file",
    }
    (missing,) = discover(tmp_path / "missing.pdf")
    assert missing.error == "it cannot be read: No such file or directory"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything; anybody else stays who they are."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_closed_folder_is_said() -> None:
    with tempfile.TemporaryDirectory() as place:  # not below pytest's folder, which is closed to nobody
        folder = Path(place)
        folder.chmod(0o755)
        closed = write(folder / "closed" / "a.txt").parent
        closed.chmod(0)
        try:
            with as_nobody():
                assert [found.error for found in discover(folder)] == ["this folder cannot be read: Permission denied"]
        finally:
            closed.chmod(0o700)


def test_a_library_below_the_folder_is_not_added_to_itself(tmp_path: Path) -> None:
    write(tmp_path / "note.txt")
    with Refdesk(tmp_path / "library") as desk:
        assert [one.outcome for one in desk.add(tmp_path)] == ["added"]
        assert [(one.name, one.outcome) for one in desk.add(tmp_path)] == [("note.txt", "unchanged")]


def test_links_that_lead_out_of_the_folder_are_skipped_and_said(tmp_path: Path) -> None:
    outside, folder = write(tmp_path / "outside" / "secret.txt"), tmp_path / "folder"
    write(folder / "own.txt", "The tide table hangs in the office.")
    (folder / "file.txt").symlink_to(outside)
    (folder / "whole").symlink_to(outside.parent)
    (folder / "inside.txt").symlink_to(folder / "own.txt")
    (folder / "chain.txt").symlink_to(folder / "file.txt")
    found = {one.name: one.skipped for one in discover(folder)}
    assert {name for name, skipped in found.items() if skipped} == {"chain.txt", "file.txt", "whole"}
    assert all("--follow-links" in skipped for skipped in found.values() if skipped)
    followed = {one.name for one in discover(folder, follow_links=True) if not one.skipped}
    assert followed == {"chain.txt", "file.txt", "inside.txt", "own.txt", "whole/secret.txt"}
    assert [one.name for one in discover(folder / "file.txt")] == ["file.txt"], "a link that is named is meant"
    through = tmp_path / "through"
    through.symlink_to(folder)
    assert {one.name for one in discover(through) if not one.skipped} == {"inside.txt", "own.txt"}


def test_followed_links_in_a_circle_end(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one" / "a.txt").parent, write(tmp_path / "two" / "b.txt").parent
    (one / "to two").symlink_to(two)
    (two / "to one").symlink_to(one)
    assert sorted(found.name for found in discover(one, follow_links=True)) == ["a.txt", "to two/b.txt"]


def test_adding_says_what_was_skipped(desk: Refdesk, tmp_path: Path) -> None:
    outside, folder = write(tmp_path / "outside.txt", "The safe is behind the chart."), tmp_path / "folder"
    write(folder / "own.txt", "The tide table hangs in the office.")
    (folder / "link.txt").symlink_to(outside)
    results = {one.name: one for one in desk.add(folder)}
    assert {name: one.outcome for name, one in results.items()} == {"own.txt": "added", "link.txt": "skipped"}
    assert "is a link to a place outside" in results["link.txt"].reason
    assert {one.name for one in desk.documents()} == {"own.txt"}
    followed = {one.name: one.outcome for one in desk.add(folder, follow_links=True)}
    assert followed == {"own.txt": "unchanged", "link.txt": "added"}
