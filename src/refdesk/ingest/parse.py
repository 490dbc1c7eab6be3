"""Bytes in, `Parsed` out: which parser reads which format, and what every result must satisfy."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pkgutil import resolve_name
from typing import cast

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import BrokenFile, EmptyDocument, NeedsPassword, RefdeskError, TooLarge, UnsupportedFormat
from refdesk.parsers import compound
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.text import decode, wide_encoding
from refdesk.text import asset_lines
from refdesk.types import Parsed

Parser = Callable[[bytes, ParseOptions], Parsed]

# Format -> (its parser in refdesk.parsers, imported when the format is first met; what people call it).
FORMATS = {
    "pdf": ("pdf:parse", "PDF file"),
    "image": ("pdf:parse_image", "image"),
    "docx": ("docx:parse", "Word document"),
    "pptx": ("office:parse_pptx", "PowerPoint presentation"),
    "xlsx": ("sheets:parse", "Excel workbook"),
    "xls": ("sheets_binary:parse_xls", "Excel workbook"),
    "xlsb": ("sheets_binary:parse_xlsb", "Excel workbook"),
    "ods": ("opendocument_pages:parse_ods", "OpenDocument spreadsheet"),
    "odt": ("opendocument_text:parse_odt", "OpenDocument text"),
    "odp": ("opendocument_pages:parse_odp", "OpenDocument presentation"),
    "rtf": ("rtf:parse", "Rich Text document"),
    "csv": ("sheets:parse_csv", "CSV file"),
    "tsv": ("sheets:parse_csv", "TSV file"),
    "html": ("html:parse", "web page"),
    "ipynb": ("notebook:parse", "Jupyter notebook"),
    "zip": ("archive:parse", "ZIP archive"),
    "doc": ("libreoffice:parse_doc", "Word document"),
    "ppt": ("libreoffice:parse_ppt", "PowerPoint presentation"),
    "markdown": ("html:parse_markdown", "Markdown file"),
    "text": ("text:parse", "text file"),
    "eml": ("mail:parse", "mail"),
    "msg": ("outlook:parse", "Outlook message"),
    "mbox": ("mail:parse", "mailbox"),
    "epub": ("mail:parse_epub", "e-book"),
}

# What is this file? Decided by its content; the name only settles what content cannot (Markdown or plain text).

HEAD = 1 << 16  # bytes looked at; the beginning decides

SIGNATURES = tuple(
    (int(place), bytes.fromhex(magic), kind)
    for place, magic, kind in (line.split(" ", 2) for line in asset_lines("file_types", "signatures"))
)


def _pairs(section: str) -> dict[str, str]:
    """A beginning or a name, and the format id ("=pdf") or the type in words that it tells."""
    return dict(line.split(" = ", 1) for line in asset_lines("file_types", section))


RIFF, OLE_STREAMS, OPEN_DOCUMENT, ZIP_PARTS = (_pairs(name) for name in ("riff", "ole", "opendocument", "zip"))

ENCRYPTED = "EncryptedPackage"  # the stream that holds an encrypted DOCX, XLSX or PPTX

MARKDOWN_NAMES = (".md", ".markdown", ".mdown", ".mkd", ".mkdn", ".mdx", ".qmd", ".rmd")
NOTEBOOK_CELLS = re.compile(r'"(?:cells|worksheets)"\s*:\s*\[\s*\{')
HTML_NAMES = (".html", ".htm", ".xhtml", ".shtml")
SETTINGS_NAMES = (".yaml", ".yml", ".ini", ".cfg", ".conf", ".toml", ".properties")  # "from: a" is no mail there
MAIL_HEADERS = frozenset(
    [
        *("from", "to", "cc", "subject", "date", "received", "message-id", "mime-version", "return-path"),
        *("delivered-to", "reply-to", "sender", "content-type", "x-mailer", "in-reply-to", "references"),
    ]
)
MAIL_LINE = re.compile(r"([!-9;-~]{1,76}):(?:[ \t]|$)")
HTML_START = re.compile(r"<(?:!doctype\s+html|html|head|body|title|meta|h[1-6]|p|div|table)\b", re.I)
HTML_TAG = re.compile(
    r"</?(?:p|div|span|a|h[1-6]|ul|ol|li|table|tr|td|th|br|b|i|em|strong|img|body|html)\b[^<>]{0,500}>", re.I
)


def sniff(data: bytes, name: str = "") -> str:
    """The id of the format: pdf, docx, pptx, xlsx, csv, tsv, html, markdown, text, eml, epub or image.

    Raises UnsupportedFormat with the detected type in words: "this is a Word 97–2003 document, which …".
    """
    if not data:
        raise EmptyDocument("the file is empty")
    head = data[:HEAD]
    if head.startswith(b"PK") and head[2:4] in (b"\x03\x04", b"\x05\x06", b"\x07\x08"):
        return _known(_zip_type(data))
    if head.startswith(compound.MAGIC):
        return _known(_ole_type(data))
    if head.startswith(b"%PDF-") or (b"%PDF-" in head[:1024] and (b"startxref" in data or b"endobj" in data)):
        return "pdf"
    if head.startswith(b"RIFF") and (kind := RIFF.get(head[8:12].decode("latin-1"))):
        return _known(kind)
    if head.startswith(b"BM") and len(head) > 14 and head[6:10] == b"\x00\x00\x00\x00":
        return "image"
    if head.startswith(b"MZ") and b"\x00" in head[:64]:
        raise _unsupported("a program (Windows)")
    for offset, magic, kind in SIGNATURES:
        if head.startswith(magic, offset) and not _is_text_after_all(head, magic):
            return _known(kind)
    if not _is_text(head):
        raise _unsupported("a binary file of an unknown type")
    return _text_format(decode(head), name.lower())


def _known(kind: str) -> str:
    if kind.startswith("="):
        return kind[1:]
    raise _unsupported(kind)


def _unsupported(kind: str) -> UnsupportedFormat:
    return UnsupportedFormat(f"this is {kind}, which Refdesk does not read")


def _is_text_after_all(head: bytes, magic: bytes) -> bool:
    """Letters alone ("ID3 tags explained", "BZh") may begin a text; a signature needs something binary near it."""
    return magic.isalnum() and b"\x00" not in head[:4096] and _is_text(head)


def _is_text(head: bytes) -> bool:
    """Text has hardly any control characters; UTF-16 and UTF-32 are looked at after decoding."""
    encoding = wide_encoding(head)
    if encoding:
        text = head[: len(head) // 4 * 4].decode(encoding, errors="replace")
        strange = sum(1 for c in text if (c < " " and c not in "\t\n\r\f\x1a") or c == "\ufffd")
        return strange <= len(text) * 0.02
    controls = head.translate(None, bytes(range(32, 256)) + b"\t\n\r\f\x08\x1a\x1b\x0b")
    # A few stray zeros are a damaged text; one in fifty is data.
    return len(controls) <= len(head) * 0.02


def _zip_type(data: bytes) -> str:
    """The kind of zip file, from the names of its parts; damaged ones are named by what can still be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            small = "mimetype" in names and archive.getinfo("mimetype").file_size < 200
            mimetype = archive.read("mimetype").decode("ascii", "replace") if small else ""
    except Exception as error:  # zipfile raises many kinds on damaged files
        for part, kind in ZIP_PARTS.items():
            if kind.startswith("=") and part.encode() in data[: 1 << 20]:
                raise BrokenFile(f"this {kind[1:].upper()} file is truncated or damaged") from error
        raise BrokenFile("this ZIP-based file is truncated or damaged") from error
    if "epub" in mimetype:
        return "=epub"
    if "opendocument" in mimetype:
        kinds = (words for key, words in OPEN_DOCUMENT.items() if f"opendocument.{key}" in mimetype)
        return next(kinds, "an OpenDocument file")
    return next((kind for part, kind in ZIP_PARTS.items() if any(name.startswith(part) for name in names)), "=zip")


def _ole_type(data: bytes) -> str:
    """The kind of a compound file, from the names of its streams; of damaged ones wherever these stand."""
    try:
        with compound.open_compound(data) as container:
            names = compound.folders(container)[()]
    except Exception:  # olefile raises many kinds on damaged files
        names = [stream for stream in (ENCRYPTED, *OLE_STREAMS) if stream.encode("utf-16-le") in data]
    lowered = [name.lower() for name in names]
    if ENCRYPTED.lower() in lowered:
        raise NeedsPassword("this Office file is encrypted with a password", hint="save it without a password first")
    kinds = (kind for stream, kind in OLE_STREAMS.items() if any(name.startswith(stream.lower()) for name in lowered))
    return next(kinds, "an Office 97–2003 file")


def _text_format(text: str, name: str) -> str:
    """Which kind of text, from its first 64 KiB and, where that leaves a choice, its name."""
    if text.lstrip()[:5] == "{\\rtf":
        return "rtf"
    if text.lstrip()[:1] == "{" and '"cell_type"' in text and NOTEBOOK_CELLS.search(text):
        return "ipynb"
    if not name.endswith(SETTINGS_NAMES) and _is_mail(text):
        return "eml"
    if _is_html(text, name):
        return "html"
    if name.endswith((".tsv", ".tab")):
        return "tsv"
    if name.endswith(".csv"):
        return "csv"
    if name.endswith(MARKDOWN_NAMES):
        return "markdown"
    if name.endswith(".eml") and MAIL_LINE.match(text):
        return "eml"
    if "." in name.rsplit("/", 1)[-1]:
        return "text"  # .txt, .rst, .org, .log, .json, .py …
    return _nameless(text)


def _is_mail(text: str) -> bool:
    """Header lines from the first line on, two of them known from mail."""
    known: set[str] = set()
    lines = text[:20_000].lstrip("\n").split("\n")[:60]
    if lines[0].startswith("From ") and len(lines) > 1 and MAIL_LINE.match(lines[1]):
        lines = lines[1:]  # a mailbox
    for line in lines:
        if not line.strip():
            break
        if line[0] in " \t":
            continue
        found = MAIL_LINE.match(line)
        if found is None:
            return False
        known.add(found.group(1).lower())
    telling = {"from", "received", "message-id", "mime-version", "return-path", "delivered-to"}
    return len(known & MAIL_HEADERS) >= 2 and bool(known & telling)


def _is_html(text: str, name: str) -> bool:
    beginning = _without_comments(text[:8192])
    if re.match(r"<!doctype\s+(?!html)", beginning, re.I):
        return False
    if re.search(r"<html[\s>]", beginning[:4096], re.I) and beginning.startswith("<"):
        return True
    tags = len(HTML_TAG.findall(text[:20_000]))
    if name.endswith(HTML_NAMES):
        return tags >= 1
    return tags >= 3 and HTML_START.match(beginning) is not None and not name.endswith(MARKDOWN_NAMES)


def _without_comments(text: str) -> str:
    """The text from its first tag on, past the XML declaration and comments."""
    text = text.lstrip()
    for opening, closing in (("<?xml", "?>"), *[("<!--", "-->")] * 20):
        if text.startswith(opening):
            text = text[text.find(closing) + len(closing) :].lstrip() if closing in text else ""
    return text


def _nameless(text: str) -> str:
    """Text without a telling name: a table when every line has as many cells, Markdown when it shows its signs."""
    lines = [line for line in text.split("\n")[:200] if line.strip()]
    if len(text) >= HEAD // 4 and len(lines) > 3:
        lines = lines[:-1]  # may be cut off
    is_table = len(lines) >= 3 and len(lines[0]) < 5000 and not any(", " in line for line in lines[1:])
    for delimiter, least, kind in (("\t", 2, "tsv"), (",", 3, "csv"), (";", 3, "csv")) if is_table else ():
        with suppress(csv.Error):
            widths = {len(row) for row in csv.reader(lines, delimiter=delimiter)}
            if len(widths) == 1 and widths.pop() >= least:
                return kind
    signs = sum(1 for line in lines if re.match(r"#{1,6} \S|```|\* \[|- \[|\|[ :-]+\|", line))
    headings = sum(1 for line in lines if re.match(r"#{1,6} [A-Z]", line))
    return "markdown" if headings >= 1 and (signs >= 3 or "](http" in text) else "text"


# Not text: control characters other than tab and newline, halves of surrogate pairs, noncharacters.
UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
BREAKS = str.maketrans({"\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"})


def parse(data: bytes, name: str, options: ParseOptions, format: str | None = None) -> Parsed:
    """Reads one document of any format; raises DocumentError with one clear sentence when it cannot.

    The format is seen from the content unless the caller knows it: a text that a program hands in is a text.

    >>> parse(b"Hello", "note.txt", ParseOptions()).text
    'Hello'
    """
    format = format or sniff(data, name)
    place, kind = FORMATS[format]
    parser = cast(Parser, resolve_name(f"refdesk.parsers.{place}"))
    try:
        parsed = _cleaned(parser(data, options))
    except RefdeskError:
        raise
    except RecursionError as error:
        raise BrokenFile(f"this {kind} is nested too deeply to be read") from error
    except MemoryError as error:
        raise TooLarge(f"this {kind} needs more memory than there is") from error
    except (zipfile.BadZipFile, EOFError) as error:
        raise BrokenFile(f"this {kind} is truncated or damaged") from error
    except Exception as error:  # whatever a library raises on a damaged file
        raise BrokenFile(f"this {kind} is damaged and cannot be read ({type(error).__name__})") from error
    return _checked(parsed, options)


def _checked(parsed: Parsed, options: ParseOptions) -> Parsed:
    if len(parsed.text) > options.max_characters:
        raise TooLarge(f"the text has {len(parsed.text):,} characters, over the limit of {options.max_characters:,}")
    if len(parsed.pages) > options.max_pages:
        raise TooLarge(f"the document has {len(parsed.pages):,} pages, over the limit of {options.max_pages:,}")
    if not parsed.text.strip() and not parsed.children:
        note = f" ({'; '.join(parsed.notes)})" if parsed.notes else ""
        raise EmptyDocument(f"no text was found in the document{note}")
    return parsed


def _cleaned(parsed: Parsed) -> Parsed:
    """Takes out what is not text and moves every range accordingly, so that all texts can be written as UTF-8."""
    text = parsed.text.translate(BREAKS)
    removed = np.array([unwanted.start() for unwanted in UNWANTED.finditer(text)], np.int32)
    parsed = replace(
        parsed,
        text=UNWANTED.sub("", text) if len(removed) else text,
        title=_clean(parsed.title),
        metadata={_clean(key): _clean(value) for key, value in parsed.metadata.items()},
        notes=tuple(map(_clean, parsed.notes)),
        pages=tuple(replace(page, label=_clean(page.label)) for page in parsed.pages),
    )
    if not len(removed):
        return parsed

    def moved(position: int) -> int:
        return position - int(np.searchsorted(removed, position))

    blocks = [
        replace(
            block,
            start=moved(block.start),
            end=moved(block.end),
            header=block.header and (moved(block.header[0]), moved(block.header[1])),
            cells=block.cells if block.cells is None else _moved_cells(block.cells, removed),
        )
        for block in parsed.blocks
    ]
    geometry = parsed.geometry
    if geometry is not None:
        start, end = (
            (positions - np.searchsorted(removed, positions)).astype(np.int32)
            for positions in (geometry.start, geometry.end)
        )
        geometry = replace(geometry, start=start, end=end)
    return replace(
        parsed,
        pages=tuple(replace(page, start=moved(page.start), end=moved(page.end)) for page in parsed.pages),
        blocks=tuple(block for block in blocks if block.end > block.start),
        geometry=geometry,
    )


def _moved_cells(cells: NDArray[np.int32], removed: NDArray[np.int32]) -> NDArray[np.int32]:
    shift = np.searchsorted(removed, cells[:, 4:])
    return np.concatenate((cells[:, :4], cells[:, 4:] - shift), axis=1).astype(np.int32)


def _clean(text: str) -> str:
    return UNWANTED.sub("", text.translate(BREAKS))
