"""What documents name: keys, acronyms, mentions and relations in SQL and in memory, the walk, and who sees what."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_server import serving
from library_samples import open_desk, seen_by
from memory_desk import KINDS, open_either
from refdesk import Refdesk
from refdesk.answer import Query
from refdesk.ask.strategies import STRATEGIES
from refdesk.ask.strategies.graph import page_rank
from refdesk.entities import SHORT_FOR, acronyms, between, entity_key, is_entity, phrases
from refdesk.errors import NotFound
from refdesk.library import SearchPorts
from refdesk.store.database import HEAD, open_database
from refdesk.text import query_terms
from refdesk.types import Scope

TEXTS = {
    "mill": "The film Tide Mill was directed by Ada Lund. It was shot on Karvo island.",
    "lund": "The painter Ada Lund was born in Hestvik. Later Ada Lund taught at the Nordic Film School (NFS).",
    "school": "At the NFS, students meet Ulla Brandt on Mondays.",
}
SECRET = "In secret Ada Lund met Bo Krag, the mayor of Odden."


@pytest.fixture(params=KINDS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_either(request.param, tmp_path / "library") as found:
        found.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        found.add_text("secret", SECRET, collection="board")
        yield found


# names


@pytest.mark.parametrize(
    "name, key",
    [
        ("The Harbour Board’s", "harbour board"),
        ("U.S.", "us"),
        ("Société Générale", "societe generale"),
        ("A & B", "a and b"),
        ("W-7", "w7"),
        ("", ""),
    ],
)
def test_keys(name: str, key: str) -> None:
    assert entity_key(name) == key


@pytest.mark.parametrize("name", ["$3 million", "12 %", "Q2 2023", "March 2020", "2019-01-02", "7", "June"])
def test_amounts_and_dates_are_no_entities(name: str) -> None:
    assert not is_entity(name)


@pytest.mark.parametrize("name", ["Acme Corp", "ISO 9001:2015", "W-7", "Form 10-K"])
def test_names_and_codes_are(name: str) -> None:
    assert is_entity(name)


@pytest.mark.parametrize(
    "text, found",
    [
        ("The Nordic Film School (NFS) opened.", [("NFS", "Nordic Film School")]),
        ("The Bank of England (BoE) said so.", [("BoE", "Bank of England")]),
        ("Prices (USD) rose.", []),
        ("It rained (see NFS).", []),
        ("(NFS) is unexplained.", []),
    ],
)
def test_acronyms_are_those_whose_letters_begin_the_words(text: str, found: list[tuple[str, str]]) -> None:
    assert acronyms(text) == found


def test_phrases_are_the_longest_first() -> None:
    assert phrases("Ada Lund’s film")[:3] == ["ada lund film", "ada lund", "lund film"]


def test_the_words_between_two_names() -> None:
    assert between("Tide Mill was directed by Ada Lund.", "Ada Lund", "Tide Mill") == "was directed by"
    assert between("Ada Lund.", "Ada Lund", "Bo") == ""


# the store


def test_mentions_and_relations(desk: Any) -> None:
    reader = desk.parts.reader
    names = {chunk_id: document.name for chunk_id, (_, document) in reader.chunks(range(1, 9)).items()}
    found = reader.mentions(["ada lund", "nothing"], Scope(), 10)
    assert sorted(names[one.chunk_id] for one in found) == ["lund", "mill", "secret"]
    assert len(reader.mentions(["ada lund"], Scope(), 2)) == 2
    assert reader.known_entities(["ada lund", "bo krag", "odd"], Scope()) == {"ada lund", "bo krag"}
    (relation,) = reader.relations(["nfs"], Scope(), 5)
    assert relation[:3] == ("NFS", SHORT_FOR, "Nordic Film School")
    assert reader.relations(["nordic film school"], Scope(), 5) == [relation]
    chunk, _ = reader.chunks([relation.chunk_id])[relation.chunk_id]
    part = chunk.sentences[relation.sentence]
    assert "(NFS)" in chunk.text[part.start : part.end]
    assert reader.entities_beginning("ada", Scope(), 5) == [("ada lund", "Ada Lund", 3)]


def test_a_scope_is_kept(desk: Any) -> None:
    reader = desk.parts.reader
    only = Scope(access=("default",))
    assert len(reader.mentions(["ada lund"], only, 10)) == 2
    assert reader.known_entities(["bo krag"], only) == set()
    assert reader.entities_beginning("bo", only, 5) == []
    assert reader.mentions(["ada lund"], Scope(kinds=("table",)), 10) == []


def test_what_a_removed_document_named_is_gone(desk: Any) -> None:
    reader = desk.parts.reader
    desk.remove("lund")
    assert reader.known_entities(["hestvik", "nordic film school", "ada lund"], Scope()) == {"ada lund"}
    assert reader.relations(["nfs"], Scope(), 5) == []
    desk.remove("mill", "secret", "school")
    assert reader.entities_beginning("", Scope(), 5) == []


def test_no_row_is_left_of_a_removed_document(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        desk.remove(*TEXTS)
    with sqlite3.connect(tmp_path / "library" / "library.db") as connection:
        for table in ("entities", "relations"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_moved_document_takes_its_names_along(desk: Any) -> None:
    desk.move("lund", "board")
    reader = desk.parts.reader
    assert reader.known_entities(["hestvik"], Scope(access=("default",))) == set()
    assert len(reader.relations(["nfs"], Scope(access=("board",)), 5)) == 1


# an older library


def test_a_library_of_0_1_0_is_brought_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with open_desk(folder) as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
    with sqlite3.connect(folder / "library.db") as connection:
        for index in ("entities_by_key", "relations_by_subject", "relations_by_object"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute("DELETE FROM relations")
        connection.execute("ALTER TABLE entities DROP COLUMN key")
        for column in ("subject_key", "object_key", "sentence"):
            connection.execute(f"ALTER TABLE relations DROP COLUMN {column}")
        connection.execute("CREATE INDEX entities_by_name ON entities (name)")
        connection.execute("CREATE INDEX relations_by_subject ON relations (subject)")
        connection.execute("CREATE INDEX relations_by_object ON relations (object)")
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
    open_database(folder / "library.db").dispose()
    with open_desk(folder) as desk:
        assert len(desk.parts.reader.mentions(["ada lund"], Scope(), 10)) == 2
        assert desk.parts.reader.relations(["nfs"], Scope(), 5)[0].object == "Nordic Film School"
    with sqlite3.connect(folder / "library.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (HEAD,)


# the walk


def test_page_rank_is_highest_where_walks_meet() -> None:
    edges = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]], dtype=np.float32)
    ranks = page_rank(edges, np.array([1, 0, 0, 0], dtype=np.float32))
    assert ranks[0] > ranks[1] == ranks[2] > ranks[3] > 0
    assert ranks.sum() == pytest.approx(1.0, abs=1e-3)
    alone = page_rank(np.zeros((2, 2), dtype=np.float32), np.array([1, 0], dtype=np.float32))
    assert alone[1] == 0 and np.isfinite(alone).all()


def walked(desk: Any, text: str, scope: Scope = Scope()) -> dict[str, list[str]]:  # noqa: B008
    asked = Query(text, text, desk.parts.embedder.embed_query(text), tuple(query_terms(text)))
    ports = SearchPorts(desk.parts.reader, desk.parts.embedder, desk.settings, scope, 5)
    lists = asyncio.run(STRATEGIES["graph"](asked, ports))
    assert all(one.weight == (0.3 if one.engine == "graph" else 1.0) for one in lists)
    return {one.engine: [hit.document.name for hit in one.hits] for one in lists}


def test_the_walk_goes_over_names(desk: Any) -> None:
    found = walked(desk, "Where was the director of Tide Mill born?")
    assert {"mill", "lund"} <= set(found["graph"][:3])


def test_an_acronym_is_its_long_form(desk: Any) -> None:
    assert {"school", "lund"} <= set(walked(desk, "Who is at the NFS?")["graph"])


def test_the_walk_stays_in_scope(desk: Any) -> None:
    found = walked(desk, "Where did Ada Lund meet Bo Krag?", Scope(access=("default",)))
    assert "secret" not in {name for names in found.values() for name in names}
    assert "secret" in walked(desk, "Where did Ada Lund meet Bo Krag?")["graph"]


def test_an_empty_library_has_no_walk(tmp_path: Path) -> None:
    with open_desk(tmp_path / "empty") as desk:
        assert walked(desk, "Who?") == {"hybrid": []}


# the neighbourhood


def test_every_edge_carries_the_sentence_that_proves_it(desk: Any) -> None:
    found = desk.graph("ada lund")
    edges = {edge["name"]: edge for edge in found["edges"]}
    assert found["entity"]["name"] == "Ada Lund" and found["entity"]["chunks"] == 3
    assert {"Tide Mill", "Hestvik", "Bo Krag"} <= set(edges)
    for edge in found["edges"]:
        assert "Ada Lund" in edge["citation"].quote and edge["name"] in edge["citation"].quote
    assert edges["Hestvik"]["says"] == "was born in"
    assert [edge["citation"].marker for edge in found["edges"]] == list(range(1, len(edges) + 1))


def test_the_two_forms_of_an_acronym_are_one(desk: Any) -> None:
    found = desk.graph("NFS")
    assert "Ulla Brandt" in {edge["name"] for edge in found["edges"]}
    assert desk.graph("Nordic Film School")["entity"]["chunks"] == found["entity"]["chunks"] == 2


def test_a_reader_sees_the_graph_of_his_collections(desk: Any) -> None:
    reader = seen_by(desk, "default")
    assert "Bo Krag" not in {edge["name"] for edge in reader.graph("Ada Lund")["edges"]}
    assert "bo krag" not in {one["key"] for one in reader.graph()["entities"]}
    with pytest.raises(NotFound, match="no document mentions 'Bo Krag'"):
        reader.graph("Bo Krag")


def test_over_http(tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        with serving(desk) as server:
            found = server.get("/api/graph", params={"entity": "Ada Lund", "limit": 1}).json()
            assert len(found["edges"]) == 1 and found["edges"][0]["citation"]["page"] == 1
            assert {"key": "ada lund", "name": "Ada Lund", "chunks": 2} in server.get("/api/graph").json()["entities"]
            missing = server.get("/api/graph", params={"entity": "Zebra"})
            assert missing.status_code == 404 and "no document mentions 'Zebra'" in missing.text
