"""What a parser could pass over in files, and how it is told: boxes beside pages, answered mails, manuals."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from openpyxl import Workbook

from memory_desk import KINDS, AnyDesk, kept_in, open_either
from refdesk import Answer, Refdesk
from refdesk.parsers import html, mail, sheets, text
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf_letters import with_ligatures
from refdesk.types import Parsed

STORES = KINDS


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[block.start : block.end]) for block in parsed.blocks]


# --- web pages -------------------------------------------------------------------------------------------------------

PAGE = """<html><head><title>Timers</title></head><body><nav><a href="/">Home</a></nav><h1>Timers</h1>
<p>A timer starts a command at a given time. Every user may have timers, and they are kept when he logs out.</p>
<div class="sidebar"><p class="title">Short forms</p><ul><li><code>@fortnightly</code>: every second Monday at
06:00.</li></ul><p>They stand in place of the first five fields.</p></div>
<aside class="footnote"><p>Timers of the system are kept apart. See the chapter on services.</p></aside>
<p>The list of timers is shown by one command, and a second one takes a timer away again.</p>
<aside><ul><li><a href="/a">Our newest pages.</a></li><li><a href="/b">About us.</a></li></ul></aside>
<div class="sidebar"><a href="/c">Read on about timers.</a> <a href="/d">Ask the forum.</a></div></body></html>"""


def test_boxes_of_running_text_are_read_and_boxes_of_links_are_not() -> None:
    found = html.parse(PAGE.encode(), ParseOptions()).text
    assert "@fortnightly: every second Monday at 06:00." in found
    assert "Timers of the system are kept apart." in found
    assert "newest pages" not in found
    assert "forum" not in found


def test_terms_that_nothing_describes_are_lines_of_their_own() -> None:
    page = "<h1>Saws</h1><dl><dt>1. Blades</dt><dt>2. Teeth</dt></dl><p>Saws cut wood.</p>"
    page += "<dl><dt>Kerf</dt><dd>The cut.</dd></dl>"
    found = [own for _, own in blocks(html.parse(page.encode(), ParseOptions()))]
    assert found == ["Saws", "1. Blades", "2. Teeth", "Saws cut wood.", "Kerf: The cut."]


# --- ligatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        ("signi\x1ccant", "signi\ufb01cant"),
        ("o\x1bset", "o\ufb00set"),
        ("o\x0ece", "o\ufb03ce"),
        ("\x1duid", "\ufb02uid"),
        ("a \x1c 3", "a \x1c 3"),
        ("plain", "plain"),
    ],
)
def test_ligatures_of_tex_fonts_are_letters_beside_letters(codes: str, shown: str) -> None:
    given = np.array([ord(code) for code in codes], np.uint32)
    found = with_ligatures(given, np.ones(len(codes), np.float32))
    assert "".join(map(chr, found.tolist())) == shown
    assert with_ligatures(given, np.zeros(len(codes), np.float32)) is given  # what has no width is no sign


# --- mails -----------------------------------------------------------------------------------------------------------

HEADERS = "From: Asta Rud <asta@mill.example>\nTo: Ben Koch <ben@saw.example>\nSubject: Re: Oak boards\n"
HEADERS += "Date: Mon, 10 Mar 2025 08:00:00 +0100\n\n"
REPLY = HEADERS + (
    "Hello Ben,\n\nwe take forty boards. I am in Riga from 17 to 21 March; ask Olga then.\n\nAsta\n\n"
    "On Fri, 7 Mar 2025 Ben Koch wrote:\n> Dear Asta,\n>\n> oak boards, planed:\n>\n"
    "> 20 boards: 310 EUR\n> 40 boards: 590 EUR\n>\n"
    "> The offer holds until 21 March.\n>\n> On Wed, 5 Mar 2025 Asta Rud wrote:\n>\n>> What do your boards cost?\n"
)


def test_what_a_mail_quotes_is_headed_by_who_wrote_it() -> None:
    found = blocks(mail.parse(REPLY.encode(), ParseOptions()))
    headings = [own for kind, own in found if kind == "heading"]
    assert headings == ["On Fri, 7 Mar 2025 Ben Koch wrote:", "On Wed, 5 Mar 2025 Asta Rud wrote:"]
    assert ("text", "The offer holds until 21 March.") in found
    assert ("text", "What do your boards cost?") in found
    assert not any(">" in own for _, own in found[1:])


def test_what_is_answered_line_by_line_keeps_its_marks() -> None:
    body = "> Can you come\n> on Monday?\nYes.\n\n> And Ann?\nNo.\n"
    found = [own for _, own in blocks(mail.parse((HEADERS + body).encode(), ParseOptions()))[1:]]
    assert found == ["> Can you come\non Monday?", "Yes.", "> And Ann?", "No."]


def test_a_console_in_a_mail_is_no_quotation() -> None:
    found = mail.parse((HEADERS + "Try this:\n\n>>> print(2)\n").encode(), ParseOptions()).text
    assert found.endswith(">>> print(2)")


# --- sheets ----------------------------------------------------------------------------------------------------------


def sheet(rows: list[list[object]]) -> str:
    book = Workbook()
    page = book.active
    assert page is not None
    for row in rows:
        page.append(row)
    data = io.BytesIO()
    book.save(data)
    return sheets.parse(data.getvalue(), ParseOptions()).text


DOGS: list[list[object]] = [["Name", "Breed", "Age"], ["Bella", "collie", 4], ["Rex", "boxer", 7]]


def test_notes_above_a_table_are_no_names_of_columns() -> None:
    found = sheet([["Dogs of the street", None, None], ["as of", None, "May"], *DOGS])
    assert found.split("\n\n") == [
        "Dogs of the street",
        "as of May",
        "Name | Breed | Age\nBella | collie | 4\nRex | boxer | 7",
    ]


def test_rows_of_words_below_names_that_are_not_all_given_stay_rows() -> None:
    found = sheet(
        [["Name", "Office", None], ["Ann", "chair", None], ["Ben", "member", "since May"], ["Cleo", "guest", "new"]]
    )
    assert "Name | Office | \nAnn | chair | \nBen | member | since May" in found


def test_names_over_several_columns_stay_names() -> None:
    found = sheet(
        [[None, "Price", None, "Bikes"], ["Model", "Day", "Week", "Here"], ["Rover", 9, 40, 3], ["Swift", 12, 55, 1]]
    )
    assert " | Price |  | Bikes\nModel | Day | Week | Here\n" in found


# --- manuals as plain text -------------------------------------------------------------------------------------------

MANUAL = """lathe(1)                     Workshop Manual                     lathe(1)

NAME
       lathe - turns wood

   Choice of speed
       Thick pieces are turned slowly. A bowl of more than thirty centi\u2010
       metres is never turned faster than 600 rounds a minute.

   Speeds
       These are the usual speeds of the lathe, by the piece that is turned.

       \u250c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u252c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2510
       \u2502 Piece  \u2502 Rounds  \u2502
       \u251c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u253c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2524
       \u2502 bowl,  \u2502 600     \u2502
       \u2502 large  \u2502         \u2502
       \u251c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u253c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2524
       \u2502 pen    \u2502 3000    \u2502
       \u2514\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2534\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2518
"""


def test_short_lines_above_what_is_set_further_in_are_headings() -> None:
    found = blocks(text.parse(MANUAL.encode(), ParseOptions()))
    assert [own for kind, own in found if kind == "heading"] == ["NAME", "Choice of speed", "Speeds"]
    assert any("thirty centimetres is never" in own.replace("\n", " ") for _, own in found)


def test_drawn_tables_are_tables() -> None:
    found = blocks(text.parse(MANUAL.encode(), ParseOptions()))
    assert ("table", "Piece | Rounds\nbowl, large | 600\npen | 3000") in found
    rule = "+------+-------+\n"
    drawn = f"Prices\n\n{rule}| name | price |\n{rule}| rope | 3     |\n| oar  | 9     |\n{rule}"
    assert ("table", "name | price\nrope | 3\noar | 9") in blocks(text.parse(drawn.encode(), ParseOptions()))


@pytest.mark.parametrize(
    "lines",
    [
        "The sun had set\n   and the sea lay still.",
        "Nora Blix\n   12 Quay Street\n   Hexham",
        "- rope and chain\n  of iron.",
    ],
    ids=["verse", "address", "item"],
)
def test_what_goes_on_further_in_is_no_heading(lines: str) -> None:
    assert [kind for kind, _ in blocks(text.parse(f"It begins here.\n\n{lines}\n".encode(), ParseOptions()))][1:] != [
        "heading",
        "text",
    ]


# --- answers ---------------------------------------------------------------------------------------------------------

FAQ = """<html><head><title>Quillpad questions</title></head><body><h1>Quillpad questions</h1>
<h2>3. Settings</h2>
<h3>3.4. How do I make Quillpad my usual editor (for notes, mails and so on)?</h3>
<p>You tell the shell that Quillpad is your editor. Add this line to the file of settings of your shell:</p>
<pre>export EDITOR=/opt/quillpad/bin/qp</pre>
<p>It counts from the next session on.</p>
<h3>3.5. Returning a copy</h3>
<p>Copies are kept for nine days. The usual way to return to a copy is this command:</p>
<pre>qp --return today</pre>
<h2>Opening files</h2>
<p>Quillpad is able to open one or several pages that other programs have saved, in the following formats:</p>
<p>Recommended: .QPD or .QPX<br>Supported: .TXT<br>For experts only: .RAW (see the manual of the format)</p>
<ul><li>Part 1: choose a file</li><li>Part 2: choose a page</li><li>Part 3: print it</li></ul></body></html>"""
FILLER = "The association keeps a house by the river and meets there on Mondays. "
STATUTES = f"""# Statutes of the rowing club

## 1. Purpose

{FILLER * 6}

## 2. The chair of the Tarn rowing club

The chair leads the meetings. The chair serves for three years from the day of the election.
"""
YEARBOOK = "# Tarn rowing club, a history\n\n" + "\n\n".join(
    f"## {year}\n\nIn {year} the chair of the Tarn rowing club was {name}. {FILLER * 4}"
    for year, name in zip(range(1981, 2005), ("Ida Vaas", "Kai Lund", "Mona Reis", "Otto Brandt") * 6, strict=True)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "quillpad.html").write_text(FAQ, encoding="utf-8")
    (folder / "re-oak-boards.eml").write_bytes(REPLY.encode())
    (folder / "statutes.md").write_text(STATUTES, encoding="utf-8")
    (folder / "tarn-rowing-club-history.md").write_text(YEARBOOK, encoding="utf-8")
    with Refdesk(tmp_path_factory.mktemp("library") / "library") as found:
        assert {outcome.outcome for outcome in found.add(folder)} == {"added"}
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def ask(desk: AnyDesk, question: str) -> Answer:
    return desk.ask_sync(question, cache=False)


def test_how_to_do_something_is_told_with_the_command_that_does_it(desk: AnyDesk) -> None:
    texts = [claim.text for claim in ask(desk, "How do I make Quillpad my usual editor?").claims]
    assert "export EDITOR=/opt/quillpad/bin/qp" in texts
    assert texts[-1] != "Add this line to the file of settings of your shell:"


def test_a_numbered_section_is_called_after_what_it_tells(desk: AnyDesk) -> None:
    answer = ask(desk, "How do I return to a copy of yesterday?")
    assert "qp --return today" in answer.content


def test_a_list_below_the_line_that_answers_is_not_given_for_it(desk: AnyDesk) -> None:
    answer = ask(desk, "Which file formats can Quillpad open?")
    assert ".QPD" in answer.content
    assert "choose a page" not in answer.content


def test_when_a_mail_was_sent_is_no_answer_about_the_life_of_who_sent_it(desk: AnyDesk) -> None:
    assert "10 Mar 2025" not in ask(desk, "When was Asta Rud born?").short
    assert "10 Mar 2025" in ask(desk, "When did Asta Rud send the mail about oak boards?").short


def test_what_is_quoted_in_a_mail_answers(desk: AnyDesk) -> None:
    answer = ask(desk, "How long does the offer for oak boards hold?")
    assert "21 March" in answer.content
    assert not answer.content.startswith(">")


def test_a_file_called_after_what_is_asked_about_does_not_hide_the_others(desk: AnyDesk) -> None:
    answer = ask(desk, "How long does the chair of the Tarn rowing club serve?")
    assert answer.is_answered
    assert "three years" in answer.claims[0].text


# --- contents --------------------------------------------------------------------------------------------------------

GUIDE = """<h1>Budget guide</h1><ul><li>Step 1: Leave accounts out</li><li>Step 2: Set amounts</li>
<li>Step 3: Read the report</li></ul><p>It was written for beginners.</p>
<h2>Step 1: Leave accounts out</h2><p>Open the accounts and tick the box of each account that is left out.</p>
<h2>Step 2: Set the amounts</h2><p>Write an amount for every month beside each kind of cost.</p>
<h2>Step 3: Read the report</h2><p>The report shows what was spent and what was planned.</p>"""


def test_contents_are_no_steps(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("guide.html", GUIDE, format="html")
        answer = desk.ask_sync("How do I leave an account out of the budget?", cache=False)
        assert "tick the box of each account" in answer.content
        assert "Read the report" not in answer.content


OFFER = """Heron Dental Practice
3 Bridge Street, Ambleside

4 May 2025

Dear Ms Sand,

we are pleased to offer you the post of dental assistant. You would start on 2 June 2025 and report to our head
assistant, Clara Moss.

Your salary is 26,100 pounds a year and is paid on the 25th of each month.

Yours sincerely
Dr Peter Lowe
"""


def test_what_is_said_of_another_is_not_sure(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("offer.txt", OFFER)
        desk.add_text("statutes.md", STATUTES, format="markdown")
        assert desk.ask_sync("What salary does Clara Moss get?", cache=False).confidence.level != "high"
        assert desk.ask_sync("Which salary is paid a year?", cache=False).confidence.level == "high"
