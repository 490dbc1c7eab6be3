"""What came last is searched in memory, beside the files: found and scored as after it was folded into them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from library_samples import assert_repaired, assert_whole, found_by, open_desk, word
from refdesk import Refdesk
from refdesk.errors import LibraryError
from refdesk.text import query_terms
from refdesk.types import Scope

PLACES = ("quay", "lamp", "crane", "ferry", "buoy")
SCOPES = (Scope(), Scope(collections=("even",)), Scope(access=("odd",)))


def text(number: int) -> str:
    """As many terms in each: tantivy's mean length is then that of all chunks."""
    first, second = PLACES[number % 5], PLACES[number // 5 % 5]
    return f"The {first} stands by the {second} {second}, painted colour{number % 9} by sailor {word(number)}."


def add(desk: Refdesk, numbers: range) -> None:
    for number in numbers:
        desk.add_text(f"text {number}", text(number), collection="odd" if number % 2 else "even")


def seen(desk: Refdesk, scope: Scope) -> dict[str, Any]:
    index = desk.parts.index
    desk.refresh()
    queries = ["quay", "lamp crane", f"sailor {word(3)}", f"buoy {word(35)}", "ferry ferry quay"]
    return {
        "found": {query: index.lexical(query_terms(query, ["en"]), 100, scope) for query in queries},
        "scores": index.lexical_scores(query_terms("quay sailor", ["en"]), [1, 2, 3, 25, 26, 39, 40]),
        "frequencies": [index.frequency(query_terms(place, ["en"])[0], scope) for place in PLACES],
        "count": index.count(scope),
        "resembling": sorted(index.resembling(["quya", "lmap"], 1, 100, scope)),
    }


@pytest.mark.parametrize("scope", SCOPES, ids=["all", "collection", "access"])
def test_the_tail_is_searched_as_if_it_were_folded(scope: Scope, tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        add(desk, range(25))
        desk.parts.index.unfolded_share = 100.0
        add(desk, range(25, 40))
        before = seen(desk, scope)
        assert desk.state().folded == 25
        assert_whole(desk)
        with open_desk(tmp_path / "library") as other:  # reads the tail from SQL
            assert seen(other, scope) == before
        desk.reindex()
        assert desk.state().folded == 40
        after = seen(desk, scope)
    for query, hits in after.pop("found").items():
        scores = dict(before["found"][query])
        assert scores == pytest.approx(dict(hits), rel=1e-5), query
    assert before["scores"] == pytest.approx(after.pop("scores"), rel=1e-5)
    assert {name: before[name] for name in after} == after


def test_what_is_replaced_or_removed_is_not_in_the_tail(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk, open_desk(tmp_path / "library") as other:
        add(desk, range(3))
        desk.parts.index.unfolded_share = 100.0
        add(desk, range(3, 8))
        assert found_by(other, word(5)) == ["text 5"]
        desk.remove("text 4")
        desk.add_text("text 5", f"The mole was laid by mason {word(77)}.", collection="odd")
        desk.move("text 6", "archive")
        for one in (desk, other):
            assert [found_by(one, word(number)) for number in (4, 5, 6, 7, 77)] == [
                [],
                [],
                ["text 6"],
                ["text 7"],
                ["text 5"],
            ]
            assert_whole(one)
            assert_repaired(one)
        desk.parts.index.unfolded_share = 0.0
        add(desk, range(8, 9))
        assert desk.refresh().folded == 11
        for one in (desk, other):
            assert [found_by(one, word(number)) for number in (4, 6, 77, 8)] == [[], ["text 6"], ["text 5"], ["text 8"]]
            assert_whole(one)
            assert_repaired(one)


def test_a_fold_that_failed_leaves_each_chunk_once(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        add(desk, range(3))
        desk.parts.index.unfolded_share = 100.0
        add(desk, range(3, 6))
        desk.parts.index.unfolded_share = 0.0

        # Pages are the first rows after the index: it is written then, SQL is not.
        with closing(sqlite3.connect(tmp_path / "library" / "library.db")) as database:
            database.execute("CREATE TRIGGER broken BEFORE INSERT ON pages BEGIN SELECT RAISE(ABORT, 'no power'); END")
            database.commit()
            with pytest.raises(LibraryError):
                add(desk, range(6, 7))
            database.execute("DROP TRIGGER broken")
            database.commit()
        with open_desk(tmp_path / "library") as other:
            assert other.state().folded == 3
            assert [found_by(other, word(number)) for number in (2, 4, 5, 6)] == [
                ["text 2"],
                ["text 4"],
                ["text 5"],
                [],
            ]
            assert_whole(other)
        add(desk, range(6, 7))
        assert [found_by(desk, word(number)) for number in (2, 4, 6)] == [["text 2"], ["text 4"], ["text 6"]]
        assert_whole(desk)
