"""Chunks that were made elsewhere come in as they are, from a file or from Airtable."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.errors import ProviderRefused, ProviderUnavailable, UsageError
from refdesk.ingest.imported import Airtable, read_lines

STORES = ON_DISK
pytestmark = pytest.mark.usefixtures("new_folder")  # in `tmp_path / "library"`

ANCHOR = {
    "chunk_id": "c1",
    "doc_id": "d1",
    "doc_name": "moorings.pdf",
    "sequence_number": 7,
    "chunk_type": "text",
    "content_raw": "The anchor of the outer buoy weighs 350 kg. It is cast iron.",
    "content_summary": "Weight of the anchor.",
    "heading_path": "Moorings > Anchors",
    "token_count": 14,
}
CHAIN = ANCHOR | {
    "chunk_id": "c2",
    "sequence_number": 8,
    "content_raw": "The chain is 40 m long.",
    "chunk_type": "graphic",
}
PAINT = {"doc_id": "d2", "content_raw": "The hull is painted yellow."}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with Refdesk(tmp_path / "library", settings={"ingest.workers": 1}) as found:
        yield found


def written(folder: Path, *rows: Any) -> Path:
    file = folder / "chunks.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    return file


def outcomes(results: Any) -> list[tuple[str, str]]:
    return sorted((one.name, one.outcome) for one in results)


def test_chunks_come_in_as_they_are(desk: Refdesk, tmp_path: Path) -> None:
    file = written(tmp_path, CHAIN, ANCHOR, PAINT)
    assert outcomes(desk.import_chunks(file)) == [("d2", "added"), ("moorings.pdf", "added")]
    first, second = desk.chunks("moorings.pdf")
    assert (first.sequence, first.text, first.summary) == (7, ANCHOR["content_raw"], "Weight of the anchor.")
    assert first.heading_path == ("Moorings", "Anchors") and second.kind == "figure" and second.sequence == 8
    assert desk.document("moorings.pdf").metadata["doc_id"] == "d1"
    answer = desk.ask_sync("How heavy is the anchor of the outer buoy?", cache=False)
    assert "350 kg" in answer.content and answer.citations[0].chunk_sequence == 7
    assert all(one.well for one in desk.check())


def test_what_is_unchanged_is_left_and_what_has_changed_replaced(desk: Refdesk, tmp_path: Path) -> None:
    desk.import_chunks(written(tmp_path, ANCHOR, PAINT))
    assert outcomes(desk.import_chunks(written(tmp_path, ANCHOR, PAINT))) == [
        ("d2", "unchanged"),
        ("moorings.pdf", "unchanged"),
    ]
    heavier = ANCHOR | {"content_raw": "The anchor of the outer buoy weighs 400 kg."}
    assert outcomes(desk.import_chunks([heavier])) == [("moorings.pdf", "replaced")]
    assert "400 kg" in desk.ask_sync("How heavy is the anchor of the outer buoy?", cache=False).content


def test_two_documents_of_one_name_are_told_apart(desk: Refdesk) -> None:
    other = ANCHOR | {"doc_id": "d9", "content_raw": "Another document of that name."}
    assert outcomes(desk.import_chunks([ANCHOR, other])) == [("moorings.pdf", "added"), ("moorings.pdf (d9)", "added")]
    assert outcomes(desk.import_chunks([other])) == [("moorings.pdf (d9)", "unchanged")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", "line 1 is not JSON", id="broken"),
        pytest.param("[1]", "line 1 is not a JSON object", id="a_list"),
        pytest.param('{"content_raw": "x"}', "line 1 has no doc_id", id="no_document"),
        pytest.param('{"doc_id": "d", "content_summary": "x"}', "line 1 has no content_raw", id="a_summary_alone"),
        pytest.param(
            '{"doc_id": "d", "content_raw": "x", "sequence_number": "first"}',
            "the sequence_number of line 1 is not a whole number: 'first'",
            id="no_number",
        ),
    ],
)
def test_a_wrong_line_is_named(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_lines([line])
    assert str(caught.value) == message


def test_nothing_of_a_file_with_a_wrong_line_comes_in(desk: Refdesk, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 2 has no doc_id"):
        desk.import_chunks(written(tmp_path, ANCHOR, {"content_raw": "x"}))
    assert not desk.documents()
    with pytest.raises(UsageError, match="cannot be read"):
        desk.import_chunks(tmp_path / "nothing.jsonl")


# --- Airtable: a server that answers as its documentation shows ------------------------------------------------------


class Base:
    """A base with one table; `at` of a record is when it was changed last."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.asked: list[dict[str, list[str]]] = []
        self.busy = 0  # how often it says 429
        self.changed = "2024-01-01T00:00:00.000Z"
        base = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = base.answer(self.path, self.headers.get("Authorization", ""))
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def put(self, **fields: Any) -> None:
        same = [row for row in self.rows if row["fields"].get("Key") == fields.get("Key")]
        for row in same:
            self.rows.remove(row)
        record = same[0]["id"] if same else f"rec{len(self.rows):014d}"
        self.rows.append(
            {"id": record, "createdTime": "2023-01-01T00:00:00.000Z", "fields": fields, "at": self.changed}
        )

    def answer(self, path: str, key: str) -> tuple[int, Any]:
        if key != "Bearer pat123":
            return 401, {"error": {"type": "AUTHENTICATION_REQUIRED", "message": "Authentication required"}}
        if self.busy:
            self.busy -= 1
            return 429, {"errors": [{"error": "RATE_LIMIT_REACHED", "message": "Rate limit exceeded."}]}
        place = urlsplit(path)
        if unquote(place.path) != "/v0/appBase/Chunk table":
            return 404, {"error": "NOT_FOUND"}
        asked = parse_qs(place.query)
        self.asked.append(asked)
        formula = asked.get("filterByFormula", [""])[0]
        if formula == "broken":
            return 422, {"error": {"type": "INVALID_FILTER_BY_FORMULA", "message": "The formula is invalid"}}
        found = [row for row in self.rows if self.holds(formula, row)]
        size, start = int(asked["pageSize"][0]), int(asked.get("offset", ["itr/0"])[0].rpartition("/")[2])
        page = [{name: row[name] for name in ("id", "createdTime", "fields")} for row in found[start : start + size]]
        more = {"offset": f"itr/{start + size}"} if start + size < len(found) else {}
        return 200, {"records": page} | more

    def holds(self, formula: str, row: dict[str, Any]) -> bool:
        """Of Airtable's formulas those that are sent here."""
        if formula.startswith("IS_AFTER(LAST_MODIFIED_TIME(), '"):
            return bool(row["at"] > formula.split("'")[1])
        if formula.startswith(("OR({Doc} = ", "{Doc} = ")):
            return f"'{row['fields']['Doc']}'" in formula
        return not formula or (formula == "{State} = 'ready'" and row["fields"].get("State") == "ready")


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Base]:
    found = Base()
    monkeypatch.setenv("AIRTABLE_API_KEY", "pat123")
    monkeypatch.setenv("AIRTABLE_ENDPOINT_URL", found.url)
    yield found
    found.server.shutdown()


FIELDS = {
    "doc_id": "Doc",
    "content_raw": "Text",
    "sequence_number": "Nr",
    "heading_path": "Path",
    "content_summary": "Short",
}


def read(desk: Refdesk, **options: Any) -> list[tuple[str, str]]:
    return outcomes(desk.add_airtable("appBase", "Chunk table", **{"fields": FIELDS, **options}))


def fill(base: Base, count: int = 3) -> None:
    for number in range(count):
        base.put(
            Key=number,
            Doc="d1",
            Nr=number + 1,
            Text=f"The buoy number {number} weighs {100 + number} kg.",
            Path="A > B",
        )
    base.put(Key="x", Doc="d2", Nr=1, Text="The hull is painted yellow.", Short="Paint.")


def test_records_become_chunks_page_by_page(desk: Refdesk, base: Base) -> None:
    fill(base, 230)
    assert read(desk) == [("d1", "added"), ("d2", "added")]
    assert len(base.asked) == 3 and [asked["pageSize"] for asked in base.asked] == [["100"]] * 3
    chunks = desk.chunks("d1")
    assert len(chunks) == 230 and chunks[41].text == "The buoy number 41 weighs 141 kg." and chunks[41].sequence == 42
    assert chunks[0].heading_path == ("A", "B") and desk.chunks("d2")[0].summary == "Paint."


def test_later_only_what_was_changed_is_read(desk: Refdesk, base: Base) -> None:
    fill(base)
    read(desk)
    base.asked.clear()
    assert read(desk) == []
    assert len(base.asked) == 1 and base.asked[0]["filterByFormula"][0].startswith("IS_AFTER(LAST_MODIFIED_TIME(), '20")
    base.changed = "2999-01-01T00:00:00.000Z"
    base.put(Key=1, Doc="d1", Nr=2, Text="The buoy number 1 weighs 999 kg.", Path="A > B")
    base.asked.clear()
    assert read(desk) == [("d1", "replaced")]
    assert [asked["filterByFormula"][0][:8] for asked in base.asked] == ["IS_AFTER", "{Doc} = "]
    assert [chunk.text[-7:] for chunk in desk.chunks("d1")] == ["100 kg.", "999 kg.", "102 kg."], "the whole document"


def test_a_full_read_removes_what_is_gone(desk: Refdesk, base: Base) -> None:
    fill(base)
    read(desk)
    desk.add_text("own.txt", "What somebody else has added stays.")
    base.rows = [row for row in base.rows if row["fields"]["Doc"] != "d2"]
    assert read(desk) == [], "an incremental read cannot see it"
    assert read(desk, full=True) == [("d1", "unchanged"), ("d2", "removed")]
    assert {one.name for one in desk.documents()} == {"d1", "own.txt"}


def test_a_table_of_documents_and_a_formula(desk: Refdesk, base: Base) -> None:
    base.put(Key=1, Text="The anchor weighs 350 kg.", Name=["Anchors"], State="ready")
    base.put(Key=2, Text="Not yet.", State="draft")
    mapped = {"content_raw": "Text", "doc_name": "Name"}
    assert read(desk, fields=mapped, formula="{State} = 'ready'") == [("Anchors", "added")]


def test_it_waits_when_it_is_told_to(base: Base) -> None:
    fill(base)
    base.busy = 2
    account = Airtable("pat123", base.url, wait_s=0.01)
    assert len(list(account.records("appBase", "Chunk table"))) == 4
    base.busy = 9
    with pytest.raises(ProviderUnavailable, match="Airtable answered 429"):
        list(account.records("appBase", "Chunk table"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"table": "Nothing"}, "Airtable answered 404: NOT_FOUND; check the ids", id="no_such_table"),
        pytest.param({"formula": "broken"}, "422: The formula is invalid; check the names", id="formula"),
    ],
)
def test_what_airtable_says_against_it_is_passed_on(
    desk: Refdesk, base: Base, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ProviderRefused) as caught:
        desk.add_airtable("appBase", **{"table": "Chunk table", "fields": FIELDS, **options})
    assert message in caught.value.sentence


def test_a_wrong_key_field_or_row_gets_a_sentence(desk: Refdesk, base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="'content' is not a field of a chunk"):
        read(desk, fields={"content": "Text"})
    base.put(Key=1, Doc="d1")
    with pytest.raises(UsageError, match=r"record rec0{14} has no content_raw"):
        read(desk)
    monkeypatch.setenv("AIRTABLE_API_KEY", "wrong")
    with pytest.raises(ProviderRefused, match="401: Authentication required"):
        read(desk)
    monkeypatch.delenv("AIRTABLE_API_KEY")
    with pytest.raises(UsageError, match="AIRTABLE_API_KEY is not set"):
        read(desk)
