"""What are the words of a sentence, and the cells of a row? Pure.

`SentenceWords` knows where its terms stand, its numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice

from refdesk.terms import QUERY_STOP_WORDS, terms, terms_of_each
from refdesk.text import STOP_WORDS, word_list
from refdesk.types import Chunk

KEPT = 2048  # sentences remembered: those of a question are asked for again and again
STOP_TERMS = frozenset(terms(" ".join(STOP_WORDS | QUERY_STOP_WORDS)))
NUMBER_TERMS = frozenset(terms(" ".join(word_list("words", "number words"))))
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]+")

_PRONOUN = re.compile(
    r"(?:It|They|He|She|This|These|That|Those|Its|Their|His|Her|Such|Both|The (?:former|latter|two|three|same))\b"
)


class SentenceWords:
    """A sentence as words: its terms in their order, repeats kept, and as a set."""

    def __init__(self, text: str, language: str, stems: Sequence[str]) -> None:
        self.text, self.language, self.stems = text, language, stems
        self.terms = frozenset(stems)

    @cached_property
    def content(self) -> frozenset[str]:
        """Terms that are not stop words."""
        return self.terms - STOP_TERMS

    @cached_property
    def numbers(self) -> frozenset[str]:
        """ "1250", "seven"."""
        return frozenset([term for term in self.terms if term[0].isdigit()]) | (NUMBER_TERMS & self.terms)

    @cached_property
    def names(self) -> frozenset[str]:
        """Terms of capitalised words; the first word counts when it is no usual word."""
        found = [m.group() for m in _NAME.finditer(self.text) if m.start() or m.group().lower() not in STOP_WORDS]
        return frozenset(terms(" ".join(found), self.language)) if found else frozenset()

    @property
    def begins_with_pronoun(self) -> bool:
        """Then it can only be understood with the sentence before."""
        return _PRONOUN.match(self.text) is not None


_known: dict[tuple[str, str], SentenceWords] = {}


def read(text: str, language: str = "en") -> SentenceWords:
    """The sentence, read once.

    >>> sorted(read("The pier at Lodin Point stands in nine metres of water.").names)
    ['lodin', 'point']
    """
    return _known.get((text, language)) or read_all((text,), language)[text]


def read_all(texts: Iterable[str], language: str = "en") -> dict[str, SentenceWords]:
    """Sentences of one language; those that are not known yet are read in one pass."""
    found = {text: _known.get((text, language)) for text in texts}
    new = [text for text, one in found.items() if one is None]
    for text, stems in zip(new, terms_of_each(new, language), strict=True):
        found[text] = _known[text, language] = SentenceWords(text, language, stems)
    if len(_known) > KEPT:
        for key in list(islice(_known, len(_known) - KEPT // 2)):  # the oldest
            _known.pop(key, None)
    return found  # type: ignore[return-value]  # each has been read by now


# --- rows of tables: which of them name the columns, and what is each cell of a row called? --------------------------

CELLS = " | "  # between the cells of a row


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split(CELLS)]


def table_header(chunk: Chunk) -> slice:
    """The rows that head a table, and what stands above them: all up to the first row that has cells.

    "Prices", "item | euros", "paper | 3" -> slice(0, 2)

    A further row heads it too where it repeats the names of two columns, as one does below cells that were merged:
    "item | code | price | ", "item | code | net | gross".
    """
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    for place, row in enumerate(rows):
        if CELLS in row:
            stop = place + 1
            while stop < len(rows) and _repeats(cells(row), cells(rows[stop])):
                stop += 1
            return slice(0, stop)
    return slice(0, 0)


def named_cells(chunk: Chunk, sentence: int) -> list[tuple[str, str]]:
    """The cells of a row with the names of their columns; nothing where the header does not name them.

    "Country | Meals" over "Japan | 46" -> [("Country", "Japan"), ("Meals", "46")]
    """
    head = table_header(chunk).stop
    if chunk.kind != "table" or not 0 < head <= sentence:
        return []
    names: list[str] = []
    for first, last, *_ in chunk.sentences[:head]:
        if CELLS in chunk.text[first:last]:
            names = _below(names, cells(chunk.text[first:last]))
    start, end = chunk.sentences[sentence][:2]
    own = cells(chunk.text[start:end])
    if len(names) != len(own) or not all(any(letter.isalpha() for letter in name) for name in names if name):
        return []
    return [(name, cell) for name, cell in zip(names, own, strict=True) if cell]


def _repeats(above: list[str], row: list[str]) -> bool:
    """Whether two columns have the same words in both."""
    same = [one for one, other in zip(above, row, strict=False) if one == other and any(map(str.isalpha, one))]
    return len(above) == len(row) and len(same) >= 2


def _below(above: list[str], row: list[str]) -> list[str]:
    """The names of columns under names that may stand for several of them.

    ["item", "price", ""] over ["item", "net", "gross"] -> ["item", "price net", "price gross"]

    A name that is repeated below it, as "item" is, stands for its own column alone.
    """
    if len(above) != len(row):
        return row
    names, last = [], ""
    for over, name in zip(above, row, strict=True):
        if over:
            last = "" if over == name else over
        names.append(f"{last} {name}".strip() if name else over)
    return names
