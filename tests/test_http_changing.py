"""Several documents and whole collections, changed over HTTP by those who may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from http_server import Server, serving
from library_samples import open_desk, wait_until
from refdesk import Refdesk
from refdesk.types import Job

NAMES = {"gates.md": "harbour", "cranes.md": "harbour/2024", "pay.md": "hr", "notes.md": "default"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        for name, collection in NAMES.items():
            found.add_text(name, f"What is said in {name}.", collection=collection)
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


def places(desk: Refdesk) -> dict[str, str]:
    return {one.name: one.collection for one in desk.documents()}


def test_several_are_moved_and_deleted(server: Server, desk: Refdesk) -> None:
    ids = [desk.document(name).id for name in ("gates.md", "pay.md", "gates.md")]
    moved = server.post("/api/documents/move", json={"documents": ids, "collection": "archive"}).json()["documents"]
    assert {(one["name"], one["collection"]) for one in moved} == {("gates.md", "archive"), ("pay.md", "archive")}
    assert "source" not in moved[0]
    gone = server.post("/api/documents/delete", json={"documents": ids}).json()["deleted"]
    assert set(gone) == set(ids) and set(places(desk)) == {"cranes.md", "notes.md"}
    again = server.post("/api/documents/delete", json={"documents": [desk.document("notes.md").id, *ids]})
    assert again.status_code == 404 and set(places(desk)) == {"cranes.md", "notes.md"}, "all of them or none"


@pytest.mark.parametrize(
    "body", [{}, {"documents": []}, {"documents": ["x"]}, {"documents": "x", "collection": "a"}], ids=str
)
def test_what_cannot_be_moved(server: Server, body: dict[str, object]) -> None:
    answer = server.post("/api/documents/move", json=body)
    assert answer.status_code == 400 and answer.json()["code"] == "usage_error"


def test_a_collection_is_renamed_and_deleted(server: Server, desk: Refdesk) -> None:
    renamed = server.request("PATCH", "/api/collections/harbour", json={"name": "port/old"}).json()["documents"]
    assert {one["collection"] for one in renamed} == {"port/old", "port/old/2024"}
    listed = {one["name"]: one["documents"] for one in server.get("/api/collections").json()["collections"]}
    assert listed == {"default": 1, "hr": 1, "port/old": 1, "port/old/2024": 1}
    assert server.request("PATCH", "/api/collections/harbour", json={"name": "x"}).status_code == 404
    refused = server.request("PATCH", "/api/collections/hr", json={"name": "a//b"})
    assert refused.status_code == 400 and "is not a valid collection name" in refused.json()["message"]
    gone = server.request("DELETE", "/api/collections/port%2Fold/2024").json()["deleted"]
    assert gone and set(places(desk)) == {"gates.md", "pay.md", "notes.md"}
    server.request("DELETE", "/api/collections/port")
    assert set(places(desk)) == {"pay.md", "notes.md"}


def test_everyone_keeps_to_his_collections(server: Server, desk: Refdesk) -> None:
    reader = desk.keys.add("rita", "reader", ["harbour"])[1]
    inner = desk.keys.add("ivo", "editor", ["harbour/2024"])[1]
    editor = desk.keys.add("eva", "editor", ["harbour"])[1]
    gates, pay = desk.document("gates.md").id, desk.document("pay.md").id

    def status(method: str, path: str, key: str, body: object = None) -> int:
        return server.request(method, path, key=key, json=body).status_code

    assert status("PATCH", "/api/collections/harbour", reader, {"name": "harbour/x"}) == 403
    assert status("DELETE", "/api/collections/harbour", reader) == 403
    for key in (inner, editor):
        for method, body in (("PATCH", {"name": "harbour/2024/x"}), ("DELETE", None)):
            assert status(method, "/api/collections/hr", key, body) == 404, "as if it were not there"
    assert status("DELETE", "/api/collections/harbour", inner) == 404, "he may read a part of it"
    assert status("PATCH", "/api/collections/harbour", editor, {"name": "hr"}) == 403
    assert status("POST", "/api/documents/move", editor, {"documents": [gates, pay], "collection": "harbour"}) == 404
    assert status("POST", "/api/documents/delete", editor, {"documents": [gates, pay]}) == 404
    assert status("POST", "/api/documents/move", editor, {"documents": [gates], "collection": "hr"}) == 403
    assert status("POST", "/api/documents/delete", reader, {"documents": [gates]}) == 403
    assert places(desk) == NAMES
    assert status("PATCH", "/api/collections/harbour", editor, {"name": "harbour/x"}) == 200
    assert places(desk)["cranes.md"] == "harbour/x/2024"


# what is still on its way


def upload(server: Server, name: str, collection: str) -> str:
    parts = [("files", (name, f"What is said in {name}.".encode()))]
    answer = server.post("/api/documents", files=parts, data={"collection": collection})
    assert answer.status_code == 202
    return str(answer.json()["uploads"][0]["id"])


@contextmanager
def nobody_works(desk: Refdesk) -> Iterator[None]:
    """A run that is at an upload of its own: no other one takes any."""
    worker = desk.jobs.start()
    (held,) = desk.jobs.submit([Job("", "held", "held", worker=worker)])
    yield
    desk.jobs.remove([held.id])
    desk.jobs.end(worker)


def all_done(server: Server) -> bool:
    return all(one["status"] in ("ready", "failed") for one in server.get("/api/uploads").json()["uploads"])


def test_what_waits_for_a_collection_does_not_bring_it_back(server: Server, desk: Refdesk) -> None:
    with nobody_works(desk):
        upload(server, "late.md", "harbour/2025")
        upload(server, "other.md", "hr")
        refused = server.request("PATCH", "/api/collections/harbour", json={"name": "port"})
        assert refused.status_code == 400 and "a file is being added to harbour" in refused.json()["message"]
        assert server.request("DELETE", "/api/collections/harbour").status_code == 200
    assert wait_until(lambda: "other.md" in places(desk) and all_done(server))
    assert set(places(desk)) == {"pay.md", "notes.md", "other.md"}
    assert not desk.jobs.cancelled()


def test_a_document_with_a_new_version_on_its_way(server: Server, desk: Refdesk) -> None:
    upload(server, "plan.md", "harbour")
    assert wait_until(lambda: all_done(server))
    document = desk.document("plan.md").id
    with nobody_works(desk):
        parts = [("files", ("plan.md", b"WorkerMessage anew."))]
        server.post("/api/documents", files=parts, data={"collection": "harbour"})
        for path, body in (("PATCH", {"name": "x"}), ("PATCH", {"collection": "hr"})):
            refused = server.request(path, f"/api/documents/{document}", json=body)
            assert refused.status_code == 400 and "plan.md is being added" in refused.json()["message"]
        moved = server.post("/api/documents/move", json={"documents": [document], "collection": "hr"})
        assert moved.status_code == 400
        assert server.request("DELETE", f"/api/documents/{document}").json() == {"deleted": [document]}
        upload(server, "last.md", "harbour")
    assert wait_until(lambda: "last.md" in places(desk) and all_done(server))
    assert "plan.md" not in places(desk)
