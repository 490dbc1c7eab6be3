"""Which language is a document in? Decides how its words are stemmed."""

from __future__ import annotations

import re

from refdesk.terms import STEMMERS

DEFAULT = "en"
_SAMPLE = 4000  # characters from each of three places
_SHORTEST = 100  # Latin letters; fewer say too little to leave the default
# Small words that no neighbour shares: German has "in", "an", "was", "will", Dutch "of", "we", Danish "for", "at".
# fmt: off
_ENGLISH = frozenset({
    "the", "and", "that", "this", "these", "those", "which", "with", "from", "are", "were", "been", "has", "had",
    "would", "could", "should", "their", "they", "there", "when", "where", "what", "how", "than", "then", "its", "your",
})
# fmt: on
_ENGLISH_SHARE = 0.07  # of running English text .12 and more; of other languages .01
_KNOWN = frozenset(STEMMERS) | {"ja", "zh", "ko", "th", "he", "uk", "bg", "vi"}  # the last are told apart, not stemmed
_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str) -> str:
    """The ISO 639-1 code of a text; `en` when there is too little to tell.

    >>> detect_language("Der Hafenmeister hat die Gebühren für das nächste Jahr bereits festgelegt, " * 2)
    'de'
    """
    sample = text
    if len(text) > 3 * _SAMPLE:
        middle = len(text) // 2
        sample = "\n".join((text[:_SAMPLE], text[middle : middle + _SAMPLE], text[-_SAMPLE:]))
    words = _WORD.findall(sample.lower())
    latin = sum(len(word) for word in words if word < "\u0250")
    other = sum(map(len, words)) - latin
    if other <= latin and latin < _SHORTEST:
        return DEFAULT
    # Most documents are English and say so; the model takes most of a second to load.
    if sum(word in _ENGLISH for word in words) > _ENGLISH_SHARE * len(words):
        return DEFAULT
    import py3langid  # a model of a few megabytes, for documents that are not plainly English

    return next((code for code, _ in py3langid.rank(sample) if code in _KNOWN), DEFAULT)
