"""Every claim gets a verdict and the sentence that proves it; every marker of the content has a citation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from context_samples import chunk, context, passage, query, texts, vectors_of
from memory_desk import KINDS
from refdesk import Refdesk
from refdesk.answer import Claim, Context, Passage
from refdesk.ask.attest import Attested, Proofs, attest, origin_of
from refdesk.ask.writing import claim_judge
from refdesk.errors import ModelError
from refdesk.ports import NoReader
from refdesk.providers.shipped import OnnxEmbedder, OnnxReader
from refdesk.trace import Trace
from refdesk.types import Box, Chunk, Sentence, Span

STORES = KINDS

Embed = Callable[[str], NDArray[np.float32]]
HANDBOOK = (
    "The harbour has nine pilots. Each anchor weighs 350 kg and is replaced every 5 years. Pilots are not required for"
    " vessels under 50 metres. Revenue rose to $4,213,000 in 2024 from $3.9 million in 2023."
)
TIDES = (
    "The tide gauge TG-4 drifted by 3 mm between March 2024 and 31 October 2025. It was replaced by E. Fundy on"
    " 2 November 2025."
)


@pytest.fixture(scope="module")
def embed() -> Embed:
    return OnnxEmbedder(threads=1).embed_query


@pytest.fixture(scope="module", params=(NoReader(), OnnxReader()), ids=("words", "judge"))
def harbour(embed: Embed, request: pytest.FixtureRequest) -> Callable[[str], Attested]:
    held = texts(HANDBOOK, TIDES)
    proofs = Proofs(held, vectors_of(held, embed), embed, request.param.judge_claim)
    return lambda content: attest(query(), content, (1, 2), proofs)


def only(found: Attested) -> Claim:
    (claim,) = found.claims
    return claim


@pytest.mark.parametrize(
    "claim",
    [
        "The harbour has nine pilots [1].",
        "There are 9 pilots in the harbour [1].",
        "Every anchor weighs 350 kilograms [1].",
        "The anchors weigh 0.35 tonnes each [1].",
        "Anchors get replaced every five years [1].",
        "Vessels under 50 metres do not need a pilot [1].",
        "Revenue rose to about $4.2 million in 2024 [1].",
        "TG-4 drifted by 3 mm [2].",
        "It was replaced on 2 November 2025 by Fundy [2].",
    ],
)
def test_supported(claim: str, harbour: Callable[[str], Attested]) -> None:
    found = only(harbour(claim))
    assert (found.verdict, found.note) == ("supported", "")
    assert found.score > 0.5


@pytest.mark.parametrize(
    ("claim", "note"),
    [
        ("There are 8 pilots in the harbour [1].", "says 8 where the source says nine"),
        ("Every anchor weighs 350 tonnes [1].", "says 350 tonnes where the source says 350 kg"),
        ("Anchors get replaced every six years [1].", "says six years where the source says 5 years"),
        ("Pilots are required for vessels under 50 metres [1].", "omits a “not” in the source"),
        ("Revenue rose to $4.3 million in 2024 [1].", "says $4.3 million where the source says $4,213,000"),
        ("Revenue fell to $4.2 million in 2024 [1].", "says “fell” where the source says “rose”"),
        ("TG-5 drifted by 3 mm [2].", "says TG-5 where the source says TG-4"),
        ("It was replaced on 3 November 2025 [2].", "says 3 November 2025 where the source says 2 November 2025"),
    ],
)
def test_contradicted(claim: str, note: str, harbour: Callable[[str], Attested]) -> None:
    found = only(harbour(claim))
    assert (found.verdict, found.note) == ("contradicted", note)
    assert found.score < 0.3


def test_a_name_that_the_source_lacks(harbour: Callable[[str], Attested]) -> None:
    found = only(harbour("The tide gauge TG-4 was replaced by Smith on 2 November 2025 [2]."))
    assert found.verdict in ("partly", "unsupported")
    assert found.note == "the source does not name Smith"


def test_what_no_passage_says_is_unsupported_and_still_quotes_its_passage(harbour: Callable[[str], Attested]) -> None:
    found = harbour("Bananas are rich in potassium [1].")
    assert only(found).verdict == "unsupported"
    assert [(one.marker, one.document_id) for one in found.citations] == [(1, "d1")]


def test_the_marker_of_the_wrong_passage_gives_way_to_that_of_the_right_one(harbour: Callable[[str], Attested]) -> None:
    found = harbour("The gauge drifted by 3 mm [1].")
    assert (found.content, found.order) == ("The gauge drifted by 3 mm. [1]", (2,))
    assert (only(found).verdict, only(found).note) == ("supported", "")
    assert [(one.marker, one.document_name) for one in found.citations] == [(1, "d2.pdf")]


def test_a_claim_without_a_marker(harbour: Callable[[str], Attested]) -> None:
    found = harbour("The sky is blue. The harbour has nine pilots.")
    assert found.content == "The sky is blue. The harbour has nine pilots. [1]"
    assert [(one.verdict, one.markers, one.note) for one in found.claims] == [
        ("unsupported", (), "has no citation"),
        ("supported", (1,), ""),
    ]
    assert [one.quote for one in found.citations] == ["The harbour has nine pilots."]


def test_refusals_are_not_claims(harbour: Callable[[str], Attested]) -> None:
    assert harbour("The documents do not say who built the harbour.") == Attested(
        "The documents do not say who built the harbour.", (), (), (1, 2)
    )


def test_one_citation_per_marker_and_sentence(harbour: Callable[[str], Attested]) -> None:
    found = harbour("The harbour has nine pilots [1]. TG-4 drifted by 3 mm [2]. There are 9 pilots in the harbour [1].")
    assert [one.marker for one in found.citations] == [1, 2]
    assert [one.citations for one in found.claims] == [(0,), (1,), (0,)]
    assert found.citations[0].boxes == (Box(1, 10.0, 10.0, 80.0, 3.0),)
    assert found.citations[0].located
    assert all(one.quote in HANDBOOK + TIDES for one in found.citations)


def test_a_marker_that_no_claim_carries_has_a_citation_too(harbour: Callable[[str], Attested]) -> None:
    found = harbour("What about the pilots? [2]")
    assert [one.marker for one in found.citations] == [2]


def test_a_passage_without_words_is_cited_whole(embed: Embed) -> None:
    box = Box(4, 10, 10, 50, 40)
    figure = Chunk("d1", 1, "figure", "", (), (4,), [Span(0, 0, 0, 4, box)], [], 0, id=1)
    found = attest(query(), "The buoy is yellow [1].", (1,), Proofs(context(passage(1, figure)), {}, embed))
    assert only(found).verdict == "unsupported"
    assert [(one.marker, one.page, one.boxes, one.located) for one in found.citations] == [(1, 4, (box,), True)]


def test_a_passage_that_proves_nothing_scores_low_beside_one_that_does(harbour: Callable[[str], Attested]) -> None:
    found = harbour("There are 9 pilots in the harbour [1][2].")
    assert only(found).verdict == "supported"
    proof, beside = found.citations
    assert (proof.marker, beside.marker) == (1, 2)
    assert proof.support_score > 0.5 > beside.support_score


def test_markers_beyond_the_order_and_those_in_code(harbour: Callable[[str], Attested]) -> None:
    found = harbour("The harbour has nine pilots [7]. Use `a[9]` [1].")
    assert found.content == "The harbour has nine pilots. [1] Use `a[9]` [1]."
    assert {one.marker for one in found.citations} == {1}


def test_a_sentence_over_a_page_break_keeps_both_boxes(embed: Embed) -> None:
    text = "The mooring is inspected every year by the harbour master."
    boxes = (Box(1, 10, 96, 80, 2), Box(2, 10, 4, 40, 2))
    spans = [Span(0, 30, 100, 1, boxes[0]), Span(30, len(text), 140, 2, boxes[1])]
    broken = Chunk("d1", 1, "text", text, (), (1, 2), spans, [Sentence(0, len(text), 1, boxes)], 12, id=1)
    held = context(passage(1, broken))
    (citation,) = attest(query(), f"{text} [1]", (1,), Proofs(held, {}, embed)).citations
    assert (citation.boxes, citation.page, citation.located) == (boxes, 1, True)
    assert citation.origin == (100, 140 + len(text) - 30)


def test_without_pages_the_range_in_the_text_locates(embed: Embed) -> None:
    text = "The gate closes at ten. Visitors report at the gate."
    held = context(passage(1, chunk(text, paged=False, origin=50), name="gate.md"))
    (citation,) = attest(query(), "Visitors report at the gate. [1]", (1,), Proofs(held, {}, embed)).citations
    assert (citation.boxes, citation.located, citation.origin) == ((), True, (50 + 24, 50 + len(text)))


def test_origin_is_unknown_where_no_span_holds_the_sentence() -> None:
    assert origin_of(chunk("Overlap."), 20, 30) is None


def test_a_table_row_is_read_under_its_header(embed: Embed) -> None:
    table = chunk("Item | Weight in kg\nAnchor | 350\nChain | 1,200", kind="table")
    held = context(passage(1, table, title="Moorings"))
    found = attest(
        query(), "The weight of the anchor is 350 kg [1].", (1,), Proofs(held, vectors_of(held, embed), embed)
    )
    assert (only(found).verdict, found.citations[0].quote) == ("supported", "Anchor | 350")


def test_the_row_with_the_figures_of_the_claim_is_taken(embed: Embed) -> None:
    table = chunk(
        "Meter | Days | Price\nCM-2, tank 1 | 7 | 610\nCM-2, tank 3 | 8 | 735\nCM-2, tank 5 | 9 | 790", kind="table"
    )
    held = context(passage(1, table))
    vectors = vectors_of(held, embed)
    right = attest(
        query(), "The meter CM-2 in tank 3 takes 8 days, at a price of 735 [1].", (1,), Proofs(held, vectors, embed)
    )
    wrong = attest(
        query(), "The meter CM-2 in tank 3 takes 8 days, at a price of 790 [1].", (1,), Proofs(held, vectors, embed)
    )
    assert (only(right).verdict, right.citations[0].quote) == ("supported", "CM-2, tank 3 | 8 | 735")
    assert only(wrong).verdict != "supported"


def test_two_sentences_support_together(embed: Embed) -> None:
    held = texts(
        "The ferry Margit leaves Lodin Point at noon. It reaches Cuxhaven four hours later. Tickets cost 12 euros."
    )
    found = attest(
        query(), "The ferry Margit leaves Lodin Point at noon and reaches Cuxhaven four hours later [1].",
        (1,), Proofs(held, vectors_of(held, embed), embed),
    )  # fmt: skip
    assert only(found).verdict == "supported"
    assert [one.quote[:9] for one in found.citations] == ["The ferry", "It reache"]


def test_vectors_that_are_missing_are_made_up_for(embed: Embed) -> None:
    """A neighbour that was joined to a hit may come without stored vectors."""
    held = texts(HANDBOOK)
    assert (
        only(attest(query(), "There are 9 pilots in the harbour [1].", (1,), Proofs(held, {}, embed))).verdict
        == "supported"
    )


# on a real library


def passages_of(desk: Refdesk, question: str) -> Context:
    hits = desk.search(question, k=6)
    return Context(tuple(Passage(n, hit, (hit.chunk,), hit.chunk.text) for n, hit in enumerate(hits, 1)), "", 0)


def test_extractive_answers_are_proved_at_once(examples: Refdesk) -> None:
    """Whole sentences of the examples, in every format."""
    held = passages_of(examples, "What does an anchor weigh and who maintains the moorings?")
    vectors = examples.parts.reader.sentence_vectors([one.id for p in held.passages for one in p.chunks])
    quoted = []
    for place, one in enumerate(held.passages[:3], 1):
        own = [one.chunks[0].text[s.start : s.end] for s in one.chunks[0].sentences]
        quoted.append(f"{max(own, key=len)} [{place}]")
    content = "\n\n".join(quoted)
    found = attest(query(), content, (1, 2, 3), Proofs(held, vectors, examples.parts.embedder.embed_query))
    assert {claim.verdict for claim in found.claims} == {"supported"}
    assert {one.marker for one in found.citations} == {1, 2, 3}
    assert all(one.located for one in found.citations)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("Fundy put in a new gauge in November [1].", "supported"),  # other words, partly proved by words alone
        ("E. Fundy drifted away from the harbour [1].", "unsupported"),  # its words, in a way that nobody says
    ],
)
def test_a_judge_reads_what_words_do_not_tell(claim: str, verdict: str, embed: Embed) -> None:
    held = texts(TIDES)
    found = [
        only(attest(query(), claim, (1,), Proofs(held, vectors_of(held, embed), embed, reader.judge_claim))).verdict
        for reader in (NoReader(), OnnxReader())
    ]
    assert found == ["partly", verdict]


def test_claims_in_a_language_that_the_judge_has_not_learned_are_not_shown_to_it(embed: Embed) -> None:
    held, shown = texts("Der Hafen hat neun Lotsen."), list[str]()

    def judge(claim: str, evidence: str, title: str) -> None:
        shown.append(claim)

    (own,) = held.passages
    german = replace(own, hit=replace(own.hit, document=replace(own.document, language="de")))
    for passages, count in (((german,), 0), ((own,), 1)):
        proofs = Proofs(replace(held, passages=passages), {}, embed, judge)
        attest(query(), "Neun Lotsen arbeiten im Hafen [1].", (1,), proofs)
        assert len(shown) == count


def test_a_judge_that_fails_is_asked_once_and_the_trace_says_so() -> None:
    asked: list[str] = []

    class Broken(NoReader):
        def judge_claim(self, claim: str, evidence: str, title: str) -> None:
            asked.append(claim)
            raise ModelError("the file is damaged")

    trace = Trace()
    judge = claim_judge(Broken(), trace)
    assert [judge("The harbour has pilots.", "Nine pilots work there.", "") for _ in range(3)] == [None] * 3
    assert asked == ["The harbour has pilots."]
    assert [(stage.name, stage.skipped) for stage in trace.stages] == [("judge_claims", "it failed: ModelError")]
