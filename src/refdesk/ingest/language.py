"""Which language is a document in? Decides how its words are stemmed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from refdesk.terms import STEMMERS, STOP_WORDS

DEFAULT = "en"
_SAMPLE = 4000  # characters from each of three places
_SHORTEST = 40  # letters; fewer say too little to leave the default
_ENGLISH_SHARE = 0.18  # of running English text; German or French stay under .06 (their "in", "on", "as", "me", "are")
_OTHERS = ("ja", "zh", "ko", "th", "he", "uk", "bg", "vi")  # not stemmed, but worth telling apart
_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str) -> str:
    """The ISO 639-1 code of a text; `en` when there is too little to tell.

    >>> detect_language("Der Hafenmeister hat die Gebühren für das nächste Jahr bereits festgelegt.")
    'de'
    """
    sample = text
    if len(text) > 3 * _SAMPLE:
        middle = len(text) // 2
        sample = "\n".join((text[:_SAMPLE], text[middle : middle + _SAMPLE], text[-_SAMPLE:]))
    words = _WORD.findall(sample.lower())
    if sum(map(len, words)) < _SHORTEST and all(word.isascii() for word in words):
        return DEFAULT
    # Most documents are English and say so; the model takes most of a second to load.
    if words and sum(word in STOP_WORDS for word in words) / len(words) > _ENGLISH_SHARE:
        return DEFAULT
    return str(_classifier().classify(sample)[0]) if words else DEFAULT


@lru_cache(maxsize=1)
def _classifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # a model of a few megabytes

    identifier = LanguageIdentifier.from_pickled_model(MODEL_FILE)
    identifier.set_languages([code for code in (*STEMMERS, *_OTHERS) if code in identifier.nb_classes])
    return identifier
