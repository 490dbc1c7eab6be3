"""Can the text layer of a PDF page be text? A font may number its glyphs without saying which letters they show. Pure.

Measured: on 673 pages of 122 PDFs at most .06 characters without a meaning stand beside each that has one, on the pages
of a bad file 1.6 and more; 4,421 pages with at least 200 Latin letters have .24 to .45 vowels among them.
"""

from __future__ import annotations

import unicodedata
from string import ascii_lowercase

from refdesk.ingest.parsers.pdf_page import PageText

FEW_CHARACTERS = 12  # a stamp or page number on a scan is no text layer
UNREADABLE = 0.4  # share of characters without meaning: the text layer is garbage
FEW_LETTERS = 200  # Latin ones; fewer may be the codes of a parts list
VOWELS = "aeiouy"
LEAST_VOWELS, MOST_VOWELS = 0.2, 0.6  # share of Latin letters


def has_no_letters(content: PageText) -> bool:
    """Most characters are control codes, glyphs without Unicode or private ones."""
    return content.unreadable >= FEW_CHARACTERS and content.unreadable > UNREADABLE * content.characters


def has_no_language(content: PageText) -> bool:
    """Letters, but not those of a language: fonts that shift the alphabet leave too few vowels, or too many."""
    text = "".join(content.words.text).lower()
    if not _is_odd(text):
        return False
    return _is_odd(unicodedata.normalize("NFD", text))  # ế and ồ are vowels too


def _is_odd(text: str) -> bool:
    letters = sum(map(text.count, ascii_lowercase))
    if letters < FEW_LETTERS or letters < len(text) / 2:
        return False
    return not LEAST_VOWELS * letters <= sum(map(text.count, VOWELS)) <= MOST_VOWELS * letters
