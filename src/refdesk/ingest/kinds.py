"""Is this chunk a glossary, a table of contents or a list of credits? Those are ranked lower. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from refdesk.types import Chunk, Kind

_TOC_HEADING = re.compile(
    r"(?:table of )?contents|(?:list|index) of (?:tables|figures|exhibits)|inhalt(?:sverzeichnis)?|table des matières"
    r"|sommaire|índice|indice|目录|目錄|目次"
)
_GLOSSARY_HEADING = re.compile(
    r"(?:glossary|definitions|(?:list of )?(?:abbreviations|acronyms)|terminology|nomenclature|glossar|glossaire"
    r"|glosario|abkürzungen|defined terms|terms and definitions)\b"
)
_CREDITS_HEADING = re.compile(
    r"(?:(?:image|photo|photography|picture|illustration)s? credits?|credits|acknowledge?ments?|colophon|imprint"
    r"|impressum|copyright|picture sources)\b"
)
_NUMBERING = re.compile(r"[\s\dIVX.)§–—-]*")
_LEADER = re.compile(r"(?<![._…])(?<!\. )(?:\.{4,}|(?:\. ){2,}\.|…{2,}|_{4,})\s*(?:\d{1,4}|[ivxl]{1,6})?$")
_ENDS_IN_PAGE = re.compile(r"[^\W\d_].*\s(\d{1,4})$")
_ENTRY = re.compile(
    r"\W{0,3}[^\W\d_][^:—–|]{0,40}(?::|\s[—–-])\s+(?:[^\s\d]++\s++){3}\S"
)  # no digits: not "Address: 1 Main St"
# Under such a heading less is enough: a cell, a quoted term, "means".
_TERM = re.compile(
    rf"{_ENTRY.pattern}|[^|]{{1,80}}\s\|\s|[“\"„«‘']\w[^”\"“»’']{{0,60}}[”\"“»’']\s"
    r"|.{1,80}\b(?:means?|refers? to|stands for)\b"
)
_CREDIT = re.compile(
    r"©|\(c\)\s*\d{4}|\ball rights reserved|\bphoto(?:graph)?s?(?: by|:| ©| courtesy)|\bimages? (?:credit|by|courtesy)"
    r"|\bcourtesy of\b|\bisbn\b|\btypeset (?:in|by)|\bprinted (?:and bound )?in\b|\bcover (?:design|image|photo)"
    r"|\bgetty images\b|\bshutterstock\b|\bistock\b|\bunsplash\b",
    re.IGNORECASE,
)
# Looked for before the expressions, which are fifty times as slow.
_CREDIT_WORDS = (
    "©",
    "(c)",
    "rights",
    "photo",
    "image",
    "courtesy",
    "isbn",
    "typeset",
    "printed",
    "cover",
    "stock",
    "unsplash",
)
_LEADER_MARKS = ("....", ". . .", "……", "____")


def kind_of(chunk: Chunk) -> Kind:
    """The kind of a chunk by its heading and the shape of its lines.

    "1 Introduction ..... 3", "2 Method ..... 7", "3 Results ..... 9" -> toc
    """
    if chunk.kind not in ("text", "list", "table"):
        return chunk.kind
    heading = chunk.heading_path[-1].strip().casefold() if chunk.heading_path else ""
    heading = heading[_match_end(_NUMBERING, heading) :].rstrip(":. ")
    body = [line.strip() for line in chunk.text.split("\n") if line.strip()]
    # A heading alone proves nothing: what follows "Contents" may be the whole book when its headings were not seen.
    if _is_contents(chunk.text, body, chunk.kind) or (_TOC_HEADING.fullmatch(heading) and _is_terse(body)):
        return "toc"
    if _share(_ENTRY.match, body) >= 0.7 or (
        _GLOSSARY_HEADING.fullmatch(heading) and _share(_TERM.match, body, least=2) >= 0.4
    ):
        return "glossary"
    if _CREDITS_HEADING.fullmatch(heading) or _gives_credit(chunk):
        return "credits"
    return chunk.kind


def _match_end(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0


def _gives_credit(chunk: Chunk) -> bool:
    """Does at least half of the sentences name a photographer, a printer or an owner of rights?"""
    lowered = chunk.text.lower()
    if not any(word in lowered for word in _CREDIT_WORDS):
        return False
    parts = [chunk.text[part.start : part.end][:400] for part in chunk.sentences]
    return sum(1 for part in parts if _CREDIT.search(part)) >= max(1, 0.5 * len(parts))


def _share(begins: Callable[[str], object], lines: list[str], *, least: int = 4) -> float:
    """The share of lines that begin so; fewer than `least` lines show no shape."""
    if len(lines) < least:
        return 0.0
    return sum(1 for line in lines if begins(line[:400])) / len(lines)


def _is_terse(lines: list[str]) -> bool:
    return sum(1 for line in lines if len(line) <= 120 and not line.endswith(".")) >= 0.6 * len(lines)


def _is_contents(text: str, lines: list[str], kind: Kind) -> bool:
    if len(lines) < 3:
        return False
    has_leaders = any(mark in text for mark in _LEADER_MARKS)
    if has_leaders and sum(1 for line in lines if _LEADER.search(line[-60:])) >= 0.5 * len(lines):
        return True
    if kind == "table" or len(lines) < 5:
        return False  # the last column of a table is a number too
    pages = [int(match.group(1)) for line in lines if (match := _ENDS_IN_PAGE.match(line[:200]))]
    return len(pages) >= 0.7 * len(lines) and pages == sorted(pages) and pages[0] < pages[-1]
