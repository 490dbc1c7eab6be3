"""docs/seeds.md holds every statement of the five designs, and every proof that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from http_server import serving
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.text import rough_tokens

STORES = ON_DISK

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "seeds.md"
STATEMENTS = {"000": 50, "001": 153, "002": 60, "003": 67, "004": 47}
STATES = ("works", "otherwise", "missing")
MOST_MISSING = 8


class Statement(NamedTuple):
    number: str
    where: str
    text: str
    state: str
    proof: str
    why: str


@cache
def statements() -> list[Statement]:
    rows = re.findall(r"^\| (\d{3}\.\d{3} \|.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [Statement(*(cell.strip() for cell in re.split(r"(?<!\\)\|", row))) for row in rows]


@cache
def names_in(file: str) -> frozenset[str]:
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, kinds) and one.name.startswith("test_"))


def test_every_statement_has_its_row() -> None:
    wanted = [f"{seed}.{number:03}" for seed, most in STATEMENTS.items() for number in range(1, most + 1)]
    assert [one.number for one in statements()] == wanted
    assert all(one.text and one.where and one.state in STATES for one in statements())


def test_every_proof_is_a_test_that_is_there() -> None:
    gone = []
    for one in statements():
        named = re.findall(r"`([^`]+)`", one.proof)
        assert bool(named) != (one.state == "missing"), one
        for name in named:
            file, _, test = name.partition("::")
            gone += [(one.number, name)] if test not in names_in(file) else []
    assert not gone


def test_what_is_done_otherwise_has_a_reason() -> None:
    assert not [one for one in statements() if one.state == "otherwise" and len(one.why) < 5]


def test_what_is_missing_is_named_at_the_top() -> None:
    missing = [one.number for one in statements() if one.state == "missing"]
    top = PAGE.read_text(encoding="utf-8").partition("## Missing")[2].partition("\n## ")[0]
    assert re.findall(r"^- (\d{3}\.\d{3}): \S", top, re.MULTILINE) == missing
    assert len(missing) <= MOST_MISSING


# what no other test proves


def test_the_session_of_seed_000(examples: Refdesk) -> None:
    """`conversation_history` of {role, content}; nobody but the two of them speaks."""
    history = [
        {"role": "user", "content": "How heavy is the anchor of the WB-7?"},
        {"role": "assistant", "content": "350 kg."},
    ]
    with serving(examples) as server:
        body = {"q": "What is it made of?", "conversation_history": history}
        assert "WB-7" in server.post("/api/query", json=body).json()["standalone_question"]
        body["conversation_history"] = [{"role": "tool", "content": "350 kg."}]
        wrong = server.post("/api/query", json=body)
        assert wrong.status_code == 400 and "'user' or 'assistant'" in wrong.json()["message"]


def test_four_characters_are_a_token() -> None:
    assert (rough_tokens(""), rough_tokens("abcd"), rough_tokens("abcde")) == (0, 1, 2)


def test_q3_revenue_finds_third_quarter_earnings(desk: Refdesk) -> None:
    desk.add_texts(
        [
            ("results.txt", "Third quarter earnings came to 6.84 million crowns, before tax."),
            ("canteen.txt", "The canteen serves fish on Fridays and soup on all other days."),
            ("travel.txt", "Travel is booked by the office; trains are preferred to planes."),
        ]
    )
    assert desk.search("Q3 revenue", method="dense")[0].document.name == "results.txt"


TIMES = {"retrieve_ms": 500.0, "assemble_ms": 100.0}  # seed 003's targets; seed 001 allows 50 to 300 ms of search
LEVELS_S = {"basic": 1.0, "standard": 2.0, "enhanced": 4.0, "maximum": 8.0}  # seed 001, the model's time aside


@pytest.mark.only_on("sql", reason="they are promised of a library in a folder")
@pytest.mark.parametrize("level", LEVELS_S)
def test_the_times_that_seeds_promise(examples: Refdesk, level: str) -> None:
    """Ten times what it takes on a quiet machine; the best of three, because this one may not be quiet."""
    question = "How heavy is the anchor of the standard wave buoy mooring?"
    asked = [examples.ask_sync(question, level=level, cache=False).metrics for _ in range(3)]
    assert min(one["total_ms"] for one in asked) < 1000 * LEVELS_S[level]
    for stage, most in TIMES.items() if level in ("basic", "standard") else ():
        assert min(one[stage] for one in asked) < most
    examples.ask_sync(question, level=level)
    kept = [examples.ask_sync(question, level=level) for _ in range(3)]
    assert {one.cached for one in kept} == {"exact"}
    assert min(one.metrics["total_ms"] for one in kept) < 500.0  # seed 004
