"""`refdesk eval`: questions with known answers are asked and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import run_refdesk
from memory_desk import ON_DISK
from refdesk import Refdesk, UsageError
from refdesk.serve.evaluation import evaluate, holds, read_questions, summary, word_f1

STORES = ON_DISK

ROWS = [
    {
        "question": "How heavy is the anchor of the standard wave buoy mooring?",
        "answer": "350 kg",
        "document": "wb7-mooring-sheet.pdf",
        "page": 1,
    },
    {"question": "How much is it to hire a wave buoy for a month?", "answer": ["2150 euros", "2,150"]},
    {"question": "Who won the football world cup in 1998?", "answer": None},
    {"question": "What is the buoy shackle made of?", "answer": "plywood", "document": "budget-2026.xlsx"},
]


def written(folder: Path, *rows: object) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_right_wrong_and_refused_are_counted(examples: Refdesk, tmp_path: Path) -> None:
    asked = evaluate(read_questions(written(tmp_path, *ROWS, "")), lambda text: examples.ask_sync(text, cache=False))
    first, second, third, fourth = outcomes = list(asked)
    assert first.is_right and first.is_cited and first.is_found and first.f1 > 0.1 and first.milliseconds > 0
    assert second.is_right and second.is_cited is None
    assert third.is_right and not third.is_answered and third.f1 == 0.0
    assert not fourth.is_right and not fourth.is_cited
    figures = summary(outcomes)
    assert (figures["questions"], figures["right"], figures["answer_given"]) == (4, 0.75, 0.667)
    assert figures["refused_rightly"] == 1.0 and figures["place_cited"] == 0.5 and figures["cost_usd"] == 0.0


@pytest.mark.parametrize(
    ("text", "wanted", "is_there"),
    [
        ("The anchor weighs 350 kg [1].", "350 kg", True),
        ("The anchor weighs 350 kg [1].", "50 kg", False),
        ("It costs 2,150 euros a month.", "2150 euros", True),
        ("It costs 2.5 %.", "2.5 %", True),
        ("It costs 12.5 %.", "2.5 %", False),
        ("Until the 31 October 2027", "31 october 2027", True),
        ("", "x", False),
    ],
)
def test_what_counts_as_the_expected_answer(text: str, wanted: str, is_there: bool) -> None:
    assert holds(text, wanted) is is_there


def test_words_shared() -> None:
    assert word_f1("the cast iron sinker", "a cast iron anchor") == pytest.approx(2 / 3, abs=0.001)
    assert word_f1("nothing", "else") == 0.0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1 has no question"),
        ({"question": "Why?"}, "line 1 has no answer"),
        ({"question": "Why?", "answer": " "}, "line 1 has an empty answer"),
        ({"question": "Why?", "answer": "x", "page": "one"}, "page a number"),
        ("", "contains no questions"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path: Path, line: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_questions(written(tmp_path, line))
    with pytest.raises(UsageError, match="there is no file"):
        read_questions(tmp_path / "nowhere.jsonl")


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_the_command_prints_a_table_and_fails_below_the_bar(own_folder: Path, tmp_path: Path) -> None:
    file = written(tmp_path, *ROWS)
    done = run_refdesk("--library", own_folder, "eval", file)
    assert done.returncode == 0, done.stderr
    assert "correct where there is an answer" in done.stdout and "0.667" in done.stdout
    assert "wrong  What is the buoy shackle made of?" in done.stdout and "expected plywood" in done.stdout
    done = run_refdesk("--library", own_folder, "eval", file, "--at-least", "0.9", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["figures"]["right"] == 0.75
    assert len(json.loads(done.stdout)["questions"]) == 4
    done = run_refdesk("--library", own_folder, "eval", tmp_path / "nowhere.jsonl")
    assert done.returncode == 2 and "there is no file" in done.stderr.lower()
