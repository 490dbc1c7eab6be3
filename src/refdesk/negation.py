"""Whether a text denies something. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from refdesk.text import terms

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[,.;:!?]")
_NEGATORS = frozenset(
    (
        *("not", "no", "never", "none", "neither", "nor", "without", "cannot", "nobody", "nothing", "nowhere"),
        *("nicht", "kein"),
    )
)  # fmt: skip
_LACKING = frozenset(terms("fail unable lack absence"))
# They deny nothing, or deny a bound that is checked with its figure.
_IDIOMS = re.compile(
    r"\bnot (?:only|limited to|just|necessarily)\b|\bnot? (?:later|more|less|fewer) than\b|\bwithout limitation\b"
    r"|\bno doubt\b|\b(?:whether or|if) not\b",
    re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Also the marks between them, at which a negation ends; "don't" is one word."""
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


@lru_cache(maxsize=2048)
def is_negation(word: str) -> bool:
    return word in _NEGATORS or word.endswith("n't") or not _LACKING.isdisjoint(terms(word))


def without_idioms(text: str) -> str:
    return _IDIOMS.sub(" ", text)


def is_negated(text: str) -> bool:
    """
    >>> is_negated("Acme did not buy it."), is_negated("Acme bought not only one.")
    (True, False)
    """
    return any(is_negation(word) for word in words(without_idioms(text)))
