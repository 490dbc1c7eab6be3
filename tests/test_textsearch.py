"""BM25 by pg_textsearch, in a server that has it: REFDESK_TEST_TEXTSEARCH_URL names one (docs/postgresql.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres_server
from library_samples import assert_whole, open_desk
from memory_desk import MemoryDesk
from refdesk.index.postgres_tables import plain_word
from refdesk.types import Scope

TEXTS = [
    f"Buoy zq{n}v0 lies {'near' if n % 3 else 'far off'} the quay, {n / 10} m deep. {'港口 ' * (n % 2)}"
    for n in range(60)
]


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with postgres_server.database_on("REFDESK_TEST_TEXTSEARCH_URL") as found:
        monkeypatch.setenv("REFDESK_DATABASE_URL", found)
        yield found


@pytest.mark.parametrize("term, made", [("harbour", "harbour"), ("2.5", "z322e35z"), ("港口", "ze6b8afe58fa3z")])
def test_a_term_is_one_word_to_the_server(term: str, made: str) -> None:
    assert plain_word(term) == made


def test_it_ranks_as_the_others_do(tmp_path: Path, url: str) -> None:
    postgres_server.run("CREATE EXTENSION pg_textsearch", url)
    plain = MemoryDesk()
    with open_desk(tmp_path / "library") as desk:
        for one in (desk, plain):
            one.add_texts([(f"text {n}", text) for n, text in enumerate(TEXTS)])
        assert "BM25 by pg_textsearch 0" in desk.check_database().text
        for step in ("new", "some gone", "made anew"):
            desk.parts.index.refresh()
            for terms in (["quay"], ["zq7v0", "far"], ["1.5", "deep"], ["zq8v0"], ["港口"]):
                held = []
                for one in (desk, plain):
                    names = {chunk.id: document.name for document, chunk in one.parts.documents.all_chunks()}
                    best = one.parts.index.lexical(terms, 60, Scope())
                    given = one.parts.index.lexical_scores(terms, [i for i, _ in best])
                    assert given == pytest.approx(dict(best), rel=1e-3)
                    held.append({names[i]: score for i, score in best})
                assert held[0].keys() == held[1].keys(), (step, terms)
                if step != "some gone":  # the extension counts what is gone until it is cleared out
                    assert held[0] == pytest.approx(held[1], rel=0.02), (step, terms)
            assert_whole(desk)
            if step == "new":
                for one in (desk, plain):
                    for n in range(0, 60, 4):
                        one.remove(f"text {n}")
                assert not desk.search("zq8v0", method="bm25")
            elif step == "some gone":
                desk.reindex()


def test_a_library_that_was_there_before_keeps_its_postings_until_it_is_indexed_anew(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add_text("one", TEXTS[1])
        postgres_server.run("CREATE EXTENSION pg_textsearch", url)
        desk.add_text("two", TEXTS[2])
        said = desk.check_database().text
        assert "own tables" in said and "refdesk reindex" in said
        assert [hit.document.name for hit in desk.search("zq2v0", method="bm25")] == ["two"]
        desk.reindex()
        assert "BM25 by pg_textsearch" in desk.check_database().text
        assert [hit.document.name for hit in desk.search("zq2v0", method="bm25")] == ["two"]
        assert_whole(desk)
