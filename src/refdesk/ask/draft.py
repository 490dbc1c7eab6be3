"""What of a model's words is shown, and when? Trimmed and its markers read while it streams."""

from __future__ import annotations

from refdesk.answer import Context
from refdesk.ask.markers import MarkerStream
from refdesk.ask.trim import AnswerTrim


class Draft:
    """The answer as it is being written; what `feed` gives may be shown at once and is never taken back.

    >>> draft = Draft(context)
    >>> draft.feed("Sure! The anchor weighs 350 kg [So") + draft.feed("urce 2].") + draft.finish()
    'The anchor weighs 350 kg [1].'
    """

    def __init__(self, context: Context) -> None:
        self._trim = AnswerTrim()
        self._markers = MarkerStream(context)
        self._shown: list[str] = []

    def feed(self, text: str) -> str:
        return self._show(self._markers.feed(self._trim.feed(text)))

    def finish(self) -> str:
        return self._show(self._markers.feed(self._trim.finish()) + self._markers.finish())

    def _show(self, text: str) -> str:
        if not self._shown:
            text = text.lstrip()  # nothing is shown before the first word
        if text:
            self._shown.append(text)
        return text

    @property
    def content(self) -> str:
        return "".join(self._shown).rstrip()

    @property
    def order(self) -> tuple[int, ...]:
        """Passage numbers by first use."""
        return self._markers.order

    @property
    def suggested(self) -> tuple[str, ...]:
        return self._trim.suggested
