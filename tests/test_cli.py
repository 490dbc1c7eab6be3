"""The command line as people use it: real processes, their output, their exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from typer.core import TyperCommand

from conftest import DOCUMENTS, REFDESK, run_refdesk
from memory_desk import ON_DISK
from refdesk.serve.cli.documents import app
from refdesk.serve.cli.main import LISTED
from timing import PATIENCE_S

STORES = ON_DISK
SHOWN = pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")

COMMANDS = (
    "add",
    "search",
    "list",
    "show",
    "rename",
    "move",
    "remove",
    "doctor",
    "reindex",
    "backup",
    "restore",
    "demo",
)


@pytest.fixture
def folder(shared_folder: Path) -> Path:
    """The examples, for commands that only read."""
    return shared_folder


def refdesk(library: Path, *arguments: str | Path, code: int = 0, **environment: str) -> str:
    """Runs a command that must end with a code; gives its standard output."""
    done = run_refdesk("--library", library, *arguments, **environment)
    assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-1500:])
    assert "Traceback" not in done.stderr
    return done.stdout


def complaint(library: Path, *arguments: str | Path, code: int) -> str:
    """The one sentence a command that goes wrong says."""
    done = run_refdesk("--library", library, *arguments)
    assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-1500:])
    assert not done.stdout
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


# help and wrong usage


def test_every_command_has_help() -> None:
    listed = run_refdesk("--help").stdout
    assert all(f"\n  {command} " in listed for command in COMMANDS)
    for command in ("add", "search"):  # docs/cli.md shows them all, and a test compares it
        done = run_refdesk(command, "-h")
        assert done.returncode == 0 and done.stdout.startswith(f"Usage: refdesk {command} ")


HELP = """
import sys
from refdesk.__main__ import main
sys.argv = ["refdesk", "--help"]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.startswith("Usage: refdesk")
    heavy = {"numpy", "sqlalchemy", "onnxruntime", "tokenizers", "tantivy", "usearch", "fastapi", "uvicorn", "rich"}
    heavy |= {"httpx2", "mcp", "lxml", "asyncio", "refdesk.desk", "refdesk.settings", "refdesk.types", "refdesk.ask"}
    assert heavy & set(done.stderr.split()) == set()


def test_the_list_of_commands_is_what_they_say_themselves() -> None:
    group: Any = typer.main.get_command(app)
    assert [
        (name, command.get_short_help_str(limit)) for limit in (60, 200) for name, command in group.commands.items()
    ] == [
        (name, TyperCommand(name, help=said).get_short_help_str(limit))
        for limit in (60, 200)
        for name, said in LISTED.items()
    ]


def test_version() -> None:
    done = run_refdesk("--version")
    assert (done.returncode, done.stdout) == (0, "refdesk 0.1.0\n")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["fetch"], id="unknown_command"),
        pytest.param(["search", "x", "-k", "many"], id="k_not_a_number"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    done = run_refdesk(*arguments)
    assert done.returncode == 2 and not done.stdout and "Error: " in done.stderr and "Traceback" not in done.stderr


@SHOWN
@pytest.mark.parametrize(
    "arguments, said",
    [
        pytest.param(
            ["--set", "rag.topk=5", "list"], "There is no setting 'rag.topk'; see docs/settings.md.", id="set"
        ),
        pytest.param(["add"], "Nothing to add; give files or folders, or use --resume.", id="add_nothing"),
        pytest.param(["search", ""], "The search text is empty; enter a question or a few words.", id="empty"),
        pytest.param(["search", "x", "--pages", "5-"], "--pages takes a page or a range such as 3-12", id="pages"),
        pytest.param(["search", "x", "--kind", "tabel"], "There is no kind 'tabel'; use one of text, table", id="kind"),
        pytest.param(["show", "missing.pdf"], "There is no document 'missing.pdf'; `refdesk list` shows", id="show"),
        pytest.param(["show", "tg4-drift-report.pdf", "-p", "9"], "tg4-drift-report.pdf has pages 1 to 3", id="page"),
        pytest.param(
            ["show", "staff-handbook.docx", "--image", "x.png"], "staff-handbook.docx has no page", id="image"
        ),
        pytest.param(["restore", "missing.tar"], "holds a library already", id="restore_over_a_library"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(folder: Path, arguments: list[str], said: str) -> None:
    assert said in complaint(folder, *arguments, code=2)


def test_places_where_no_library_can_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert (
        complaint(file, "list", code=2) == f"{file} is a file, not a library's folder; choose a folder with --library."
    )
    assert "cannot be written: " in complaint(file / "below", "list", code=1)


# adding


def test_add_says_what_became_of_each(tmp_path: Path) -> None:
    library, files = tmp_path / "library", tmp_path / "files"
    files.mkdir()
    (files / "note.txt").write_text("The pilot boat is red.", encoding="utf-8")
    (files / "empty.txt").write_bytes(b"")
    (files / "video.bin").write_bytes(os.urandom(4000))
    done = run_refdesk("--library", library, "add", files, "--meta", "by=Maren", "-c", "port/boats")
    assert done.returncode == 1, "something failed"
    assert done.stdout == "1 added, 2 failed\n"
    assert all(len(line) < 250 for line in done.stderr.splitlines())
    assert "empty.txt: " in done.stderr and "video.bin: " in done.stderr and "Traceback" not in done.stderr
    documents = json.loads(refdesk(library, "list", "--status", "ready", "--json"))
    assert [(one["name"], one["collection"], one["metadata"]["by"]) for one in documents] == [
        ("note.txt", "port/boats", "Maren")
    ]
    assert refdesk(library, "add", files / "note.txt", "-c", "port/boats", "--meta", "by=Maren") == "1 unchanged\n"
    (files / "note.txt").write_text("The pilot boat is green.", encoding="utf-8")
    (added,) = json.loads(refdesk(library, "add", files / "note.txt", "-c", "port/boats", "--json"))
    assert added["outcome"] == "replaced" and added["document"]["name"] == "note.txt"
    (files / "note.txt").unlink()
    assert "1 removed" in refdesk(library, "add", files, "--sync", "-c", "port/boats", code=1)
    assert refdesk(library, "search", "pilot boat", code=3) == ""


def test_a_missing_path_fails_with_one_sentence(tmp_path: Path) -> None:
    done = run_refdesk("--library", tmp_path / "library", "add", tmp_path / "missing.pdf")
    assert (done.returncode, done.stdout) == (1, "1 failed\n")
    (line,) = done.stderr.strip().splitlines()
    assert "missing.pdf: it cannot be read: No such file or directory; check that it exists" in line


# finding


def test_search_in_plain_words(folder: Path) -> None:
    said = refdesk(folder, "search", "How heavy is the anchor of the standard wave buoy mooring?", "-k", "2")
    lines = said.splitlines()
    assert lines[0] == "1  wb7-mooring-sheet.pdf, page 1"
    assert "   “The anchor is a cast iron sinker of 350 kg.”" in lines
    assert any(line.startswith("   score ") and "BM25" in line and "cosine" in line for line in lines)
    assert "\n2  " in said and "\n3  " not in said


@SHOWN
def test_headings_and_rows_are_shown(folder: Path) -> None:
    said = refdesk(folder, "search", "temperature coefficient of the gauges", "-k", "1", "-d", "tg4-drift-report.pdf")
    assert "   Long-term drift of the TG-4 tide gauge › 3 Results › 3.3 Temperature\n" in said
    said = refdesk(folder, "search", "Calibration TG-4 tide gauge 5 points", "-k", "1", "--kind", "table")
    assert "   C-102 | Calibration | TG-4 tide gauge | 5 points | 6 | 310\n" in said, "a row is not a quotation"


def test_search_as_json(folder: Path) -> None:
    hits = json.loads(refdesk(folder, "search", "parental leave", "--json", "-k", "3", "--method", "bm25"))
    assert 1 <= len(hits) <= 3
    assert hits[0]["document_name"] == "staff-handbook.docx" and hits[0]["page"] == 4
    assert hits[0]["score"] == hits[0]["lexical_score"] > 0 and isinstance(hits[0]["cosine"], float)


@pytest.mark.parametrize(
    "options, names",
    [
        pytest.param(
            ["--pages", "5", "-d", "staff-handbook.docx", "-d", "budget-2026.xlsx", "--method", "rrf"],
            {"staff-handbook.docx"},
            id="pages_and_documents",
        ),
        pytest.param(["--meta", "subject=Skerry Technical Report SI-TR-031"], {"tg4-drift-report.pdf"}, id="metadata"),
    ],
)
def test_search_filters(folder: Path, options: list[str], names: set[str]) -> None:
    hits = json.loads(refdesk(folder, "search", "gauge", "--json", *options))
    assert {hit["document_name"] for hit in hits} == names


def test_nothing_found_is_exit_code_3(folder: Path) -> None:
    done = run_refdesk("--library", folder, "search", "gauge", "-c", "elsewhere")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "Nothing found.\n")
    assert json.loads(refdesk(folder, "search", "gauge", "-c", "elsewhere", "--json", code=3)) == []


def test_an_empty_library_says_what_to_do(tmp_path: Path) -> None:
    done = run_refdesk("--library", tmp_path / "new", "search", "gauge")
    assert (done.returncode, done.stderr) == (3, "The library is empty: refdesk add FILE …\n")


# looking


def test_list(folder: Path) -> None:
    lines = refdesk(folder, "list").splitlines()
    assert lines[0].split() == ["id", "name", "format", "pages", "chunks", "status"]
    assert len(lines) == 16
    (row,) = [line.split() for line in lines if "tg4-drift-report.pdf" in line]
    assert row[1:4] == ["tg4-drift-report.pdf", "pdf", "3"] and row[-1] == "ready"
    documents = json.loads(refdesk(folder, "list", "--json"))
    assert len(documents) == 15 and {"id", "name", "status", "page_count", "metadata"} <= set(documents[0])


@SHOWN
def test_the_library_comes_from_the_environment(folder: Path, tmp_path: Path) -> None:
    done = run_refdesk("list", REFDESK_LIBRARY=str(folder))
    assert done.returncode == 0 and "tg4-drift-report.pdf" in done.stdout
    done = run_refdesk("--library", tmp_path / "other", "list", REFDESK_LIBRARY=str(folder))
    assert "The library is empty" in done.stderr, "the option goes first"


def test_show(folder: Path, tmp_path: Path) -> None:
    said = refdesk(folder, "show", "tg4-drift-report.pdf")
    assert "title         Long-term drift of the TG-4 tide gauge" in said and "page_count    3" in said
    shown = json.loads(refdesk(folder, "show", "tg4-drift-report.pdf", "--json"))
    assert shown["page_count"] == 3
    assert json.loads(refdesk(folder, "show", shown["id"][:8], "--json")) == shown, "by the beginning of its id"


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_show_a_page_its_chunks_and_its_image(folder: Path, tmp_path: Path) -> None:
    assert "The anchor is a cast iron sinker of 350 kg." in refdesk(folder, "show", "wb7-mooring-sheet.pdf", "-p", "1")
    chunks = json.loads(refdesk(folder, "show", "wb7-mooring-sheet.pdf", "--chunks", "--json"))
    assert [one["sequence"] for one in chunks] == list(range(1, len(chunks) + 1))
    said = refdesk(folder, "show", "wb7-mooring-sheet.pdf", "--chunks")
    assert said.startswith("1  text, page 1, ") and chunks[-1]["text"].splitlines()[0] in said
    image = tmp_path / "page.png"
    refdesk(folder, "show", "wb7-mooring-sheet.pdf", "--page", "2", "--image", image)
    with Image.open(image) as picture:
        assert picture.format == "PNG" and picture.width == 1000 > picture.height, "page 2 lies on its side"
    missing = tmp_path / "missing" / "page.png"
    assert "cannot be written: No such file" in complaint(
        folder, "show", "wb7-mooring-sheet.pdf", "--image", missing, code=1
    )


@SHOWN
def test_narrow_terminals_wrap_and_pipes_do_not(folder: Path) -> None:
    question = "Why should nobody stand in line with a stretched rubber cord?"
    for arguments in (["list"], ["search", question]):
        narrow = refdesk(folder, *arguments, COLUMNS="60")
        assert max(map(len, narrow.splitlines())) <= 60
    wide = refdesk(folder, "search", question, "-k", "1")
    assert (
        "   “Never stand in line with a stretched rubber cord: when it parts, it flies back over 60 metres.”\n" in wide
    )


@SHOWN
def test_piped_output_has_no_control_characters(folder: Path) -> None:
    for arguments in (["search", "gauge"], ["doctor"]):
        done = run_refdesk("--library", folder, *arguments)
        for text in (done.stdout, done.stderr):
            assert not [character for character in text if ord(character) < 32 and character != "\n"]


def test_a_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "\x1b[31m[bold]red\n.txt").write_text("The pilot boat is [blink]red.", encoding="utf-8")
    refdesk(tmp_path / "library", "add", files)
    assert " �[31m[bold]red�.txt " in refdesk(tmp_path / "library", "list")
    said = refdesk(tmp_path / "library", "search", "boat")
    assert said.startswith("1  �[31m[bold]red�.txt, page 1\n   “The pilot boat is [blink]red.”\n")


@SHOWN
@pytest.mark.parametrize("arguments", [["list"], ["search", "gauge", "--json", "-k", "90"]], ids=["plain", "json"])
def test_a_reader_that_goes_away_is_no_error(folder: Path, arguments: list[str]) -> None:
    command = [str(REFDESK), "--library", str(folder), *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None and running.stderr is not None
    running.stdout.close()
    assert running.stderr.read().decode() == ""
    running.stderr.close()
    running.wait(PATIENCE_S)


# looking after it


def test_rename_and_move(own_folder: Path) -> None:
    assert refdesk(own_folder, "rename", "budget-2026.xlsx", "plan.xlsx") == "renamed to plan.xlsx\n"
    assert refdesk(own_folder, "move", "plan.xlsx", "--to", "finance/2026") == "moved plan.xlsx to finance/2026\n"
    moved = refdesk(own_folder, "move", "--collection", "finance", "--to", "archive", "--json")
    assert [(one["name"], one["collection"]) for one in json.loads(moved)] == [("plan.xlsx", "archive/2026")]
    for wrong in (["move", "--to", "x"], ["move", "plan.xlsx", "-c", "archive", "--to", "x"], ["remove"]):
        assert complaint(own_folder, *wrong, code=2).startswith("Give either documents or a collection")
    assert complaint(own_folder, "remove", "-c", "finance", code=2).startswith("There is no collection 'finance'")


@pytest.mark.only_on("sql", reason="test_remove removes, and the question is the same")
def test_a_whole_collection_is_removed_after_a_question(own_folder: Path) -> None:
    refdesk(own_folder, "move", "budget-2026.xlsx", "--to", "finance/2026")
    done = run_refdesk("--library", own_folder, "remove", "-c", "finance")  # nobody is there to say yes
    assert done.returncode == 1 and "Remove 1 document of finance?" in done.stderr
    assert "budget-2026.xlsx" in refdesk(own_folder, "list")
    assert refdesk(own_folder, "remove", "-c", "finance", "--yes") == "removed budget-2026.xlsx\n"


def test_remove(own_folder: Path) -> None:
    assert refdesk(own_folder, "remove", "warranty-enquiry.eml").splitlines() == [
        "removed warranty-enquiry.eml",
        "removed calibration-certificate-tg4-0632.pdf",
    ]
    assert "0632" not in refdesk(own_folder, "list")
    assert "ok  disk" in refdesk(own_folder, "doctor")


@pytest.mark.only_on("sql", reason="PostgreSQL's indexes are not in the folder")
def test_the_doctor_finds_what_is_missing_and_reindex_mends_it(own_folder: Path) -> None:
    def look(code: int) -> dict[str, Any]:
        return {one["name"]: one for one in json.loads(refdesk(own_folder, "doctor", "--json", code=code))}

    assert all(finding["well"] for finding in look(0).values())
    shutil.rmtree(own_folder / "index")
    findings = look(1)
    (ill,) = [finding for finding in findings.values() if not finding["well"]]
    assert "index" in ill["text"] and "reindex" in ill["advice"]
    done = run_refdesk("--library", own_folder, "reindex")
    assert done.returncode == 0 and "Indexed " in done.stderr
    assert all(finding["well"] for finding in look(0).values())
    assert "350 kg" in refdesk(own_folder, "search", "weight of the anchor of the mooring", "-k", "3")


@pytest.mark.only_on("sql", reason="a backup is restored to a folder")
def test_backup_and_restore(folder: Path, tmp_path: Path) -> None:
    file, again = tmp_path / "backup.tar", tmp_path / "again"
    refdesk(folder, "backup", file)
    refdesk(again, "restore", file)
    assert refdesk(again, "list") == refdesk(folder, "list")
    question = "When does the wave buoy switch to storm mode?"
    assert refdesk(again, "search", question, "--json") == refdesk(folder, "search", question, "--json")
    assert "holds a library already" in complaint(again, "restore", file, code=2)
    refdesk(again, "restore", file, "--replace")
    file.write_bytes(file.read_bytes()[:5000])
    assert "is not a whole backup" in complaint(again, "restore", file, "--replace", code=1)
    assert "there is no file" in complaint(tmp_path / "new", "restore", tmp_path / "none.tar", code=2).lower()


@pytest.mark.only_on("sql", reason="it adds and asks as the other commands do")
def test_demo(own_folder: Path) -> None:
    """The examples are there already, in another collection; a handful of files stands for them here."""
    said = refdesk(own_folder, "demo", "--documents", DOCUMENTS / "wb7-field-manual.epub")
    assert said.startswith("1 added\n")
    assert "“With the standard battery pack and one report per hour, the WB-7 runs for 18 months" in said
    assert "wb7-field-manual.epub  page 3" in said
