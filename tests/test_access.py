"""Who may read one collection sees nothing of another one, by whichever door; roles do what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from access_samples import ADMIN, EDITOR, OTHER, READER, secrets_in, two_collections
from memory_desk import KINDS, AnyDesk, open_either, opened_again
from refdesk import Answer
from refdesk.answer import Done
from refdesk.errors import AccessDenied, NotFound, UsageError
from refdesk.records import LOCAL, ROLES, SAYING, Action, Caller, Editing, Managing, Reading, needed
from refdesk.serve.export import Row, rows_of
from refdesk.types import EVERYTHING

STORES = KINDS
ACTIONS: tuple[Action, ...] = (*get_args(Reading), *get_args(Editing), *get_args(Managing))
NOTHING = Caller("k", "n", "reader", ())
METHODS: tuple[Any, ...] = ("hybrid", "bm25", "dense", "rrf")


# roles


def test_every_action_has_its_role_and_its_words() -> None:
    assert set(ACTIONS) == set(SAYING)
    for action in ACTIONS:
        allowed = [role for role in ROLES if Caller("k", "n", role).may(action)]
        assert allowed == list(ROLES[ROLES.index(needed(action)) :]), action
    assert needed("ask") == "reader" and needed("delete") == "editor" and needed("settings") == "admin"


@pytest.mark.parametrize(
    "caller, action, collection, allowed",
    [
        pytest.param(EDITOR, "add", "harbour", True, id="own_collection"),
        pytest.param(EDITOR, "add", "harbour/2024", True, id="below_the_own"),
        pytest.param(EDITOR, "add", "harbours", False, id="not_by_the_beginning_of_a_name"),
        pytest.param(EDITOR, "add", "Harbour", False, id="not_in_another_case"),
        pytest.param(EDITOR, "delete", "board", False, id="another_collection"),
        pytest.param(READER, "add", "harbour", False, id="readers_do_not_add"),
        pytest.param(READER, "read", "harbour/handbooks", True, id="readers_read"),
        pytest.param(READER, "read", "board", False, id="readers_read:only_their_own"),
        pytest.param(Caller("k", "n", "reader", ()), "read", "harbour", False, id="no_collection"),
        pytest.param(LOCAL, "settings", None, True, id="local"),
        pytest.param(LOCAL, "delete", "anything", True, id="local:everywhere"),
        pytest.param(Caller("k", "n", "admin", ("harbour",)), "traces", None, True, id="admin_of_some:traces"),
        pytest.param(Caller("k", "n", "admin", ("harbour",)), "keys", None, False, id="admin_of_some:no_keys"),
        pytest.param(Caller("k", "n", "admin", ("harbour",)), "settings", None, False, id="admin_of_some:no_settings"),
    ],
)
def test_may_and_require_agree(caller: Caller, action: Action, collection: str | None, allowed: bool) -> None:
    assert caller.may(action, collection) is allowed
    if allowed:
        caller.require(action, collection)
    else:
        with pytest.raises(AccessDenied, match="may not") as refused:
            caller.require(action, collection)
        assert refused.value.code == "access_denied"


def test_a_refusal_says_what_and_why() -> None:
    sentences = []
    for caller, action, collection in ((READER, "add", None), (EDITOR, "move", "board"), (EDITOR, "keys", None)):
        with pytest.raises(AccessDenied) as refused:
            caller.require(action, collection)  # type: ignore[arg-type]
        sentences.append(str(refused.value))
    assert sentences == [
        "a reader may not add documents",
        "this key may not move documents in 'board'",
        "an editor may not see or change keys",
    ]


def test_admins_see_everyone_else_his_own() -> None:
    assert LOCAL.owner is None and READER.owner == "reader-key" and EDITOR.owner == "editor-key"


# a reader of one collection


@pytest.fixture(scope="module")
def desk(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyDesk]:
    with two_collections(tmp_path_factory.mktemp("access") / "library", store_kind) as found:
        yield found


def ask(desk: AnyDesk, question: str, caller: Caller, **options: Any) -> Answer:
    return desk.for_caller(caller).ask_sync(question, **options)


@pytest.mark.parametrize("method", METHODS)
def test_search(desk: AnyDesk, method: Any) -> None:
    text = "Which crane does project Zebulon inspect at the Ravensfield depot?"
    found = desk.for_caller(READER).search(text, k=50, method=method)
    assert all(hit.document.collection.startswith("harbour") for hit in found)
    assert found and not secrets_in([hit.to_dict() for hit in found])
    everything = desk.search(text, k=50, method=method)
    assert "board" in {hit.document.collection for hit in everything}, "or this test proves nothing"
    assert desk.for_caller(READER).search(text, k=50, method=method, collection="board") == []
    assert desk.for_caller(NOTHING).search(text, k=50, method=method) == []


QUESTIONS = [
    "What does the secret project close in October?",
    "How much does it cost a night?",
    "Which crane lifts the most?",
    "When is the crane inspected?",
    "Summarise everything about closures.",
    "List all cranes and what they lift.",
    "Compare the two cranes.",
    "What burns all night?",
    "Who built the pyramids?",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_ask_says_nothing_of_the_other_collection(desk: AnyDesk, question: str) -> None:
    """Events, answer, sources, related documents, nearest topics, suggestions and trace; before and after an admin."""

    async def events() -> list[dict[str, Any]]:
        stream = desk.for_caller(READER).ask(question, level="maximum")
        return [event.to_dict() async for event in stream]

    first = asyncio.run(events())
    assert first[-1]["type"] == "done" and not secrets_in(first)
    told = desk.ask_sync(question, level="maximum")
    second = asyncio.run(events())
    answer = second[-1]["data"]["answer"]
    assert answer["cached"] == "exact", "a reader's own answer is kept for readers like him"
    assert not secrets_in(second)
    assert not secrets_in(desk.for_caller(READER).trace(answer["id"]))
    assert told.cached == "no", "what a reader was told is not told to an admin"


def test_ask_finds_what_the_reader_may_read(desk: AnyDesk) -> None:
    answer = ask(desk, "How much does the harbour crane lift?", READER)
    assert answer.is_answered and "forty tonnes" in answer.content
    assert "Ravensfield" in ask(desk, "What does project Zebulon close?", OTHER).content


def test_the_exact_cache(desk: AnyDesk) -> None:
    question = "Which depot is closed in October?"
    assert "Ravensfield" in ask(desk, question, ADMIN).content
    assert ask(desk, question, ADMIN).cached == "exact"
    for caller in (READER, Caller("k", "n", "reader", ()), Caller("k", "n", "reader", ("boards",))):
        answer = ask(desk, question, caller)
        assert answer.cached == "no" and not secrets_in(answer.to_dict())
    twin = ask(desk, question, Caller("twin", "n", "reader", READER.collections))
    assert twin.cached == "exact" and not secrets_in(twin.to_dict())


def test_the_semantic_cache_and_what_it_offers(desk: AnyDesk) -> None:
    ask(desk, "How many tonnes does the crane lift?", ADMIN, cache=True)
    ask(desk, "How many tonnes does the Quillon crane lift?", ADMIN)
    similar = "How many tonnes does the crane lift please?"
    assert ask(desk, similar, ADMIN).cached == "semantic", "or this test proves nothing"
    answer = ask(desk, similar, READER)
    assert answer.cached == "no" and not secrets_in(answer.to_dict())


def test_a_near_miss_is_offered_only_to_those_who_share_it(desk: AnyDesk) -> None:
    asked, near = (f"In which month of the year {year} is the crane inspected?" for year in (2024, 2023))
    ask(desk, asked, OTHER)
    ask(desk, asked, ADMIN)
    assert ask(desk, near, ADMIN).suggested_questions[0] == asked, "or this test proves nothing"
    assert "2024" not in str(ask(desk, near, READER).to_dict()["suggested_questions"])


def test_spelling(desk: AnyDesk) -> None:
    assert "zebulon" in ask(desk, "What is closed by zebulan?", ADMIN).corrected_question.lower()
    answer = ask(desk, "What is closed by Zebulan?", READER)
    assert not secrets_in(answer.to_dict())


def test_a_word_of_the_other_collection_is_as_unknown_as_any(desk: AnyDesk) -> None:
    """Whether a word is taken for a misspelling would tell whether somebody writes it."""
    known = ask(desk, "What burns at Ravenfald?", OTHER)
    assert known.corrected_question == "" and known.is_answered
    answer = ask(desk, "What burns at Ravenfald?", READER)
    assert "ravenfold" in answer.corrected_question.lower()
    assert desk.parts.reader.limited(("harbour",)).frequencies(["zebulon", "crane"])["zebulon"] == 0
    assert desk.parts.reader.limited(EVERYTHING).frequencies(["zebulon"])["zebulon"] > 0
    limited = desk.parts.reader.limited(("harbour",))
    assert limited.chunk_count == len(desk.chunks("crane.md")) + 1 < desk.parts.reader.chunk_count


def test_documents_are_not_there(desk: AnyDesk) -> None:
    closed = desk.document("board-minutes.md")
    with pytest.raises(NotFound) as unknown:
        desk.for_caller(READER).document("nothing.md")
    for name in (closed.name, closed.id, closed.id[:6]):
        seen = desk.for_caller(READER)
        for door in (seen.document, seen.chunks, seen.pages, seen.remove, seen.original):
            with pytest.raises(NotFound) as refused:
                door(name)  # type: ignore[operator]
            assert refused.value.sentence == unknown.value.sentence.replace("nothing.md", name)
        for change in (
            lambda name: desk.for_caller(READER).page_image(name, 1),
            lambda name: desk.for_caller(EDITOR).rename(name, "mine.md"),
            lambda name: desk.for_caller(EDITOR).move(name, "harbour"),
            lambda name: desk.for_caller(READER).search("crane", document=name),
            lambda name: ask(desk, "crane?", READER, document=name),
        ):
            with pytest.raises(NotFound) as refused:
                change(name)
            assert refused.value.sentence == unknown.value.sentence.replace("nothing.md", name)
    assert desk.for_caller(OTHER).document(closed.id) == closed
    assert desk.for_caller(OTHER).document(closed.id[:6]) == closed
    chunks = {one.id: one for name in (closed.name, "crane.md") for one in desk.chunks(name)}
    assert desk.chunks_by_id([*chunks, 0, 10**9]) == chunks
    assert desk.for_caller(READER).chunks_by_id([*chunks]) == {one.id: one for one in desk.chunks("crane.md")}


def test_what_is_a_row_is_known_to_those_who_may_read_it(store_kind: str, tmp_path: Path) -> None:
    """Else a guess of a row would show by how it is drawn that it is right."""
    with two_collections(tmp_path / "library", store_kind) as desk:
        fees = "| Quay | Fee |\n|---|---|\n| East | 40 |\n| West | 30 |\n"
        desk.add_texts([{"name": "fees.md", "text": fees, "collection": "board", "format": "markdown"}])
        claims = [("East | 40", desk.chunks("fees.md")[0].id)]
        assert rows_of(desk, claims) == rows_of(desk.for_caller(OTHER), claims) == {0: Row(("East", "40"))}
        assert rows_of(desk.for_caller(READER), claims) == {}


@pytest.mark.parametrize(
    "action, refused",
    [
        pytest.param(lambda desk: desk.remove("crane.md"), (READER,), id="remove"),
        pytest.param(lambda desk: desk.rename("crane.md", "x.md"), (READER,), id="rename"),
        pytest.param(lambda desk: desk.move("crane.md", "harbour/new"), (READER,), id="move"),
        pytest.param(lambda desk: desk.move("crane.md", "board"), (READER, EDITOR), id="move:elsewhere"),
        pytest.param(lambda desk: desk.rename_collection("harbour", "port"), (READER, EDITOR), id="rename_collection"),
        pytest.param(lambda desk: desk.remove_collection("harbour"), (READER,), id="remove_collection"),
        pytest.param(lambda desk: desk.keys.list(), (READER, EDITOR), id="keys"),
        pytest.param(lambda desk: desk.list_settings(), (READER, EDITOR), id="settings"),
        pytest.param(lambda desk: desk.change_settings({"rag.top_k": 3}), (READER, EDITOR), id="change_settings"),
        pytest.param(lambda desk: desk.reset_settings(), (READER, EDITOR), id="reset_settings"),
        pytest.param(lambda desk: desk.use_preset("fast"), (READER, EDITOR), id="use_preset"),
        pytest.param(lambda desk: desk.clear_cache(), (READER, EDITOR), id="clear_cache"),
        pytest.param(lambda desk: desk.model_state(), (READER, EDITOR), id="model_state"),
        pytest.param(lambda desk: desk.forget_provider("openai"), (READER, EDITOR), id="forget_provider"),
        pytest.param(lambda desk: asyncio.run(desk.test_model("openai:x")), (READER, EDITOR), id="test_model"),
        pytest.param(lambda desk: asyncio.run(desk.list_models("openai")), (READER, EDITOR), id="list_models"),
        pytest.param(lambda desk: asyncio.run(desk.connect_model("openai")), (READER, EDITOR), id="connect_model"),
        pytest.param(lambda desk: asyncio.run(desk.check_settings({})), (READER, EDITOR), id="check_settings"),
    ],
)
def test_a_desk_does_what_its_caller_may(desk: AnyDesk, action: Any, refused: tuple[Caller, ...]) -> None:
    """Whatever a door forgets to ask, the desk does not."""
    for caller in refused:
        with pytest.raises(AccessDenied, match="may not"):
            action(desk.for_caller(caller))
    assert desk.document("crane.md").collection == "harbour/handbooks"


def test_a_name_that_two_collections_share_is_not_ambiguous(desk: AnyDesk) -> None:
    with pytest.raises(UsageError, match=r"2 documents are called 'notes\.md'"):
        desk.document("notes.md")
    assert desk.for_caller(READER).document("notes.md").collection == "harbour"
    assert desk.for_caller(OTHER).scope(document="notes.md").documents == (
        desk.for_caller(OTHER).document("notes.md").id,
    )


def test_lists(desk: AnyDesk) -> None:
    assert desk.collections() == [("board", 2), ("harbour", 1), ("harbour/handbooks", 1)]
    assert desk.for_caller(READER).collections() == [("harbour", 1), ("harbour/handbooks", 1)]
    handbooks = Caller("k", "n", "reader", ("harbour/handbooks",))
    assert desk.for_caller(handbooks).collections() == [("harbour/handbooks", 1)]
    assert desk.for_caller(NOTHING).collections() == [] == desk.for_caller(NOTHING).documents()
    assert {one.name for one in desk.for_caller(READER).documents()} == {"crane.md", "notes.md"}
    assert desk.for_caller(READER).documents(collection="board") == []


def test_answers_and_traces(desk: AnyDesk) -> None:
    answers = desk.parts.asking.answers
    theirs = ask(desk, "What does project Zebulon close?", OTHER)
    mine = ask(desk, "Where do ships moor?", READER)
    with pytest.raises(NotFound) as unknown:
        desk.for_caller(READER).trace("nothing")
    for limits in ({"owner": READER.owner, "access": READER.access}, {"access": READER.access}):
        assert answers.get(theirs.id, **limits) is None  # type: ignore[arg-type]
        assert answers.get(mine.id, **limits) is not None  # type: ignore[arg-type]
        listed = answers.recent(1000, **limits)  # type: ignore[arg-type]
        assert mine.id in {one.id for one in listed} and theirs.id not in {one.id for one in listed}
        assert {place for one in listed for place in one.collections} == {"harbour", "harbour/handbooks"}
        with pytest.raises(NotFound) as refused:
            desk.for_caller(READER).trace(theirs.id)
        assert refused.value.sentence == unknown.value.sentence.replace("nothing", theirs.id)
    assert answers.get(mine.id, owner=OTHER.owner) is None
    assert desk.trace(theirs.id)["stages"]
    with pytest.raises(NotFound):
        desk.parts.feedback.give(theirs.id, "wrong", caller=READER)


def test_conversations(desk: AnyDesk) -> None:
    ask(desk, "What does project Zebulon close?", OTHER, conversation_id="talk")
    conversations = desk.parts.asking.conversations
    assert conversations.turns("talk", 9, owner=READER.id) == [] == conversations.recent(owner=READER.id)
    with pytest.raises(NotFound, match="there is no conversation 'talk'"):
        ask(desk, "And what does that cost?", READER, conversation_id="talk")
    assert len(conversations.messages("talk")) == 2, "nothing was added to it"
    follow = ask(desk, "And what does that cost?", OTHER, conversation_id="talk")
    assert follow.conversation_id == "talk" and len(conversations.messages("talk")) == 4


def test_analytics(desk: AnyDesk) -> None:
    caller = Caller("counted", "n", "reader", ("board",))
    before = desk.for_caller(READER).analytics(1)
    answer = ask(desk, "What costs 4,711 euros?", caller)
    desk.parts.feedback.give(answer.id, "correct", "it was Ravensfield", caller=caller)
    assert desk.for_caller(READER).analytics(1) == before
    assert not secrets_in(desk.for_caller(READER).analytics(1))
    twin = Caller("counted", "n", "reader", READER.collections)
    assert desk.for_caller(twin).analytics(1)["questions"] == 0
    own = desk.for_caller(caller).analytics(1)
    assert own["questions"] == 1 and own["feedback"]["by_collection"][0]["collection"] == "board"
    assert desk.analytics(1)["questions"] > before["questions"]


# names are resolved in SQL alone: a wildcard, a quote or an empty text is no master key


@pytest.mark.parametrize("name", ["%", "_", "", "*", "' OR 1=1 --", "board-minutes.md\0", "BOARD-MINUTES.MD"], ids=repr)
def test_no_name_opens_what_is_closed(desk: AnyDesk, name: str) -> None:
    with pytest.raises(NotFound, match="there is no document"):
        desk.for_caller(READER).document(name)


@pytest.mark.parametrize(
    "name",
    ["harbour/..", "../board", "harbour//x", "harbour/\u202edraob", "harbour/\0", "harbour/a\nb", "x" * 501, "", " / "],
)
def test_what_cannot_be_a_collection(desk: AnyDesk, name: str) -> None:
    with pytest.raises(UsageError):
        desk.move("crane.md", name)
    with pytest.raises(UsageError):
        desk.keys.add("Nadja", "reader", [name])


@pytest.mark.parametrize("name", ["Board", "board ", "bоard", "board\u200b", "boards", "boar"])
def test_no_look_alike_of_a_collection_opens_it(name: str) -> None:
    caller = Caller("k", "Eva", "editor", (name,))
    assert not caller.may("add", "board") and not caller.may("read", "board/2024")


def test_hidden_letters_of_a_name_are_left_out(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("a.txt", "The quay is long.")
        assert desk.rename("a.txt", "report\u202efdp.exe\x07").name == "reportfdp.exe"


def test_metadata_do_not_fill_every_list(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        with pytest.raises(UsageError, match="20,000 characters"):
            desk.add_texts([{"name": "a.txt", "text": "The quay is long.", "metadata": {"x": "y" * 20_000}}])
        with pytest.raises(UsageError) as told:
            desk.add_texts([{"name": "a.txt", "text": "The quay is long.", "metadata": "y" * 20_000}])
        assert len(told.value.sentence) < 300


@pytest.mark.only_on("sql", "postgres", reason="a library in memory has one process")
def test_a_library_of_two_processes_sees_the_same(store_kind: str, tmp_path: Path) -> None:
    with two_collections(tmp_path / "library", store_kind) as desk, opened_again(desk) as other:
        desk.move("board-minutes.md", "harbour")
        assert other.for_caller(READER).search("Zebulon", method="bm25")[0].document.name == "board-minutes.md"
        desk.move("board-minutes.md", "board")
        found = other.for_caller(READER).search("Zebulon", k=50)
        assert found and not secrets_in([hit.to_dict() for hit in found])


def test_what_rests_on_a_document_that_is_gone_is_for_those_who_see_everything(store_kind: str, tmp_path: Path) -> None:
    """Removed while it was read, its collection is not known any more: nobody is let in by mistake."""

    async def events(desk: AnyDesk) -> Answer:
        async for event in desk.ask("What does project Zebulon close?"):
            if event.to_dict()["type"] == "sources":
                await asyncio.to_thread(desk.remove, "board-minutes.md")
            if isinstance(event, Done):
                return event.answer
        raise AssertionError("no answer")

    with two_collections(tmp_path / "library", store_kind) as desk:
        answer = asyncio.run(events(desk))
        assert "Ravensfield" in answer.content
        for access in (("board",), ("harbour",), ()):
            assert desk.parts.asking.answers.get(answer.id, access=access) is None
            admin = Caller("k", "n", "admin", access)
            assert desk.for_caller(admin).analytics(1)["questions"] == 0
        assert desk.parts.asking.answers.get(answer.id) is not None


def test_words_are_counted_anew_when_documents_change(store_kind: str, tmp_path: Path) -> None:
    with two_collections(tmp_path / "library", store_kind) as desk:
        limited = desk.parts.reader.limited(("harbour",))
        assert limited.frequencies(["zebulon"]) == limited.frequencies(["zebulon"]) == {"zebulon": 0}
        desk.move("board-minutes.md", "harbour")
        limited.refresh()
        assert limited.frequencies(["zebulon"])["zebulon"] > 0
        desk.remove("board-minutes.md")
        limited.refresh()
        assert limited.frequencies(["zebulon"]) == {"zebulon": 0}
