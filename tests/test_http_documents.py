"""Documents over HTTP, against a real server: handed in, followed, changed, given back, and kept from others."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from http_server import Server, read_events, served, serving
from library_samples import wait_until
from memory_desk import ON_DISK, open_either
from refdesk import Refdesk
from timing import PATIENCE_S

STORES = ON_DISK

NOTE = b"# Pilotage\n\nA pilot boards at the fairway buoy. The fee is 340 crowns."


@pytest.fixture
def desk(store_kind: str, tmp_path: Path) -> Iterator[Refdesk]:
    with open_either(
        store_kind, tmp_path / "library", **{"serve.max_upload_mb": 1, "serve.fetch_networks": "127.0.0.1/32"}
    ) as found:
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


def send(server: Server, *files: tuple[str, bytes], key: str = "", **fields: str) -> httpx2.Response:
    parts = [("files", (name, data, "application/octet-stream")) for name, data in files]
    return server.post("/api/documents", files=parts, data=fields, key=key)


def finished(server: Server, key: str = "") -> list[dict[str, Any]]:
    """The caller's uploads once none waits any more, by name."""

    def uploads() -> list[dict[str, Any]]:
        return list(server.get("/api/uploads", key=key).json()["uploads"])

    assert wait_until(lambda: all(one["status"] in ("ready", "failed") for one in uploads()))
    return sorted(uploads(), key=lambda one: str(one["name"]))


def added(server: Server, *files: tuple[str, bytes], key: str = "", **fields: str) -> list[dict[str, Any]]:
    answer = send(server, *files, key=key, **fields)
    assert answer.status_code == 202, answer.text
    return finished(server, key)


def problem(answer: httpx2.Response, status: int) -> str:
    """The sentence of a failure, which has the one shape."""
    assert answer.status_code == status, answer.text
    said = answer.json()
    assert {"code", "message", "stage", "retryable", "hint", "request_id"} <= said.keys()
    return str(said["message"])


# handing in


def test_files_are_accepted_at_once_and_ready_soon(server: Server, desk: Refdesk) -> None:
    answer = send(
        server, ("pilot.md", NOTE), ("sub/b.txt", b"Ebb at four."), collection="port/2024", metadata='{"year": "2024"}'
    )
    assert answer.status_code == 202
    entries = answer.json()["uploads"]
    assert [(one["name"], one["status"]) for one in entries] == [("pilot.md", "pending"), ("sub/b.txt", "pending")]
    assert all(one["upload_id"] and one["upload_id"] == one["id"] for one in entries)
    ready = finished(server)
    assert [(one["status"], one["outcome"]) for one in ready] == [("ready", "added")] * 2
    listed = server.get("/api/documents").json()
    assert listed["total"] == 2 and [one["collection"] for one in listed["documents"]] == ["port/2024"] * 2
    assert listed["documents"][0]["metadata"]["year"] == "2024" and "source" not in listed["documents"][0]
    found = server.post("/api/query", json={"q": "What does a pilot cost?"}).json()
    assert "340 crowns" in found["answer"]
    assert list(desk.files.waiting.iterdir()) == []


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_progress_comes_as_events(server: Server) -> None:
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        with server.client.stream("GET", "/api/uploads/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for name, data, _ in read_events(response):
                assert name == "upload"
                seen.append(data)
                if data["name"] == "long.md" and data["status"] == "ready":
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    send(server, ("torn.pdf", b"%PDF-1.7 torn"), ("long.md", b"The gauge stood at nine feet. " * 4000))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    long = [one for one in seen if one["name"] == "long.md"]
    order = list(dict.fromkeys(one["status"] for one in long))
    assert order[0] in ("pending", "processing") and order[-2:] == ["processing", "ready"]
    working = [one for one in long if one["status"] == "processing" and one["chunks_total"]]
    assert working and all(0 <= one["chunks_done"] <= one["chunks_total"] for one in working)
    torn = [one for one in seen if one["name"] == "torn.pdf"][-1]
    assert torn["status"] == "failed" and torn["reason"]
    assert "password" not in str(seen) and "owner" not in seen[0]


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_a_client_that_leaves_changes_nothing(server: Server, desk: Refdesk) -> None:
    """Half a form is nothing; a whole one is added, whoever waits for it."""
    part = (
        b"--x\r\nContent-Disposition: form-data; name=files; filename=half.txt\r\n\r\n" + b"half " * 150_000 + b"\r\n"
    )
    head = "POST /api/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + part + part)
        assert wait_until(lambda: len(list(desk.files.waiting.glob("*.part"))) == 2)
    assert wait_until(lambda: not list(desk.files.waiting.glob("*.part")))
    assert server.get("/api/uploads").json()["uploads"] == []
    (whole,) = added(server, ("whole.txt", b"The dock gate opens at high water."))
    assert whole["status"] == "ready"


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
@pytest.mark.parametrize(
    "data", [b"--x\r\nContent-Disposition: form-data; name=files; filename=a\r\n\r\nabc", b"junk", b""]
)
def test_a_form_that_breaks_off_is_refused(server: Server, desk: Refdesk, data: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert problem(server.post("/api/documents", content=data, headers=headers), 400)
    assert desk.jobs.all() == {} and not list(desk.files.waiting.glob("*.part"))


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_wrong_forms_are_said_to_be_wrong(server: Server) -> None:
    assert "multipart" in problem(server.post("/api/documents", json={"files": []}), 400)
    assert "no file" in problem(server.post("/api/documents", files={"x": (None, "y")}), 400)
    assert "JSON object" in problem(send(server, ("a.txt", b"a"), metadata="year=2024"), 400)
    assert "must map" in problem(send(server, ("a.txt", b"a"), metadata="[1]"), 400)
    assert "not a valid collection" in problem(send(server, ("a.txt", b"a"), collection="../x"), 400)
    assert server.get("/api/uploads").json()["uploads"] == []


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_a_file_over_the_limit_is_413_and_leaves_nothing(server: Server, desk: Refdesk) -> None:
    answer = send(server, ("small.txt", b"small"), ("large.txt", b"x" * (1 << 20) + b"x"))
    assert "large.txt is larger than 1 MB" in problem(answer, 413)
    assert answer.json()["code"] == "too_large"
    assert desk.jobs.all() == {} and not list(desk.files.waiting.iterdir())
    assert send(server, ("just.txt", b"The lamp is lit. " * 60_000)).status_code == 202  # 1,020,000 bytes


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_names_are_never_paths(server: Server, desk: Refdesk) -> None:
    outside = desk.folder.parent / "escaped.txt"
    names = ["../../escaped.txt", f"{outside}", "..\\..\\escaped.txt", "a\x00b.txt", "<script>alert(1)</script>.txt"]
    for number, name in enumerate(names):
        send(server, (name, f"Lantern {number} burns.".encode()))
    assert {one["status"] for one in finished(server)} == {"ready"}
    assert not outside.exists() and not list(desk.folder.parent.glob("**/escaped*"))
    assert all(".." not in one["name"] for one in server.get("/api/documents").json()["documents"])
    quoted = send(server, ('the "old" quay.txt', b"The old quay is of oak.")).json()["uploads"]
    assert [one["name"] for one in quoted] == ['the "old" quay.txt'], "a form writes a quote as %22"


# by address


class Web(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/tide.md" else 302)
        self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
        self.end_headers()
        self.wfile.write(NOTE if self.path == "/tide.md" else b"")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Not on the terminal."""


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_documents_by_address(server: Server, desk: Refdesk) -> None:
    web = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{web.server_address[1]}"
    answer = server.post("/api/documents/url", json={"url": f"{url}/tide.md", "collection": "web"})
    assert answer.status_code == 202 and answer.json()["uploads"][0]["url"] == f"{url}/tide.md"
    (done,) = finished(server)
    assert (done["name"], done["status"]) == ("tide.md", "ready")
    assert desk.document(done["document_id"]).metadata["url"] == f"{url}/tide.md"
    for address, status in {
        f"{url}/leads-inside": 400,
        "http://169.254.169.254/": 400,
        "http://127.0.0.2:1/": 400,
        "file:///etc/passwd": 400,
        "http://127.0.0.1:1/": 422,
    }.items():
        problem(server.post("/api/documents/url", json={"url": address}), status)
    assert len(desk.jobs.all()) == 1 and not list(desk.files.waiting.glob("*.part"))
    web.shutdown()


# changing


def test_rename_move_delete(server: Server, desk: Refdesk) -> None:
    (one,) = added(server, ("pilot.md", NOTE))
    place = f"/api/documents/{one['document_id']}"
    changed = server.request("PATCH", place, json={"name": "pilotage.md", "collection": "port/rules"}).json()
    assert (changed["name"], changed["collection"]) == ("pilotage.md", "port/rules")
    assert desk.search("pilot", collection="port")[0].document.name == "pilotage.md"
    assert desk.search("pilot", collection="default") == []
    assert server.get("/api/collections").json()["collections"] == [
        {"name": "port/rules", "label": "port/rules", "documents": 1, "may_edit": True}
    ]
    for wrong in ({}, {"name": ""}, {"collection": "a//b"}, {"name": 5}):
        problem(server.request("PATCH", place, json=wrong), 400)
    assert server.request("DELETE", place).json() == {"deleted": [one["document_id"]]}
    problem(server.request("DELETE", place), 404)
    assert desk.documents() == [] and server.get("/api/documents").json()["total"] == 0


def test_renamed_and_moved_at_once_or_not_at_all(server: Server, desk: Refdesk) -> None:
    for name, place in (("a.md", "here"), ("b.md", "here"), ("a.md", "there")):
        desk.add_text(name, f"The lamp of {name} {place} is lit.", collection=place)
    first = next(one for one in desk.documents(collection="here") if one.name == "a.md")
    address = f"/api/documents/{first.id}"
    assert "already" in problem(server.client.patch(address, json={"name": "a.md", "collection": "there"}), 400)
    assert "already" in problem(server.client.patch(address, json={"name": "b.md", "collection": "here"}), 400)
    assert desk.document(first.id).name == "a.md" and desk.document(first.id).collection == "here"
    # "b.md" is taken here and "a.md" is taken there, and "b.md" there is not.
    moved = server.client.patch(address, json={"name": "b.md", "collection": "there"}).json()
    assert (moved["name"], moved["collection"]) == ("b.md", "there")
    assert desk.search("lamp", collection="there", document=first.id)[0].document.name == "b.md"


def locked_pdf() -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption("sesame"))
    canvas.drawString(72, 700, "The vault is behind the chandlery.")
    canvas.save()
    return buffer.getvalue()


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_retry_of_a_document_and_of_an_upload(server: Server, desk: Refdesk) -> None:
    (one,) = added(server, ("vault.pdf", locked_pdf()))
    assert one["status"] == "failed"
    document = server.get(f"/api/documents/{one['document_id']}").json()
    assert document["status"] == "failed" and document["error"] == one["reason"]
    again = server.post(f"/api/documents/{one['document_id']}/retry")
    assert again.status_code == 202 and again.json()["status"] == "pending"
    assert finished(server)[0]["status"] == "failed"
    assert server.post(f"/api/uploads/{one['id']}/retry", json={"password": "sesame"}).status_code == 202
    (opened,) = finished(server)
    assert (opened["status"], opened["document_id"]) == ("ready", one["document_id"])
    assert "has not failed" in problem(server.post(f"/api/documents/{one['document_id']}/retry"), 400)


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_retry_of_a_file_on_the_server(server: Server, desk: Refdesk, tmp_path: Path) -> None:
    path = tmp_path / "later.pdf"
    path.write_bytes(b"%PDF-1.7 torn")
    (failed,) = desk.add(path)
    assert failed.document is not None
    path.write_bytes(b"Mended: the quay is 90 metres long.")
    assert server.post(f"/api/documents/{failed.document.id}/retry").status_code == 202
    (done,) = finished(server)
    assert (done["status"], done["document_id"]) == ("ready", failed.document.id)
    assert desk.document(failed.document.id).source == str(path), "the folder's next add finds it unchanged"
    assert [one.outcome for one in desk.add(path)] == ["unchanged"]


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_deleting_a_failed_document_lets_its_file_go(server: Server, desk: Refdesk) -> None:
    (one,) = added(server, ("torn.pdf", b"%PDF-1.7 torn"))
    assert server.request("DELETE", f"/api/documents/{one['document_id']}").status_code == 200
    assert desk.jobs.all() == {} and not desk.files.staged(one["id"]).exists()


# looking


def test_listing_by_name_status_and_place(server: Server) -> None:
    added(
        server,
        ("Übersicht.md", b"Alpha quay."),
        ("Tide table.md", b"Beta quay."),
        ("torn.pdf", b"%PDF-1.7"),
        collection="a",
    )
    added(server, ("tide notes.md", b"Gamma quay."), collection="a/b")
    added(server, ("100%_real.md", b"Delta quay."), collection="ab")

    def names(**query: Any) -> list[str]:
        return [one["name"] for one in server.get("/api/documents", params=query).json()["documents"]]

    assert names(q="tide") == ["Tide table.md", "tide notes.md"]
    assert names(q="übersicht") == ["Übersicht.md"] and names(q="%_") == ["100%_real.md"]
    assert names(collection="a/b") == ["tide notes.md"] and "100%_real.md" not in names(collection="a")
    assert names(status="failed") == ["torn.pdf"]
    pages = [server.get("/api/documents", params={"limit": 2, "offset": offset}).json() for offset in (0, 2, 4)]
    assert [one["total"] for one in pages] == [5, 5, 5] and [len(one["documents"]) for one in pages] == [2, 2, 1]
    assert len({one["id"] for page in pages for one in page["documents"]}) == 5
    for wrong in ({"status": "odd"}, {"limit": 0}, {"limit": 5000}, {"offset": -1}, {"collection": "/"}):
        problem(server.get("/api/documents", params=wrong), 400)


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_the_original_comes_back_as_a_download(server: Server) -> None:
    page = b"<!doctype html><title>x</title><p>The weir. <script>alert(1)</script>"
    (one,) = added(server, ('sub/wëir "x".html', page))
    answer = server.get(f"/api/documents/{one['document_id']}/original")
    assert answer.content == page
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "sub/" not in answer.headers["content-disposition"]
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_a_text_has_no_original(server: Server, desk: Refdesk) -> None:
    one = desk.add_text("said.txt", "The ferry leaves at six.")
    assert one.document is not None
    assert "not stored" in problem(server.get(f"/api/documents/{one.document.id}/original"), 404)


# who may


def test_everyone_keeps_to_his_collections(server: Server, desk: Refdesk) -> None:
    _, reader = desk.keys.add("Rita", "reader", ["open"])
    _, editor = desk.keys.add("Edda", "editor", ["open"])
    _, other = desk.keys.add("Otto", "editor", ["open", "secret"])
    _, admin = desk.keys.add("Ada", "admin")
    (shared,) = added(server, ("gate.md", b"The gate opens at eight."), key=editor)
    assert shared["collection"] == "open", "a key of one collection adds to it"
    (hidden, torn) = added(
        server, ("pay.md", b"The wage is 90."), ("torn.pdf", b"%PDF-1.7"), key=other, collection="secret"
    )
    assert problem(send(server, ("x.md", b"x"), key=reader), 403)
    assert problem(send(server, ("x.md", b"x"), key=editor, collection="secret"), 403)
    assert problem(send(server, ("x.md", b"x"), key=other), 403), "the default collection is not one of the key's"
    problem(server.post("/api/documents/url", json={"url": "http://127.0.0.1:1/"}, key=reader), 403)
    problem(server.get("/api/documents"), 401)
    here, there = f"/api/documents/{shared['document_id']}", f"/api/documents/{hidden['document_id']}"
    for key in (reader, editor):
        listed = server.get("/api/documents", key=key).json()
        assert [one["name"] for one in listed["documents"]] == ["gate.md"] and listed["total"] == 1
        assert server.get("/api/documents", key=key, params={"collection": "secret"}).json()["total"] == 0
        assert [one["name"] for one in server.get("/api/collections", key=key).json()["collections"]] == ["open"]
        for method, path, body in [
            ("GET", "", None),
            ("GET", "/original", None),
            ("GET", "/pages/1/image", None),
            ("GET", "/pages/1/text", None),
            ("POST", "/retry", {}),
            ("PATCH", "", {"name": "x"}),
            ("DELETE", "", None),
        ]:
            options = {} if body is None else {"json": body}
            refused = problem(server.request(method, there + path, key=key, **options), 404)
            unknown = problem(server.request(method, f"/api/documents/{'0' * 16}{path}", key=key, **options), 404)
            assert refused.replace(hidden["document_id"], "") == unknown.replace("0" * 16, "")
        refused = problem(server.get(f"/api/uploads/{torn['id']}", key=key), 404)
        assert refused.replace(torn["id"], "") == problem(server.get("/api/uploads/abc", key=key), 404).replace(
            "abc", ""
        )
        problem(server.post(f"/api/uploads/{torn['id']}/retry", key=key), 404)
        problem(server.request("DELETE", f"/api/uploads/{torn['id']}", key=key), 404)
    for method, body in (("PATCH", {"name": "x"}), ("DELETE", None)):
        problem(server.request(method, here, key=reader, **({} if body is None else {"json": body})), 403)
    problem(server.request("PATCH", here, key=editor, json={"collection": "secret"}), 403)
    problem(server.request("PATCH", there, key=other, json={"collection": "elsewhere"}), 403)
    assert (
        server.request("PATCH", here, key=editor, json={"name": "gates.md", "collection": "open/2024"}).status_code
        == 200
    )
    assert {one["name"] for one in server.get("/api/uploads", key=admin).json()["uploads"]} == {
        "gate.md",
        "pay.md",
        "torn.pdf",
    }
    assert server.request("DELETE", there, key=other).status_code == 200


# the server as a whole


def test_a_restarted_server_finishes_what_it_had_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with served(folder, REFDESK_LOG_LEVEL="ERROR") as server:
        answer = send(server, *[(f"n{number}.md", f"Buoy {number} is green. ".encode() * 60) for number in range(8)])
        assert answer.status_code == 202
        assert server.process is not None
        server.process.kill()  # the moment the promise was given
        server.process.wait()
    with served(folder) as server:
        assert [one["status"] for one in finished(server)] == ["ready"] * 8
        assert server.get("/api/documents").json()["total"] == 8


def test_two_workers_are_one_server(tmp_path: Path) -> None:
    with served(tmp_path / "library", "--workers", "2") as server:
        for number in range(6):
            with httpx2.Client(base_url=server.url) as fresh:  # whichever of the two takes it
                data = f"Mooring {number} is free.".encode()
                assert fresh.post("/api/documents", files={"files": (f"m{number}.md", data)}).status_code == 202
        seen = [one for _ in range(6) for one in finished(server)]
        assert {one["status"] for one in seen} == {"ready"} and len({one["id"] for one in seen}) == 6


def test_a_server_ends_while_someone_follows_the_uploads(tmp_path: Path) -> None:
    with served(tmp_path / "library") as server:
        lines: list[str] = []

        def follow() -> None:
            with httpx2.stream("GET", f"{server.url}/api/uploads/events", timeout=PATIENCE_S) as response:
                lines.extend(response.iter_lines())

        thread = threading.Thread(target=follow)
        thread.start()
        assert wait_until(lambda: bool(lines))
    thread.join(PATIENCE_S)  # it is told; nobody waits for a reader who would stay for ever
    assert not thread.is_alive() and any("server_stopping" in line for line in lines)


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_openapi_shows_every_route(server: Server) -> None:
    schema = server.get("/openapi.json").json()
    for path, methods in {
        "/api/documents": {"get", "post"},
        "/api/documents/url": {"post"},
        "/api/documents/{document_id}": {"get", "patch", "delete"},
        "/api/documents/{document_id}/original": {"get"},
        "/api/documents/{document_id}/retry": {"post"},
        "/api/documents/{document_id}/pages/{number}/image": {"get"},
        "/api/documents/{document_id}/pages/{number}/text": {"get"},
        "/api/uploads": {"get"},
        "/api/uploads/events": {"get"},
        "/api/uploads/{upload_id}": {"get", "delete"},
        "/api/uploads/{upload_id}/retry": {"post"},
        "/api/collections": {"get"},
    }.items():
        assert methods <= schema["paths"][path].keys(), path
    form = schema["paths"]["/api/documents"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert form["properties"]["files"]["items"]["format"] == "binary" and json.dumps(schema)
