"""Plain text of any encoding: paragraphs by blank lines, headings only where there is no doubt, form feeds as pages."""

from __future__ import annotations

import json
import re

from refdesk.ingest.parsers.builder import Builder
from refdesk.ingest.parsers.decode import decode
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.parsers.outline import Item, write
from refdesk.types import Kind, Parsed

MAX_HEADING = 80  # characters; a longer line is a sentence
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
LONG_BLOCK = 20_000  # lines are not judged one by one in a longer paragraph

CHAPTER = re.compile(
    r"(?:chapter|part|book|section|article|appendix|act|scene|volume|annex|prologue|epilogue|preface|introduction|contents|"
    r"kapitel|chapitre|cap[ií]tulo|глава)(?:\s+(?:[IVXLC]+|\d+|[A-Z]|[a-zà-ÿ]+))?(?:[.:—–-]\s*.{0,60}|\s*)",
    re.I,
)
NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+[^\W\d_].*")
BULLET = re.compile(r"\s*(?:[-*•‣◦–·o+]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|\[\d{1,3}\]|#\.)\s+\S")
UNDERLINE = re.compile(r"\s*([=\-~^\"'`#*+_:.])\1{2,}\s*")
ORG_HEADING = re.compile(r"(\*{1,6}) (\S.*)")
ORG_BELOW = re.compile(r"\n(?=\*{2,6} \w[^\n]{0,80}\n)")
COLUMNS = re.compile(r"\S {3,}\S|\t|\|.*\|")
CODE_START = re.compile(
    r"(?:def|class|import|from|function|const|let|var|public|private|static|return|package|using|fn|func|struct)\b"
    r"|#include|<\?|</?\w+[^<>]{0,200}>|[{}\[\]]|\"[^\"]{1,80}\"\s*:|//|/\*|\$ "
)


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Text of an unknown kind: JSON, XML and program code are kept line by line, prose is put into paragraphs.

    Form feeds end pages; a text without them gets a page for every heading of level 1, "CHAPTER I" for one.
    """
    text = decode(data).rstrip("\x1a")
    builder = Builder()
    if is_structured(text):
        # Blocks end at blank lines, so that a long file is not one block.
        for part in BLANK_LINES.split(text):
            builder.block("code", part)
        return builder.build("text")
    pages = text.split("\f")
    while len(pages) > 1 and not pages[-1].strip():
        pages.pop()
    underlines: list[str] = []
    read = [items_of(page, underlines) for page in pages]
    for items in read:
        if len(read) > 1:
            builder.page()
        write(builder, items, paged=len(read) == 1)
    first = read[0][0] if read[0] else Item("text")
    return builder.build("text", title=first.text.strip() if first.kind == "heading" else "")


def is_structured(text: str) -> bool:
    """JSON, XML or program code: its lines mean something as they stand."""
    beginning = text[:4000].lstrip()
    if re.match(r"<\?xml|<!DOCTYPE|<svg|<rss|<\w[\w:.-]*(?:\s[^<>]{0,500})?>", beginning):
        return text.rstrip()[-1:] == ">"
    if beginning[:1] in ("{", "["):
        try:
            json.loads(text)
            return True
        except (ValueError, RecursionError):
            return re.match(r'\{\s*"[^"]{0,200}"\s*:|\[\s*(?:\{\s*"|\[|-?\d+\s*,)', beginning) is not None
    lines = [line for line in beginning.split("\n")[:80] if line.strip()]
    return len(lines) >= 5 and sum(1 for line in lines if _is_code(line)) >= 0.6 * len(lines)


def _is_code(line: str) -> bool:
    line = line.strip()
    return line.endswith(("{", "}", ";")) or CODE_START.match(line) is not None


def items_of(text: str, underlines: list[str]) -> list[Item]:
    """Paragraphs and headings; `underlines` remembers which RST underline stands for which level."""
    items: list[Item] = []
    # Org needs no blank line before a heading below the first level.
    text = ORG_BELOW.sub("\n\n", text)
    for paragraph in BLANK_LINES.split(text):
        if not paragraph.strip():
            continue
        headings, lines = _headings(paragraph.strip("\n").split("\n"), underlines)
        items.extend(headings)
        if lines:
            kind, joined = _shape(lines)
            items.append(Item(kind, joined))
    return items


def _headings(lines: list[str], underlines: list[str]) -> tuple[list[Item], list[str]]:
    """The headings a paragraph begins with, and the rest of it."""
    found: list[Item] = []
    while lines:
        first = lines[0].strip()
        if len(lines) >= 3 and UNDERLINE.fullmatch(lines[0]) and _underlined(lines[1:3]):
            found.append(Item("heading", lines[1], level=_level(lines[2].strip()[0] * 2, underlines)))
            lines = lines[3:]
        elif len(lines) >= 2 and _underlined(lines[:2]):
            found.append(Item("heading", first, level=_level(lines[1].strip()[0], underlines)))
            lines = lines[2:]
        elif org := ORG_HEADING.fullmatch(lines[0].rstrip()) if len(first) <= MAX_HEADING else None:
            if len(org.group(1)) == 1 and any(line.startswith("* ") for line in lines[1:]):
                break  # "* item" after "* item" is a list
            found.append(Item("heading", org.group(2), level=len(org.group(1))))
            lines = lines[1:]
        else:
            break
    if len(lines) == 1 and (level := heading_level(lines[0].strip())):
        return [*found, Item("heading", lines[0], level=level)], []
    return found, lines


def _underlined(lines: list[str]) -> bool:
    title, line = lines[0].strip(), lines[1]
    if not title or len(title) > 200 or not UNDERLINE.fullmatch(line) or UNDERLINE.fullmatch(lines[0]):
        return False
    # RST asks for an underline at least as long as the title; a table's ruling is much longer.
    return len(title) - 2 <= len(line.strip()) <= len(title) + 12 and any(c.isalnum() for c in title)


def _level(mark: str, underlines: list[str]) -> int:
    if mark not in underlines:
        underlines.append(mark)
    return min(6, underlines.index(mark) + 1)


def heading_level(line: str) -> int:
    """The level of a line that stands alone between blank lines, 0 when it is no heading.

    >>> heading_level("CHAPTER I"), heading_level("2.1 Methods"), heading_level("He left.")
    (1, 2, 0)
    """
    if not 2 < len(line) <= MAX_HEADING or line[-1] in ".,;!?…" or not any(c.isalpha() for c in line):
        return 1 if 2 < len(line) <= MAX_HEADING and re.fullmatch(r"CHAPTER [IVXLC\d]+\.", line) else 0
    if CHAPTER.fullmatch(line):
        return 1
    numbered = NUMBERED.fullmatch(line)
    if numbered and len(line.split()) <= 10 and line[line.find(" ") :].lstrip()[:1].isupper():
        return numbered.group(1).count(".") + 1
    letters = [c for c in line if c.isalpha()]
    # Scripts without capitals have no upper(); "NASA" alone is a word, not a heading.
    if len(letters) >= 5 and all(c.isupper() for c in letters) and len(line.split()) <= 10 and not COLUMNS.search(line):
        return 2
    return 0


def _shape(lines: list[str]) -> tuple[Kind, str]:
    """Joins hard-wrapped lines of prose; keeps the lines of lists, tables, verse and code."""
    if len(lines) == 1:
        return (
            ("list", lines[0])
            if BULLET.match(lines[0]) and len(lines[0]) < 300 and lines[0].lstrip()[0] in "-*•‣◦"
            else ("text", lines[0])
        )
    if len(lines) > LONG_BLOCK:
        return "text", "\n".join(line.rstrip() for line in lines)
    bullets = sum(1 for line in lines if BULLET.match(line))
    if BULLET.match(lines[0]) and (bullets >= 2 or lines[0].lstrip()[0] in "-*•‣◦"):
        return "list", _joined_items(lines)
    if sum(1 for line in lines if COLUMNS.search(line.strip())) >= max(2, 0.6 * len(lines)):
        return "table", "\n".join(line.expandtabs(4).rstrip() for line in lines)
    if sum(1 for line in lines if _is_code(line)) >= max(3, 0.7 * len(lines)):
        return "code", "\n".join(lines)
    if all(line.startswith(("    ", "\t")) for line in lines):
        return "text", "\n".join(line.strip() for line in lines)
    if _hard_wrapped(lines):
        return "text", " ".join(line.strip() for line in lines)
    return "text", "\n".join(line.strip() for line in lines)


def _joined_items(lines: list[str]) -> str:
    """A list item that goes on in the next line is one line."""
    items: list[str] = []
    for line in lines:
        if BULLET.match(line) or not items:
            items.append(line.rstrip())
        else:
            items[-1] += " " + line.strip()
    return "\n".join(items)


def _hard_wrapped(lines: list[str]) -> bool:
    """Prose wrapped at a margin fills its lines, save the last; verse, addresses and logs do not."""
    lengths = [len(line.strip()) for line in lines[:-1]]
    width = max(len(line.strip()) for line in lines)
    if width > 200:
        return False  # lines this long are paragraphs of their own
    full = sum(1 for length in lengths if length >= 0.7 * width)
    lower = sum(1 for line in lines[1:] if line.strip()[:1].islower())
    return width >= 40 and (full >= 0.7 * len(lengths) or lower >= 0.5 * len(lengths))
