"""What a caller may hand in: collections and titles as people see them, whatever characters they are made of."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from library_samples import open_desk
from refdesk import Refdesk, UsageError
from refdesk.arguments import checked_collection, checked_collections, checked_name, checked_title

COMPOSED = "Möwe"
APART = unicodedata.normalize("NFD", COMPOSED)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        yield found


def test_collections_that_look_the_same_are_the_same(desk: Refdesk) -> None:
    assert APART != COMPOSED and checked_collection(f"vögel/{APART}") == f"vögel/{COMPOSED}"
    desk.add_text("a.txt", "The gull nests on the quay.", collection=APART)
    desk.add_text("b.txt", "The gull sleeps on the mast.", collection=COMPOSED)
    assert desk.collections() == [(COMPOSED, 2)]
    for name in (COMPOSED, APART):
        assert len(desk.search("gull", collection=name)) == 2
        key, secret = desk.keys.add(f"key {len(name)}", "reader", [name])
        assert key.collections == (COMPOSED,)
        caller = desk.keys.verify(secret)
        assert caller is not None and len(desk.for_caller(caller).search("gull")) == 2
    moved = desk.rename_collection(APART, f"see/{APART}")
    assert {one.collection for one in moved} == {f"see/{COMPOSED}"}


def test_a_collection_from_before_stays_within_reach(desk: Refdesk) -> None:
    """A library may hold names whose accents stand apart."""
    desk.add_text("a.txt", "The gull nests on the quay.", collection=COMPOSED)
    key, secret = desk.keys.add("Anna", "reader", [COMPOSED])
    with sqlite3.connect(desk.folder / "library.db") as connection:
        connection.execute("UPDATE documents SET collection = ?", (APART,))
        connection.execute("UPDATE keys SET collections = ?", (f'["{APART}"]',))
    connection.close()
    with open_desk(desk.folder) as again:
        assert again.collections() == [(APART, 1)]
        assert [one.name for one in again.documents(collection=APART)] == ["a.txt"], "named exactly so"
        assert again.document("a.txt").collection == APART
        caller = again.keys.verify(secret)
        assert caller is not None and [one.name for one in again.for_caller(caller).documents()] == ["a.txt"]
        assert again.move("a.txt", APART).collection == COMPOSED
        assert again.keys.change(key.id, collections=[APART]).collections == (COMPOSED,)
        assert again.collections() == [(COMPOSED, 1)]


def test_one_name_is_one_condition() -> None:
    assert checked_collections(["finance", COMPOSED, COMPOSED]) == ("finance", COMPOSED)
    assert checked_collections(APART) == (COMPOSED, APART)
    assert checked_collections(None) == ()


def test_a_document_keeps_the_name_it_came_with() -> None:
    assert checked_name(f"{APART}.pdf") == f"{APART}.pdf"
    assert checked_name(" a\u202e\nb.pdf ") == "a b.pdf"


@pytest.mark.parametrize(("title", "shown"), [("\u202eabc", "abc"), (" a\n b\x07 ", "a b"), (COMPOSED, COMPOSED)])
def test_a_title_is_one_line(title: str, shown: str) -> None:
    assert checked_title(title) == shown


@pytest.mark.parametrize("nothing", ["", " ", "\u202e", "\x00\n", None, 7])
def test_a_title_says_something(nothing: object) -> None:
    with pytest.raises(UsageError, match="the title is empty"):
        checked_title(nothing)
