"""What does the program say itself around what documents say, and in which language? In that of the question. Pure.

>>> said("missing", "Wie schwer ist die Boje?")
'Das steht nicht in den Dokumenten.'
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from typing import Any

from refdesk.text import ASSETS

DEFAULT = "en"
FEWEST = 2  # small words of a language by which it is told
SHARE = 0.25  # of the words of a question

_WORD = re.compile(r"[^\W\d_]+")


@cache
def _languages() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Any] = json.loads((ASSETS / "frames.json").read_text(encoding="utf-8"))["languages"]
    return {code: {**frames, "words": frozenset(frames["words"])} for code, frames in found.items()}


@lru_cache(maxsize=256)
def language_of(question: str) -> str:
    """The code of the language that it is asked in, "" where its words do not tell.

    A word that several languages have counts less for each; English wins a draw, for names are written everywhere.
    """
    tokens = _WORD.findall(question.lower())
    languages = _languages()
    holders = [[code for code, frames in languages.items() if token in frames["words"]] for token in tokens]
    worth = {code: sum(1.0 / len(own) for own in holders if code in own) for code in languages}
    best = max(worth, key=lambda code: (worth[code], code == DEFAULT))
    count = sum(best in own for own in holders)
    return best if count >= max(FEWEST, SHARE * len(tokens)) else ""


def said(name: str, question: str) -> str:
    """The frame of this name in the language of the question; in English where there is none."""
    found: str = _languages()[language_of(question) or DEFAULT][name]
    return found


def names_several(text: str) -> bool:
    """`Germany and Austria`; in every language, for it is the document's."""
    joints = {frames["last"] for frames in _languages().values()}
    return any(sign in text for sign in ",;") or not joints.isdisjoint(text.split())


def is_missing(content: str) -> bool:
    """Does it say, in any language, that the documents do not say it?"""
    return content.startswith(tuple(frames["missing"] for frames in _languages().values()))


def other_language(question: str, written: Collection[str]) -> str:
    """What is said where a question is asked in another language than the documents are written in; "" elsewhere."""
    asked = language_of(question)
    if not asked or not written or asked in {code or DEFAULT for code in written}:
        return ""
    frames = _languages()[asked]
    names = list(dict.fromkeys(frames["languages"].get(code or DEFAULT, code) for code in sorted(written)))
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {frames['last']} {names[-1]}"
    told: str = frames["other"].format(asked=frames["languages"][asked], written=listed)
    return told
