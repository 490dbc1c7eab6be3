"""How does a question reach the flow? Puts the desk together, asks, collects the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

from refdesk.answer import Answer, Question, encode_answer
from refdesk.ask.flow import ask
from refdesk.ask.library import LibraryReader
from refdesk.ask.rank import SentenceReranker
from refdesk.errors import AskError, RefdeskError
from refdesk.events import Done, Event, Failed
from refdesk.ports import AskPorts, Cache, Embedder, Models, Reranker
from refdesk.records import Measured
from refdesk.settings import Settings
from refdesk.store_ports import AnswerStore, ConversationStore
from refdesk.trace import Trace

GONE = ""  # the collection of a document that was removed while it was read: nobody is granted that one


class Asking:
    """What one process needs to answer questions; made with the library, loads nothing before the first question."""

    def __init__(
        self,
        reader: LibraryReader,
        embedder: Embedder,
        models: Callable[[Settings], Models],
        reranker: Callable[[Settings], Reranker | None],
        cache: Cache,
        conversations: ConversationStore,
        answers: AnswerStore,
    ) -> None:
        self._reader = reader
        self._embedder = embedder
        self._models = models
        self._reranker = reranker
        self._sentences = SentenceReranker()
        self.cache = cache
        self.conversations = conversations
        self.answers = answers

    def ask(self, question: Question, settings: Settings) -> AsyncGenerator[Event, None]:
        return ask(question, self._desk(question, settings))

    def _desk(self, question: Question, settings: Settings) -> AskPorts:
        def record(answer: Answer, trace: Trace) -> None:
            collections = self._reader.collections(question.scope)
            touched = (*answer.sources, *answer.related_documents)
            self.answers.put(
                answer.id,
                question=answer.question,
                answer=encode_answer(answer),
                trace=trace.to_dict(),
                conversation_id=question.conversation_id,
                owner=question.owner,
                collections=sorted({collections.get(one.document_id, GONE) for one in touched}),
                measured=_measured(answer, trace),
            )

        def record_failure(error: RefdeskError, trace: Trace) -> None:
            # No collection: what was read until then is not known, so that only who asked and who sees all may see it.
            self.answers.put(
                trace.id,
                question=question.text,
                answer=b"",
                trace=trace.to_dict() | {"question": question.text, "error": error.to_dict()},
                conversation_id=question.conversation_id,
                owner=question.owner,
                error=error.code,
            )

        models = self._models(settings)
        return AskPorts(
            library=self._reader.limited(question.scope.access),
            embedder=self._embedder,
            reranker=self._reranker(settings) or self._sentences,
            models=models.for_question(),
            notes=models.problems,
            cache=self.cache,
            conversations=self.conversations,
            settings=settings,
            record=record,
            record_failure=record_failure,
            spent=self.answers.spent,
        )


def _measured(answer: Answer, trace: Trace) -> Measured:
    """The times are the trace's: an answer from the cache still carries those it was made in."""
    times = trace.milliseconds()
    return Measured(
        total_ms=times.pop("total_ms"),
        stages={name.removesuffix("_ms"): took for name, took in times.items()},
        cached=answer.cached,
        cost_usd=answer.usage.cost_usd,
        route=answer.route,
        is_answered=answer.is_answered,
        confidence=answer.confidence.level,
        model=answer.model,
        level=answer.level,
        failed_models=[(one.model, one.code) for one in answer.failed_models],
    )


async def collected(events: AsyncGenerator[Event, None]) -> Answer:
    """The answer at the end of the stream; what ended it early is raised."""
    async with aclosing(events) as stream:
        async for event in stream:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Done):
                return event.answer
    raise AskError("the stream ended without an answer")


def collected_sync(
    begin: Callable[[], AsyncGenerator[Event, None]], close: Callable[[], Coroutine[Any, Any, None]]
) -> Answer:
    """`collected` for those who do not await; within a running loop, in a thread of its own.

    `close` ends what the loop of this one question has kept open.
    """

    answers: list[Answer] = []

    async def work() -> None:
        # Not returned: Python 3.11 writes the result of what it runs into an error that nobody sees, which takes 7 ms.
        try:
            answers.append(await collected(begin()))
        finally:
            await close()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work())
    else:
        with ThreadPoolExecutor(1, "refdesk-ask") as pool:
            pool.submit(lambda: asyncio.run(work())).result()
    return answers[0]
