"""Whether a text denies something. Pure."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[,.;:!?]")
_NEGATORS = frozenset(
    (
        *("not", "no", "never", "none", "neither", "nor", "without", "cannot", "nobody", "nothing", "nowhere"),
        *("fail", "fails", "failed", "unable", "lack", "lacks", "lacked", "lacking", "absence", "nicht", "kein"),
    )
)  # fmt: skip
# They deny nothing, or deny a bound that is checked with its figure.
_IDIOMS = re.compile(
    r"\bnot (?:only|limited to|just|merely|necessarily)\b|\bwithout limitation\b|\bno (?:later|more|less|fewer) than\b"
    r"|\bnot (?:more|less|later) than\b|\bno doubt\b|\bwhether or not\b|\bif not\b",
    re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Also the marks between them, at which a negation ends; "don't" is one word."""
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def is_negation(word: str) -> bool:
    return word in _NEGATORS or word.endswith("n't")


def without_idioms(text: str) -> str:
    return _IDIOMS.sub(" ", text)


def is_negated(text: str) -> bool:
    """
    >>> is_negated("Acme did not buy it."), is_negated("Acme bought not only one.")
    (True, False)
    """
    return any(is_negation(word) for word in words(without_idioms(text)))
