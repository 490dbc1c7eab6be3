"""Bytes in, `Parsed` out: which parser reads which format, and what every result must satisfy."""

from __future__ import annotations

import re
import zipfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import cast

import numpy as np

from refdesk.errors import BrokenFile, EmptyDocument, RefdeskError, TooLarge
from refdesk.geometry import Geometry
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.sniff import sniff
from refdesk.types import Parsed, Range

Parser = Callable[[bytes, ParseOptions], Parsed]

# Every module has `parse(data, options)`; it is imported when its format is first met.
PARSERS = {
    "pdf": "pdf",
    "image": "image",
    "docx": "docx",
    "pptx": "pptx",
    "xlsx": "xlsx",
    "csv": "delimited",
    "tsv": "delimited",
    "html": "html",
    "markdown": "markdown",
    "text": "plain",
    "eml": "mail",
    "epub": "epub",
}
NAMES = {
    "pdf": "PDF file",
    "image": "image",
    "docx": "Word document",
    "pptx": "PowerPoint presentation",
    "xlsx": "Excel workbook",
    "csv": "CSV file",
    "tsv": "TSV file",
    "html": "web page",
    "markdown": "Markdown file",
    "text": "text file",
    "eml": "mail",
    "epub": "e-book",
}

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
    parser = cast(Parser, import_module(f"refdesk.ingest.parsers.{PARSERS[format]}").parse)
    try:
        parsed = _cleaned(parser(data, options))
    except RefdeskError:
        raise
    except RecursionError as error:
        raise BrokenFile(f"this {NAMES[format]} is nested too deeply to be read") from error
    except MemoryError as error:
        raise TooLarge(f"this {NAMES[format]} needs more memory than there is") from error
    except (zipfile.BadZipFile, EOFError) as error:
        raise BrokenFile(f"this {NAMES[format]} is cut off or damaged") from error
    except Exception as error:  # whatever a library raises on a damaged file
        raise BrokenFile(f"this {NAMES[format]} is damaged and cannot be read ({type(error).__name__})") from error
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
    text = (
        parsed.text.translate(BREAKS)
        if not parsed.text.isascii() or "\x0b" in parsed.text or "\x0c" in parsed.text
        else parsed.text
    )
    parsed = replace(
        parsed,
        text=text,
        title=_clean(parsed.title),
        metadata={_clean(key): _clean(value) for key, value in parsed.metadata.items()},
        notes=tuple(_clean(note) for note in parsed.notes),
        pages=tuple(
            replace(page, label=_clean(page.label)) if UNWANTED.search(page.label) else page for page in parsed.pages
        ),
    )
    removed = [found.start() for found in UNWANTED.finditer(text)]
    if not removed:
        return parsed

    def moved(position: int) -> int:
        return position - bisect_left(removed, position)

    def moved_range(old: Range | None) -> Range | None:
        return None if old is None else (moved(old[0]), moved(old[1]))

    blocks = [
        replace(block, start=moved(block.start), end=moved(block.end), header=moved_range(block.header))
        for block in parsed.blocks
    ]
    return replace(
        parsed,
        text=UNWANTED.sub("", text),
        pages=tuple(replace(page, start=moved(page.start), end=moved(page.end)) for page in parsed.pages),
        blocks=tuple(block for block in blocks if block.end > block.start),
        geometry=_moved_geometry(parsed.geometry, removed),
    )


def _moved_geometry(geometry: Geometry | None, removed: list[int]) -> Geometry | None:
    if geometry is None:
        return None
    positions = np.array(removed, dtype=np.int32)
    start = (geometry.start - np.searchsorted(positions, geometry.start)).astype(np.int32)
    end = (geometry.end - np.searchsorted(positions, geometry.end)).astype(np.int32)
    return replace(geometry, start=start, end=end)


def _clean(text: str) -> str:
    return UNWANTED.sub("", text.translate(BREAKS))
