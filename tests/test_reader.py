"""The reader: what it finds in a passage, when it stops, and what an answer makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from evidence_samples import add, chunk
from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.answer import EVERYTHING, Query, Question, Retrieved
from refdesk.ask.extract import Quote, short_answer
from refdesk.ask.flow import ask, collected
from refdesk.ask.no_answer import SURE, is_fit_figure, measures_otherwise, unfit_units, without_units
from refdesk.ask.retrieve import LAST, MOST_PASSAGES, ordered, read_hits
from refdesk.ask.sentences import ScoredSentence, score_sentences, sentence_text
from refdesk.errors import ModelError
from refdesk.ports import NoReader
from refdesk.providers.shipped import OnnxEmbedder, OnnxReader
from refdesk.serve.mcp import answer_found, answer_text
from refdesk.types import Chunk, FoundSpan, Hit, Reading, Scope

STORES = KINDS

ANCHOR = ["The mooring was drawn in Brannoch in 2019.", "The anchor is a cast iron sinker of 350 kg."]
READER = OnnxReader()


class KnownReader:
    """A `Reader` that says what it is told of the chunks it is shown, in their order."""

    name = "known"

    def __init__(self, answered: Sequence[float], tokens: int = 100) -> None:
        self.answered = list(answered)
        self.tokens = tokens
        self.seen: list[int] = []

    def read(self, question: str, chunk: Chunk) -> Reading:
        self.seen.append(chunk.id)
        answered = self.answered[len(self.seen) - 1]
        return Reading(answered, answered, tuple(FoundSpan(0, 3, 4.5) for _ in chunk.sentences), self.tokens)


class FirstSentence:
    """Another reader, which finds the answer in the first sentence."""

    name = "first"

    def __init__(self, reader: KnownReader) -> None:
        self._reader = reader

    def read(self, question: str, chunk: Chunk) -> Reading:
        reading = self._reader.read(question, chunk)
        return replace(reading, spans=(FoundSpan(0, 3, 5.0), *reading.spans[1:]))


class BrokenReader:
    name = "broken"

    def read(self, question: str, chunk: Chunk) -> Reading:
        raise ModelError("the file is damaged")

    def judge_claim(self, claim: str, evidence: str, title: str) -> float:
        raise ModelError("the file is damaged")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with Refdesk(tmp_path_factory.mktemp("reader"), settings={"ingest.workers": 1}) as opened:
        add(opened)
        yield opened


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


@pytest.fixture
def hits(desk: AnyDesk) -> list[Hit]:
    vector = desk.parts.embedder.embed_query("mooring")
    return desk.parts.reader.search("mooring", vector, 6, "hybrid", Scope(), desk.settings)


def test_the_span_is_the_thing_itself() -> None:
    passage = chunk(ANCHOR)
    reading = READER.read("How heavy is the anchor?", passage)
    spans = [passage.text[one.start : one.end] for one in reading.spans if one is not None]
    assert spans[1] == "350 kg" and reading.spans[1].score > reading.spans[0].score  # type: ignore[union-attr]
    assert reading.answered > READER.read("Who cooks in the canteen?", passage).answered + 3


def test_what_is_read_is_what_was_trained() -> None:
    """Numbers of `training.check` for the same pair; another tokenizer or another order of inputs would change them."""
    reading = READER.read("How heavy is the anchor?", chunk(ANCHOR))
    assert (reading.relevant, reading.answered, reading.tokens) == pytest.approx((5.0, 2.02, 33), abs=0.2)


def test_a_span_ends_within_its_sentence_and_holds_whole_words() -> None:
    passage = chunk([*ANCHOR, "Quodlibetarianism is taught in Brannoch-on-Sea."])
    for question in ("What is taught?", "Where is it taught?", "When was the mooring drawn?"):
        for sentence, span in zip(passage.sentences, READER.read(question, passage).spans, strict=True):
            assert span is not None and sentence.start <= span.start < span.end <= sentence.end
            around = passage.text[max(0, span.start - 1) : span.end + 1]
            inner = passage.text[span.start : span.end]
            assert not (span.start and around[0].isalnum() and inner[0].isalnum())
            assert inner == inner.strip()


def test_a_sentence_beyond_the_window_is_not_read() -> None:
    passage = chunk([*ANCHOR, *("The chain of the mooring is checked by two divers every spring." for _ in range(40))])
    reading = READER.read("How heavy is the anchor?", passage)
    assert reading.tokens == 256 and reading.spans[1] is not None and reading.spans[-1] is None


def test_a_passage_without_sentences_is_read() -> None:
    assert READER.read("How heavy?", replace(chunk(ANCHOR), sentences=())).spans == ()
    assert READER.read("How heavy?", replace(chunk(ANCHOR), text="", sentences=())).tokens > 0


def test_reading_ends_when_one_is_sure(hits: list[Hit]) -> None:
    reader = KnownReader([-1.0, LAST, 9.0])
    assert len(read_hits("q", hits, reader)) == 2
    assert reader.seen == [hit.chunk.id for hit in hits[:2]]


def test_no_more_is_read_than_there_is_time_for(hits: list[Hit]) -> None:
    many = [replace(hit, chunk=replace(hit.chunk, id=hit.chunk.id + 100 * i)) for i in range(3) for hit in hits]
    where_one_answers, where_none_does = MOST_PASSAGES
    assert len(read_hits("q", many, KnownReader([1.0] * 18, tokens=10))) == where_one_answers
    assert len(read_hits("q", many, KnownReader([-1.0] * 18, tokens=10))) == where_none_does > where_one_answers
    assert len(read_hits("q", many, KnownReader([1.0] * 18, tokens=500))) == 2
    assert len(read_hits("q", many, KnownReader([-1.0] * 18, tokens=500))) == 5
    assert len(read_hits("q", many, KnownReader([*[-1.0] * 6, 1.0, -1.0], tokens=10))) == 7, "the seventh answers"


def test_a_title_that_has_the_words_does_not_end_the_reading(hits: list[Hit]) -> None:
    titled = replace(hits[0].chunk, heading_path=(sentence_text(hits[0].chunk, 0),))
    reader = KnownReader([LAST, LAST])
    assert len(read_hits("q", [replace(hits[0], chunk=titled), *hits[1:]], FirstSentence(reader))) == 2
    assert len(read_hits("q", hits, FirstSentence(KnownReader([LAST])))) == 1


@pytest.mark.parametrize(
    ("question", "wrong", "right"),
    [
        ("How heavy is the buoy?", {"m", "V", "money", "km/h"}, {"g"}),
        ("How fast does the ferry sail?", {"m", "g", "money"}, {"km/h"}),
        ("How old is the harbour?", {"m", "g"}, {"month", "s"}),
        ("How long is the cord?", {"g", "V"}, {"m", "s", "month"}),
        ("How many engineers work on research and development?", {"money"}, {"month", "m"}),
    ],
)
def test_what_is_asked_for_is_not_measured_in_every_unit(question: str, wrong: set[str], right: set[str]) -> None:
    unfit = unfit_units(question, OnnxEmbedder(threads=1))
    assert wrong <= unfit and not right & unfit


@pytest.mark.parametrize(
    "question",
    ["How many euros are left?", "How many million dollars was it?", "How does it work?", "What is the weight of it?"],
)
def test_what_is_asked_for_in_other_words_may_be_measured_in_any(question: str) -> None:
    assert unfit_units(question, OnnxEmbedder(threads=1)) == frozenset()


def test_a_length_is_no_answer_to_how_heavy(hits: list[Hit]) -> None:
    buoy = [
        "The WB-7 is a wave buoy of 0.9 m diameter.",
        "The buoy weighs 112 kg with batteries.",
        "It costs 900 euros.",
    ]
    passage = replace(hits[0], chunk=replace(chunk(buoy), id=hits[0].chunk.id))
    question = "How heavy is the WB-7?"
    unfit = unfit_units(question, OnnxEmbedder(threads=1))
    fit = partial(without_units, unfit)
    spans = read_hits(question, [passage], READER, fit)[passage.chunk.id].spans
    best = max((span for span in spans if span is not None), key=lambda span: span.score)
    assert passage.chunk.text[best.start : best.end] == "112 kg"


def test_a_rate_is_measured_in_other_things_than_its_unit(hits: list[Hit]) -> None:
    passage = replace(hits[0], chunk=replace(chunk(["Bare gauges drifted by 3.4 mm per year."]), id=hits[0].chunk.id))
    question = "How fast did the bare gauges drift?"
    before, after = (
        read_hits(question, [passage], READER, partial(without_units, unfit))[passage.chunk.id]
        for unfit in (frozenset[str](), frozenset({"m"}))
    )
    assert before == after


def test_where_only_another_measure_is_given_the_passage_does_not_answer(hits: list[Hit]) -> None:
    passage = replace(
        hits[0], chunk=replace(chunk(["The WB-7 is a wave buoy of 0.9 m diameter."]), id=hits[0].chunk.id)
    )
    before, after = (
        read_hits("How heavy is the WB-7?", [passage], READER, partial(without_units, unfit))[passage.chunk.id].answered
        for unfit in (frozenset[str](), frozenset({"m"}))
    )
    assert after <= 0.0 < before


@pytest.mark.parametrize(
    ("question", "figure", "chance", "answered", "fits"),
    [
        pytest.param("How heavy is the WB-7?", "13 mm", 0.9, -1.0, False, id="another_measure"),
        pytest.param("How heavy is the WB-7?", "13 kg", 0.4, -1.0, True, id="its_measure"),
        pytest.param("What is the size?", "13 mm", 0.4, -1.0, True, id="doubtful:text_does_not_say"),
        pytest.param("What is the size?", "13 mm", 0.4, SURE, False, id="doubtful:text_says"),
        pytest.param("What is the size?", "13 mm", 0.5, SURE, True, id="likely:text_says"),
    ],
)
def test_a_figure_answers_unless_it_cannot_or_a_text_is_surer(
    hits: list[Hit], question: str, figure: str, chance: float, answered: float, fits: bool
) -> None:
    embedder = OnnxEmbedder(threads=1)
    query = Query(question, question, embedder.embed_query(question), ())
    text = [replace(hits[0], chunk=replace(hits[0].chunk, kind="text"))]
    found = Retrieved(tuple(text), tuple(text), {}, {}, readings={hits[0].chunk.id: Reading(answered, answered, (), 1)})
    is_fit = is_fit_figure(chance, query, found) and not measures_otherwise(lambda: figure, query, embedder)
    assert is_fit is fits


def test_what_may_not_be_quoted_takes_no_share_of_the_chances() -> None:
    passage = replace(
        chunk(["Unrestricted discovery", "It finds relations in a text."]), heading_path=("Unrestricted discovery",)
    )
    query = Query(
        "q", "What is unrestricted discovery?", OnnxEmbedder(threads=1).embed_query("discovery"), ("discoveri",)
    )
    shares = {one.sentence: one.share for one in score_sentences(query, [(1, passage, 1.0)], {}, {})}
    assert shares == {0: 0.0, 1: pytest.approx(1.0)}


def test_a_language_that_it_never_learned_is_not_read(hits: list[Hit]) -> None:
    german = [replace(hit, document=replace(hit.document, language="de")) for hit in hits]
    assert read_hits("q", german, KnownReader([0.0] * 6)) == {}


def test_what_is_relevant_moves_up_and_the_best_score_stays(hits: list[Hit]) -> None:
    readings = {hit.chunk.id: Reading(relevant, 0.0, (), 1) for hit, relevant in zip(hits, (-8.0, 6.0), strict=False)}
    moved = ordered(hits, readings)
    assert moved[0].chunk.id == hits[1].chunk.id
    assert moved[0].score == pytest.approx(max(hit.score for hit in hits))
    assert ordered(hits, {}) == hits


# --- in an answer ----------------------------------------------------------------------------------------------------


def test_the_short_answer_stands_in_a_quote(desk: AnyDesk) -> None:
    for question, short in (
        ("How heavy is the anchor?", "350 kg"),
        ("How long is the chain of the mooring?", "45 metres"),
        ("Who orders new chain?", "Ines Carrow"),
    ):
        answer = desk.ask_sync(question, cache=False)
        assert answer.short == short
        assert any(answer.short in one.quote for one in answer.citations)


def test_a_model_that_asks_over_mcp_is_given_the_thing_itself_first(desk: AnyDesk) -> None:
    found = answer_found(desk.ask_sync("How heavy is the anchor?", cache=False))
    assert found.short == "350 kg"
    assert answer_text(found).splitlines()[0] == "350 kg"


def test_no_short_answer_is_taken_from_a_row(desk: AnyDesk) -> None:
    table = chunk(["Part | Metres", "Chain | 45", "Rope | 60"], kind="table")
    found = Reading(9.0, 9.0, tuple(FoundSpan(0, 4, 20.0) for _ in table.sentences), 50)
    row = ScoredSentence(1, table, 1, "Chain | 45", 9.0, 1.0, span=found.spans[1])
    query = Query("How long is the chain?", "How long is the chain?", None, ())
    assert short_answer(query, [Quote(row.text, "", row)]) == ""
    text = chunk(["The chain is 45 metres long."])
    line = ScoredSentence(1, text, 0, text.text, 9.0, 1.0, span=FoundSpan(13, 22, 9.0))
    assert short_answer(query, [Quote(line.text, "", line)]) == "45 metres"
    unsure = replace(line, share=0.1, span=FoundSpan(13, 22, 1.0))
    assert short_answer(query, [Quote(line.text, "", unsure)]) == ""


def test_yes_or_no_and_summaries_have_no_short_answer(desk: AnyDesk) -> None:
    for question in ("Is the chain made of steel?", "Summarise the canteen."):
        assert desk.ask_sync(question, cache=False).short == ""


def stages(desk: AnyDesk, answer_id: str) -> dict[str, str]:
    return {stage["name"]: stage["skipped"] for stage in desk.trace(answer_id)["stages"]}


def test_basic_does_without_it(desk: AnyDesk) -> None:
    answer = desk.ask_sync("How heavy is the anchor?", level="basic", cache=False)
    assert "350 kg" in answer.content and answer.short == ""
    assert stages(desk, answer.id)["read"] == "not part of this level"


@pytest.mark.parametrize("reader", [BrokenReader(), OnnxReader(Path("/nowhere")), NoReader()], ids=lambda one: one.name)
def test_without_a_reader_the_answer_goes_on(desk: AnyDesk, reader: BrokenReader) -> None:
    question = Question("How heavy is the anchor?", EVERYTHING, use_cache=False)
    ports = replace(desk.parts.asking.ports(question, desk.settings), reader=reader)
    answer = asyncio.run(collected(ask(question, ports)))
    assert "350 kg" in answer.content and answer.short == ""
    said = stages(desk, answer.id)["read"]
    assert said == ("" if isinstance(reader, NoReader) else "it failed: ModelError")
