"""Every question about the example documents finds its document, its page and the words that prove the answer."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from memory_desk import ON_DISK
from refdesk import Box, Chunk, Hit, Refdesk

STORES = ON_DISK

QUESTIONS = json.loads((Path(__file__).parent.parent / "examples" / "questions.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Proof:
    document: str
    page: int
    words: str | list[str]  # a quote, or the cells of one row

    def find(self, chunk: Chunk) -> tuple[int, int] | None:
        """Where the proof stands in a chunk, white space and hyphens at line ends aside."""
        parts = [self.words] if isinstance(self.words, str) else self.words
        patterns = [r"[\s\-]*".join(re.escape(letter) for letter in re.sub(r"[\s\-]", "", part)) for part in parts]
        # The cells of a row stand in one line, in order.
        found = re.search(r"[^\n]*?".join(patterns), chunk.text)
        return found.span() if found else None

    def is_shown_by(self, hit: Hit) -> bool:
        return hit.document.name == self.document and self.page in hit.chunk.pages


def proofs(entry: dict[str, Any]) -> list[Proof]:
    if "documents" in entry:
        return [Proof(*one) for one in zip(entry["documents"], entry["pages"], entry["quotes"], strict=True)]
    return [Proof(entry["document"], entry["page"], entry.get("quote") or entry["cells"])] if entry["document"] else []


ANSWERABLE = [entry for entry in QUESTIONS if proofs(entry)]
PROOFS = [
    pytest.param(proof, id=f"{proof.document}:{proof.page}:{entry['question'][:30]}")
    for entry in ANSWERABLE
    for proof in proofs(entry)
]


def rank(desk: Refdesk, entry: dict[str, Any], k: int = 5) -> int:
    """The place of the first hit on the document and page of a proof; 0 when none is among the first k."""
    hits = desk.search(entry["question"], k=k)
    return next((n for n, hit in enumerate(hits, 1) if any(proof.is_shown_by(hit) for proof in proofs(entry))), 0)


def test_questions_find_their_page(examples: Refdesk) -> None:
    """Measured 2026-11: first 31, in five 36 of 36."""
    ranks = {entry["question"]: rank(examples, entry) for entry in ANSWERABLE}
    missed = [question for question, place in ranks.items() if not place]
    assert len(missed) <= 1, missed
    assert sum(place == 1 for place in ranks.values()) >= 30, ranks


def test_questions_find_the_words_that_prove_the_answer(examples: Refdesk) -> None:
    """Measured 2026-11: 35 of 36 in the first five."""
    missed = []
    for entry in ANSWERABLE:
        hits = examples.search(entry["question"], k=5)
        if not any(proof.is_shown_by(hit) and proof.find(hit.chunk) for hit in hits for proof in proofs(entry)):
            missed.append(entry["question"])
    assert len(missed) <= 2, missed


def test_both_sides_of_a_conflict_are_found(examples: Refdesk) -> None:
    for entry in ANSWERABLE:
        if "documents" in entry:
            hits = examples.search(entry["question"], k=5)
            assert all(any(proof.is_shown_by(hit) for hit in hits) for proof in proofs(entry)), entry["question"]


@pytest.mark.parametrize("proof", PROOFS)
def test_a_proof_stands_in_a_chunk_on_its_page(examples: Refdesk, proof: Proof) -> None:
    where = [(chunk, found) for chunk in examples.chunks(proof.document) if (found := proof.find(chunk))]
    assert where, f"no chunk holds {proof.words}"
    is_pdf = examples.document(proof.document).format == "pdf"
    for chunk, (start, end) in where:
        assert proof.page in chunk.pages
        boxes = examples.locate(chunk, start, end)
        assert bool(boxes) == is_pdf
        if is_pdf:
            assert {box.page for box in boxes} == {proof.page}
            assert all(on_page(box) for box in boxes)
            assert all(any(covers(line, box) for line in chunk.boxes) for box in boxes)
            assert squeeze("".join(words_in(examples, chunk, boxes))) == squeeze(chunk.text[start:end].replace("|", ""))


def on_page(box: Box) -> bool:
    return (
        0 <= box.x < box.x + box.width <= 100.01
        and 0 <= box.y < box.y + box.height <= 100.01
        and 0 < box.height < 10  # a line, not a paragraph
    )


def covers(line: Box, part: Box, slack: float = 0.1) -> bool:
    return (
        line.page == part.page
        and line.x - slack <= part.x
        and line.y - slack <= part.y
        and part.x + part.width <= line.x + line.width + slack
        and part.y + part.height <= line.y + line.height + slack
    )


def words_in(desk: Refdesk, chunk: Chunk, boxes: tuple[Box, ...]) -> Iterator[str]:
    """The words whose middle lies in one of the boxes, in reading order: what a person sees marked."""
    for page in desk.pages(chunk.document_id, boxes[0].page):
        assert page.words is not None
        for start, end, edges in zip(page.words.start, page.words.end, page.words.edges, strict=True):
            x, y = (edges[0] + edges[2]) / 2, (edges[1] + edges[3]) / 2
            if any(box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height for box in boxes):
                yield page.text[start - page.page.start : end - page.page.start]


def squeeze(text: str) -> str:
    return re.sub(r"[\s|]", "", text)


# what the documents were made to show


def test_headings_of_the_two_column_report_are_real(examples: Refdesk) -> None:
    title = "Long-term drift of the TG-4 tide gauge"
    paths = {chunk.heading_path for chunk in examples.chunks("tg4-drift-report.pdf")}
    assert (title, "3 Results", "3.1 Drift of bare and guarded gauges") in paths
    assert (title, "3 Results", "3.3 Temperature") in paths
    assert (title, "4 Discussion", "4.2 Limits of the trial") in paths
    assert (title, "5 Conclusions") in paths
    text = "\n".join(chunk.text for chunk in examples.chunks("tg4-drift-report.pdf"))
    assert "Skerry Technical Report SI-TR-031" not in text, "the running header is no part of the text"


def test_a_table_over_two_pages_has_boxes_on_both(examples: Refdesk) -> None:
    tables = [chunk for chunk in examples.chunks("service-price-list-2026.pdf") if chunk.kind == "table"]
    assert len(tables) > 2
    assert {page for chunk in tables for page in chunk.pages} == {1, 2}
    for chunk in tables:
        assert set(chunk.pages) <= {box.page for box in chunk.boxes}
    assert all("Code | Kind | Instrument | Work" in chunk.text for chunk in tables), "each repeats the header row"
    hire = next(chunk for chunk in tables if "H-503" in chunk.text)
    assert hire.pages == (2,), "its rows stand on page 2 alone, whatever page its header is lent from"
    assert {box.page for box in hire.boxes} == {1, 2}, "the header is marked where it was printed"


def test_rows_are_not_lost_between_the_pages(examples: Refdesk) -> None:
    rows = {
        code
        for chunk in examples.chunks("service-price-list-2026.pdf")
        for code in re.findall(r"^([A-Z]-\d{3}) \|", chunk.text, re.M)
    }
    assert len(rows) == 61


def test_the_scan_is_read_by_ocr(examples: Refdesk) -> None:
    (page,) = examples.pages("harbour-authority-letter.pdf")
    assert page.page.ocr and page.words is not None and len(page.words) > 50
    hit = examples.search("What does Skerry pay each year for the use of the seabed?", k=1)[0]
    assert hit.document.name == "harbour-authority-letter.pdf" and hit.boxes
    assert "640 euros" in hit.chunk.text


def test_a_figure_is_kept_as_an_image(examples: Refdesk) -> None:
    (figure,) = [chunk for chunk in examples.chunks("tg4-drift-report.pdf") if chunk.kind == "figure"]
    assert figure.text.startswith("Figure 1: Mean zero shift") and figure.image and figure.boxes
    stored = examples.folder / "files" / figure.image[:2] / figure.image
    with Image.open(stored) as picture:
        assert picture.format == "PNG"
        picture.load()
        assert min(picture.size) > 100
        colours = picture.convert("RGB").getcolors(1 << 24)
    assert colours is not None and len(colours) > 20, "the figure, not a blank"


@pytest.mark.parametrize("name, number", [("tg4-drift-report.pdf", 2), ("wb7-mooring-sheet.pdf", 2)])
def test_marked_pages_show_the_mark_where_the_words_are(examples: Refdesk, name: str, number: int) -> None:
    chunk = next(one for one in examples.chunks(name) if one.pages == (number,) and one.boxes)
    plain = Image.open(io.BytesIO(examples.page_image(name, number, width=600))).convert("RGB")
    marked = Image.open(io.BytesIO(examples.page_image(name, number, width=600, boxes=chunk.boxes[:1]))).convert("RGB")
    box = chunk.boxes[0]
    changed = [
        (x, y)
        for x in range(0, 600, 2)
        for y in range(0, plain.height, 2)
        if plain.getpixel((x, y)) != marked.getpixel((x, y))
    ]
    assert changed
    for x, y in changed:
        assert box.x - 1 <= 100 * x / 600 <= box.x + box.width + 1
        assert box.y - 1 <= 100 * y / plain.height <= box.y + box.height + 1


def test_an_attachment_is_a_document_of_its_own(examples: Refdesk) -> None:
    child = examples.document("calibration-certificate-tg4-0632.pdf")
    assert child.parent_id == examples.document("warranty-enquiry.eml").id
    assert examples.page_image(child.id, 1)[:4] == b"\x89PNG"


def test_languages_are_told_apart(examples: Refdesk) -> None:
    languages = {document.name: document.language for document in examples.documents()}
    assert languages.pop("protokoll-cuxhaven.txt") == "de"
    assert languages.pop("kitahama-maintenance.txt") == "ja"
    assert set(languages.values()) == {"en"}
