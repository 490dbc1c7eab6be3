"""What does answering a question need? The ports and settings that the flow is handed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from refdesk.answer import Answer, Spent
from refdesk.errors import RefdeskError
from refdesk.ports import Cache, Conversations, Embedder, Library, Models, Reranker
from refdesk.settings import Settings
from refdesk.trace import Trace


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything a question is answered with; `settings` are those of this one question."""

    library: Library
    embedder: Embedder
    reranker: Reranker
    models: Models
    cache: Cache
    conversations: Conversations
    settings: Settings
    record: Callable[[Answer, Trace], None]  # keeps an answer and its trace; must not hold it up
    record_failure: Callable[[RefdeskError, Trace], None]  # the same for a question that has none
    notes: tuple[str, ...] = ()  # what every answer is to say, such as that a named model cannot be used
    spent: Callable[[], Spent] = Spent  # what the last day's answers cost; blocking
