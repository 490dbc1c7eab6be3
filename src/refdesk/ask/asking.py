"""How does a question reach the flow? Puts the desk together, asks, collects the answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import lru_cache
from typing import Any

from sqlalchemy import Engine

from refdesk.answer import Answer, Question, Turn, encode_answer
from refdesk.ask.flow import ask
from refdesk.ask.library import LibraryReader
from refdesk.ask.rank import SentenceReranker
from refdesk.config import Config, Entered
from refdesk.errors import AskError, RefdeskError, UsageError
from refdesk.events import Done, Event, Failed
from refdesk.models import split_name
from refdesk.ports import Desk, Embedder, Request, Reranker
from refdesk.prompts import ONE_WORD
from refdesk.providers.chain import reset_breaker
from refdesk.providers.registry import (
    CHECK_S,
    Models,
    ProviderStore,
    all_named,
    check_model,
    make_model,
    make_models,
    named_models,
)
from refdesk.providers.rerank import OnnxReranker
from refdesk.settings import Settings
from refdesk.store.answers import AnswerStore, Measured
from refdesk.store.background import BackgroundWriter
from refdesk.store.cache import LocalCache
from refdesk.store.conversations import ConversationStore
from refdesk.store.database import QuickReader
from refdesk.trace import Trace

GONE = ""  # the collection of a document that was removed while it was read: nobody is granted that one


class Asking:
    """What one process needs to answer questions; made with the library, loads nothing before the first question."""

    def __init__(
        self,
        engine: Engine,
        quick: QuickReader,
        reader: LibraryReader,
        embedder: Embedder,
        config: Config,
        settings: Callable[[], Settings],
    ) -> None:
        self._reader = reader
        self._embedder = embedder
        self._config = config
        self.background = BackgroundWriter(engine)
        self.cache = LocalCache(quick, self.background, settings)
        self.conversations = ConversationStore(engine)
        self.answers = AnswerStore(engine, self.background, settings)
        self._providers = ProviderStore(config.library)
        self._making = threading.Lock()
        self._models: tuple[str, Models] | None = None
        self._reranker: tuple[str, Reranker] | None = None

    def close(self) -> None:
        self.background.close()

    def ask(self, question: Question, settings: Settings) -> AsyncGenerator[Event, None]:
        return ask(question, self._desk(question, settings))

    def has_model(self, settings: Settings) -> bool:
        """Whether a model writes the answers, or they are quoted from the documents."""
        return self._models_for(settings).role("answer") is not None

    async def test_model(self, name: str, settings: Settings, entered: Entered | None = None) -> dict[str, Any]:
        """Asks a model for one word, once, breaker or not; what it says and how long that took.

        `entered` are address and key to try before they are saved. One that answers is no longer skipped.
        """
        if not settings.llm_enabled:
            raise UsageError("models are switched off", hint="set llm.enabled=true")
        model = make_model(name, self._config, CHECK_S, entered)
        said, began = "", time.perf_counter()
        request = Request(ONE_WORD, (Turn("user", ONE_WORD),), max_tokens=64, role="test")
        async for piece in model.stream(request):
            said += piece.text
        took = (time.perf_counter() - began) * 1000
        reset_breaker(model)
        return {"model": model.name, "reply": said.strip()[:200], "ms": round(took, 1)}

    async def check_models(self, values: Mapping[str, Any], settings: Settings, *, online: bool = True) -> None:
        """A `UsageError` in one sentence when a model that these settings name cannot be asked.

        `online` false, or models switched off: its name alone is looked at, and no one is called.
        """
        for name in named_models(values):
            split_name(name)
            if online and settings.llm_enabled:
                await check_model(name, self._config)

    async def examine_models(self, settings: Settings) -> list[tuple[str, RefdeskError | None]]:
        """Each model that is named and what is wrong with it; none where models are switched off."""
        found: list[tuple[str, RefdeskError | None]] = []
        for name in all_named(self._config, settings):
            try:
                await check_model(name, self._config)
            except RefdeskError as error:
                found.append((name, error))
            else:
                found.append((name, None))
        return found

    def model_problems(self, settings: Settings) -> tuple[str, ...]:
        """Of models that are named and cannot be used, in sentences; no one is called."""
        return self._models_for(settings).problems

    async def aclose(self) -> None:
        """Closes the connections to models that the running event loop has kept."""
        if self._models is not None:
            await self._models[1].aclose()

    def _desk(self, question: Question, settings: Settings) -> Desk:
        def record(answer: Answer, trace: Trace) -> None:
            names = {document.id: document.collection for document in self._reader.documents(question.scope)}
            touched = (*answer.sources, *answer.related_documents)
            self.answers.put(
                answer.id,
                question=answer.question,
                answer=encode_answer(answer),
                trace=trace.to_dict(),
                conversation_id=question.conversation_id,
                owner=question.owner,
                collections=sorted({names.get(one.document_id, GONE) for one in touched}),
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

        models = self._models_for(settings)
        return Desk(
            library=self._reader.limited(question.scope.access),
            embedder=self._embedder,
            reranker=self._reranker_for(settings),
            models=models.for_question(),
            notes=models.problems,
            cache=self.cache,
            conversations=self.conversations,
            settings=settings,
            record=record,
            record_failure=record_failure,
            spent=self.answers.spent,
        )

    def _models_for(self, settings: Settings) -> Models:
        """Made again when a setting, address or key has changed; their breakers live as long as the process."""
        key = f"{self._providers.revision} {_llm_key(settings)}"
        with self._making:
            if self._models is None or self._models[0] != key:
                self._models = (key, make_models(self._config, settings))
            return self._models[1]

    def _reranker_for(self, settings: Settings) -> Reranker:
        with self._making:
            if self._reranker is None or self._reranker[0] != settings.reranker:
                made: Reranker = OnnxReranker(settings.reranker) if settings.reranker else SentenceReranker()
                self._reranker = (settings.reranker, made)
            return self._reranker[1]


@lru_cache(maxsize=64)
def _llm_key(settings: Settings) -> str:
    return str([(name, value) for name, value, _ in settings.items() if name.startswith("llm.")])


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
