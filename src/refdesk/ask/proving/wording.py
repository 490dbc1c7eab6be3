"""Which words of a sentence carry its meaning? Words, the stems of content words, names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refdesk.ask.proving.figures import Quantity
from refdesk.terms import terms
from refdesk.text import STOP_WORDS

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[,.;:!?]")
_NAME = re.compile(r"(?<![\w’'])[A-Z][\w’'&.-]*\w")


def words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def content_stems(text: str, language: str = "en") -> tuple[str, ...]:
    kept = [word for word in words(text) if word[0].isalnum() and word not in STOP_WORDS]
    return tuple(dict.fromkeys(terms(" ".join(kept), language)))


def names(text: str, stated: Sequence[Quantity] = ()) -> tuple[str, ...]:
    """Capitalised words that are not so only because they begin a sentence, nor part of a figure.

    >>> names("The Bay of Fundy and NATO met. Then they left.")
    ('Bay', 'Fundy', 'NATO')
    """
    found = []
    for match in _NAME.finditer(text):
        word, before = match.group(), text[: match.start()].rstrip(" \"'“‘(*")
        begins = not before or before[-1] in ".!?:|\n•-"
        common = word.lower() in STOP_WORDS or (begins and not any(c.isupper() for c in word[1:]))
        if not common and not any(one.start <= match.start() < one.end for one in stated):
            parts = word.removesuffix("'s").removesuffix("’s").split("-")
            found += [part for part in parts if part[:1].isupper()]
    return tuple(dict.fromkeys(found))
