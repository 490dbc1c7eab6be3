"""Who may do what over HTTP: keys, the cookie, other sites; a reader of one collection never sees another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from http_server import Server, serving
from memory_desk import ON_DISK, open_either
from refdesk import Refdesk
from timing import PATIENCE_S

STORES = ON_DISK

OPEN_NOTE = "The harbour office opens at eight. The lighthouse keeper is called Marten Oyelaran."
SECRET_NOTE = "The salary of the harbour master is 91,500 crowns. The vault code word is Zephyrine."
ASK_SECRET = "What is the salary of the harbour master?"
SECRETS = ("91,500", "Zephyrine", "salaries.txt", "Salaries", "hr/", '"hr"')


@dataclass
class House:
    server: Server
    desk: Refdesk
    keys: dict[str, str]


@pytest.fixture(scope="module")
def house(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_either(store_kind, tmp_path_factory.mktemp("house") / "library") as desk:
        desk.add_text("harbour.txt", OPEN_NOTE, collection="public", title="Harbour")
        desk.add_text("salaries.txt", SECRET_NOTE, collection="hr/pay", title="Salaries")
        keys = {
            "admin": desk.keys.add("root", "admin")[1],
            "editor": desk.keys.add("eva", "editor")[1],
            "reader": desk.keys.add("anna", "reader", ["public"])[1],
            "other": desk.keys.add("otto", "reader", ["public"])[1],
            "hr": desk.keys.add("hans", "reader", ["hr"])[1],
            "partial": desk.keys.add("petra", "admin", ["public"])[1],
        }
        with serving(desk) as server:
            yield House(server, desk, keys)


# keys


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/query"),
        ("POST", "/api/chat/stream"),
        ("GET", "/api/conversations"),
        ("GET", "/api/settings"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/v1/models"),
        ("GET", "/no/such/place"),
    ],
)
def test_with_keys_everything_needs_one(house: House, method: str, path: str) -> None:
    response = house.server.request(method, path)
    assert response.status_code == 401 and response.json()["code"] == "not_signed_in"
    assert response.headers["www-authenticate"] == "Bearer"
    assert house.server.request(method, path, key="rd_wrong").status_code == 401


def test_what_is_open_to_everyone_says_nothing(house: House) -> None:
    assert house.server.get("/healthz").json() == {"status": "ok"}
    assert house.server.get("/readyz").json() == {"status": "ready"}
    assert house.server.get("/readyz", key=house.keys["reader"]).json() == {"status": "ready"}
    assert house.server.get("/readyz", key=house.keys["admin"]).json()["chunks"] == 2


def test_a_key_in_either_header(house: House) -> None:
    for headers in ({"Authorization": f"bearer {house.keys['reader']}"}, {"X-API-Key": house.keys["reader"]}):
        me = house.server.get("/api/me", headers=headers).json()
        assert me["name"] == "anna" and me["role"] == "reader" and me["collections"] == ["public"]


ADMIN_ONLY = [
    ("GET", "/api/settings", None),
    ("PATCH", "/api/settings", {"rag.top_k": 5}),
    ("POST", "/api/settings/preset", {"name": "speed"}),
    ("DELETE", "/api/settings/rag.top_k", None),
    ("GET", "/api/models", None),
    ("POST", "/api/models/test", {"model": "ollama:x"}),
    ("POST", "/api/models/list", {"provider": "ollama"}),
    ("POST", "/api/models/connect", {"provider": "openai", "api_key": "sk-of-mallory"}),
    ("DELETE", "/api/models/providers/openai", None),
    ("GET", "/api/keys", None),
    ("POST", "/api/keys", {"name": "mallory", "role": "admin"}),
    ("PATCH", "/api/keys/anna", {"role": "admin", "collections": None}),
    ("DELETE", "/api/keys/root", None),
    ("POST", "/api/query/clear-cache", None),
]


@pytest.mark.parametrize("who", ["reader", "editor", "partial"])
@pytest.mark.parametrize(("method", "path", "body"), ADMIN_ONLY)
def test_the_owners_things_are_the_owners(house: House, who: str, method: str, path: str, body: object) -> None:
    """An admin of some collections is not the owner: a setting or a key reaches every collection."""
    response = house.server.request(method, path, key=house.keys[who], json=body)
    assert response.status_code == 403 and response.json()["code"] == "access_denied", response.text


def test_keys_are_made_and_revoked(house: House) -> None:
    admin = house.keys["admin"]
    made = house.server.post("/api/keys", key=admin, json={"name": "zoe", "collections": ["public"]})
    assert made.status_code == 201
    secret, key = made.json()["secret"], made.json()["key"]
    assert house.server.get("/api/me", key=secret).json()["name"] == "zoe"
    listed = house.server.get("/api/keys", key=admin)
    assert "zoe" in {one["name"] for one in listed.json()["keys"]} and secret not in listed.text
    assert house.server.request("DELETE", f"/api/keys/{key['id']}", key=admin).status_code == 200
    assert house.server.get("/api/me", key=secret).status_code == 401
    assert house.server.request("DELETE", "/api/keys/nobody", key=admin).status_code == 404


def test_a_key_is_changed(house: House) -> None:
    """At once, for the secret and for who is signed in with it; what belongs to it stays."""
    admin = house.keys["admin"]
    made = house.server.post("/api/keys", key=admin, json={"name": "mia", "collections": ["public"]}).json()
    secret, path = made["secret"], f"/api/keys/{made['key']['id']}"
    said = {"message": "When does the harbour office open?", "session_id": "mias-own"}
    assert house.server.post("/api/chat", key=secret, json=said).status_code == 200

    def change(body: dict[str, object]) -> dict[str, object]:
        response = house.server.request("PATCH", path, key=admin, json=body)
        assert response.status_code == 200, response.text
        changed: dict[str, object] = response.json()["key"]
        return changed

    with httpx2.Client(base_url=house.server.url) as client:
        assert client.post("/api/session", json={"key": secret}).status_code == 200
        assert change({"name": "mia marie", "role": "editor"})["collections"] == ["public"]
        for me in (client.get("/api/me").json(), house.server.get("/api/me", key=secret).json()):
            assert (me["name"], me["role"], me["may"]["add"]) == ("mia marie", "editor", True)
        assert change({"collections": ["hr"]})["role"] == "editor"
        answers = [
            client.post("/api/query", json={"q": ASK_SECRET}, headers={"X-Refdesk": "1"}),
            house.server.post("/api/query", key=secret, json={"q": ASK_SECRET}),
        ]
        assert all("91,500" in one.json()["content"] for one in answers)
        assert change({"collections": None})["collections"] is None
        assert client.get("/api/documents").json()["total"] == 2
        assert change({"role": "reader", "collections": ["public"]})["role"] == "reader"
        assert client.get("/api/documents").json()["total"] == 1
    assert [one["id"] for one in house.server.get("/api/conversations", key=secret).json()["conversations"]] == [
        "mias-own"
    ]
    for wrong, status in (
        ({}, 400),
        ({"collections": []}, 400),
        ({"role": "king"}, 400),
        ({"name": "root"}, 400),
        ({"name": ""}, 400),
    ):
        assert house.server.request("PATCH", path, key=admin, json=wrong).status_code == status, wrong
    absent = house.server.request("PATCH", "/api/keys/nobody", key=admin, json={"role": "reader"})
    assert absent.status_code == 404 and absent.json()["hint"] == "GET /api/keys shows what there is"
    house.desk.keys.revoke(made["key"]["id"])


def test_the_last_owner_does_not_lock_himself_out(house: House) -> None:
    for method, body in (("PATCH", {"role": "reader"}), ("PATCH", {"collections": ["public"]}), ("DELETE", None)):
        response = house.server.request(method, "/api/keys/root", key=house.keys["admin"], json=body)
        assert response.status_code == 400 and "last key" in response.json()["message"], response.text
    assert house.server.get("/api/keys", key=house.keys["admin"]).status_code == 200


# the cookie


@contextmanager
def signed_in(house: House, who: str = "reader") -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=house.server.url) as client:
        assert client.post("/api/session", json={"key": house.keys[who]}).status_code == 200
        yield client


def test_a_sign_in_sets_a_cookie_that_scripts_cannot_read(house: House) -> None:
    with signed_in(house) as client:
        response = client.post("/api/session", json={"key": house.keys["reader"]}, headers={"X-Refdesk": "1"})
        cookie = response.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and house.keys["reader"].lower() not in cookie
        assert client.get("/api/me").json()["name"] == "anna"
    assert house.server.post("/api/session", json={"key": "rd_wrong"}).status_code == 401


def test_a_change_with_the_cookie_needs_the_header_and_the_same_site(house: House) -> None:
    own, body = house.server.url, {"message": "When does the harbour office open?"}
    with signed_in(house) as client:
        assert client.post("/api/chat", json=body).status_code == 403
        fine = {"X-Refdesk": "1", "Origin": own, "Sec-Fetch-Site": "same-origin"}
        assert client.post("/api/chat", json=body, headers=fine).status_code == 200
        for wrong in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            response = client.post("/api/chat", json=body, headers=fine | wrong)
            assert response.status_code == 403 and "another site" in response.json()["message"]


def test_signing_out_ends_the_session_itself(house: House) -> None:
    with signed_in(house) as client:
        token = client.cookies["refdesk_session"]
        assert client.request("DELETE", "/api/session", headers={"X-Refdesk": "1"}).json() == {"signed_in": False}
        again = house.server.get("/api/me", headers={"Cookie": f"refdesk_session={token}"})
        assert again.status_code == 401


def test_a_revoked_key_takes_its_sessions_along(house: House) -> None:
    key, secret = house.desk.keys.add("brief", "reader")
    with httpx2.Client(base_url=house.server.url) as client:
        client.post("/api/session", json={"key": secret})
        assert client.get("/api/me").status_code == 200
        house.desk.keys.revoke(key.id)
        assert client.get("/api/me").status_code == 401


ODD = ('prefs={"a": [1]}; ', "x[y]=1; ", "\u00e9=1; ", "=; ;; ", "refdesk_session=; ")


@pytest.mark.parametrize("other", ODD)
def test_cookies_of_other_programs_do_not_sign_anyone_out(house: House, other: str) -> None:
    """They are shared by all ports of a machine."""
    with signed_in(house) as client:
        token = client.cookies["refdesk_session"]
    cookie = f"{other}refdesk_session={token}".encode("latin-1")
    assert house.server.get("/api/me", headers={"Cookie": cookie}).json()["name"] == "anna"


def test_another_site_signs_nobody_in(house: House) -> None:
    """With a key of its own it would read what its visitor asks."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        response = house.server.post("/api/session", json={"key": house.keys["reader"]}, headers=headers)
        assert response.status_code == 403 and "set-cookie" not in response.headers


def test_a_new_sign_in_ends_the_one_before(house: House) -> None:
    with signed_in(house) as client:
        before = client.cookies["refdesk_session"]
        client.post("/api/session", json={"key": house.keys["other"]}, headers={"X-Refdesk": "1"})
        assert client.get("/api/me").json()["name"] == "otto"
    assert house.server.get("/api/me", headers={"Cookie": f"refdesk_session={before}"}).status_code == 401


def test_a_token_that_was_not_given_out_is_not_taken_up(house: House) -> None:
    """Whoever plants a cookie of his choice in a browser knows nothing after its owner has signed in."""
    with httpx2.Client(base_url=house.server.url) as client:
        client.cookies.set("refdesk_session", "planted")
        assert client.get("/api/me").status_code == 401
        response = client.post("/api/session", json={"key": house.keys["reader"]})
        assert response.status_code == 200 and "planted" not in response.headers["set-cookie"]


def test_an_empty_list_of_collections_is_not_all_of_them(house: House) -> None:
    body = {"name": "nobody", "role": "reader", "collections": []}
    response = house.server.post("/api/keys", key=house.keys["admin"], json=body)
    assert response.status_code == 400 and "gives no access" in response.json()["message"]


def test_who_follows_uploads_is_sent_away_with_his_key(house: House) -> None:
    key, secret = house.desk.keys.add("follower", "reader")
    headers = {"Authorization": f"Bearer {secret}"}
    with house.server.client.stream("GET", "/api/uploads/events", headers=headers, timeout=PATIENCE_S) as response:
        lines = response.iter_lines()
        next(lines)
        house.desk.keys.revoke(key.id)
        assert not [line for line in lines if line.startswith("data")]  # and it ends


def test_who_follows_uploads_is_sent_away_when_his_key_is_changed(house: House) -> None:
    """He comes back as what he is now; an admin who is none any more would go on seeing everyone's."""
    key, secret = house.desk.keys.add("follower", "admin")
    headers = {"Authorization": f"Bearer {secret}"}
    with house.server.client.stream("GET", "/api/uploads/events", headers=headers, timeout=PATIENCE_S) as response:
        lines = response.iter_lines()
        next(lines)
        house.desk.keys.change(key.id, role="reader")
        assert not [line for line in lines if line.startswith("data")]  # and it ends
    house.desk.keys.revoke(key.id)


# one collection never shows in another


def test_a_key_may_have_a_thousand_collections(house: House) -> None:
    """SQL has a limit for conditions in a row; whoever meets it must not read the query in an error."""
    names = [*(f"archive/{number}" for number in range(1199)), "public"]
    secret = house.desk.keys.add("librarian", "reader", names)[1]
    body = {"q": "Who is the lighthouse keeper?", "collection": [*names[:999], "public"]}
    for path, sent in (("/api/query", {"q": body["q"]}), ("/api/query", body)):
        said = house.server.post(path, key=secret, json=sent)
        assert said.status_code == 200 and "Oyelaran" in said.json()["content"], said.text
    assert house.server.get("/api/documents", key=secret).json()["total"] == 1
    assert house.server.get("/api/analytics", key=secret).status_code == 200


def test_a_reader_never_sees_another_collection(house: House) -> None:
    server, reader = house.server, house.keys["reader"]
    hr = server.post("/api/chat", key=house.keys["hr"], json={"message": ASK_SECRET, "session_id": "pay-talk"}).json()
    assert "91,500" in hr["content"]
    said = [
        server.post("/api/query", key=reader, json={"q": ASK_SECRET}),  # search, and the cache that has the answer
        server.post("/api/query", key=reader, json={"q": "What is the salery of the harbor master?"}),  # spelling
        server.post("/api/query", key=reader, json={"q": "What is the vault code word?", "collection": "hr"}),
        server.post("/api/chat", key=reader, json={"message": ASK_SECRET, "folder_id": "hr/pay"}),
        server.get("/api/answers", key=reader),
        server.get(f"/api/answers/{hr['id']}", key=reader),
        server.get(f"/api/traces/{hr['id']}", key=reader),
        server.post("/api/feedback", key=reader, json={"answer_id": hr["id"], "verdict": "wrong"}),
        server.get("/api/conversations", key=reader),
        server.get("/api/conversations/pay-talk", key=reader),
        server.get("/api/conversations/pay-talk/messages", key=reader),
        server.get("/api/analytics", key=reader),
        server.post("/v1/chat/completions", key=reader, json={"messages": [{"role": "user", "content": ASK_SECRET}]}),
        server.get("/api/traces/" + hr["id"], key=house.keys["partial"]),
        server.get("/api/answers", key=house.keys["partial"]),
    ]
    for response in said:
        assert response.status_code in (200, 404), response.text
        text = response.text.replace(ASK_SECRET, "")
        assert not [word for word in SECRETS if word in text], response.text
    events = server.events("/api/chat/stream", {"message": ASK_SECRET}, key=reader)
    assert not [word for word in SECRETS if word in str(events).replace(ASK_SECRET, "")]


def test_a_guessed_row_is_drawn_as_one_for_those_alone_who_may_read_it(house: House) -> None:
    house.desk.add_text("pay.csv", "Name,Crowns\nMarten,90\nOlga,80\n", collection="hr/pay", format="csv")
    try:
        chunk = house.desk.chunks("pay.csv")[0].id
        body = {"content": "- Marten | 90", "claims": [[2, 13]], "quoted": True, "chunks": [chunk]}
        drawn = {
            who: house.server.post("/page/render", key=house.keys[who], json=body).json()["html"][:4]
            for who in ("hr", "reader")
        }
    finally:
        house.desk.remove("pay.csv")
    assert drawn == {"hr": "<tab", "reader": "<ul>"}


def test_one_document_is_one(house: House) -> None:
    body = {"message": "When does the harbour office open?", "cache": False}
    events = house.server.events("/api/chat/stream", body, key=house.keys["reader"])
    said = [data["text"] for name, data, _ in events if name == "thinking"]
    assert "Searching 1 document" in said, said


def test_a_document_elsewhere_is_as_absent_as_one_that_never_was(house: House) -> None:
    hidden = house.desk.document("salaries.txt").id
    ask = {"q": "What is said?"}
    answers = [
        house.server.post("/api/query", key=house.keys["reader"], json=ask | {"document": name})
        for name in ("salaries.txt", hidden, "never-was.txt")
    ]
    assert {one.status_code for one in answers} == {404}
    shapes = {
        str({k: v for k, v in one.json().items() if k != "request_id"}).replace(name, "X")
        for one, name in zip(answers, ("salaries.txt", hidden, "never-was.txt"), strict=True)
    }
    assert len(shapes) == 1, shapes


def test_a_conversation_is_its_owners(house: House) -> None:
    server = house.server
    body = {"message": "When does the harbour office open?", "session_id": "annas-own"}
    assert server.post("/api/chat", key=house.keys["reader"], json=body).status_code == 200
    other = house.keys["other"]
    for response in (
        server.post("/api/chat", key=other, json=body),
        server.post("/api/chat/stream", key=other, json=body),
        server.get("/api/conversations/annas-own/messages", key=other),
        server.request("PATCH", "/api/conversations/annas-own", key=other, json={"title": "mine"}),
        server.request("DELETE", "/api/conversations/annas-own", key=other),
    ):
        assert response.status_code == 404, response.text
    messages = server.get("/api/conversations/annas-own/messages", key=house.keys["reader"]).json()["messages"]
    assert len(messages) == 2


def test_a_stream_is_taken_up_by_its_owner_alone(house: House) -> None:
    body = {"message": "When does the harbour office open?", "cache": False}
    events = house.server.events("/api/chat/stream", body, key=house.keys["reader"])
    headers = {"Last-Event-ID": events[0][2]}
    stolen = house.server.post("/api/chat/stream", key=house.keys["other"], json=body, headers=headers)
    assert stolen.status_code == 404
    assert house.server.events("/api/chat/stream", body, key=house.keys["reader"], last=events[0][2]) == events[1:]


def test_an_event_that_never_was_is_not_there(house: House) -> None:
    body, key = {"message": "When does the harbour office open?", "cache": False}, house.keys["reader"]
    events = house.server.events("/api/chat/stream", body, key=key)
    stream = events[0][2].rpartition("-")[0]
    assert house.server.events("/api/chat/stream", body, key=key, last=events[-1][2]) == [], "the last one was"
    for wrong in (f"{stream}-{len(events) + 1}", f"{stream}-99999", f"{stream}-", f"{stream}-x", "x-1", "7"):
        response = house.server.post("/api/chat/stream", key=key, json=body, headers={"Last-Event-ID": wrong})
        assert response.status_code == 404 and response.json()["code"] == "not_found", wrong


# limits


def test_requests_of_an_hour(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library", **{"serve.requests_per_hour": 3}) as desk:
        secret = desk.keys.add("anna", "reader")[1]
        other = desk.keys.add("otto", "reader")[1]
        with serving(desk) as server:
            assert [server.get("/api/me", key=secret).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
            response = server.get("/api/me", key=secret)
            said = response.json()
            assert said["code"] == "too_many_requests" and said["retryable"] and "3 requests" in said["message"]
            assert said["hint"] in ("try again in 60 minutes", "try again in 59 minutes")
            assert 0 < int(response.headers["retry-after"]) <= 3600
            assert server.get("/api/me", key=other).status_code == 200


def test_whoever_sets_the_limits_is_not_locked_out_by_them(desk: Refdesk) -> None:
    admin, reader = desk.keys.add("root", "admin")[1], desk.keys.add("anna", "reader")[1]
    partial = desk.keys.add("petra", "admin", ["public"])[1]
    with serving(desk) as server:

        def change(limit: int) -> int:
            body = {"serve.requests_per_hour": limit}
            return server.request("PATCH", "/api/settings", key=admin, json=body).status_code

        assert change(1) == 200
        assert [server.get("/api/documents", key=admin).status_code for _ in range(2)] == [200, 429]
        refused = server.get("/api/documents", key=admin).json()
        assert "its 1 request for this hour" in refused["message"] and "minutes" in refused["hint"]
        for path in ("/api/settings", "/api/me", "/api/settings", "/api/me"):
            assert server.get(path, key=admin).status_code == 200
        assert server.client.post("/api/session", json={"key": admin}).status_code == 200, "on the page"
        server.client.cookies.clear()
        assert server.get("/api/settingsx", key=admin).status_code == 429
        for other in (reader, partial):  # who could change nothing about it
            assert [server.get("/api/me", key=other).status_code for _ in range(2)] == [200, 429]
        assert server.request("DELETE", "/api/settings/serve.requests_per_hour", key=admin).status_code == 200
        assert server.get("/api/documents", key=admin).status_code == 200


# without keys


def test_without_keys_the_machine_itself_is_let_in(examples: Refdesk) -> None:
    with serving(examples) as server:
        assert server.get("/api/me").json()["role"] == "admin"
        body = {"q": "When does the harbour office open?"}
        assert server.post("/api/query", json=body, headers={"Origin": server.url}).status_code == 200
        evil = server.post("/api/query", json=body, headers={"Origin": "https://evil.example"})
        assert evil.status_code == 403
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0", ""):
            rebound = server.get("/api/me", headers={"Host": host})
            assert rebound.status_code == 403 and "own machine" in rebound.json()["message"]
        for host in ("localhost:1", "127.0.0.2", "[::1]:8080", "LOCALHOST"):
            assert server.get("/api/me", headers={"Host": host}).status_code == 200


def test_revoking_the_last_key_does_not_open_a_server_on_the_network(desk: Refdesk) -> None:
    key, secret = desk.keys.add("root", "admin")
    with serving(desk, is_local=False) as server:
        assert server.request("GET", "/api/settings", key=secret).status_code == 200
        desk.keys.revoke(key.id)
        assert server.request("GET", "/api/settings").status_code == 401
        assert server.request("GET", "/api/settings", key=secret).status_code == 401
        assert server.request("POST", "/api/query", json={"question": "What is there?"}).status_code == 401
        assert server.request("GET", "/healthz").status_code == 200
    with serving(desk, is_local=False, insecure=True) as server:
        assert server.request("GET", "/api/settings").status_code == 200


def test_the_first_key_is_an_admins(desk: Refdesk) -> None:
    """Or nobody could make another, nor change a setting, but on the command line."""
    with serving(desk) as server:
        for body in ({"role": "reader"}, {"role": "admin", "collections": ["a"]}):
            refused = server.post("/api/keys", json={"name": "anna"} | body)
            assert refused.status_code == 400 and "the first key must be an admin key" in refused.json()["message"]
        made = server.post("/api/keys", json={"name": "root", "role": "admin"})
        assert made.status_code == 201
        key = made.json()["secret"]
        assert server.post("/api/keys", key=key, json={"name": "anna", "role": "reader"}).status_code == 201
