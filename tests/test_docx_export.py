"""An answer as a Word document: read back by our own parser and by python-docx."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx as python_docx
import pytest

from conftest import run_refdesk
from library_samples import open_desk
from refdesk import Refdesk
from refdesk.serve.export import FORMATS, markdown_renderer, word_document

TEXT = """# Oak & <iron>

The quay is **oak**, not *spruce*, and `A-12` is ~~gone~~. [1]

## Costs

| Quay | Fee |
|---|---|
| North | 24 |
| South | 8 |

3. first
4. second
   - inner

> Quoted words.

```
x = 1
y = 2
```

Read [the list](https://example.org/list).\x0b
"""


def paragraphs(data: bytes) -> list[tuple[str, str]]:
    return [(one.style.name, one.text) for one in python_docx.Document(io.BytesIO(data)).paragraphs if one.text]


def test_word_finds_headings_lists_tables_and_emphasis() -> None:
    data = word_document(TEXT, markdown_renderer())
    found = paragraphs(data)
    assert found[0] == ("Heading 1", "Oak & <iron>") and ("Heading 2", "Costs") in found
    texts = [text for _, text in found]
    assert texts[texts.index("3. first") :][:3] == ["3. first", "4. second", "• inner"]
    assert {"Quoted words.", "x = 1", "y = 2"} <= set(texts)
    assert "Read the list (https://example.org/list)." in " ".join(texts)
    opened = python_docx.Document(io.BytesIO(data))
    assert [[cell.text for cell in row.cells] for row in opened.tables[0].rows] == [
        ["Quay", "Fee"],
        ["North", "24"],
        ["South", "8"],
    ]
    runs = {run.text: run for paragraph in opened.paragraphs for run in paragraph.runs}
    assert runs["oak"].bold and runs["spruce"].italic and runs["gone"].font.strike
    assert runs["A-12"].font.name == "Courier New" and not runs["The quay is "].bold


def test_our_own_parser_reads_what_we_write(tmp_path: Path) -> None:
    (tmp_path / "report.docx").write_bytes(word_document(TEXT, markdown_renderer()))
    with open_desk(tmp_path / "library") as desk:
        assert [one.outcome for one in desk.add(tmp_path / "report.docx")] == ["added"]
        text = "\n".join(page.text for page in desk.pages("report.docx"))
        assert "The quay is oak, not spruce" in text and "4. second" in text
        (table,) = desk.parts.tables.of_document(desk.document("report.docx").id)
        assert [head.path for head in table.heads] == [("Quay",), ("Fee",)]
        assert {"Oak & <iron>"} == {chunk.heading_path[0] for chunk in desk.chunks("report.docx")}


def test_the_same_answer_gives_the_same_bytes_and_they_hold_its_sources(examples: Refdesk) -> None:
    answer = examples.ask_sync("How heavy is the anchor of the standard wave buoy mooring?")
    data = FORMATS["docx"](answer)
    assert isinstance(data, bytes) and data == FORMATS["docx"](answer)
    found = paragraphs(data)
    assert found[0] == ("Heading 1", answer.question) and ("Heading 2", "Sources") in found
    cited = answer.citations[0]
    assert any(text.startswith("1. ") and cited.document_name in text and "350 kg" in text for _, text in found)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert not any("http" in str(name) for name in archive.namelist())


@pytest.mark.parametrize("suffix", ["docx", "DOCX"])
def test_on_the_command_line(examples_folder: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"answer.{suffix}"
    question = "How heavy is the anchor of the standard wave buoy mooring?"
    done = run_refdesk("--library", examples_folder, "ask", question, "--out", file)
    assert done.returncode == 0, done.stderr
    assert any("350 kg" in text for _, text in paragraphs(file.read_bytes()))
