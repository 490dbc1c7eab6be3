"""What a document calls someone: a contract says "the Employee" of Naomi Osei, so a question about her is asked of that
role, and of that document alone: in the next contract the Employee is somebody else. Pure.

`between Fernhill Dairy Ltd (the "Employer") and Naomi Osei, of 4 Weir Court (the "Employee")`:
"How much does Naomi earn?" -> "How much does the Employee earn?"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refdesk.answer import Retrieved
from refdesk.ask.no_answer import TOLD
from refdesk.ask.sentences import question_words
from refdesk.ask.wording import STOP_TERMS
from refdesk.text import terms

# (the "Employee"), (hereinafter referred to as the “Seller”); without the article it is but a short form of a name.
_ROLE = re.compile(r"\((?:[^()\"“”]{0,40}\s)?the [\"“]([A-Z][^()\"“”]{1,40})[\"”]\)")
_NAME = re.compile(r"[^\W\d_a-z][\w'’.-]*(?:\s+[^\W\d_a-z][\w'’.-]*)*")
_WORD = re.compile(r"[\w-]+(?:['’]\w+)?")
_POSSESSIVE = re.compile(r"['’]s?$")


def in_role(question: str, retrieved: Retrieved) -> tuple[str, str] | None:
    """(the question asked of the role, the document that gives it); None where no name of it has just one role, where
    a passage that says the name answers already, or where documents are called by it: "the Company" of a report is
    whoever its title names, and there are reports of other years.
    """
    asked = question_words(question)
    names = asked.named - asked.sentence.numbers - STOP_TERMS
    texts = [(hit.document.id, hit.chunk.text) for hit in retrieved.considered]
    found = {
        (start, end, role, document)
        for start, end in _runs(question, names)
        for document, text in texts
        for role in _roles(text, frozenset(terms(question[start:end])))
        if any(
            role.lower() in other.lower() for owner, other in texts if owner == document
        )  # it is spoken of under this name
    }
    if len(found) != 1:
        return None
    start, end, role, document = found.pop()
    name = frozenset(terms(question[start:end]))
    called = _letters(_POSSESSIVE.sub("", question[start:end]))
    if any(called in _letters(f"{hit.document.name} {hit.document.title}") for hit in retrieved.considered):
        return None
    saying = [hit.chunk.id for hit in retrieved.considered if name <= frozenset(terms(hit.chunk.text))]
    if any(retrieved.readings[one].answered >= TOLD for one in saying if one in retrieved.readings):
        return None
    possessive = _POSSESSIVE.search(question[start:end])
    return f"{question[:start]}{role}{possessive[0] if possessive else ''}{question[end:]}", document


def _letters(text: str) -> str:
    """`Best Buy` stands in `BESTBUY_2019_10K.pdf`."""
    return "".join(filter(str.isalnum, text)).lower()


def _runs(question: str, names: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where the names of the question stand, words side by side together."""
    start = end = -1
    for word in _WORD.finditer(question):
        if names.isdisjoint(terms(word[0])):
            continue
        if start >= 0 and question[end : word.start()].strip():
            yield start, end
            start = -1
        start, end = (word.start() if start < 0 else start), word.end()
    if start >= 0:
        yield start, end


def _roles(text: str, name: frozenset[str]) -> Iterator[str]:
    """What the text calls whoever has this name: the role in the first brackets behind it."""
    last = 0
    for role in _ROLE.finditer(text):
        named = _NAME.findall(text[last : role.start()])
        last = role.end()
        if any(name <= frozenset(terms(one)) for one in named):
            yield f"the {role[1]}"
