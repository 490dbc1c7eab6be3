"""A library's own settings: kept in SQL, seen by every program at its next question, changed by `refdesk settings`."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from conftest import run_refdesk
from library_samples import open_desk
from memory_desk import ON_DISK
from refdesk import Refdesk, UsageError
from refdesk.settings import Settings, specs
from refdesk.store.schema import settings as table
from timing import statements, while_written

STORES = ON_DISK
pytestmark = pytest.mark.usefixtures("new_folder")  # its database; here the folder is `tmp_path`


def stored(desk: Refdesk, **values: str) -> None:
    """Puts values into the table as another version would."""
    rows = [{"name": name, "value": value, "updated_at": ""} for name, value in values.items()]
    desk.parts.settings_store.change({"rag.rrf_k": 31})
    with desk.parts.documents.engine.begin() as connection:
        connection.execute(insert(table), rows)
    desk.parts.settings_store.change({"rag.rrf_k": 32})


def test_a_change_stays(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk:
        assert desk.parts.settings_store.load() == {} and desk.settings == Settings()
        desk.parts.settings_store.change({"rag.top_k": "7"})
        desk.parts.settings_store.change({"answer.level": "basic"})
        desk.parts.settings_store.change({"ingest.ocr": "no"})
        desk.parts.settings_store.change({"rag.dense_weight": 1})
    with Refdesk(tmp_path) as desk:
        kept = desk.parts.settings_store.load()
        assert kept == {"answer.level": "basic", "ingest.ocr": False, "rag.dense_weight": 1.0, "rag.top_k": 7}
        assert type(kept["rag.dense_weight"]) is float
        assert desk.settings == Settings().changed(kept)


def test_each_place_goes_before_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "refdesk.toml").write_text('[settings]\n"rag.top_k" = 2\n"rag.candidates" = 22\n"rag.rrf_k" = 32\n')
    with Refdesk(tmp_path, settings={"rag.top_k": 4}) as desk:
        desk.parts.settings_store.change({"rag.top_k": 3, "rag.candidates": 33})
        assert (desk.settings.top_k, desk.settings.candidates, desk.settings.rrf_k) == (4, 33, 32)
        assert desk.settings.for_request({"rag.top_k": 5}).top_k == 5
        desk.parts.settings_store.reset("rag.candidates")
        assert desk.settings.candidates == 22, "what refdesk.toml says"
        with Refdesk(tmp_path) as other:
            assert other.settings.top_k == 3


def test_another_program_sees_it_at_once(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as here, Refdesk(tmp_path) as there:
        assert there.settings.top_k == 10
        here.parts.settings_store.change({"rag.top_k": 7})
        assert there.settings.top_k == 7
        here.parts.settings_store.reset()
        assert there.settings == Settings()


def test_a_search_goes_by_it(tmp_path: Path) -> None:
    with open_desk(tmp_path) as desk:
        desk.add_texts([(f"note {number}", f"The buoy number {number} was moored.") for number in range(6)])
        assert len(desk.search("buoy")) == 6
        desk.parts.settings_store.change({"rag.top_k": 2})
        assert len(desk.search("buoy")) == 2


@pytest.mark.parametrize(
    "values, message",
    [
        pytest.param({"rag.topk": 1}, "there is no setting 'rag.topk'", id="unknown"),
        pytest.param({"rag.top_k": 0}, "must be between 1 and 1000", id="out_of_bounds"),
        pytest.param({"rag.top_k": 3, "rag.fusion": "magic"}, "must be convex or rrf", id="one_of_two"),
        pytest.param({"ingest.chunk_minimum": 220}, "must be in ascending order", id="against_another_setting"),
    ],
)
def test_what_is_wrong_changes_nothing(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with Refdesk(tmp_path) as desk:
        desk.parts.settings_store.change({"rag.candidates": 44})
        with pytest.raises(UsageError, match=message):
            desk.parts.settings_store.change(values)
        assert desk.parts.settings_store.load() == {"rag.candidates": 44}


def test_settings_that_hang_together_are_changed_together(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk:
        smaller = {"ingest.chunk_minimum": 20, "ingest.chunk_target": 50, "ingest.chunk_maximum": 100}
        desk.parts.settings_store.change(smaller)
        assert desk.parts.settings_store.load() == smaller
        with pytest.raises(UsageError, match="must be in ascending order"):
            desk.parts.settings_store.reset("ingest.chunk_target")
        desk.parts.settings_store.reset()
        assert desk.settings == Settings()
    with Refdesk(tmp_path) as desk:
        desk.parts.settings_store.change(smaller)
        assert desk.settings.chunk_maximum == 100 and desk.parts.settings_store.notes == ()


def test_what_another_version_wrote_is_left_alone(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk:
        stored(desk, **{"rag.telepathy": "true", "rag.top_k": "5", "rag.fusion": '"magic"', "rag.candidates": "null"})
        assert desk.parts.settings_store.load() == {"rag.rrf_k": 32, "rag.top_k": 5}
        assert desk.settings.top_k == 5
        said = " ".join(desk.parts.settings_store.notes)
        assert "rag.telepathy is ignored: there is no setting" in said and "rag.fusion is ignored" in said
        assert len(desk.parts.settings_store.notes) == 3
        desk.parts.settings_store.change({"rag.top_k": 6})
        assert len(desk.parts.settings_store.notes) == 3, "they stay for the version that knows them"
        desk.parts.settings_store.reset("rag.telepathy")
        assert len(desk.parts.settings_store.notes) == 2
        desk.parts.settings_store.reset()
        assert desk.parts.settings_store.notes == () and desk.settings == Settings()


def test_many_programs_change_at_once(tmp_path: Path) -> None:
    names = [spec.name for spec in specs() if type(spec.default) is bool]
    with Refdesk(tmp_path) as desk, Refdesk(tmp_path) as other:
        threads = [
            threading.Thread(target=one.parts.settings_store.change, args=({name: "true"},))
            for name in names
            for one in (desk, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(desk.parts.settings_store.load()) == set(names) == set(other.parts.settings_store.load())


@pytest.mark.only_on("sql", reason="SQLite tells each statement, and has one lock for writing")
def test_looking_is_one_statement_and_waits_for_no_writer(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk, while_written(tmp_path / "library.db"):
        assert desk.parts.settings_store.current().top_k
        with statements(desk._reads) as run:
            desk.parts.settings_store.current()
    assert len(run) == 1


# the command


def said(library: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    done = run_refdesk("--library", library, *arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "refdesk.toml").write_text('[settings]\n"rag.rrf_k" = 31\n')
    assert said(tmp_path, "settings", "get", "rag.top_k") == ("10\n", "")
    assert said(tmp_path, "settings", "set", "rag.top_k", "5") == ("", "rag.top_k: 10 → 5\n")
    assert said(tmp_path, "settings", "set", "rag.top_k", "5") == ("", "Nothing changed.\n")
    rows = json.loads(said(tmp_path, "--set", "rag.top_k=6", "settings", "--changed", "--json")[0])
    assert [(row["name"], row["value"], row["default"], row["from"]) for row in rows] == [
        ("rag.top_k", 6, 10, "--set"),
        ("rag.rrf_k", 31, 30, "refdesk.toml"),
    ]
    one = json.loads(said(tmp_path, "settings", "get", "rag.fusion", "--json")[0])
    assert one["choices"] == ["convex", "rrf"] and one["per_request"] is True and one["from"] == "default"
    listed, _ = said(tmp_path, "settings")
    lines = listed.splitlines()
    assert len(lines) == len(specs()) + 1
    (line,) = [line for line in lines if "rag.top_k" in line]
    assert line.split()[:5] == ["*", "rag.top_k", "5", "10", "library"]
    assert said(tmp_path, "settings", "reset", "rag.top_k") == ("", "rag.top_k: 5 → 10\n")


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_presets_of_the_command(tmp_path: Path) -> None:
    said(tmp_path, "settings", "set", "rag.dense_weight", "0.5")
    said(tmp_path, "settings", "preset", "offline")
    assert "answer.level: standard → enhanced" in said(tmp_path, "settings", "preset", "quality")[1]
    _, changes = said(tmp_path, "settings", "preset", "speed")
    assert "rag.candidates: 50 → 20" in changes and "llm.enabled" not in changes
    with Refdesk(tmp_path) as desk:
        assert desk.settings.level == "basic" and not desk.settings.llm_enabled and desk.settings.dense_weight == 0.5
    assert "llm.enabled: false → true" in said(tmp_path, "settings", "preset", "balanced")[1]
    assert said(tmp_path, "settings", "reset")[1] == "rag.dense_weight: 0.5 → 0.75\n"
    assert said(tmp_path, "settings", "--changed") == ("", "Every setting is at its default.\n")


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(["set", "rag.topk", "5"], "There is no setting 'rag.topk'; see docs/settings.md.", id="set"),
        pytest.param(["set", "rag.top_k", "many"], "rag.top_k must be a whole number, not 'many'.", id="value"),
        pytest.param(["get", "rag.topk"], "There is no setting 'rag.topk'; `refdesk settings` shows", id="get"),
        pytest.param(["reset", "rag.topk"], "There is no setting 'rag.topk'; see docs/settings.md.", id="reset"),
        pytest.param(["preset", "fast"], "There is no preset 'fast'; use speed, balanced", id="preset"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    out, err = said(tmp_path, "settings", *arguments, code=2)
    assert not out and err.startswith(sentence) and len(err.splitlines()) == 1
