"""What did somebody mean who corrected himself while asking? Dictated questions hold "um" and "no, sorry, …". Pure.

"What is the mass no wait the weight of it?" -> "What is the weight of it?"
"""

from __future__ import annotations

import re

from refdesk.ask.understanding.phrases import phrases

_FILLER = re.compile(r"(?:^|(?<=\s))(?:um+|uh+|er+|erm+|hm+)[,.…]*(?=\s|$)\s*", re.IGNORECASE)
_HM = r"(?:um+|uh+|er+|erm+|hm+)"
_OR = (
    r"(?:no|sorry|wait|i mean(?:t)?|i should say|rather|actually|make that|scratch that|not that|excuse me|my bad"
    r"|better)"
)
# Only phrases that hardly mean anything else: "actually" or "rather" alone may be part of the question.
_SLIP = re.compile(
    rf"(?<![\s,;:.–—-])[\s,;:.–—-]+(?:no[\s,]+{_OR}|wait[\s,]+(?:no|my bad)|oh[\s,]+no|oops|sorry"
    rf"|or[\s,]+{_OR}|or[\s,]+{_HM}|actually[\s,]+no"
    rf"|{_HM}[\s,]+(?:{_OR}|like)|{_HM}[\s,]+(?=(?:wh\w+|how)\b)|i mean(?:t)?(?: to say)?|make that|scratch that"
    rf"|let me rephrase)(?:[\s,]+(?:{_OR}|instead|{_HM}))*[\s,;:–—-]+",
    re.IGNORECASE,
)
_OPENING = """
    what which who whom whose when where why how is are was were do does did can could would will should has have had in
    of to for at on by from
"""
_OPENERS = frozenset(_OPENING.split())
SHORT_TAIL = 5  # words said wrong, at most, when what follows goes on with the sentence


def fluent(text: str) -> str:
    """The question as it was meant; one without slips is given back unchanged."""
    found = text
    for _ in range(3):  # a slip within a slip
        slip = _SLIP.search(found)
        if slip is None or not slip.start():
            break
        before, after = found[: slip.start()].rstrip(" ,;:–—-"), found[slip.end() :].lstrip(" ,;:–—-")
        if not after.strip(" ?!."):
            break
        found = _mended(before, after)
    found = _FILLER.sub("", found)
    return found[:1].upper() + found[1:] if found != text else text


def _mended(before: str, after: str) -> str:
    said, meant = before.split(), after.split()
    opener = meant[0].lower()
    if opener in _OPENERS and len(meant) > 3 and _is_question(meant):
        return after  # begun anew
    place = _last(said, opener)
    if place is not None and len(said) - place <= SHORT_TAIL:
        return " ".join([*said[:place], *meant])  # "the Germans no sorry the French invade"
    if place is not None:  # said at the end: put where it belongs
        tail = meant[-1].rstrip("?!.")
        rest = said[place + len(meant) :]
        return " ".join([*said[:place], *meant[:-1], tail, *rest]).rstrip("?!.") + "?"
    named = [one for one in phrases(before) if one.end >= len(before) - 1]
    if named:  # "rock samples or rather electron microprobes": the last thing named was wrong
        return f"{before[: named[-1].start]}{after}"
    return " ".join([*said[:-1], *meant])


def _is_question(meant: list[str]) -> bool:
    """Begins with a question word, or with one after another word: "in which", "did when"."""
    return any(word.lower().startswith(("wh", "how")) for word in meant[:2])


def _last(said: list[str], word: str) -> int | None:
    places = [place for place, one in enumerate(said) if one.lower() == word]
    return places[-1] if places else None
