"""Reads citation markers from a text stream and says what can be shown so far; any token boundary works. Pure.

    "Growth was 4 % [Source 3, 9]. It is warm [12]."  ->  "Growth was 4 % [1]. It is warm."   order == (3,)

Known markers are written as `[1][2]`, numbered by first use, none twice in a row of them; unknown ones go, and the
space before them. Text is held back only while it may still become a marker: a bracket, an inline code span, the
first characters of a line.

Decisions (each has its test):
- Code (fences, and spans that close on their line) stays as it is; brackets in it are not citations.
- Markdown links and images stay whole, unless their text is a marker: then both go, for a link is no passage.
- `[1]: http…` and `[^1]: …` at the start of a line are definitions of notes: the line goes. So does a closing list
  of "Sources:", which the answer carries itself, checked.
- A number right after a word (`growth[1].`) is a marker; an index (`rows[3] = x`, `a_b[3]`, `list[3]`) is not and is
  written `rows[ 3 ]`, so that every `[n]` outside code is a citation.
- `(Source 1)` is a marker; `(1)` is not.
- A bracketed title that no passage owns goes at the end of a clause, and loses its brackets within one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from refdesk.answer import Context
from refdesk.ask.citations import (
    CLOSE,
    FENCE,
    LONGEST,
    OPEN,
    CitationResolver,
    closes_fence,
    outside_code,
    run_length,
    span_end,
)
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.text import sentences, title_lines, words
from refdesk.types import Range

# What has been shown of an answer, and what waits until the next character is known?

AFTER_DROPPED = ".,;:!?)]}»”’…。、"


class MarkerWriter:
    """The writing half of the marker stream."""

    def __init__(self) -> None:
        self.order: dict[int, int] = {}  # passage -> marker
        self.group: set[int] = set()  # markers in the row that is being written
        self.space = ""  # before the next character, unless that is a marker which goes
        self.dropped = False  # a marker went right before
        self.opened: str | None = None  # shown since a bracket that was no marker
        self.in_angle = False  # after a "<" of this line: an address there may hold a back-tick
        self._tail = ""  # the last characters shown
        self._parts: list[str] = []

    def take(self) -> str:
        """What was written since the last time."""
        text = "".join(self._parts)
        self._parts.clear()
        return text

    def finish(self) -> str:
        return self.take() + ("" if self.dropped else self.space)

    # --- where in the text is it? -------------------------------------------------------------------------------------

    @property
    def at_line_start(self) -> bool:
        return self._tail[-1:] in ("", "\n")

    @property
    def is_attached(self) -> bool:
        """Would the next character follow a word without a space?"""
        return not self.space and (self._tail[-1:].isalnum() or self._tail[-1:] == "_")

    @property
    def is_after_sentence(self) -> bool:
        return bool(self.space) and self._tail[-1:] in (".", "!", "?", "…")

    @property
    def word(self) -> str:
        return "".join(takewhile(lambda letter: letter.isalnum() or letter == "_", reversed(self._tail)))[::-1]

    # --- what comes ---------------------------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """Text that is no marker, after the space that waits."""
        if self.dropped and self.space and (text[0] == "\n" or text[0] in AFTER_DROPPED):
            self.space = ""
        if self.dropped and not self.space and text[0] == "`" and self._tail[-1:] == "`":
            self.space = " "  # two runs of back-ticks would become one
        text = self.space + text
        self.space, self.dropped = "", False
        self.group.clear()
        self.raw(text)
        if self.opened is not None:
            self.opened += text

    def spaces(self, spaces: str) -> None:
        if not self.dropped:
            self.space += spaces
        elif not self.space and not self.at_line_start:
            self.space = " "

    def markers(self, owned: tuple[int, ...]) -> None:
        """The markers of these passages, or nothing and no space before it."""
        fresh = []
        for passage in owned:
            marker = self.order.setdefault(passage, len(self.order) + 1)
            if marker not in self.group:
                self.group.add(marker)
                fresh.append(f"[{marker}]")
        if not fresh:
            self.dropped = True
            return
        text = self.space + "".join(fresh)
        self.space, self.dropped = "", False
        self.raw(text)
        if self.opened is not None:
            self.opened += text

    def raw(self, text: str) -> None:
        """As it is: code."""
        self._parts.append(text)
        self._tail = (self._tail + text)[-48:]
        opened, closed = text.rfind("<"), max(text.rfind(">"), text.rfind("\n"))
        if opened != closed:  # one of them is there
            self.in_angle = opened > closed


_LONGEST_LINK = 600
_LONGEST_LABEL = 40
_OPENER, _CLOSER = re.compile(OPEN), re.compile(CLOSE)
_EDGE = re.compile(rf"(?P<open>{OPEN})|(?P<close>{CLOSE})|(?P<blank>\n[^\S\n]*\n)")
_PARTIAL_ENTITY = re.compile(r"&(?:#[xX]?[0-9a-fA-F]{0,6}|[lr][a-z]{0,6})?\Z")
_PLAIN = re.compile(r"[^\s\\\[\]【】［］〔〕⟦⟧&`(!]+")
_SPACES = re.compile(r"[^\S\n]+")
_GAP = r"[^\S\n]"
_TITLE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\))"
_LINK = re.compile(
    rf"\({_GAP}*+(?:(?:<[^<>\n]*>|(?:[^\s()]|\([^\s()]*\))++)(?:{_GAP}++{_TITLE})?|(?<!\(){_TITLE}|){_GAP}*+\)"
)
_ROUND_WORDS = ("source", "passage")
_ROUND = re.compile(
    r"\((?:sources?|passages?)\s*+(?:[:#]\s*+)?\d++(?:\s*+(?:[,;&–-]|and)\s*+(?:(?:source|passage)s?\s*+)?\d++)*\s*+\)",
    re.I,
)
_LISTS = frozenset(
    f"{word}{ending}"
    for word in ("source", "reference", "citation", "bibliography", "sources used", "sources cited", "works cited")
    for ending in ("", "s")
)
_INDEXED = frozenset(
    ("array", "arr", "list", "args", "argv", "matrix", "vec", "vector", "tuple", "dict", "buf", "rows")
)
_ADDRESS = re.compile(r"[^\S\n]*(?:(?:https?|ftp|mailto|file):|www\.|[<#/.])", re.IGNORECASE)
_ENCODED = {ord(character): f"%{ord(character):02X}" for character in "[]`"}

_MORE = -1  # the buffer does not yet decide


class MarkerStream:
    """Reads the markers of one answer. `feed` gives what may be shown now, `finish` what was still held back."""

    def __init__(self, context: Context) -> None:
        self._resolver = CitationResolver(context)
        self._shown = MarkerWriter()
        self._buffer = ""
        self._final = False
        self._fence = ""  # of the code block that is open
        self._doubled = 0  # brackets around a marker that went: [[1]]
        self._in_sources = False

    @property
    def order(self) -> tuple[int, ...]:
        """Passages by first use: marker i + 1 is passage order[i]."""
        return tuple(self._shown.order)

    def feed(self, text: str) -> str:
        self._buffer += text
        self._drain()
        return self._shown.take()

    def finish(self) -> str:
        self._final = True
        self._drain()
        return self._shown.finish()

    def _drain(self) -> None:
        while self._buffer:
            taken = self._step()
            if taken == _MORE:
                break
            self._buffer = self._buffer[taken:]

    # --- one step: characters taken from the buffer, or _MORE ---------------------------------------------------------

    def _step(self) -> int:
        buffer = self._buffer
        if self._fence:
            return self._fenced()
        if (
            self._shown.at_line_start
            and not self._shown.space
            and not self._shown.dropped
            and (taken := self._line_start())
        ):
            return taken
        if match := _SPACES.match(buffer):
            self._shown.spaces(match.group())
            return match.end()
        if buffer[0] == "\n":
            self._show("\n")
            return 1
        if buffer[0] == "`":
            return self._code_span()
        if buffer[0] == "(":
            return self._round_bracket()
        if buffer[0] == "&" and not self._final and _PARTIAL_ENTITY.match(buffer):
            return _MORE
        if buffer[0] == "\\" and len(buffer) < 2 and not self._final:
            return _MORE
        if match := _OPENER.match(buffer):
            return self._bracket(match.end())
        if match := _CLOSER.match(buffer):
            return self._stray_closer(match.group())
        if buffer[0] == "\\":
            taken = 2 if buffer[1:2] == "`" else 1  # an escaped back-tick opens no code
            self._show(buffer[:taken])
            return taken
        if buffer[0] == "!" and not self._final and len(buffer) < 2:
            return _MORE
        if buffer.startswith("!["):
            return self._image()
        if match := _PLAIN.match(buffer):
            self._show(match.group())
            return match.end()
        self._show(buffer[0])
        return 1

    def _fenced(self) -> int:
        """A line of a code block, as it is."""
        line, newline, _ = self._buffer.partition("\n")
        if self._shown.at_line_start:  # only here may the fence close
            if not newline and not self._final and not line.strip(f" {self._fence}"):
                return _MORE
            if (newline or self._final) and closes_fence(line, self._fence):
                self._fence = ""
        self._shown.raw(line + newline)
        return len(line) + len(newline)

    def _line_start(self) -> int:
        """A fence, the answer's own list of sources, or nothing special (0)."""
        line, newline, _ = self._buffer.partition("\n")
        whole = bool(newline) or self._final
        if self._in_sources:
            first = line.lstrip(" \t*_")[:1]
            if not first and not whole:
                return _MORE
            if not first or first in "-•[【(<" or first.isdigit() or line.lstrip()[:1] == "*":
                return self._skip_line()
            self._in_sources = False
        return self._fence_start(line, newline, whole) or self._sources_start(line, newline, whole)

    def _fence_start(self, line: str, newline: str, whole: bool) -> int:
        bare = line.lstrip(" ")
        if len(line) - len(bare) > 3 or bare[:1] not in ("", "`", "~"):
            return 0
        if not whole and (bare == "" or (len(bare) < 3 and set(bare) == {bare[0]})):
            return _MORE
        if bare[:3] not in ("```", "~~~"):
            return 0
        if not whole and len(line) < LONGEST:
            return _MORE
        match = FENCE.match(line + newline)
        if not match:
            return 0
        self._fence = match[1]
        self._shown.raw(line + newline)
        return len(line) + len(newline)

    def _sources_start(self, line: str, newline: str, whole: bool) -> int:
        """`**Sources:**` alone on its line; the list below it is dropped too."""
        if len(line) >= _LONGEST_LABEL:
            return 0
        if whole:
            self._in_sources = line.strip("#*_: \t").lower() in _LISTS
            return len(line) + len(newline) if self._in_sources else 0
        letters = line.strip(" \t#*_:").lower()
        may_be = any(word.startswith(letters) for word in _LISTS)
        return _MORE if line and may_be else 0

    def _skip_line(self) -> int:
        end = self._buffer.find("\n")
        if end >= 0:
            return end + 1
        return len(self._buffer) if self._final else _MORE

    def _code_span(self) -> int:
        """A span of code, or else back-ticks that are text."""
        line = self._buffer.partition("\n")[0]
        end = span_end(line, 0, ended=self._final or len(line) < len(self._buffer))
        if end == _MORE:
            return _MORE
        if end and not self._shown.in_angle:
            self._show(line[:end])
            return end
        run = run_length(line, 0)
        self._show("\\`" * run if run < 3 else line[:run])  # escaped, so that no reader pairs it with another
        return run

    def _round_bracket(self) -> int:
        """`(Source 1)`."""
        head = self._buffer[:LONGEST]
        end = next((i for i, c in enumerate(head[1:], 1) if c in "()\n"), None)
        inner = head[1:end].lower()
        may_be = any(inner.startswith(word) or word.startswith(inner) for word in _ROUND_WORDS)
        if end is None and not self._final and may_be and len(head) < LONGEST:
            return _MORE
        if end is not None and (match := _ROUND.match(head)):
            self._shown.markers(self._resolver.named(match.group()[1:-1]) or ())
            return match.end()
        self._show("(")
        return 1

    # --- brackets -----------------------------------------------------------------------------------------------------

    def _bracket(self, start: int) -> int:
        buffer = self._buffer
        edge = _EDGE.search(buffer, start, start + LONGEST)
        if edge is None:
            if len(buffer) - start < LONGEST and not self._final:
                return _MORE
            return self._literal(start)
        if edge.lastgroup != "close":
            if edge.start() == start and edge.lastgroup == "open":  # [[1]]
                self._doubled += 1
                return start
            return self._literal(start)
        inner = buffer[start : edge.start()]
        if "`" in inner and not self._resolver.looks_cited(inner):
            return self._literal(start)  # code binds tighter than brackets
        return self._closed(start, inner, edge.end())

    def _literal(self, length: int) -> int:
        """A bracket that is none of ours; what follows it is watched, so that no marker comes about."""
        self._show(self._buffer[:length])
        self._shown.opened = ""
        return length

    def _closed(self, start: int, inner: str, end: int) -> int:
        """A whole bracket: a link, a definition, an index, a marker, or text."""
        buffer, final = self._buffer, self._final
        if end == len(buffer) and not final:
            return _MORE
        following = buffer[end : end + 1]
        if following == "(":
            link = _LINK.match(buffer, end, end + _LONGEST_LINK)
            if link is None and not final and "\n" not in buffer[end:] and len(buffer) - end < _LONGEST_LINK:
                return _MORE
            if link:
                return self._link(inner, buffer[: link.end()], end)
        cited = self._resolver.looks_cited(inner)
        if following == ":" and cited and self._shown.at_line_start:
            rest = buffer[end + 1 : end + 12]
            if len(rest) < 11 and "\n" not in rest and not final:
                return _MORE
            if inner.startswith("^") or _ADDRESS.match(rest):
                return self._skip_line()
        if cited and self._shown.is_attached and self._resolver.is_numeric(inner):
            if end + 2 > len(buffer) and not final:
                return _MORE
            if self._is_index(buffer[end : end + 2]):
                self._show(f"[ {inner.strip()} ]")
                return end
        rest = buffer[end : end + LONGEST]
        if not cited and not final and not rest.strip() and "\n" not in rest and len(rest) < LONGEST:
            return _MORE
        ends = cited or rest.lstrip(" \t")[:1] in ("", "\n", "[", "【", *AFTER_DROPPED) or self._shown.is_after_sentence
        owned = self._resolver.named(inner, ends=ends)
        if owned is None:
            self._shown.opened = None
            self._show(buffer[:end])
        elif not owned and not ends:
            self._show(inner.strip() or " ")  # a title within a sentence keeps its words
        else:
            self._shown.markers(owned)
        return end

    def _link(self, inner: str, link: str, end: int) -> int:
        if self._resolver.looks_cited(inner):
            self._shown.markers(())
        else:
            self._show(link[:end] + link[end:].translate(_ENCODED))
        self._shown.opened = None
        return len(link)

    def _image(self) -> int:
        """`![alt](url)` stays whole; an exclamation mark before a marker is one."""
        buffer = self._buffer
        edge = _EDGE.search(buffer, 2, 2 + LONGEST)
        if edge is None and len(buffer) < 2 + LONGEST and not self._final:
            return _MORE
        if edge and edge.lastgroup == "close":
            link = _LINK.match(buffer, edge.end(), edge.end() + _LONGEST_LINK)
            rest = buffer[edge.end() :]
            partial = rest[:1] in ("", "(") and "\n" not in rest and len(rest) < _LONGEST_LINK
            if link is None and partial and not self._final:
                return _MORE
            if link:
                if not self._resolver.looks_cited(buffer[2 : edge.start()]):
                    self._show("!")
                return 1
        self._show("!")
        return 1

    def _is_index(self, following: str) -> bool:
        name = self._shown.word
        is_name = (
            "_" in name
            or (len(name) == 1 and name.islower())
            or name.lower() in _INDEXED
            or any(a.islower() and b.isupper() for a, b in pairwise(name))
        )
        goes_on = following.lstrip(".")[:1].isalnum() or following[:1] in ("=", "_", "(")
        return is_name or goes_on

    def _stray_closer(self, closer: str) -> int:
        if self._doubled and (self._shown.group or self._shown.dropped):
            self._doubled -= 1
            return len(closer)
        if self._shown.opened is not None and self._resolver.looks_cited(self._shown.opened + self._shown.space):
            return len(closer)  # what is left would read as a marker
        self._show(closer)
        self._shown.opened = None
        return len(closer)

    def _show(self, text: str) -> None:
        self._doubled = 0
        self._shown.text(text)


def numbered_by_passage(content: str, order: Sequence[int]) -> str:
    """The content with the passages' own numbers again, so that it can be read once more.

    >>> numbered_by_passage("Growth was 4 % [1].", (3,))
    'Growth was 4 % [3].'
    """
    visible = outside_code(content)
    for match in reversed(list(MARKER.finditer(visible))):
        marker = int(match[1])
        if 1 <= marker <= len(order):
            content = f"{content[: match.start()]}[{order[marker - 1]}]{content[match.end() :]}"
    return content


# --- which sentences of an answer claim something, and which markers does each carry? ---------------------------------
# "The anchor weighs 350 kg. [1] I hope this helps!" -> one claim, "The anchor weighs 350 kg.", with the marker 1

MARKER = re.compile(r"\[(\d{1,4})\]")
MARKERS = re.compile(r"(?<![^\S\n])(?:[^\S\n]*+\[\d{1,4}\])+")
SPACED_STOP = re.compile(r"(?<!\s)\s+([.,;:!?])")
_LEADING = re.compile(r"(?:\[\d{1,4}\]\s*)+[.;,]?")
_ITEM = re.compile(r"[ \t]*(?:>[ \t]*)*(?:[-*+•‣◦▪–·]|\(?\d{1,3}[.)]|[a-zA-Z][.)])[ \t]+|[ \t]*>[ \t]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s*(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__)\s*+(?::\s*+)?$|\s*[-*_=]{3,}\s*$")
_TABLE_LINE = re.compile(r"(?=[^\n]*--)[ \t:|-]+$")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|`")
_LINKED = re.compile(r"!?\[([^\]\n]{0,600})\]\([^)\n]{0,600}\)")
_SMALL_TALK = re.compile(
    r"(?:here(?:'s| is| are)|below (?:is|are)|the following|based on|according to|in summary|in short|overall|i hope"
    r"|let me know|feel free|sure|certainly|hello|hi|thanks|thank you|of course|note that|please|if you)\b",
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
            markers = tuple(dict.fromkeys(int(marker) for marker in MARKER.findall(visible[low:high])))
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
    titles = title_lines(lines)
    for number, line in enumerate(lines):
        start, position = position, position + len(line) + 1
        border = FENCE.match(line)
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
        is_heading = number in titles or _HEADING.match(line) is not None
        breaks = not line.strip() or item or is_row or is_heading or _TABLE_LINE.match(line)
        if breaks and opened is not None:
            yield opened, start, False
            opened = None
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if is_row and not _TABLE_LINE.match(line) and not _TABLE_LINE.match(following):
            yield start + len(line) - len(line.lstrip()), start + len(line.rstrip()), True
        elif item and not is_heading and not _HEADING.match(line[item.end() :]):
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
    text = _EMPHASIS.sub("", _LINKED.sub(r"\1", text))
    if text.lstrip().startswith("|"):
        text = " | ".join(cell.strip() for cell in text.strip().strip("|").split("|"))
    text = " ".join(text.split())
    return SPACED_STOP.sub(r"\1", text)


def _claims_something(text: str, has_markers: bool) -> bool:
    said = words(text)
    if len(said) < 2 and not has_markers:
        return False
    if not said or text.endswith("?") or is_refusal(text):
        return False
    if has_markers:
        return True
    if text.endswith(":"):
        return len(said) > 20
    return not (_SMALL_TALK.match(text) and len(said) < 12 and not any(word[0].isdigit() for word in said))
