"""Is the answer yes or no? Only where a sentence says just what is asked, or just that it is not so.

"Does the archive writer restart by itself?", "The archive writer does not restart by itself, because …" -> "No."

In every doubt there is neither: the sentence is quoted, and who asked can see what it means. So a clause must hold the
question's words in their order, no other word between them, its numbers, and none that limits it to some. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.ask.wording import MEANT, PART, asks_yes_or_no, read
from refdesk.negation import is_negated
from refdesk.text import terms, words

YES, NO = "Yes.", "No."
MOST_BEHIND = 2  # words that say something behind those of the question

_MEANT_TERMS = frozenset(terms(" ".join(MEANT)))


def yes_or_no(question: str, sentences: Sequence[str]) -> str:
    """What one of these sentences says for certain; "" where none does, or where they disagree."""
    if not asks_yes_or_no(question) or is_negated(question):
        return ""
    found = {says for sentence in sentences for clause in PART.split(sentence) if (says := _says(question, clause))}
    return found.pop() if len(found) == 1 else ""


def _says(question: str, clause: str) -> str:
    asked, own = read(question), read(clause)
    content = [term for term in asked.stems if term in asked.content - _MEANT_TERMS]
    both = [term for term in own.stems if term in own.content - _MEANT_TERMS]
    if not content or asked.numbers != own.numbers:
        return ""
    at = next((place for place in range(len(both)) if both[place : place + len(content)] == content), None)
    if at != 0 or len(both) - len(content) > MOST_BEHIND:
        return ""
    limits = {word for word in words(clause) if word in MEANT} - set(words(question))
    negated = is_negated(clause)
    if negated:
        limits = {word for word in limits if not is_negated(word)}
    if limits or not terms(clause):
        return ""
    return NO if negated else YES
