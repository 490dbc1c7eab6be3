"""What of a writer's words is shown, and when? Trimmed and its markers read while it streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from refdesk.answer import Context, Usage
from refdesk.ask.evidence.extract import Quote
from refdesk.ask.proving.markers import MarkerStream
from refdesk.ask.writing.trim import AnswerTrim
from refdesk.errors import ProviderError
from refdesk.events import Content, Replace
from refdesk.ports import Piece

EXTRACTIVE = "extractive"  # the name of the answerer that needs no model
# What is said of an answer by the reason why it ended; every other reason means that it is whole.
CUT_OFF: Mapping[str, str] = {
    "length": "The model's answer was cut off at its length limit.",
    "too_long": "The model's answer was cut off: it is longer than llm.max_answer_kb allows.",
    "too_slow": "The model's answer was cut off: it took longer than llm.total_s allows.",
}
_NUMBER = re.compile(r"\[(?=\d{1,4}\])(\d+)\]")


class PlacedQuote(NamedTuple):
    """A quote where it stands: characters `start..end` of the content, its marker included."""

    quote: Quote
    start: int
    end: int
    marker: int


class Draft:
    """The answer as it is being written; what was shown is never taken back without a `Replace`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.model = ""
        self.usage = Usage()
        self.failures: list[ProviderError] = []  # of models that were given up, in the order they were asked
        self.notes: list[str] = []
        self._begin()

    @property
    def is_cut(self) -> bool:
        """Whether the writer was ended before it had finished."""
        return bool(self._cut)

    def _begin(self) -> None:
        self._trim = AnswerTrim()
        self._markers = MarkerStream(self.context)
        self._shown: list[str] = []
        self.quotes: list[PlacedQuote] = []
        self._quoted_passages: list[int] = []
        self._cut = ""

    def take(self, piece: Piece) -> Content | Replace | None:
        """What a reader is to be told of one more piece."""
        self.model = piece.model or self.model
        self.usage += piece.usage or Usage()
        if piece.restarted:
            was_shown = bool(self._shown)
            self._begin()
            if was_shown:
                next_writer = "quoting" if piece.model == EXTRACTIVE else piece.model or "the model"
                return Replace("", f"the connection to the model broke; {next_writer} starts over")
        self._cut = CUT_OFF.get(piece.finish, "")
        return self._show(self._markers.feed(self._trim.feed(piece.text)))

    def say(self, text: str) -> Content | None:
        """A sentence of ours before the quotes; no marker is looked for in it."""
        return self._show(text)

    def quote(self, quote: Quote) -> Content | None:
        """A quote and its marker. Nothing in it is read as a marker or trimmed: it is the document's own text.

        `[1]` of the document is written `[ 1 ]` in the content, so that every `[n]` there is a citation of ours.
        """
        if quote.passage not in self._quoted_passages:
            self._quoted_passages.append(quote.passage)
        marker = self._quoted_passages.index(quote.passage) + 1
        before = quote.before if self._shown else quote.before.lstrip()
        start = sum(map(len, self._shown)) + len(before)
        text = _NUMBER.sub(r"[ \1 ]", quote.text) + f" [{marker}]"
        self.quotes.append(PlacedQuote(quote, start, start + len(text), marker))
        return self._show(before + text)

    def finish(self) -> Content | None:
        if self._cut:
            self.notes.append(self._cut)
        return self._show(self._markers.feed(self._trim.finish()) + self._markers.finish())

    def _show(self, text: str) -> Content | None:
        if not self._shown:
            text = text.lstrip()  # nothing is shown before the first word
        if not text:
            return None
        self._shown.append(text)
        return Content(text)

    @property
    def content(self) -> str:
        return "".join(self._shown).rstrip()

    @property
    def order(self) -> tuple[int, ...]:
        """Passage numbers by first use."""
        return tuple(self._quoted_passages) or self._markers.order

    @property
    def sizes(self) -> dict[str, Any]:
        return {"model": self.model, "characters": len(self.content), "tokens": self.usage.completion_tokens}

    @property
    def suggested(self) -> tuple[str, ...]:
        return self._trim.suggested


def drafted(text: str, context: Context) -> Draft:
    """A whole text read at once."""
    draft = Draft(context)
    draft.take(Piece(text=text))
    draft.finish()
    return draft
