"""Searching over HTTP: passages with their place and scores, within the bounds of the request and of the key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from access_samples import BOARD, HARBOUR, secrets_in
from http_server import Server, serving
from memory_desk import ON_DISK, open_either
from pdf_samples import plain
from refdesk import Refdesk
from refdesk.serve.http.requests import MOST_HITS

STORES = ON_DISK

CRANE = "How much does the crane lift?"
SECRET = "What does the Ravensfield closure cost?"


@dataclass
class House:
    server: Server
    desk: Refdesk
    keys: dict[str, str]

    def hits(self, who: str = "admin", **body: Any) -> list[dict[str, Any]]:
        response = self.server.post("/api/search", key=self.keys[who], json=body)
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["hits"]
        return found


@pytest.fixture(scope="module")
def house(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("search")
    (folder / "plain.pdf").write_bytes(plain("Helvetica", 11).data)
    with open_either(store_kind, folder / "library") as desk:
        texts = [
            {"name": "crane.md", "text": HARBOUR, "collection": "harbour/handbooks", "date": "2024-03-01"},
            {"name": "board-minutes.md", "text": BOARD, "collection": "board", "date": "2025-10-01"},
            {"name": "notes.md", "text": "The harbour office opens at eight.", "collection": "harbour"},
            {"name": "rota.md", "text": "The crane is greased on Mondays.", "metadata": {"shift": "early"}},
        ]
        desk.add_texts([one | {"format": "markdown"} for one in texts], collection="harbour")
        desk.add(folder / "plain.pdf", collection="scans")
        keys = {
            "admin": desk.keys.add("root", "admin")[1],
            "reader": desk.keys.add("anna", "reader", ["harbour"])[1],
            "board": desk.keys.add("otto", "reader", ["board"])[1],
        }
        with serving(desk) as server:
            yield House(server, desk, keys)


def test_a_hit_says_where_it_stands_and_how_well_it_fits(house: House) -> None:
    said = house.server.post("/api/search", key=house.keys["admin"], json={"q": CRANE, "k": 3}).json()
    assert (said["query"], said["method"], len(said["hits"])) == (CRANE, "hybrid", 3)
    expected = house.desk.search(CRANE, k=3)
    for hit, one in zip(said["hits"], expected, strict=True):
        assert hit | one.to_dict() == hit, "all that `desk.search` gives, in its order"
    best = said["hits"][0]
    assert best["document_name"] in ("crane.md", "board-minutes.md") and "crane lifts" in best["text"]
    assert best["score"] >= said["hits"][1]["score"] and best["lexical_score"] > 0 and 0 < best["cosine"] <= 1
    assert best["page_image"] is None and best["boxes"] == [] and best["lines"][0]["box"] is None
    page = house.server.get(best["page_text"], key=house.keys["admin"]).json()
    assert best["text"].split(".")[0] in page["text"]


def test_a_hit_in_a_pdf_leads_to_its_lines_on_the_page(house: House) -> None:
    (document,) = house.desk.documents(collection="scans")
    words = house.desk.pages(document.id, 1)[0].text.split()
    (hit,) = house.hits(q=" ".join(words[:8]), document="plain.pdf", k=1)
    assert hit["pages"] == [1] and hit["lines"] and hit["boxes"] == [line["box"] for line in hit["lines"]]
    line = hit["lines"][0]
    assert hit["text"][line["start"] : line["end"]].split()[0] in words and line["page"] == 1
    image = house.server.get(hit["page_image"], key=house.keys["admin"])
    bare = house.server.get(hit["page_image"].partition("?")[0], key=house.keys["admin"])
    assert image.status_code == 200 and image.headers["content-type"] == "image/png"
    assert image.content != bare.content, "its lines are marked"


def test_either_name_of_the_query_and_the_address(house: House) -> None:
    by_q = house.hits(q=CRANE, k=2)
    assert by_q == house.hits(query=CRANE, k=2)
    found = house.server.get("/api/search", key=house.keys["admin"], params={"q": CRANE, "k": 2})
    assert found.json()["hits"] == by_q
    several = {"q": "crane", "collection": ["board", "scans"], "kind": ["text", "table"], "method": "bm25"}
    found = house.server.get("/api/search", key=house.keys["admin"], params=several)
    assert {one["collection"] for one in found.json()["hits"]} == {"board"} and found.json()["method"] == "bm25"


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        pytest.param({"collection": "board"}, {"board-minutes.md"}, id="collection"),
        pytest.param({"collection": ["board", "harbour/handbooks"]}, {"board-minutes.md", "crane.md"}, id="several"),
        pytest.param({"document": "rota.md"}, {"rota.md"}, id="document"),
        pytest.param({"document": ["rota.md", "crane.md"]}, {"rota.md", "crane.md"}, id="documents"),
        pytest.param({"date_from": "2025-01-01", "date_to": "2025-12-31"}, {"board-minutes.md"}, id="dates"),
        pytest.param({"metadata": {"shift": "early"}}, {"rota.md"}, id="metadata"),
        pytest.param({"kind": "table"}, set(), id="kind"),
        pytest.param({"pages": [7, 9]}, set(), id="pages"),
        pytest.param({"collection": "nowhere"}, set(), id="no_such_collection"),
    ],
)
@pytest.mark.parametrize("method", ["hybrid", "bm25", "dense", "rrf"])
def test_what_may_be_searched(house: House, method: str, scope: dict[str, Any], names: set[str]) -> None:
    assert {one["document_name"] for one in house.hits(q="crane", k=50, method=method, **scope)} == names


def test_a_reader_never_sees_another_collection(house: House) -> None:
    hidden = house.desk.document("board-minutes.md").id
    assert any("4,711" in one["text"] for one in house.hits("board", q=SECRET))
    for body in (
        {"q": SECRET, "k": MOST_HITS},
        {"q": SECRET, "collection": "board"},
        {"q": "Zebulon", "method": "bm25"},
        {"q": "ninety tonnes", "method": "dense"},
        {"q": SECRET, "document": "board-minutes.md"},
        {"q": SECRET, "document": hidden},
    ):
        for response in (
            house.server.post("/api/search", key=house.keys["reader"], json=body),
            house.server.get("/api/search", key=house.keys["reader"], params=body),
        ):
            said = response.json() | {"query": ""}
            if "document" in body:
                assert response.status_code == 404
                said["message"] = said["message"].replace(body["document"], "X")
            assert not secrets_in(said), said
    assert house.hits("reader", q="Zebulon", method="bm25") == []
    # Filtered inside the search: what may not be seen takes no place among the k.
    own = house.hits("reader", q=CRANE, k=3)
    assert len(own) == 3 and {one["collection"] for one in own} == {"harbour", "harbour/handbooks"}


def test_a_document_elsewhere_is_as_absent_as_one_that_never_was(house: House) -> None:
    answers = [
        house.server.post("/api/search", key=house.keys["reader"], json={"q": "x", "document": name}).json()
        for name in ("board-minutes.md", "never-was.md")
    ]
    assert answers[0]["message"].replace("board-minutes.md", "never-was.md") == answers[1]["message"]
    assert answers[0]["hint"] == answers[1]["hint"] == "GET /api/documents shows what there is"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "the search text is empty"),
        ({"q": "  "}, "the search text is empty"),
        ({"q": "x" * 8001}, "q: string should have at most 8000 characters"),
        ({"q": "x", "k": 0}, "k: should be greater than or equal to 1"),
        ({"q": "x", "k": MOST_HITS + 1}, f"k: should be less than or equal to {MOST_HITS}"),
        ({"q": "x", "k": "5"}, "k: should be a whole number"),
        ({"q": "x", "method": "magic"}, "method: should be 'hybrid', 'bm25', 'dense' or 'rrf'"),
        ({"q": "x", "kind": "poem"}, "'toc', 'credits' or a list of them"),
        ({"q": "x", "pages": [3, 1]}, "pages 3 to 1 is not a valid range"),
        ({"q": "x", "date_from": "spring"}, "'spring' is not a date"),
        ({"q": "x", "collection": "../x"}, "'../x' is not a valid collection name"),
    ],
)
def test_what_is_wrong_is_said(house: House, body: dict[str, Any], sentence: str) -> None:
    response = house.server.post("/api/search", key=house.keys["reader"], json=body)
    assert response.status_code == 400 and sentence in response.json()["message"], response.text


def test_the_bounds_themselves_are_within(house: House) -> None:
    assert len(house.hits(q="crane", k=1)) == 1
    assert 1 < len(house.hits(q="crane", k=MOST_HITS)) <= MOST_HITS
    assert house.hits(q="crane" + " x" * 3997)
    for query in ("", "q=", "q=x&k=0", f"q=x&k={MOST_HITS + 1}", "q=x&method=magic", "q=x&kind=poem"):
        assert house.server.get(f"/api/search?{query}", key=house.keys["reader"]).status_code == 400, query


def test_without_a_key_nobody_searches(house: House) -> None:
    assert house.server.post("/api/search", json={"q": "crane"}).status_code == 401
    assert house.server.get("/api/search?q=crane").status_code == 401


def test_an_empty_library_has_no_hits(desk: Refdesk) -> None:
    with serving(desk) as server:
        assert server.post("/api/search", json={"q": "crane"}).json()["hits"] == []
