"""Plain text in any encoding: paragraphs by blank lines, headings only if unambiguous, form feeds as pages."""

from __future__ import annotations

import codecs
import json
import re
from itertools import zip_longest

from refdesk.parsers.build import Builder, Item, ParseOptions, Table
from refdesk.text import set_apart
from refdesk.types import Kind, Parsed

# Which encoding are these bytes? Byte order mark, then UTF-8, then statistics.

MARKS = (  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What people's files are written in; without this list charset-normalizer also proposes EBCDIC and Macintosh tables.
CANDIDATES = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "koi8_u", "cp932", "euc_jp", "iso2022_jp"),
    *("gb18030", "big5", "cp949", "tis_620", "mac_roman", "cp850"),
]
# What browsers read under these names (encoding.spec.whatwg.org): the larger set that writers really use.
SUPERSETS = {
    **{"gb2312": "gb18030", "gbk": "gb18030", "shift-jis": "cp932", "ks-c-5601-1987": "cp949", "euc-kr": "cp949"},
    **{"big5": "big5hkscs", "iso-8859-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252", "iso-8859-9": "cp1254"},
    **{"tis-620": "cp874", "iso-8859-8-i": "iso-8859-8"},
}
SAMPLE = 1 << 16
# UTF-8 read as Latin-1 and written as UTF-8 again leaves control characters behind letters: "1986â\x80\x931990".
CONTROLS = re.compile("[\x80-\x9f]")
TWICE_ENCODED = re.compile("[\xc2-\xf4][\x80-\xbf]{1,3}")
HIGH_RUN = re.compile(rb"[\x80-\xff]+")


def decode(data: bytes, declared: str = "") -> str:
    """Text of any encoding, with line ends as "\\n"; `declared` is what the file says of itself.

    >>> decode("žluťoučký".encode("utf-16"))
    'žluťoučký'
    """
    text = _decode(data, declared).replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    return TWICE_ENCODED.sub(_once, text) if CONTROLS.search(text) else text


def _once(found: re.Match[str]) -> str:
    try:
        return found.group().encode("latin-1").decode("utf-8")
    except UnicodeError:
        return found.group()


def wide_encoding(data: bytes) -> str:
    """UTF-16 or UTF-32 by its mark, or without one by where the zero bytes stand; "" if it is neither."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding if encoding != "utf-8-sig" else ""
    sample = data[:4096]
    if len(sample) < 4 or 0 not in sample:
        return ""
    quarters = [sample[offset::4].count(0) / len(sample[offset::4]) for offset in range(4)]
    if min(quarters[1:]) > 0.7 and quarters[0] < 0.1:
        return "utf-32-le"
    if min(quarters[:3]) > 0.7 and quarters[3] < 0.1:
        return "utf-32-be"
    even, odd = (quarters[0] + quarters[2]) / 2, (quarters[1] + quarters[3]) / 2
    # Prose in Latin letters has zeros in nearly every other byte; .4 leaves room for other scripts beside them.
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    if even > 0.4 and odd < 0.05:
        return "utf-16-be"
    return ""


def _decode(data: bytes, declared: str) -> str:
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if wide := wide_encoding(data):
        return data.decode(wide, errors="replace")
    declared = SUPERSETS.get(declared.lower().replace("_", "-"), declared)
    # Encodings of seven bits are valid UTF-8 as they stand, so what the file says goes first there.
    seven_bits = declared.lower().startswith(("iso-2022", "hz", "utf-7"))
    if b"\x1b$" in data[:SAMPLE] or b"\x1b(" in data[:SAMPLE]:
        seven_bits, declared = True, declared if seven_bits else "iso2022_jp_2"
    for encoding in (declared, "utf-8") if seven_bits else ("utf-8", declared):
        if encoding:
            try:
                return data.decode(encoding)
            except (UnicodeDecodeError, LookupError):
                continue
    return data.decode(_guess(data), errors="replace")


def _guess(data: bytes) -> str:
    """The most likely encoding of bytes that are not UTF-8."""
    from charset_normalizer import from_bytes  # 30 ms to import; most files are UTF-8

    sample = data[: SAMPLE * 4]
    high = sum(map(len, HIGH_RUN.findall(sample)))
    if high > 20 and sample.decode("utf-8", errors="replace").count("\ufffd") <= high * 0.05:
        return "utf-8"  # one damaged character in a long text does not make it something else
    if len(data) > SAMPLE and (high_run := HIGH_RUN.search(data)):
        # From the first line that is not ASCII on, so that statistics see what matters.
        begin = max(data.rfind(b"\n", 0, high_run.start()) + 1, high_run.start() - 1000)
        data = data[begin : begin + SAMPLE]
        data = data[: data.rfind(b"\n") + 1] or data
    runs = HIGH_RUN.findall(data)
    lonely = sum(1 for run in runs if len(run) == 1)
    if runs and lonely >= 0.9 * len(runs) and len(runs) < 40:
        return "cp1252"  # single accented letters among ASCII; too few of them for statistics
    best = from_bytes(data, cp_isolation=CANDIDATES, preemptive_behaviour=True).best()
    return "cp1252" if best is None else best.encoding


# What Windows calls encodings that Python has other names for.
CODEPAGES = {65001: "utf-8", 20127: "ascii", 28591: "latin-1", 10000: "mac_roman", 1200: "utf-16-le", 936: "gbk"}


def codepage(number: int) -> str:
    """The encoding that Windows knows by this number; that of western Europe where Python knows none."""
    try:
        return codecs.lookup(CODEPAGES.get(number, f"cp{number}")).name
    except LookupError:
        return "cp1252"


BROKEN_WORD = re.compile(r"(?<=[^\W\d_])\u2010\n[ \t]*(?=[^\W\d_])")  # manual pages part words with this hyphen only
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
FIELD = re.compile(r"\s*[^\W\d_][^:]{0,30}:\s")
ORG_HEADING = re.compile(r"(\*{1,6}) (\S.*)")
ORG_BELOW = re.compile(r"\n(?=\*{2,6} \w[^\n]{0,80}\n)")
COLUMNS = re.compile(r"\S {3,}\S|\t|\|.*\|")
RULE = re.compile(r"\s*[+┌├└╔╠╚╒╞╘][-=+─═┬┼┴╦╬╩╤╪╧┐┤┘╗╣╝╕╡╛]{2,}\s*")  # of a drawn table, between its rows
GRID_ROW = re.compile(r"\s*([|│║]).*\1\s*")
CODE_START = re.compile(
    r"(?:def|class|import|from|function|const|let|var|public|private|static|return|package|using|fn|func|struct)\b"
    r"|#include|<\?|</?\w+[^<>]{0,200}>|[{}\[\]]|\"[^\"]{1,80}\"\s*:|//|/\*|\$ "
)


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Text of an unknown kind: JSON, XML and program code are kept line by line, prose is put into paragraphs.

    Form feeds end pages; a text without them gets a page for every heading of level 1, "CHAPTER I" for one.
    """
    text = _unbroken(decode(data).rstrip("\x1a"))
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
    read = [items_of(page, underlines, begins=not number) for number, page in enumerate(pages)]
    for items in read:
        if len(read) > 1:
            builder.page()
        builder.write(items, paged=len(read) == 1)
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


def items_of(text: str, underlines: list[str], *, begins: bool = False) -> list[Item]:
    """Paragraphs and headings; `underlines` remembers which RST underline stands for which level.

    `begins`: it is the beginning of a document, which may have a title.
    """
    items: list[Item] = []
    # Org needs no blank line before a heading below the first level.
    text = ORG_BELOW.sub("\n\n", text)
    paragraphs = [paragraph for paragraph in BLANK_LINES.split(text) if paragraph.strip()]
    for number, paragraph in enumerate(paragraphs):
        lines = paragraph.strip("\n").split("\n")
        rules = [place for place, line in enumerate(lines) if RULE.fullmatch(line)]
        if len(rules) > 2 and all(map(_is_of_grid, lines[rules[0] : rules[-1]])):
            items.extend(items_of("\n".join(lines[: rules[0]]), underlines, begins=begins and number == 0))
            items.append(Item("table", table=Table(_grid_rows(lines[rules[0] : rules[-1] + 1]), 1)))
            items.extend(items_of("\n".join(lines[rules[-1] + 1 :]), underlines))
            continue
        headings, lines = _headings(lines, underlines)
        if begins and number == 0 and not headings and len(paragraphs) > 1 and _is_titled(lines):
            headings, lines = [Item("heading", lines[0], level=1)], lines[1:]
        items.extend(headings)
        if lines:
            kind, joined = _shape(lines)
            items.append(Item(kind, joined))
    return items


def _is_of_grid(line: str) -> bool:
    return bool(RULE.fullmatch(line) or GRID_ROW.fullmatch(line))


def _grid_rows(lines: list[str]) -> list[list[str]]:
    """The cells of a drawn table. Where a rule stands below every row, a row may be wrapped over several lines."""
    groups: list[list[list[str]]] = []
    for line in lines:
        if RULE.fullmatch(line):
            groups.append([])
        else:
            row = line.strip()
            groups[-1].append([cell.strip() for cell in row[1:-1].split(row[0])])
    if sum(map(bool, groups)) < 3:  # a rule below the names of the columns only
        return [row for group in groups for row in group]
    columns = [list(zip_longest(*group, fillvalue="")) for group in groups if group]
    return [[_unbroken("\n".join(filter(None, cells))).replace("\n", " ") for cells in row] for row in columns]


def _unbroken(text: str) -> str:
    """Words whole that a manual page has parted at the ends of its lines."""
    return BROKEN_WORD.sub("", text)


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
    level = heading_level(lines[0].strip()) if len(lines) == 1 or _heads_lines(lines) else 0
    level = level or (_depth_of_heading(lines) if lines else 0)
    return ([*found, Item("heading", lines[0], level=level)], lines[1:]) if level else (found, lines)


def _heads_lines(lines: list[str]) -> bool:
    """Is the first line a numbered heading right above its text? `4. First aid`, `Eyes: rinse with water.`

    An item of a list that is wrapped goes on indented or with a small letter, and what follows it may be the next one.
    """
    if len(lines) < 2 or not NUMBERED.fullmatch(lines[0].strip()) or any(BULLET.match(line) for line in lines[1:]):
        return False
    below = lines[1].strip()
    return len(lines[1]) == len(lines[1].lstrip()) and not below[0].islower() and lines[-1].rstrip()[-1:] in ".!?"


def _depth_of_heading(lines: list[str]) -> int:
    """The level of a short line above prose that is all set further in, as in manual pages; 0 where it is none."""
    first, below = lines[0].strip(), lines[1:]
    indents = [len(line) - len(line.lstrip()) for line in lines]
    if not below or min(indents[1:]) <= indents[0] or not 2 < len(first) <= MAX_HEADING:
        return 0
    is_line = bool(FIELD.match(first) or BULLET.match(lines[0]) or COLUMNS.search(first) or _is_code(first))
    if is_line or first[-1] in ".,;:!?…" or not first[0].isupper() or len(first.split()) > 10:
        return 0
    is_prose = below[-1].rstrip()[-1:] in ".!?:" and max(len(line.strip()) for line in below) > max(40, len(first))
    return (2 if first.isupper() else 3) if is_prose or (first.isupper() and len(first) >= 4) else 0


def _is_titled(lines: list[str]) -> bool:
    """Does the document begin with its title? A short line that nothing ends, alone or above `Opened: 3 March`."""
    title, words = lines[0].strip(), lines[0].split()
    is_short = 2 <= len(words) <= 14 and len(title) <= MAX_HEADING and title[-1] not in ".,;:!?…"
    says = [word for word in words if word.isalpha()]
    is_line = bool(FIELD.match(title) or BULLET.match(title) or COLUMNS.search(title))
    return is_short and len(says) > 1 and not title[0].islower() and not is_line and all(map(FIELD.match, lines[1:]))


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
    if len(lines) > LONG_BLOCK:
        return "text", "\n".join(line.rstrip() for line in lines)
    bullets = sum(1 for line in lines if BULLET.match(line))
    if BULLET.match(lines[0]) and (bullets >= 2 or lines[0].lstrip()[0] in "-*•‣◦"):
        return "list", _joined_items(lines)
    if len(lines) == 1:
        return "text", lines[0]
    if sum(1 for line in lines if COLUMNS.search(line.strip())) >= max(2, 0.6 * len(lines)):
        return "table", "\n".join(line.expandtabs(4).rstrip() for line in lines)
    if sum(1 for line in lines if _is_code(line)) >= max(3, 0.7 * len(lines)):
        return "code", "\n".join(lines)
    if all(line.startswith(("    ", "\t")) for line in lines):
        return "text", "\n".join(line.strip() for line in lines)
    if _hard_wrapped(lines) and len(set_apart(lines)) < len(lines) / 2:
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
