"""What is kept of an answer that was stopped? The question and what was shown until then, marked as stopped."""

from __future__ import annotations

from refdesk.answer import Answer, Citation, Confidence, Question, Turn
from refdesk.ask.desk import Desk
from refdesk.events import Content, Done, Event, Failed, Replace, Sources
from refdesk.threads import aside
from refdesk.trace import Trace

REASON = "it was stopped before it was complete, so it was not checked"


class Shown:
    """What a reader has been told so far."""

    def __init__(self) -> None:
        self.content = ""
        self.citations: tuple[Citation, ...] = ()
        self.is_whole = False

    def hear(self, event: Event) -> None:
        if isinstance(event, Content):
            self.content += event.token
        elif isinstance(event, Replace):
            self.content = event.content
        elif isinstance(event, Sources):
            self.citations = event.citations
        elif isinstance(event, Done | Failed):
            self.is_whole = True


async def keep_stopped(question: Question, desk: Desk, trace: Trace, shown: Shown) -> None:
    """Writes the exchange into its conversation, if it has one; without one, nobody could find it again."""
    if shown.is_whole or not question.conversation_id:
        return
    content = shown.content.strip()
    answer = Answer(
        id=trace.id,
        question=question.text,
        content=content,
        citations=tuple(one for one in shown.citations if f"[{one.marker}]" in content),
        confidence=Confidence(0.0, "low", REASON),
        standalone_question=question.text,
        level=question.level,
        mode=question.mode,
        response_mode=question.response_mode,
        model="none",
        conversation_id=question.conversation_id,
        trace_id=trace.id,
        settings_fingerprint=desk.settings.fingerprint,
        metrics=trace.milliseconds(),
        is_answered=False,
        stopped=True,
    )
    trace.skip("stopped", "the reader left or stopped it")

    def write() -> None:
        with trace.optional("record"):
            said = (Turn("user", question.text), Turn("assistant", content))
            desk.record(answer, trace)
            desk.conversations.append(question.conversation_id, said, answer.id, owner=question.owner)

    await aside(write)
