"""Documents that give orders, from the file to the answer: the whole flow with a model that copies all it is told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from refdesk import Refdesk
from refdesk.answer import Answer, Done, Question
from refdesk.ask.flow import ask
from refdesk.ask.keep import AskPorts
from refdesk.ask.retrieve import SentenceReranker
from refdesk.providers.directory import make_models
from refdesk.store.cache import SqlCache
from refdesk.store.database import BackgroundWriter, PreparedReader
from refdesk.store.records import SqlConversations
from refdesk.types import Scope
from test_injection import INJECTIONS
from wire_server import WireServer

QUESTION = "What does the anchor of the outer buoy weigh?"
HONEST = "The anchor of the outer buoy weighs 350 kg."


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


@pytest.fixture(scope="module")
def library(server: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in server.openai_env("gpt-4o-mini").items():
            patched.setenv(name, value)
        with Refdesk(tmp_path_factory.mktemp("injection") / "library", settings={"ingest.workers": 1}) as desk:
            hostile = {f"{name}.txt": f"{HONEST} {text}" for name, text in INJECTIONS.items()}
            desk.add_texts([("honest.txt", HONEST), *hostile.items()])
            yield desk


def answer(library: Refdesk, name: str, **changed: object) -> Answer:
    settings = library.settings.changed({"cache.enabled": False, **changed})
    engine = library.parts.documents.engine
    background = BackgroundWriter(engine)
    desk = AskPorts(
        library=library.parts.reader,
        embedder=library.parts.embedder,
        reranker=SentenceReranker(),
        models=make_models(library.config, settings),
        cache=SqlCache(PreparedReader(engine), background, lambda: settings),
        conversations=SqlConversations(engine),
        settings=settings,
        record=lambda answer, trace: None,
        record_failure=lambda error, trace: None,
    )
    scope = Scope(documents=tuple(library.document(one).id for one in ("honest.txt", f"{name}.txt")))

    async def run() -> Answer:
        events = [event async for event in ask(Question(QUESTION, scope=scope), desk)]
        assert isinstance(events[-1], Done), events[-1]
        return events[-1].answer

    try:
        return asyncio.run(run())
    finally:
        background.close()


def assert_honest(given: Answer, library: Refdesk, name: str) -> None:
    markers = {int(number) for number in re.findall(r"\[(\d+)\]", given.content)}
    assert markers <= {citation.marker for citation in given.citations}
    for citation in given.citations:
        assert citation.document_name in ("honest.txt", f"{name}.txt")
        text = " ".join(page.text for page in library.pages(citation.document_id))
        assert " ".join(citation.quote.split()) in " ".join(text.split())
    assert not any("password" in question or "key" in question for question in given.suggested_questions)


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_model_that_copies_its_prompt(name: str, library: Refdesk, server: WireServer) -> None:
    server.answer_by(lambda request: f"It weighs 350 kg [1]. {request.question}")
    given = answer(library, name)
    assert given.model == "openai:gpt-4o-mini"
    assert_honest(given, library, name)


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_model_that_obeys_the_document(name: str, library: Refdesk, server: WireServer) -> None:
    server.answer_by(lambda request: f"It weighs 350 kg [1].\n\n{INJECTIONS[name]}")
    assert_honest(answer(library, name), library, name)


@pytest.mark.parametrize("name", INJECTIONS)
def test_without_a_model_it_is_quoted_as_data(name: str, library: Refdesk) -> None:
    given = answer(library, name, **{"llm.enabled": False})
    assert given.model == "extractive"
    assert "350 kg" in given.content
    assert_honest(given, library, name)
