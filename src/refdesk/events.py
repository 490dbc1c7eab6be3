"""What a streamed answer is made of, in the order a reader meets it.

    thinking {step} … sources {citations} … content {token} … verification {status} … replace {content} … done {answer}

An `error {code, message, stage, retryable, hint}` ends the stream in place of `done`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refdesk.answer import Answer, Citation
from refdesk.errors import RefdeskError


@dataclass(frozen=True, slots=True)
class Thinking:
    """A stage has begun; `text` is for people: "Searching 312 documents"."""

    step: str
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "thinking", "data": {"step": self.step, "text": self.text}}


@dataclass(frozen=True, slots=True)
class Sources:
    """What the answer will be written from; the markers are those of the passages and may still change."""

    citations: tuple[Citation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"type": "sources", "data": {"citations": [one.to_dict() for one in self.citations]}}


@dataclass(frozen=True, slots=True)
class Content:
    token: str

    def to_dict(self) -> dict[str, Any]:
        return {"type": "content", "data": {"token": self.token}}


@dataclass(frozen=True, slots=True)
class Verifying:
    """`status` is checking, then what came of it."""

    status: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"type": "verification", "data": {"status": self.status, "notes": list(self.notes)}}


@dataclass(frozen=True, slots=True)
class Replace:
    """All content so far is void; this stands in its place. More content may follow."""

    content: str
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "replace", "data": {"content": self.content, "reason": self.reason}}


@dataclass(frozen=True, slots=True)
class Done:
    answer: Answer

    def to_dict(self) -> dict[str, Any]:
        return {"type": "done", "data": {"answer": self.answer.to_dict()}}


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream ends here; `error` says at which stage, whether to try again, and what to do."""

    error: RefdeskError
    trace_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "error", "data": self.error.to_dict() | {"trace_id": self.trace_id}}


Event = Thinking | Sources | Content | Verifying | Replace | Done | Failed
