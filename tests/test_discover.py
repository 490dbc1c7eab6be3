"""Which files are meant by a path: real folders with what people and programs leave in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refdesk import Refdesk
from refdesk.adapters.discover import discover


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
