"""What stands below the answer of a tiny model? The sentences of the documents that the reader chose.

Such a model is often wrong where the reader is right, at times right where the reader is wrong, and what it writes may
be proved by the sentence it cites without answering the question: a person sees both, each with its source.
"""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.ask.citations import without_markers
from refdesk.ask.extract import Quote
from refdesk.text import fold

HEAD = "In the documents:"


def with_quotes(content: str, quotes: Sequence[Quote]) -> str:
    """The content, its markers being numbers of passages; below it the quotes that it does not hold word for word."""
    said = _words(content)
    lines = [
        f"> {' '.join(without_markers(quote.text).split())} [{quote.passage}]"
        for quote in quotes
        if _words(quote.text) not in said
    ]
    return "\n\n".join([content, HEAD, *lines]) if lines else content


def _words(text: str) -> str:
    return f" {' '.join(''.join(letter if letter.isalnum() else ' ' for letter in fold(text)).split())} "
