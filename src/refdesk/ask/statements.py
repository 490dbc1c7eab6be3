"""Which sentences of an answer claim something, and which markers does each carry? Pure.

"The anchor weighs 350 kg. [1] I hope this helps!" -> one claim, "The anchor weighs 350 kg.", with the marker 1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from refdesk.ask.citations import closes_fence, outside_code
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.text import Range, sentences

MARKER = re.compile(r"\[(\d{1,4})\]")
MARKERS = re.compile(r"(?<![^\S\n])(?:[^\S\n]*+\[\d{1,4}\])+")
_LEADING = re.compile(r"(?:\[\d{1,4}\]\s*)+[.;,]?")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_ITEM = re.compile(r"[ \t]*(?:>[ \t]*)*(?:[-*+•‣◦▪–·]|\(?\d{1,3}[.)]|[a-zA-Z][.)])[ \t]+|[ \t]*>[ \t]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s*(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__)\s*+(?::\s*+)?$|\s*[-*_=]{3,}\s*$")
_TABLE_LINE = re.compile(r"(?=[^\n]*--)[ \t:|-]+$")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|`")
_LINK = re.compile(r"!?\[([^\]\n]{0,600})\]\([^)\n]{0,600}\)")
_SMALL_TALK = re.compile(
    r"(?:here (?:is|are)|here's|below (?:is|are)|the following|based on|according to|in summary|in short|overall"
    r"|to summari[sz]e|i hope|let me know|feel free|hope this|sure|certainly|hello|hi|dear|thanks|thank you"
    r"|of course|in conclusion|as follows|note that|key points|please|if you)\b",
    re.IGNORECASE,
)
_TEXTS = (
    r"(?:documents?|passages?|sources?|context|texts?|excerpts?"
    r"|(?:provided |given |available )?(?:information|material|files?))"
)
_NOT = r"(?:\s+not|n['’]t)"
_REFUSAL = re.compile(
    rf"{re.escape(NOT_IN_DOCUMENTS.rstrip(' .'))}"
    rf"|(?:unfortunately,?\s+)?(?:the|these|those|your)\s+(?:\w+\s+){{0,2}}{_TEXTS}\s+(?:\w+\s+){{0,3}}?"
    rf"(?:(?:do|does|did|is|are){_NOT}|cannot|never|lacks?)\b"
    rf"|(?:unfortunately,?\s+)?(?:none of the|no)\s+(?:\w+\s+){{0,2}}{_TEXTS}\b"
    rf"|(?:i|we)\s+(?:could{_NOT}|can{_NOT}|cannot|can['’]t|did{_NOT}|do{_NOT}|was unable to|am unable to)"
    r"\s+(?:find|answer|determine|have|know|see)"
    rf"|.{{0,80}}\b(?:is|are|was|were){_NOT}\s+(?:\w+\s+)?"
    r"(?:mentioned|stated|specified|given|provided|covered|said|found|described)"
    rf"\s+(?:\w+\s+){{0,3}}{_TEXTS}",
    re.IGNORECASE,
)  # "The provided passages do not mention the crew.", "I could not find …", "… is not stated in the documents"


@dataclass(frozen=True, slots=True)
class ClaimText:
    """A claim before it is checked: characters `start..end` of the content, its markers within."""

    text: str  # without markers, bullets and emphasis
    start: int
    end: int
    markers: tuple[int, ...]


def statements(content: str) -> list[ClaimText]:
    """The claims of a content in order."""
    found: list[ClaimText] = []
    visible = outside_code(content)
    for start, end, is_row in _blocks(content):
        ranges = [(start, end)] if is_row else _sentences(content, start, end)
        for low, high in ranges:
            text = _bare(content[low:high], visible[low:high])
            markers = tuple(dict.fromkeys(int(one) for one in MARKER.findall(visible[low:high])))
            if _claims_something(text, bool(markers)):
                found.append(ClaimText(text, low, high, markers))
    return found


def is_refusal(text: str) -> bool:
    """An honest "the documents do not say", which needs no proof."""
    return _REFUSAL.match(text.strip()) is not None


def _blocks(content: str) -> Iterator[tuple[int, int, bool]]:
    """Paragraphs, list items and table rows, as (start, end, is it a row?); code and headings left out."""
    fence, opened = "", None
    position = 0
    lines = content.split("\n")
    for number, line in enumerate(lines):
        start, position = position, position + len(line) + 1
        border = _FENCE.match(line)
        if fence or border:
            if opened is not None:
                yield opened, start, False
                opened = None
            if border and not fence:
                fence = border[1]
            elif closes_fence(line, fence):
                fence = ""
            continue
        item = _ITEM.match(line)
        is_row = line.count("|") > 1 and line.strip().startswith("|")
        breaks = not line.strip() or item or is_row or _HEADING.match(line) or _TABLE_LINE.match(line)
        if breaks and opened is not None:
            yield opened, start, False
            opened = None
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if is_row and not _TABLE_LINE.match(line) and not _TABLE_LINE.match(following):
            yield start + len(line) - len(line.lstrip()), start + len(line.rstrip()), True
        elif item and not _HEADING.match(line[item.end() :]):
            opened = start + item.end()
        elif not breaks and opened is None:
            opened = start
    if opened is not None:
        yield opened, len(content), False


def _sentences(content: str, start: int, end: int) -> list[Range]:
    """Sentences of a block; markers that stand after the full stop stay with the sentence before them."""
    found: list[Range] = []
    for low, high in sentences(content[start:end]):
        low, high = start + low, start + high
        leading = _LEADING.match(content, low, high)
        if leading and found:
            stop = len(content[: leading.end()].rstrip())
            found[-1] = (found[-1][0], stop)
            low = leading.end() + len(content[leading.end() : high]) - len(content[leading.end() : high].lstrip())
        if high > low:
            found.append((low, high))
    return found


def _bare(text: str, visible: str) -> str:
    """The words alone; brackets in code are words."""
    for match in reversed(list(MARKERS.finditer(visible))):
        text = text[: match.start()] + text[match.end() :]
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", text))
    if text.lstrip().startswith("|"):
        text = " | ".join(cell.strip() for cell in text.strip().strip("|").split("|"))
    text = " ".join(text.split())
    return re.sub(r"(?<!\s)\s+([.,;:!?])", r"\1", text)


def _claims_something(text: str, has_markers: bool) -> bool:
    words = re.findall(r"\w+", text)
    if len(words) < 2 and not has_markers:
        return False
    if not words or text.endswith("?") or is_refusal(text):
        return False
    if has_markers:
        return True
    if text.endswith(":"):
        return len(words) > 20
    return not (_SMALL_TALK.match(text) and len(words) < 12 and not any(word[0].isdigit() for word in words))
