"""What of a writer's words is shown, and when? Trimmed and its markers read while it streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refdesk.answer import Context, Usage
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


class Draft:
    """The answer as it is being written; what was shown is never taken back without a `Replace`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.model = ""
        self._is_quoting = False
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
        self._cut = ""

    def take(self, piece: Piece) -> Content | Replace | None:
        """What a reader is to be told of one more piece."""
        self.model = piece.model or self.model
        self.usage += piece.usage or Usage()
        self._is_quoting = self.model == EXTRACTIVE
        if piece.restarted:
            was_shown = bool(self._shown)
            self._begin()
            if was_shown:
                return Replace("", f"the stream broke; {piece.model or 'the model'} begins anew")
        self._cut = CUT_OFF.get(piece.finish, "")
        # Quoted sentences are the documents' own words: one that begins with "Sure!" keeps it.
        return self._show(self._markers.feed(piece.text if self._is_quoting else self._trim.feed(piece.text)))

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
        return self._markers.order

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
