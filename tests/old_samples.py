"""Sample files of formats that no library at hand writes, byte by byte: XLSB, OpenDocument, Outlook, Rich Text.

`samples/workbook.xls` is `format_samples.workbook()`, saved by LibreOffice.
"""

from __future__ import annotations

import json
import mailbox
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from email.message import EmailMessage
from pathlib import Path

from format_samples import zipped

SAMPLES = Path(__file__).parent / "samples"
Tree = Mapping[str, "bytes | Tree"]


def old_workbook() -> bytes:
    return (SAMPLES / "workbook.xls").read_bytes()


# --- binary workbooks ------------------------------------------------------------------------------------------------


def record(kind: int, content: bytes = b"") -> bytes:
    """A record of [MS-XLSB]: kind and length in seven bits a byte."""

    def short(number: int) -> bytes:
        return bytes((number & 0x7F | 0x80, number >> 7)) if number > 0x7F else bytes((number,))

    return short(kind) + short(len(content)) + content


def wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def cell(kind: int, column: int, content: bytes, style: int = 0) -> bytes:
    return record(kind, struct.pack("<II", column, style) + content)


def row(number: int) -> bytes:
    return record(0, struct.pack("<I", number) + bytes(12))


def binary_workbook(sheet: bytes | None = None) -> bytes:
    """Prices: a merged region, shared and own texts, numbers as integers, doubles, per cent and dates."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = f'<Relationship Id="{{}}" Type="{kind}/{{}}" Target="{{}}"/>'
    head = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    formats = record(44, struct.pack("<H", 165) + wide('"$"#,##0.00'))
    styles = b"".join(record(47, struct.pack("<HH", 0, number) + bytes(12)) for number in (0, 165, 10, 14))
    cells = sheet or b"".join((
        row(0), cell(7, 0, struct.pack("<I", 0)), cell(7, 1, struct.pack("<I", 1)), cell(6, 2, wide("price")),
        cell(6, 3, wide("share")), cell(6, 4, wide("since")),
        row(1), cell(6, 0, wide("North")), cell(6, 1, wide("paper")), cell(5, 2, struct.pack("<d", 1234.5), 1),
        cell(2, 3, struct.pack("<i", 1250 << 2 | 2 | 1), 2), cell(9, 4, struct.pack("<d", 45352.0) + bytes(4), 3),
        row(2), cell(6, 1, wide("ink")), cell(2, 2, struct.pack("<i", -7 * 4 | 2), 1), cell(3, 3, b"\x2a"),
        cell(4, 4, b"\1"),
        record(176, struct.pack("<4I", 1, 2, 0, 0)),
    ))  # fmt: skip
    return zipped({
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": head + relation.format("a", "officeDocument", "xl/workbook.bin") + "</Relationships>",
        "xl/workbook.bin": record(153, bytes(8)) + record(156, struct.pack("<II", 0, 1) + wide("r1") + wide("Costs")),
        "xl/_rels/workbook.bin.rels": head
        + relation.format("r1", "worksheet", "worksheets/sheet1.bin")
        + relation.format("r2", "sharedStrings", "sharedStrings.bin")
        + relation.format("r3", "styles", "styles.bin")
        + "</Relationships>",
        "xl/sharedStrings.bin": record(19, b"\0" + wide("region")) + record(19, b"\0" + wide("item")),
        "xl/styles.bin": formats + record(617) + styles + record(618),
        "xl/worksheets/sheet1.bin": cells,
    })  # fmt: skip


# --- OpenDocument ----------------------------------------------------------------------------------------------------

_URN = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
_NAMES = {"draw": "drawing", "svg": "svg-compatible"}
ROOT = " ".join(
    f'xmlns:{name}="{_URN.format(_NAMES.get(name, name))}"'
    for name in ("office", "text", "table", "draw", "style", "svg", "presentation")
)
LISTS = (
    '<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1" '
    'style:num-suffix="."/><text:list-level-style-bullet text:level="2"/></text:list-style>'
)
OUTLINE = (
    '<text:outline-style><text:outline-level-style text:level="1" style:num-format="1"/>'
    '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/></text:outline-style>'
)


def opendocument(kind: str, body: str, *, styles: str = "", manifest: str = "") -> bytes:
    """A file of this kind (text, presentation, spreadsheet) with that content."""
    content = f"<office:automatic-styles>{LISTS}</office:automatic-styles>"
    content += f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    return zipped({
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": f"<office:document-content {ROOT}>{content}</office:document-content>",
        "styles.xml": f"<styles {ROOT}>{styles}</styles>",
        "meta.xml": '<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:creator>Ada Brook</dc:creator>'
        "<dc:date>2024-03-01T10:00:00</dc:date></m>",
        "META-INF/manifest.xml": f"<manifest>{manifest}</manifest>",
    })  # fmt: skip


COVERED = "<table:table-cell><text:p>*</text:p></table:table-cell>"


def table(*rows: tuple[str, ...], header_rows: int = 0) -> str:
    """Cells as given; `*` for one that is covered."""
    made = []
    for number, texts in enumerate(rows):
        written = (f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in texts)
        cells = "".join(written).replace(COVERED, "<table:covered-table-cell/>")
        line = f"<table:table-row>{cells}</table:table-row>"
        made.append(f"<table:table-header-rows>{line}</table:table-header-rows>" if number < header_rows else line)
    return f'<table:table table:name="T">{"".join(made)}</table:table>'


def open_text() -> bytes:
    """Numbered headings, a list in a list, a table, a footnote, a comment, a deletion and a text box."""
    body = (
        "<text:tracked-changes><text:p>deleted words</text:p></text:tracked-changes>"
        '<text:p text:style-name="Title">Lease</text:p>'
        '<text:h text:outline-level="1">Rent</text:h>'
        '<text:p>The rent is<text:s text:c="2"/>900\n euros<text:note text:note-class="footnote"><text:note-citation>1'
        "</text:note-citation><text:note-body><text:p>Without heating.</text:p></text:note-body></text:note>."
        "<office:annotation><text:p>a comment</text:p></office:annotation></text:p>"
        '<text:h text:outline-level="2">Payment</text:h>'
        '<text:list text:style-name="L1"><text:list-item><text:p>by transfer</text:p><text:list><text:list-item>'
        "<text:p>in euros</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>in advance"
        "</text:p></text:list-item></text:list>"
        + table(("month", "rent"), ("May", "900"), header_rows=1)
        + "<text:p>See the box.<draw:frame><draw:text-box><text:p>Words in a box.</text:p></draw:text-box></draw:frame>"
        '</text:p><text:h text:outline-level="1">End</text:h><text:p>It ends in June.</text:p>'
    )
    return opendocument("text", body, styles=OUTLINE)


def open_show() -> bytes:
    """Two slides: one with bullets, a page number and notes, one with boxes that are not in reading order."""

    def box(role: str, content: str, place: str = "") -> str:
        return f'<draw:frame presentation:class="{role}" {place}><draw:text-box>{content}</draw:text-box></draw:frame>'

    bullets = (
        "<text:list><text:list-item><text:p>Buy paper</text:p></text:list-item>"
        "<text:list-item><text:p>Buy ink</text:p></text:list-item></text:list>"
    )
    first = box("title", "<text:p>Plan</text:p>") + box("outline", bullets) + box("page-number", "<text:p>1</text:p>")
    notes = f"<presentation:notes>{box('notes', '<text:p>Mention the budget.</text:p>')}</presentation:notes>"
    right = box("", "<text:p>right box</text:p>", 'svg:x="10cm" svg:y="5cm"')
    left = box("", "<text:p>left box</text:p>", 'svg:x="1cm" svg:y="5.2cm"')
    frame = f'<draw:frame svg:x="1cm" svg:y="2cm">{table(("item", "price"), ("paper", "3"))}</draw:frame>'
    return opendocument(
        "presentation", f"<draw:page>{first}{notes}</draw:page><draw:page>{right}{left}{frame}</draw:page>"
    )


def open_sheet() -> bytes:
    """A title, a table with a cell over two rows, rows and columns that are repeated, a value that shows nothing."""

    def shown(text: str, more: str = "") -> str:
        return f'<table:table-cell office:value-type="float" {more}><text:p>{text}</text:p></table:table-cell>'

    rows = (
        f'{shown("Prices of 2024")}<table:table-cell table:number-columns-repeated="16383"/>',
        '<table:table-cell table:number-columns-repeated="16384"/>',
        "".join(map(shown, ("region", "item", "price"))),
        shown("North", 'table:number-rows-spanned="2"') + shown("paper") + shown("$1,234.50"),
        "<table:covered-table-cell/>" + shown("ink") + '<table:table-cell office:value-type="float" office:value="7"/>',
    )
    lines = "".join(f"<table:table-row>{cells}</table:table-row>" for cells in rows)
    south = shown("South") + shown("9", 'table:number-columns-repeated="2"')
    again = f'<table:table-row table:number-rows-repeated="2">{south}</table:table-row>'
    empty = '<table:table-row table:number-rows-repeated="1048566"><table:table-cell/></table:table-row>'
    return opendocument(
        "spreadsheet",
        f'<table:table table:name="Costs">{lines}{again}{empty}</table:table><table:table table:name="Empty"/>',
    )


# --- Rich Text -------------------------------------------------------------------------------------------------------


def rich_text() -> bytes:
    """Headings by style, a list, a table with merged cells, a footnote, a picture, hidden and deleted words."""
    return rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial;}}
{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 heading 2;}{\*\cs10 Char;}}
{\info{\title The lease}{\author Ada Brook}{\creatim\yr2024\mo3\dy1}}{\header running header}
\pard\plain\s1 Rent\par\pard\plain The rent is 900 \'80{\footnote\pard Without heating.}, not {\deleted 800}{\v 700}
\u8212? {\*\unknown never}{\pict\pngblip 89504e47}{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}
{\field{\*\fldinst HYPERLINK "x"}{\fldrslt  a link}}.\par
\pard\plain\s2{\listtext 1.1\tab}Payment\par
\pard{\listtext\'b7\tab}by transfer\par\pard\ilvl1{\listtext\'b7\tab}in euros\par
\trowd\trhdr\cellx2000\cellx4000\pard\intbl month\cell rent\cell\row
\trowd\clvmgf\cellx2000\cellx4000\pard\intbl May\cell 900\cell\row
\trowd\clvmrg\cellx2000\cellx4000\pard\intbl\cell 950\cell\row
\trowd\cellx4000\pard\intbl in euros\line each\cell\row
\pard\plain\s1 End\par\pard\plain It ends in June.
{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt\pard Words in a box.\par}}}}"""


# --- Outlook and other compound files --------------------------------------------------------------------------------

SECTOR, SMALL, CUTOFF, FREE, LAST = 512, 64, 4096, 0xFFFFFFFF, 0xFFFFFFFE


def compound(tree: Tree) -> bytes:
    """A compound file ([MS-CFB] version 3) of these streams and folders; small streams lie in a stream of their own."""
    entries: list[list[object]] = [["Root Entry", 5, -1, b""]]  # name, kind, first child, content
    siblings: dict[int, int] = {}

    def add(inner: Tree, parent: int) -> None:
        previous = -1
        for name, content in inner.items():
            number = len(entries)
            is_folder = not isinstance(content, bytes)
            entries.append([name, 1 if is_folder else 2, -1, b"" if is_folder else content])
            if previous < 0:
                entries[parent][2] = number
            else:
                siblings[previous] = number
            previous = number
            if not isinstance(content, bytes):
                add(content, number)

    add(tree, 0)
    small, small_fat = bytearray(), list[int]()
    sectors, fat = bytearray(), list[int]()

    def put(data: bytes, target: bytearray, chain: list[int], size: int) -> int:
        count = -(-len(data) // size)
        first = len(chain)
        chain.extend([*range(first + 1, first + count), LAST] if count else [])
        target.extend(data.ljust(count * size, b"\0"))
        return first if count else LAST

    places = []
    for _, _, _, content in entries:
        assert isinstance(content, bytes)
        is_small = len(content) < CUTOFF
        places.append(put(content, *((small, small_fat, SMALL) if is_small else (sectors, fat, SECTOR))))
    root_place = put(bytes(small), sectors, fat, SECTOR)
    small_place = put(struct.pack(f"<{len(small_fat)}I", *small_fat).ljust(SECTOR, b"\xff"), sectors, fat, SECTOR)
    directory = b""
    for number, (name, kind, child, content) in enumerate(entries):
        assert isinstance(name, str) and isinstance(content, bytes)
        encoded = name.encode("utf-16-le") + b"\0\0"
        place, size = (root_place, len(small)) if number == 0 else (places[number], len(content))
        directory += encoded.ljust(64, b"\0") + struct.pack(
            "<HBBIII16xI16xIQ", len(encoded), kind, 1, FREE, siblings.get(number, FREE) & FREE,
            int(str(child)) & FREE, 0, place, size,
        )  # fmt: skip
    directory_place = put(directory.ljust(-(-len(directory) // SECTOR) * SECTOR, b"\0"), sectors, fat, SECTOR)
    count = next(n for n in range(1, 100) if n * SECTOR // 4 >= len(fat) + n)
    fat_place = len(fat)
    fat.extend([0xFFFFFFFD] * count)
    sectors += struct.pack(f"<{len(fat)}I", *fat).ljust(count * SECTOR, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + struct.pack(
        "<16xHHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, count, directory_place, 0, CUTOFF, small_place,
        -(-len(small_fat) * 4 // SECTOR) or 1, LAST, 0,
    )  # fmt: skip
    places_of_fat = struct.pack(f"<{count}I", *range(fat_place, fat_place + count))
    return (header + places_of_fat).ljust(SECTOR, b"\xff") + bytes(sectors)


def properties(header: int, fixed: Mapping[int, int] | None = None, **texts: str) -> dict[str, bytes]:
    """The streams of a message's properties: texts by their number, others in a stream of fixed length."""
    lines = b"".join(struct.pack("<HHIQ", 0x40, name, 6, value) for name, value in (fixed or {}).items())
    streams = {f"__substg1.0_{name.removeprefix('p')}001F": text.encode("utf-16-le") for name, text in texts.items()}
    return {"__properties_version1.0": bytes(header) + lines, **streams}


def outlook_message() -> bytes:
    """A message to two people with a file, a picture inside its text, and another message."""
    sent = (1671228256 + 11644473600) * 10_000_000  # 16 December 2022, 22:04:16 UTC
    carol = "carol@example.org"
    body = "Dear Bob,\r\n\r\nthe contract ends in May.\r\n"
    inner: Tree = properties(24, p0037="Old news", p0C1A="Carol", p0C1F=carol, p1000="Forwarded text.")
    file = {"__substg1.0_37010102": b"name,price\npaper,3\n" * 300}
    logo = {"__substg1.0_37010102": b"\x89PNG"}
    return compound({
        **properties(32, {0x0039: sent}, p0037="Grüße aus Oslo", p1000=body, p001A="IPM.Note"),
        **properties(32, {0x0039: sent}, p0C1A="Ada", p0C1F="/O=EX/CN=ADA", p5D01="ada@example.org"),
        "__recip_version1.0_#00000000": properties(8, {0x0C15: 1}, p3001="Bob", p39FE="bob@example.org"),
        "__recip_version1.0_#00000001": properties(8, {0x0C15: 2}, p3001=carol, p3003=carol),
        "__attach_version1.0_#00000000": {**properties(8, p3707="../prices.csv"), **file},
        "__attach_version1.0_#00000001": {**properties(8, p3707="a.png", p370E="image/png", p3712="<a>"), **logo},
        "__attach_version1.0_#00000002": {**properties(8), "__substg1.0_3701000D": inner},
    })  # fmt: skip


# --- files of files, notebooks ---------------------------------------------------------------------------------------


def mail_folder() -> bytes:
    """A mailbox of two messages, written by Python's own library; a line of the first begins with "From"."""
    with tempfile.TemporaryDirectory() as folder:
        box = mailbox.mbox(Path(folder) / "box")
        for subject, text in (("One", "From Oslo we went on.\n"), ("Two", "It rained.\n")):
            message = EmailMessage()
            message["From"], message["Subject"] = "ada@example.org", subject
            message.set_content(text)
            box.add(mailbox.mboxMessage(message))
        box.close()
        return (Path(folder) / "box").read_bytes()


def locked_archive(text: bytes, password: bytes) -> bytes:
    """A ZIP with that text in a.txt, encrypted as PKWARE did it first (APPNOTE 6.1)."""

    def crc(value: int, byte: int) -> int:
        return (zlib.crc32(bytes((byte,)), value ^ 0xFFFFFFFF) ^ 0xFFFFFFFF) & 0xFFFFFFFF

    keys = [0x12345678, 0x23456789, 0x34567890]

    def update(byte: int) -> None:
        keys[0] = crc(keys[0], byte)
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = crc(keys[2], keys[1] >> 24)

    for byte in password:
        update(byte)
    checksum = zlib.crc32(text)
    locked = bytearray()
    for byte in bytes(11) + bytes((checksum >> 24,)) + text:
        low = keys[2] & 0xFFFF | 2
        locked.append(byte ^ (low * (low ^ 1) >> 8 & 0xFF))
        update(byte)
    plain = bytearray(zipped({"a.txt": text}, zipfile.ZIP_STORED))
    start = 30 + len("a.txt")  # the local header and the name
    made = plain[:start] + locked + plain[start + len(text) :]
    central = made.index(b"PK\1\2")
    for flags, packed in ((6, 18), (central + 8, central + 20)):
        made[flags] |= 1
        made[packed : packed + 4] = struct.pack("<I", len(locked))
    end = made.index(b"PK\5\6")
    made[end + 16 : end + 20] = struct.pack("<I", central)
    return bytes(made)


def notebook() -> bytes:
    """Markdown, code with a table and printed lines, and a cell that failed."""
    frame = "<table><thead><tr><th>city</th><th>people</th></tr></thead><tr><td>Oslo</td><td>709037</td></tr></table>"
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Cities\n", "\n", "How many people live there?"]},
        {"cell_type": "code", "source": "cities", "outputs": [
            {"output_type": "execute_result", "data": {"text/plain": "Oslo 709037", "text/html": [frame]}},
            {"output_type": "stream", "text": ["\x1b[31mread\x1b[0m 1 row\n"]},
            {"output_type": "error", "ename": "KeyError", "traceback": ["…"]}]},
        {"cell_type": "raw", "source": "As it stands."},
    ]  # fmt: skip
    return json.dumps({"cells": cells, "metadata": {"authors": [{"name": "Ada Brook"}]}, "nbformat": 4}).encode()
