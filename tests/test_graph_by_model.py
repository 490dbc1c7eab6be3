"""What a model finds for the graph: stored beside what rules find, gone with its document, made by a job."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_refdesk
from extraction_samples import entity, said
from http_server import serving
from library_samples import seen_by
from memory_desk import KINDS, ON_DISK, open_either
from real_model import RealModel, real_model
from refdesk import Refdesk
from refdesk.answer import Query
from refdesk.ask.strategies import STRATEGIES
from refdesk.errors import LibraryError, UsageError
from refdesk.ingest.graph import AT_ONCE, proved
from refdesk.ingest.runs import Background, BackgroundPorts, new_job
from refdesk.library import SearchPorts
from refdesk.serve.worker import batch
from refdesk.store.database import HEAD
from refdesk.text import query_terms
from refdesk.types import Scope
from wire_server import Recorded, WireServer

STORES = ON_DISK

__all__ = ["real_model"]

MODEL = "openai:gpt-4o-mini"
# Rules find no name that is written in small letters: nothing but a model leads from one of these to the other.
TEXTS = {
    "paint": "The tender is protected by copper bottom paint, which is mixed with seal oil.",
    "oil": "Every spring the seal oil is pressed at the northern boat house by two boatmen.",
    "ropes": "Ropes are made of hemp. They are forty metres long.",
}
SAID = {
    "paint": {
        "entities": [
            {"name": "copper bottom paint", "kind": "product", "aliases": []},
            {"name": "seal oil", "kind": "product", "aliases": ["train oil"]},
            {"name": "Acme Paints", "kind": "organisation", "aliases": []},
        ],
        "relations": [
            {"subject": "copper bottom paint", "predicate": "mixed with", "object": "seal oil"},
            {"subject": "Acme Paints", "predicate": "protected by", "object": "seal oil"},
        ],
    },
    "oil": {
        "entities": [
            {"name": "Seal oil", "kind": "product", "aliases": []},
            {"name": "northern boat house", "kind": "place", "aliases": []},
        ],
        "relations": [{"subject": "seal oil", "predicate": "pressed at", "object": "northern boat house"}],
    },
    "ropes": {"entities": [], "relations": []},
}


# the store


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_either(request.param, tmp_path / "library") as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        for name in TEXTS:
            assert put(desk, name)
        yield desk


def put(desk: Any, name: str, of: Any = None) -> bool:
    """As the job does it."""
    document = of or desk.document(name)
    found = [(one, proved(one, SAID[name])[0]) for one in desk.chunks(name)]
    return bool(desk.parts.reader._graph.put_extracted(document, MODEL, found))


def walked(desk: Any, text: str, scope: Scope = Scope()) -> list[str]:  # noqa: B008
    asked = Query(text, text, desk.parts.embedder.embed_query(text), tuple(query_terms(text)))
    lists = asyncio.run(
        STRATEGIES["graph"](asked, SearchPorts(desk.parts.reader, desk.parts.embedder, desk.settings, scope, 5))
    )
    return [hit.document.name for one in lists if one.engine == "graph" for hit in one.hits]


def test_both_kinds_are_read_together(stored: Any) -> None:
    reader = stored.parts.reader
    assert reader.known_entities(["seal oil", "acme paints", "train oil"], Scope()) == {"seal oil"}
    assert [mention.name for mention in reader.mentions(["seal oil"], Scope(), 9)] == ["seal oil", "seal oil"]
    assert len(reader.mentions(["seal oil"], Scope(), 1)) == 1
    assert reader.entities_beginning("seal", Scope(), 5) == [("seal oil", "seal oil", 2)]
    relations = reader.relations(["seal oil"], Scope(), 5)
    assert {one[:3] for one in relations} == {
        ("copper bottom paint", "mixed with", "seal oil"),
        ("seal oil", "pressed at", "northern boat house"),
    }
    assert {one.by for one in relations} == {MODEL}
    chunks = {one.chunk_id: reader.chunks([one.chunk_id])[one.chunk_id][0] for one in relations}
    for one in relations:
        part = chunks[one.chunk_id].sentences[one.sentence]
        assert one.subject in chunks[one.chunk_id].text[part.start : part.end]


def test_a_name_that_rules_and_a_model_find_is_one_mention(stored: Any) -> None:
    stored.add_text("lund", "The painter Ada Lund was born in Hestvik.")
    found = [(one, proved(one, said(entity("Ada Lund", kind="person")))[0]) for one in stored.chunks("lund")]
    assert stored.parts.reader._graph.put_extracted(stored.document("lund"), MODEL, found)
    reader = stored.parts.reader
    assert len(reader.mentions(["ada lund"], Scope(), 9)) == 1
    assert reader.entities_beginning("ada", Scope(), 9) == [("ada lund", "Ada Lund", 1)]
    assert stored.graph("Ada Lund")["entity"]["kind"] == "person"


@pytest.mark.parametrize("kind", KINDS)
def test_the_walk_goes_over_an_edge_that_only_a_model_found(kind: str, tmp_path: Path) -> None:
    question = "Where is the copper bottom paint of the tender from?"
    others = [f"The paint of the tender number {n} is from copper town and dries at its bottom." for n in range(8)]
    with open_either(kind, tmp_path) as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        desk.add_texts([{"name": f"other {n}", "text": text} for n, text in enumerate(others)])
        assert "oil" not in walked(desk, question), "no rule leads there"
        for name in TEXTS:
            put(desk, name)
        assert {"paint", "oil"} <= set(walked(desk, question))
        desk.remove("paint")
        assert "oil" not in walked(desk, question), "the edge went with its document"


def test_an_edge_says_who_found_it_and_proves_it(stored: Any) -> None:
    found = stored.graph("seal oil")
    assert found["entity"] | {"chunks": 2, "kind": "product"} == found["entity"]
    edges = {edge["name"]: edge for edge in found["edges"]}
    assert set(edges) == {"copper bottom paint", "northern boat house"}
    paint, house = edges["copper bottom paint"], edges["northern boat house"]
    assert (paint["says"], paint["subject"], paint["by"]) == ("mixed with", "copper bottom paint", MODEL)
    assert (house["says"], house["subject"], house["count"]) == ("pressed at", "seal oil", 1)
    assert paint["citation"].quote == TEXTS["paint"] and house["citation"].document_name == "oil"


def test_a_proof_of_two_sentences_is_quoted_whole(stored: Any) -> None:
    stored.add_text("mill", "The film Tide Mill was made by Ada Lund. It was shot on Karvo island.")
    made = said(entity("Tide Mill"), entity("Karvo island"), relations=[("Tide Mill", "shot on", "Karvo island")])
    found = [(one, proved(one, made)[0]) for one in stored.chunks("mill")]
    assert not found[0][1].relations, "the first names somebody else too, of whom the second could speak"
    stored.add_text("mill", "Tide Mill is a film. It was shot on the island.")
    made = said(entity("Tide Mill"), entity("island", kind="place"), relations=[("Tide Mill", "shot on", "island")])
    found = [(one, proved(one, made)[0]) for one in stored.chunks("mill")]
    assert stored.parts.reader._graph.put_extracted(stored.document("mill"), MODEL, found)
    (edge,) = [edge for edge in stored.graph("Tide Mill")["edges"] if edge["by"]]
    assert (
        edge["citation"].quote == "Tide Mill is a film. It was shot on the island."
        and edge["citation"].located is not None
    )


def test_it_goes_with_its_document(stored: Any) -> None:
    reader, before = stored.parts.reader, stored.document("oil")
    generation = reader.generation()
    stored.move("oil", "elsewhere")
    assert {one.subject for one in reader.relations(["northern boat house"], Scope(access=("elsewhere",)), 5)} == {
        "seal oil"
    }
    assert not reader.relations(["northern boat house"], Scope(access=("default",)), 5)
    assert len(reader.extracted([one.id for one in stored.chunks("oil")])) == 1 and reader.generation() > generation
    stored.add_text("oil", "The oil is bought by now.", collection="elsewhere")
    assert reader.known_entities(["northern boat house"], Scope()) == set()
    assert not reader.extracted([one.id for one in stored.chunks("oil")]), "a changed document is read anew"
    assert not put(stored, "oil", before), "another version is there"
    stored.remove("paint")
    assert reader.known_entities(["seal oil", "copper bottom paint"], Scope()) == set()
    stored.remove("oil")
    assert not put(stored, "ropes", before)


def test_a_reader_sees_what_he_may(stored: Any) -> None:
    stored.move("paint", "board")
    outsider = seen_by(stored, "default")
    assert [edge["name"] for edge in outsider.graph("seal oil")["edges"]] == ["northern boat house"]
    assert "paint" not in walked(stored, "What is mixed with seal oil?", Scope(access=("default",)))


def test_all_stores_give_the_same(tmp_path: Path) -> None:
    seen = []
    for kind in KINDS:
        with open_either(kind, tmp_path / kind) as desk:
            desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
            desk.add_text("school", "Ulla Brandt taught seal oil at the Nordic Film School (NFS).")
            for name in TEXTS:
                put(desk, name)
            reader = desk.parts.reader
            keys = ["seal oil", "nfs", "copper bottom paint"]
            ids = [one.id for name in TEXTS for one in desk.chunks(name)]
            edges = [edge | {"citation": edge["citation"].quote} for edge in desk.graph("seal oil")["edges"]]
            seen.append(
                (
                    sorted(reader.mentions(keys, Scope(), 9), key=str),
                    reader.known_entities(keys, Scope()),
                    reader.entities_beginning("", Scope(), 50),
                    sorted(reader.relations(keys, Scope(), 9)),
                    reader.extracted(ids),
                    edges,
                )
            )
    assert seen[0] == seen[1] == seen[2]


def test_no_row_is_left(tmp_path: Path) -> None:
    with open_either("sql", tmp_path) as desk:
        desk.add_text("oil", TEXTS["oil"])
        put(desk, "oil")
        put(desk, "oil")
        tables = ("extracted_chunks", "extracted_names", "extracted_relations")
        with desk._engine.connect() as connection:
            assert [connection.exec_driver_sql(f"SELECT count(*) FROM {one}").scalar() for one in tables] == [1, 2, 1]
        desk.remove("oil")
        with desk._engine.connect() as connection:
            assert [connection.exec_driver_sql(f"SELECT count(*) FROM {one}").scalar() for one in tables] == [0, 0, 0]


def test_a_library_of_the_schema_before_gets_the_tables_and_older_programs_go_on(tmp_path: Path) -> None:
    with open_either("sql", tmp_path) as desk, desk._engine.begin() as connection:
        for table in ("extracted_relations", "extracted_names", "extracted_chunks"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0010'")
    with open_either("sql", tmp_path) as desk:
        desk.add_text("oil", TEXTS["oil"])
        assert put(desk, "oil") and desk.graph("seal oil")["edges"]
        with desk._engine.connect() as connection:
            query = "SELECT value FROM state WHERE name = 'compatible'"
            assert connection.exec_driver_sql(query).scalar() == "0010"
            assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD


def test_it_is_copied_and_restored_with_the_library(tmp_path: Path) -> None:
    with open_either("postgres", tmp_path / "library") as desk:
        desk.add_text("oil", TEXTS["oil"])
        put(desk, "oil")
        desk.migrate(str(tmp_path / "copy"))
        desk.backup(tmp_path / "saved.refdesk")
        expected = desk.graph("seal oil")["edges"]
    Refdesk.restore(tmp_path / "saved.refdesk", tmp_path / "restored")
    for folder in ("copy", "restored"):
        with Refdesk(tmp_path / folder, database="") as there:
            found = there.graph("seal oil")["edges"]
            assert [edge["by"] for edge in found] == [edge["by"] for edge in expected] == [MODEL]
            assert [edge["citation"].quote for edge in found] == [TEXTS["oil"]]


# a whole job, with a model behind a real server


def reply(request: Recorded) -> str:
    parts = re.split(r"^--- CHUNK (\d+) .*$", request.question, flags=re.MULTILINE)
    rows = []
    for number, text in zip(parts[1::2], parts[2::2], strict=True):
        name = next(name for name, own in TEXTS.items() if own in text)
        rows.append({"chunk": int(number), **SAID[name]})
    return json.dumps({"chunks": rows})


@pytest.fixture
def folder(new_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in server.openai_env("gpt-4o", summariser="gpt-4o-mini").items():
        monkeypatch.setenv(name, value)
    return new_folder.parent


def opened(folder: Path) -> Refdesk:
    return Refdesk(folder / "library", settings={"ingest.workers": 1, "llm.tries": 1})


def filled(folder: Path) -> Refdesk:
    desk = opened(folder)
    desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
    return desk


def test_the_cost_is_told_and_every_chunk_read_once(folder: Path, server: WireServer) -> None:
    server.answer_by(reply)
    with filled(folder) as desk:
        cost = desk.graph_cost()
        assert cost.model == MODEL and cost.chunks == 3 and 0 < (cost.cost_usd or 0) < 0.01
        assert cost.sentence.startswith("3 chunks, about ") and not server.requests
        seen: list[tuple[int, int]] = []
        job = desk.extract_graph(on_progress=lambda now: seen.append((now.chunks_done, now.chunks_total)))
        assert job.status == "ready" and seen[-1] == (3, 3)
        assert job.reason == "left out what the chunks do not say themselves: 3 names and relations"
        assert {request.model for request in server.requests} == {"gpt-4o-mini"}
        asked = len(server.requests)
        assert desk.graph_cost().chunks == 0 and desk.extract_graph().chunks_total == 0
        assert len(server.requests) == asked, "nothing is paid for twice, also where nothing was found"
        desk.add_text("ropes", "Ropes are made of hemp by now.")
        assert desk.graph_cost().chunks == 1 and desk.graph_cost("elsewhere").chunks == 0
        assert "Acme Paints" not in json.dumps(desk.graph(), default=str)


def test_what_comes_out_malformed_is_asked_once_more_and_then_left(folder: Path, server: WireServer) -> None:
    server.answer_by(lambda request: "no" if "hemp" in request.question else reply(request))
    with filled(folder) as desk:
        job = desk.extract_graph()
        assert job.status == "ready" and job.reason.startswith("no reply that can be used came for 1 chunk; ")
        asked = [request.question for request in server.requests if "hemp" in request.question]
        assert len(asked) == 2, "once, and once more by itself"
        assert desk.graph_cost().chunks == 1, "it is tried again the next time"
        assert desk.graph("seal oil")["edges"]


def test_a_bound_of_chunks_in_one_request(folder: Path, server: WireServer) -> None:
    server.answer_by(lambda request: json.dumps({"chunks": []}))
    with opened(folder) as desk:
        desk.add_text(
            "long", "\n\n".join(f"# Part {n}\n\n{'Hemp is a fibre. ' * 12}" for n in range(9)), format="markdown"
        )
        count = len(desk.chunks("long"))
        assert count > AT_ONCE
        assert desk.extract_graph().reason == f"no reply that can be used came for {count} chunks"
        asked = [len(re.findall(r"^--- CHUNK", request.question, re.MULTILINE)) for request in server.requests]
        assert max(asked) == AT_ONCE and asked.count(1) >= count


def test_a_tiny_model_is_asked_shortly_of_one_chunk(tmp_path: Path, server: WireServer, monkeypatch: Any) -> None:
    for name, value in server.openai_env("smol-1b").items():
        monkeypatch.setenv(name, value)

    def shortly(request: Recorded) -> str:
        name = next(name for name in TEXTS if TEXTS[name] in request.question)
        if name == "ropes":
            return '{"names": ["hemp"], "relations": [["hemp", "is'  # cut where its room ends
        names = [row["name"] for row in SAID[name]["entities"]]
        rows = [[row["subject"], row["predicate"], row["object"]] for row in SAID[name]["relations"]]
        return json.dumps({"names": names, "relations": [*rows, ["seal oil"], "no list"]})

    server.answer_by(shortly)
    with filled(tmp_path) as desk:
        done = desk.extract_graph()
        assert done.chunks_done == 3 and done.reason.startswith("no reply that can be used came for 1 chunk; ")
        assert len(server.requests) == 3, "what came for one chunk alone would come again"
        assert server.requests[0].system.startswith("List the names")
        assert {edge["name"] for edge in desk.graph("seal oil")["edges"]} == {
            "copper bottom paint",
            "northern boat house",
        }


def test_a_model_that_refuses_ends_the_job_with_a_sentence(folder: Path, server: WireServer) -> None:
    server.fail(401, times=9)
    with filled(folder) as desk:
        with pytest.raises(LibraryError, match="401"):
            desk.extract_graph()
        assert not desk.background_jobs()


def test_without_a_model_it_is_said_and_the_rules_go_on(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk:
        desk.add_text("lund", "The painter Ada Lund was born in Hestvik.")
        with pytest.raises(UsageError, match="no model is set to find names and relations"):
            desk.graph_cost()
        assert [edge["by"] for edge in desk.graph("Ada Lund")["edges"]] == [""]


class Ended(BaseException):
    """As a kill: nothing is cleared up."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_put_down_goes_on_where_it_was(
    kind: str, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_by(reply)
    with Refdesk(folder / "models") as models, open_either(kind, folder / "library") as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        parts = desk.parts
        ports = BackgroundPorts(
            *(parts.documents, parts.chunks, parts.reader._summaries._store, parts.reader._graph),
            *(desk.jobs, parts.embedder, models.background_ports.models, models.background_ports.close),
        )

        def work(check: Callable[[], None], job_id: str = "") -> Any:
            with desk.at_work() as run:
                return Background(ports, run.worker, lambda now: None, check, tell_s=0.0).work(job_id)

        looked = 0

        def check() -> None:
            nonlocal looked
            looked += 1
            if looked == 3:  # after two of three documents
                raise Ended

        (job,) = desk.jobs.submit([new_job("graph", "", "", [])])
        with pytest.raises(Ended):
            work(check, job.id)
        assert len(server.requests) == 2
        done = work(lambda: None)
        assert done.status == "ready" and done.chunks_total == 1 and len(server.requests) == 3
        assert {edge["name"] for edge in desk.graph("seal oil")["edges"]} == {
            "copper bottom paint",
            "northern boat house",
        }


def test_an_older_program_does_not_take_the_job_for_a_file() -> None:
    job = new_job("graph", "", "", [])
    assert not job.is_due and not batch([job])
    assert new_job("tree", "", "", []).is_due
    with pytest.raises(UsageError, match="names and relations are being made already"):
        new_job("graph", "", "", [job])


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_on_the_command_line(folder: Path, server: WireServer) -> None:
    server.answer_by(reply)
    filled(folder).close()
    environment = server.openai_env("gpt-4o-mini")
    unasked = run_refdesk("--library", str(folder / "library"), "graph", **environment)
    assert unasked.returncode == 2 and "3 chunks, about" in unasked.stderr and server.requests == []
    done = run_refdesk("--library", str(folder / "library"), "graph", "--yes", **environment)
    assert done.returncode == 0 and "3 chunks read for names and relations; left out" in done.stdout
    again = run_refdesk("--library", str(folder / "library"), "graph", "--yes", **environment)
    assert again.returncode == 0 and "There is nothing to do." in again.stderr


def test_over_http_it_is_a_job_with_its_cost(folder: Path, server: WireServer) -> None:
    server.answer_by(reply)
    with filled(folder) as desk, serving(desk) as http:
        cost = http.get("/api/background/cost", params={"kind": "graph"}).json()
        assert cost["chunks"] == 3 and cost["cost_usd"] > 0 and not server.requests
        started = http.post("/api/background", json={"kind": "graph"})
        assert started.status_code == 202, started.text
        assert server.wait_until(lambda: http.get("/api/background").json()["jobs"][0]["status"] == "ready", 60)
        (job,) = http.get("/api/background").json()["jobs"]
        assert (job["kind"], job["chunks_done"]) == ("graph", 3)
        found = http.get("/api/graph", params={"entity": "seal oil"}).json()
        assert found["entity"]["kind"] == "product"
        edge = next(edge for edge in found["edges"] if edge["name"] == "copper bottom paint")
        assert (edge["by"], edge["says"], edge["subject"]) == (MODEL, "mixed with", "copper bottom paint")
        assert edge["citation"]["quote"] == TEXTS["paint"]


@pytest.mark.slow
def test_a_real_model_invents_nothing_that_is_kept(
    tmp_path: Path, real_model: RealModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in real_model.env().items():
        monkeypatch.setenv(name, value)
    texts = [
        "Ada Lund painted Tide Mill in Hestvik.",
        "Acme Corp acquired Beta Ltd in 2019. It paid three million euros.",
    ]
    with Refdesk(tmp_path) as desk:
        desk.add_texts([{"name": str(number), "text": text} for number, text in enumerate(texts)])
        assert desk.graph_cost().cost_usd == 0
        job = desk.extract_graph()
        chunks = {one.id: one for number in range(len(texts)) for one in desk.chunks(str(number))}
        found = desk.parts.reader.extracted(list(chunks))
    assert job.status == "ready" and job.chunks_done == len(texts)
    assert found, job.reason
    for chunk_id, extraction in found.items():
        assert all(named.name in chunks[chunk_id].text for named in extraction.names)
        for one in extraction.relations:
            assert one.subject in chunks[chunk_id].text and one.object in chunks[chunk_id].text
