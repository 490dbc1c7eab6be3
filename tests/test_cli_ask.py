"""`refdesk ask` and `refdesk chat` as a user runs them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import forked
from conftest import REFDESK, run_refdesk
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.serve.cli.ask import show_answer

STORES = ON_DISK
SHOWN = pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")

ANCHOR = "How heavy is the anchor of the standard wave buoy mooring?"
DUTIES = """# Lifeboat

The coxswain of the lifeboat has these duties:

- check the [b]oil[/b] every week
- train the `<b>crew</b>` :x: once a month
"""


def test_ask_answers_with_sources(own_folder: Path) -> None:
    done = run_refdesk("--library", own_folder, "ask", ANCHOR)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "350 kg", "the thing itself first, then the sentence"
    assert "sinker of 350 kg. [1]" in done.stdout
    assert "wb7-mooring-sheet.pdf  page 1" in done.stdout
    assert "confidence" in done.stdout


def test_an_empty_library_says_what_to_do(tmp_path: Path) -> None:
    done = run_refdesk("--library", tmp_path / "new", "ask", "How heavy is the WB-7?")
    assert done.returncode == 3 and "The library is empty: refdesk add FILE" in done.stderr


@SHOWN
def test_a_row_is_one_source_however_many_of_its_cells_are_cited(own_folder: Path) -> None:
    done = run_refdesk("--library", own_folder, "ask", "Compare the TG-4 and the WB-7.")
    lines = [line for line in done.stdout.splitlines() if "quarterly-review-q3-2025.pptx" in line]
    assert len(lines) == 2, done.stdout
    assert all(line.startswith("[1]  quarterly-review-q3-2025.pptx  page 3  “") for line in lines)


def test_a_source_has_the_markers_of_all_that_cite_it(own_examples: Refdesk) -> None:
    answer = own_examples.ask_sync("Compare the TG-4 and the WB-7.")
    citations = tuple(replace(one, marker=3 - at // 2) for at, one in enumerate(answer.citations))
    out = Console(file=StringIO(), width=200)
    show_answer(out, own_examples, replace(answer, citations=citations))
    said = out.file.getvalue() if isinstance(out.file, StringIO) else ""
    assert said.count("[1] [2] [3]  quarterly-review-q3-2025.pptx") == 2, said


@SHOWN
def test_rows_that_are_quoted_are_a_table_below_its_head(own_folder: Path) -> None:
    question = "List the error codes of the TG-4."
    lines = run_refdesk("--library", own_folder, "ask", question).stdout.splitlines()
    table = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert table[0] == ["Code", "Meaning", "What to do", "[1]"]
    assert table[2] == ["E23", "Water in the housing", "Lift the gauge at once and send it in", "[1]"]
    assert len(table) == 6 and lines[2].startswith("├")
    assert not [line for line in lines if line.startswith("- ")]
    narrow = run_refdesk("--library", own_folder, "ask", question, COLUMNS="40").stdout.splitlines()
    assert max(map(len, narrow)) <= 40
    parts = run_refdesk(
        "--library", own_folder, "ask", "Which parts of the mooring are made of titanium?", COLUMNS="60"
    )
    assert "• 9 | Zinc anode | M-708 | zinc | 0.5 kg | 3 | 1.5 | 12" in parts.stdout, "nine columns do not fit"
    content = json.loads(run_refdesk("--library", own_folder, "ask", question, "--json").stdout)["content"]
    assert "\n- E23 | Water in the housing | Lift the gauge at once and send it in [1]\n" in content


@SHOWN
def test_what_is_quoted_is_text_whatever_it_holds(own_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lamps.csv").write_text(
        "Lamp,Range,Remark\nNorth,12,[red]bright[/red] :x:\nSouth,14,dim\x1b[31m\n", "utf-8"
    )
    (tmp_path / "boat.md").write_text(DUTIES, "utf-8")
    run_refdesk("--library", own_folder, "add", tmp_path / "lamps.csv", tmp_path / "boat.md")
    told = run_refdesk("--library", own_folder, "ask", "List the lamps with their range and remark.").stdout
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in told.splitlines() if line.startswith("│")]
    assert ["North", "12", "[red]bright[/red] :x:", "[1]"] in rows and "\x1b" not in told
    told = run_refdesk("--library", own_folder, "ask", "What are the duties of the coxswain?").stdout
    items = [line.rstrip() for line in told.splitlines()[1:3]]
    assert items == ["• check the [b]oil[/b] every week [1]", "• train the <b>crew</b> :x: once a month [1]"]


def test_ask_in_json_is_one_value(own_folder: Path) -> None:
    done = run_refdesk("--library", own_folder, "ask", ANCHOR, "--json", "--trace")
    answer = json.loads(done.stdout)
    assert answer["citations"][0]["boxes"] and answer["claims"][0]["verdict"] == "supported"
    assert {"understand", "retrieve", "attest"} <= {stage["name"] for stage in answer["trace"]["stages"]}


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_what_is_not_there_has_an_exit_code_of_its_own(own_folder: Path) -> None:
    done = run_refdesk("--library", own_folder, "ask", "Who won the football world cup in 1998?")
    assert done.returncode == 3
    assert "The documents do not say this." in done.stdout
    assert run_refdesk("--library", own_folder, "ask", "Hello!").returncode == 0


@SHOWN
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("",), "the question is empty"),
        ((ANCHOR, "--level", "huge"), "basic, standard, enhanced, maximum"),
        ((ANCHOR, "--mode", "wizard"), "chat, general"),
        ((ANCHOR, "--document", "nothing.pdf"), "no document 'nothing.pdf'"),
    ],
    ids=["empty", "level", "mode", "document"],
)
def test_wrong_usage_is_one_sentence(own_folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run_refdesk("--library", own_folder, "ask", *arguments)
    assert done.returncode == 2
    assert said in done.stderr.lower() and done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@SHOWN
def test_a_model_that_cannot_work_is_said_at_once(own_folder: Path) -> None:
    done = run_refdesk("--library", own_folder, "ask", ANCHOR, REFDESK_LLM="nobody:gpt-9")
    assert done.returncode == 2 and "nobody" in done.stderr and "Traceback" not in done.stderr


@SHOWN
def test_a_correction_is_shown_and_taken_back(own_folder: Path) -> None:
    typo = ANCHOR.replace("anchor", "ancher")
    done = run_refdesk("--library", own_folder, "ask", typo)
    assert "Searched for" in done.stdout and "--verbatim" in done.stdout
    assert "Searched for" not in run_refdesk("--library", own_folder, "ask", typo, "--verbatim").stdout


@SHOWN
def test_open_writes_the_marked_page(own_folder: Path, tmp_path: Path) -> None:
    done = run_refdesk("--library", own_folder, "ask", ANCHOR, "--open", TMPDIR=str(tmp_path), DISPLAY="")
    assert done.returncode == 0, done.stderr
    image = next(tmp_path.glob("refdesk-*/*.png"))
    assert image.read_bytes().startswith(b"\x89PNG") and str(image) in done.stderr


def test_chat_keeps_the_thread(own_folder: Path) -> None:
    lines = [ANCHOR, "And how long is the chain?", "/open x", "/nonsense", "/new", "/quit"]
    done = subprocess.run(
        [str(REFDESK), "--library", str(own_folder), "chat", "--conversation", "harbour"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env=forked.environment({}),
    )
    assert done.returncode == 0, done.stderr
    assert "350 kg" in done.stdout and "15 metres" in done.stdout
    assert "--conversation" in done.stderr
    again = run_refdesk("--library", own_folder, "ask", "And the cord?", "--conversation", "harbour", "--json")
    assert any("cord" in one["quote"] for one in json.loads(again.stdout)["citations"]), "the thread tells whose cord"
