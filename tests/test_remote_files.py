"""Files in S3: any node shows the original, the page and the upload that another node was given."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from http_server import serving
from library_samples import open_desk
from refdesk import Refdesk
from refdesk.config import hash_bytes
from refdesk.errors import FilesAway, UsageError
from refdesk.files.local import LocalFiles
from refdesk.files.remote import RemoteFiles
from s3_server import S3Server, running_s3
from upload_samples import hand_in, work_off


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as found:
        yield found


@pytest.fixture
def address(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.bucket}/{tmp_path.name}"


@pytest.fixture
def nodes(address: str, tmp_path: Path) -> tuple[RemoteFiles, RemoteFiles]:
    """Two machines: folders of their own, the same bucket."""
    return RemoteFiles(tmp_path / "one", address), RemoteFiles(tmp_path / "two", address)


def test_what_one_node_is_given_another_one_has(nodes: tuple[RemoteFiles, RemoteFiles]) -> None:
    here, there = nodes
    kept = here.put(b"oak")
    assert there.has(kept) and there.path(kept).read_bytes() == b"oak" and there.hashes() == {kept}
    with here.receiving() as (job, file):
        file.write(b"spruce")
        here.stage(job, file)
    assert there.staged(job).read_bytes() == b"spruce"
    there.unstage([job])
    assert not there.staged(job).exists() and not here.staged(job).exists()
    here.render_cache().put(kept, "1-800.png", b"picture")
    assert there.render_cache().get(kept, "1-800.png") == b"picture"
    there.remove([kept])
    assert not here.has(kept) and here.damage(kept) == "missing"
    assert RemoteFiles(Path(here.renders).parent / "third", here._url).render_cache().get(kept, "1-800.png") is None


def test_what_was_altered_there_is_not_shown(nodes: tuple[RemoteFiles, RemoteFiles]) -> None:
    here, there = nodes
    kept = here.put(b"oak")
    here.write(b"ash", "files", kept[:2], kept)
    assert here.damage(kept) == "altered" and not there.path(kept).exists()


def test_a_node_keeps_copies_up_to_a_size(address: str, tmp_path: Path) -> None:
    files = RemoteFiles(tmp_path / "one", address, most_copied=40_000)
    kept = [files.put(bytes([number]) * 10_000) for number in range(8)]
    for number, one in enumerate(kept):
        copy = files.path(one)
        os.utime(copy, (number, number))
    copies = list((tmp_path / "one" / "copies").glob("*/*"))
    assert sum(one.stat().st_size for one in copies) <= 40_000 and len(files.hashes()) == 8
    assert files.path(kept[0]).read_bytes() == bytes(10_000), "fetched again"


def test_what_nobody_names_goes(nodes: tuple[RemoteFiles, RemoteFiles]) -> None:
    here, there = nodes
    kept, gone = here.put(b"oak"), here.put(b"ash")
    for one in (kept, gone):
        here.render_cache().put(one, "1-800.png", b"picture")
    there.clear_renders([kept])
    assert here.read("renders", gone, "1-800.png") is None and here.read("renders", kept, "1-800.png") == b"picture"


def test_a_place_that_has_become_empty(nodes: tuple[RemoteFiles, RemoteFiles]) -> None:
    """SeaweedFS keeps the folder, which is no file that waits: the first thing a worker does is to clear them."""
    here, _ = nodes
    with here.receiving() as (job, file):
        file.write(b"spruce")
        here.stage(job, file)
    here.unstage([job])
    here.remove([here.put(b"oak")])
    here.clear_staged([])
    assert here.hashes() == set()


def test_a_place_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    away = RemoteFiles(tmp_path / "away", f"{address}-away")
    with pytest.raises(FilesAway, match="cannot be reached") as told:
        away.put(b"oak")
    assert told.value.retryable and "cannot be reached" in away.problem()
    assert away.render_cache().get("0" * 64, "1-800.png") is None, "it is drawn"


def test_a_bucket_that_is_not_there(nodes: tuple[RemoteFiles, RemoteFiles], tmp_path: Path) -> None:
    assert nodes[0].problem() == ""
    assert "does not exist; create it" in RemoteFiles(tmp_path / "x", "s3://no-such-bucket/library").problem()


@pytest.mark.parametrize("url", ["nonsense://bucket/folder", "s3x://b"])
def test_an_address_of_no_known_kind(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="REFDESK_FILES_URL"):
        RemoteFiles(tmp_path, url)


def test_a_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (str(tmp_path / "shared"), f"file://{tmp_path}/shared"):
        monkeypatch.setenv("REFDESK_FILES_URL", url)
        with open_desk(tmp_path / "library") as desk:
            assert isinstance(desk.files, LocalFiles)
            assert desk.files.path(desk.files.put(b"oak")).is_relative_to(tmp_path / "shared")


# a whole library


def test_a_backup_holds_what_is_in_s3_and_brings_it_back(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_pdf("The quay was built of oak in 1911.")
    monkeypatch.setenv("REFDESK_FILES_URL", f"{address}/first")
    with open_desk(tmp_path / "library") as desk:
        hand_in(desk, "quay.pdf", data)
        work_off(desk)
        hand_in(desk, "later.md", b"The lamp is lit at dusk.")
        said: list[str] = []
        desk.backup(tmp_path / "whole.tar", on_damage=said.append)
        assert not said
        gone = desk.documents()[0].content_hash
        desk.files.remove([gone])
        desk.backup(tmp_path / "part.tar", on_damage=said.append)
        assert said == ["quay.pdf is missing"]
    for kept in (f"{address}/second", str(tmp_path / "shared"), ""):
        monkeypatch.setenv("REFDESK_FILES_URL", kept)
        again = tmp_path / f"again-{len(kept)}"
        Refdesk.restore(tmp_path / "whole.tar", again)
        with open_desk(again) as desk:
            assert [one.outcome for one in work_off(desk)] == ["added"], "what waited is there too"
            assert desk.files.path(gone).read_bytes() == data
            assert all(one.well for one in (*desk.check(), *desk.check_files()))
            assert bool(list((again / "files").glob("??/*"))) is not bool(kept)


def a_pdf(text: str) -> bytes:
    target = io.BytesIO()
    page = Canvas(target)
    page.drawString(72, 700, text)
    page.save()
    return target.getvalue()


def test_a_library_whose_files_are_in_s3(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploaded through one process, read by a worker, looked at through another; the folder holds copies alone."""
    monkeypatch.setenv("REFDESK_FILES_URL", address)
    data = a_pdf("The quay was built of oak in 1911.")
    with open_desk(tmp_path / "library") as desk:
        hand_in(desk, "quay.pdf", data)
        assert [one.outcome for one in work_off(desk)] == ["added"]
        assert all(one.well for one in (*desk.check(), *desk.check_files()))
        assert not list((tmp_path / "library" / "files").glob("??/*"))
    for copies in ("copies", "renders", "waiting"):
        for path in sorted((tmp_path / "library" / copies).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    with Refdesk(tmp_path / "library") as desk, serving(desk) as server:
        (document,) = desk.documents()
        place = f"/api/documents/{document.id}"
        part = server.get(f"{place}/original", headers={"Range": "bytes=5-9"})
        assert part.status_code == 206 and part.content == data[5:10]
        assert part.headers["content-range"] == f"bytes 5-9/{len(data)}"
        assert server.get(f"{place}/original").content == data
        assert server.get(f"{place}/pages/1/image").content.startswith(b"\x89PNG")
        assert desk.ask_sync("When was the quay built?").is_answered
        assert server.get("/readyz").json()["status"] == "ready"
        desk.remove(document.id)
        assert not desk.files.has(hash_bytes(data))
