"""What is found, read and quoted around every number of figures, sentences, retrieve, extract, judge and reading?

Nothing here hangs on learned weights: features and choices are frozen, not the chances made of them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from context_samples import chunk, context, passage
from edge_samples import TEXTS, embed, freeze
from refdesk.answer import Citation, Claim, Query, Retrieved
from refdesk.ask.assemble import previews
from refdesk.ask.extract import _chosen, _lines, _sentences, quoted
from refdesk.ask.figures import agrees, conflicts, disagree, figures, quoted_side
from refdesk.ask.judge import (
    Relevance,
    candidates,
    confidence,
    doubted,
    features,
    grounding,
    nearest_topics,
    related,
    sources,
    sufficiency,
)
from refdesk.ask.retrieve import (
    SentenceReranker,
    best_sentence,
    chunk_vectors,
    diverse,
    facts,
    interleave,
    merged,
    ordered,
    penalise,
    raise_preferred,
    read_hits,
    relevant,
    strongest,
    without_repeats,
)
from refdesk.ask.sentences import ScoredSentence, label_match, question_words, tabulate
from refdesk.ask.told import can_stand
from refdesk.ask.wording import read
from refdesk.settings import Settings
from refdesk.text import idf, query_terms
from refdesk.types import Chunk, Document, FoundSpan, Hit, Reading


def asked(text: str, **more: Any) -> Query:
    query = Query(text, text, embed(text), tuple(query_terms(text)), number=0.0)
    return replace(query, **more)


# --- figures ---------------------------------------------------------------------------------------------------------


def test_figures_of_texts() -> None:
    found = {
        text: [
            [
                one.kind,
                one.text,
                one.start,
                one.value,
                one.step,
                one.unit,
                one.bare,
                one.others,
                one.bound,
                one.weak,
                one.signed,
            ]
            for one in figures(text)
        ]
        for text in TEXTS["stated"]
    }
    freeze("figures", found)


def test_figures_that_agree() -> None:
    """Every figure against every other: a letter for each pair."""
    every = [one for text in TEXTS["stated"] for one in figures(text)][:150]
    freeze("agreeing", ["".join("ny"[agrees(one, other)] for other in every) for one in every])


def test_a_figure_agrees_at_its_own_precision() -> None:
    found = []
    for claim in (
        "4.2 million",
        "about 4 million",
        "4,200,000",
        "over 4 million",
        "under 5 million",
        "42 %",
        "about 40 %",
        "0.42",
    ):
        values = (
            "4.1",
            "4.15",
            "4.1499",
            "4.2",
            "4.2499",
            "4.25",
            "4.3",
            "3.5",
            "3.49",
            "4.5",
            "4.51",
            "8",
            "8.01",
            "2.5",
            "2.49",
            "5",
        )
        (one,) = figures(claim)
        row = ""
        for value in values:
            for text in (f"{value} million", f"{float(value) * 10:g} %", f"0.{value.replace('.', '')}"):
                (other,) = figures(text)[:1]
                row += "ny"[agrees(one, other)] + "ny"[agrees(other, one)]
        found.append(row)
    freeze("precision", found)


def test_sources_that_disagree() -> None:
    found = []
    pairs = [(one, other) for one in TEXTS["sides_of_conflict"] for other in TEXTS["sides_of_conflict"] if one != other]
    for one, other in pairs:
        chunks = [chunk(text, id=n, document_id=f"d{n}") for n, text in enumerate((one, other), 1)]
        for names in (("a.pdf", "b.pdf"), ("report 2023.pdf", "report 2024.pdf")):
            documents = [Document(f"d{n}", name, "", "h", "ready") for n, name in enumerate(names, 1)]
            sides = [quoted_side(own.text, own, document) for own, document in zip(chunks, documents, strict=True)]
            clash = disagree(asked("How much does the anchor weigh and when did it sink?"), *sides)
            found.append([clash[0].text, clash[1].text] if clash else 0)
    freeze("disagreeing", found)
    cited = [
        Citation(n, f"d{n}", f"d{n}.pdf", n, 1, (), 1, (), False, text, 0.5, 0.5)
        for n, text in enumerate(("The anchor weighs 350 kg.", "The anchor weighs 400 kg.", "It is red."), 1)
    ]
    held = context(*(passage(n, chunk(one.quote, id=n, document_id=f"d{n}")) for n, one in enumerate(cited, 1)))
    query = asked("How much does the anchor weigh?")
    freeze(
        "conflicts",
        [
            [one.says if hasattr(one, "says") else str(one) for one in conflicts(query, held, cited[:count])]
            for count in (1, 2, 3)
        ],
    )


# --- sentences -------------------------------------------------------------------------------------------------------

QUESTIONS = (
    "How heavy is the anchor of the outer buoy?",
    "Which kind of gauge did E. Fundy replace in 2025?",
    "What is the name of the TG-4?",
    "Total assets of Kestrel in May?",
    "five points",
    "of the",
    "Gaulish tribes intended it",
)
PASSAGES = (
    ("The anchor weighs 350 kg. It belongs to the outer buoy. Gaul was large.", "text", ("Buoys",)),
    ("Item | Value\nTotal assets | 59,268\nTotal current assets | 5", "table", ("Balance",)),
    (
        "E. Fundy replaced the gauge TG-4 in 2025. The outer and heavy anchor. Its intent was plain. 5 points.",
        "text",
        (),
    ),
    ("Kestrel flew. Nothing else.", "text", ("Total assets of the outer anchor",)),
)


@pytest.mark.parametrize("stored", [True, False])
def test_features_of_sentences(stored: bool) -> None:
    found = []
    for number in (0.0, 0.69, 0.7, 0.9):
        for text in QUESTIONS:
            query = asked(text, number=number)
            placed = [
                (n, chunk(body, id=n, document_id=f"d{n}", kind=kind, heading_path=path), 1.0 / n)  # type: ignore[arg-type]
                for n, (body, kind, path) in enumerate(PASSAGES, 1)
            ]
            vectors = {
                own.id: np.array([np.rint(embed(own.text[s.start : s.end]) * 127) for s in own.sentences], np.int8)
                for _, own, _ in placed
                if stored or own.id == 1
            }
            table = tabulate(query, placed, vectors, {"anchor": 2.0, "outer": 1.0, "total": 0.5, "asset": 3.0})
            columns = (table.cosine, table.coverage, table.proximity, table.passage, table.passage_cosine)
            more = (table.passage_coverage, table.unnamed, table.row, table.label)
            found.append([[round(float(value), 3) for value in column] for column in (*columns, *more, table.weights)])
    freeze(f"sentences {stored}", found)


def test_words_of_questions() -> None:
    texts = [*QUESTIONS, *TEXTS["meanings"][:20]]
    made = {text: question_words(text) for text in texts}
    freeze(
        "question words",
        {text: [one.words, sorted(one.named), sorted(one.metric), sorted(one.framing)] for text, one in made.items()},
    )
    freeze(
        "idf",
        {key: round(value, 3) for key, value in idf({"a": 0, "b": 1, "c": 5, "d": 9, "e": 10, "f": 12}, 10).items()},
    )
    rows = ("Total assets | 5", "Total current assets | 5", "Assets", " | 5", "Kestrel | 1", "Total | x")
    freeze("labels", [round(label_match(question_words(text), read(row)), 3) for text in QUESTIONS for row in rows])


# --- hits ------------------------------------------------------------------------------------------------------------


def hits(rng: random.Random, count: int) -> list[Hit]:
    kinds = ("text", "glossary", "credits", "toc", "table")
    texts = (
        "The anchor weighs 350 kg.",
        "The Anchor weighs 350 kg.",
        "The buoy is red.",
        "Gauge TG-4 is here.",
        "It has 5.",
    )
    return [
        Hit(
            chunk(texts[rng.randrange(5)], id=n, sequence=n, document_id=f"d{n % 3}", kind=rng.choice(kinds)),  # type: ignore[arg-type]
            Document(f"d{n % 3}", f"d{n % 3}.pdf", "", "h", "ready"),
            rng.choice((0.0, 0.2, 1.0, 2.0)),
            rng.choice((0.1, 0.34, 0.35, 0.36, 0.6)),
            rng.choice((0.2, 0.4, 0.5, 0.9)),
        )
        for n in range(1, count + 1)
    ]


def rows_of(found: list[Hit]) -> dict[int, Any]:
    return {
        one.chunk.id: np.array(
            [np.rint(embed(one.chunk.text[s.start : s.end]) * 127) for s in one.chunk.sentences], np.int8
        )
        for one in found
        if one.chunk.id % 4
    }


def scored(found: list[Hit]) -> list[object]:
    return [[one.chunk.id, round(one.score, 3)] for one in found]


def test_hits_are_ordered_and_thinned() -> None:
    rng = random.Random(12)
    query = asked("How heavy is the anchor?")
    made = []
    for _ in range(25):
        found = hits(rng, rng.randint(1, 9))
        rows = rows_of(found)
        strengths = {"d1": rng.choice((0.3, 1.0))} if rng.random() < 0.7 else {}
        half = len(found) // 2
        made.append(
            [
                scored(penalise(found, Settings())),
                scored(raise_preferred(found, strengths, 0.2)),
                [one.chunk.id for one in strongest(found, strengths, 3)],
                [one.chunk.id for one in relevant(found, query, rows, {"anchor": 1.0, "heavi": 0.5}, 0.35)],
                [one.chunk.id for one in without_repeats(found, rows, 0.95)],
                [one.chunk.id for one in diverse(found, rows, 0.7, 4)],
                [one.chunk.id for one in interleave([found[:half], found[half:], found[:1]])],
                scored(merged(found[:half], found[half:], Settings(), 0.75)),
                scored(merged(found[:half], found[half:], replace(Settings(), fusion="rrf"), 0.75)),
                scored(SentenceReranker().rerank(query, found, rows, {"anchor": 2.0})),
                np.round(chunk_vectors(found, rows).sum(axis=1), 2).tolist(),
            ]
        )
    freeze("thinned", made)
    assert best_sentence(query.vector, None) == (-1.0, -1) and facts("Buoy W-7 cost $3,500.") == {
        "Buoy",
        "W",
        "7",
        "3,500",
    }


class Reads:
    """A reader that says of each chunk what is told."""

    name = "reads"

    def __init__(self, answered: list[float], tokens: int) -> None:
        self.answered, self.tokens = answered, tokens

    def read(self, question: str, own: Chunk) -> Reading | None:
        value = self.answered[own.id - 1]
        return None if value == 0.0 else Reading(value, value, (None,), self.tokens)


def test_passages_are_read_until_one_is_sure() -> None:
    found = hits(random.Random(1), 9)
    made = []
    for answered in (
        [1.0] * 9,
        [1.0, 1.99, 2.0, *[1.0] * 6],
        [1.0, 2.01, *[1.0] * 7],
        [0.0, *[1.5] * 8],
        [-3.0, -1.0, *[0.5] * 7],
    ):
        for tokens in (10, 149, 150, 151, 300, 450, 900):
            readings = read_hits("Why?", found, Reads(answered, tokens))
            made.append([list(readings), scored(ordered(found, readings))])
    freeze("read", made)
    assert ordered(found, {}) == found


# --- quotes ----------------------------------------------------------------------------------------------------------


def sentence(text: str, n: int, score: float, **more: Any) -> ScoredSentence:
    own = chunk(
        text,
        id=n,
        sequence=more.pop("sequence", n),
        document_id=more.pop("document_id", "d1"),
        kind=more.pop("kind", "text"),
        heading_path=more.pop("path", ()),
    )
    place = min(more.pop("place", 0), len(own.sentences) - 1)
    start, end = own.sentences[place][:2]
    return ScoredSentence(n, own, place, own.text[start:end], score, **more)


@pytest.mark.parametrize("intent", ["factual", "list", "comparison", "summary", "analytical"])
def test_sentences_that_are_chosen(intent: str) -> None:
    rng = random.Random(21)
    texts = (
        "The anchor weighs 350 kg. It is red.",
        "The anchor weighs 400 kg.",
        "It weighs 350 kg.",
        "Item | Value\nanchor | 350 kg\nbuoy | 5 kg",
        "- one anchor\n- two anchors",
        "The anchor weighs 350 kg, they say here.",
        "The buoy is heavy and old.",
        "The anchor is old and red.",
    )
    kinds = ("text", "text", "text", "table", "list", "text", "text", "text")
    made = []
    for _ in range(40):
        ranked = []
        for n in range(1, rng.randint(2, 9)):
            which = rng.randrange(8)
            ranked.append(
                sentence(
                    texts[which],
                    n,
                    rng.choice((0.0, 2.4, 2.5, 2.6, 2.9, 3.0, 3.1, 5.0, 9.9, 10.1, 13.0)),
                    kind=kinds[which],
                    place=rng.randrange(2) if which in (0, 3, 4) else 0,
                    document_id=f"d{rng.randint(1, 2)}",
                    path=(rng.choice("AB"),),
                    support=rng.choice((0.1, 0.3, 0.31, 0.5)),
                )
            )
        ranked.sort(key=lambda one: -one.score)
        query = asked(
            "How heavy is the anchor?",
            intent=intent,
            parts=("the anchor", "the buoy") if intent == "comparison" else (),
        )
        documents = {f"d{n}": Document(f"d{n}", f"d{n}.pdf", "", "h", "ready") for n in (1, 2)}
        chosen = _chosen(query, ranked, Settings(), documents)
        set_as = _lines(chosen) if intent == "list" else _sentences(chosen)
        made.append([[one.chunk.id, one.sentence] for one in chosen] + [[one.before, one.text[:12]] for one in set_as])
    freeze(f"chosen {intent}", made)


def test_scores_are_shown_with_four_decimals() -> None:
    (found,) = hits(random.Random(1), 1)
    exact = replace(found, cosine=0.123456, lexical_score=1.234567, score=0.345678)
    (row,) = candidates(Retrieved((exact,), (exact,), {}, {}))
    assert (row["cosine"], row["lexical_score"], row["score"]) == (0.1235, 1.2346, 0.3457)
    assert Relevance(0.123456, {}, ("a", "b")).sizes == {"probability": 0.123, "missing": 2}


def test_sentences_that_may_stand() -> None:
    found = {}
    for text in TEXTS["standing"]:
        for kind in ("text", "list", "table", "code", "toc"):
            one = sentence(text, 1, 1.0, kind=kind, path=("Your anchor",))
            found[f"{kind} {text}"] = [can_stand(one), quoted(one)]
    freeze("standing", found)


# --- judging ---------------------------------------------------------------------------------------------------------


def test_features_of_what_was_found() -> None:
    rng = random.Random(31)
    made = []
    for count in (1, 2, 8, 9, 12):
        found = hits(rng, count)
        query = asked("How heavy is the anchor of Fundy?")
        placed = [(n, one.chunk, one.score) for n, one in enumerate(found)]
        table = tabulate(query, placed, rows_of(found), {"anchor": 2.0, "heavi": 1.0})
        made.append({name: round(value, 3) for name, value in features(query, found, table, {"anchor": 2.0}).items()})
    freeze("found features", made)


def claims(*verdicts: str) -> tuple[Claim, ...]:
    return tuple(Claim("x" * (5 + 3 * n), n, n + 1, (1,), (0,), one, 0.5) for n, one in enumerate(verdicts))  # type: ignore[arg-type]


def test_reasons_and_grounds() -> None:
    cited = [
        Citation(1, f"d{n}", f"d{n}.pdf", n, 1, (), 1, (), False, "The anchor weighs 350 kg.", 0.5, 0.5) for n in (1, 2)
    ]
    made = []
    sets = (
        ("supported",),
        ("supported",) * 2,
        ("supported", "partly"),
        ("unsupported",) * 2,
        ("contradicted", "supported"),
        ("contradicted",) * 2,
    )
    for verdicts in sets:
        for coverage in (0.49, 0.5, 0.89, 0.9):
            for unnamed, missing in (
                (0.0, ()),
                (0.1, ()),
                (0.0, ("keel",)),
                (0.0, ("keel", "mast")),
                (0.0, ("a", "b", "c", "d")),
            ):
                relevance = Relevance(0.5, {"coverage": coverage, "unnamed": unnamed}, missing)
                made.append(confidence(relevance, claims(*verdicts), cited, Settings()).reason)
    freeze("reasons", made)
    freeze("grounds", [round(grounding(claims(*verdicts)), 3) for verdicts in sets])
    query = asked("How heavy is the anchor of Fundy and the keel?", parts=())
    held = context(
        passage(1, chunk("The anchor weighs 350 kg.", document_id="d1")),
        passage(2, chunk("A keel.", id=2, document_id="d2")),
    )
    enough = []
    for probability in (0.49, 0.5, 0.51):
        for parts in ((), ("the anchor", "the mast")):
            for text in (
                "The anchor weighs 350 kg.",
                "Fundy has a heavy anchor.",
                "A keel.",
                "Keels and anch of it heav",
                "fund",
            ):
                own = [replace(cited[0], quote=text)]
                found = sufficiency(
                    replace(query, parts=parts), Relevance(probability, {}, ("mast",)), held, claims("supported"), own
                )
                enough.append([found.is_sufficient, round(found.coverage_score, 2), found.missing_aspects])
    freeze("enough", enough)


def test_what_goes_beside_an_answer() -> None:
    rng = random.Random(41)
    found = hits(rng, 12)
    many = [replace(one, document=replace(one.document, id=f"x{n}", name=f"x{n}")) for n, one in enumerate(found)]
    retrieved = Retrieved(tuple(many[:6]), tuple(many), {}, {})
    cited = [Citation(n, f"x{n}", f"x{n}", n, 1, (), n, (), False, "q", 0.5, 0.5) for n in (1, 2, 1)]
    documents = {one.document.id: one.document for one in many}
    made = [
        [one.document_id for one in related(retrieved, cited)],
        [[one.document_id, one.pages, one.markers] for one in sources(cited, documents)],
        nearest_topics(retrieved),
        [[row["chunk_id"], row["use"], row["score"]] for row in candidates(retrieved, None, cited)],
    ]
    held = context(*(passage(n, chunk("w" * size, id=n)) for n, size in enumerate((199, 200, 201), 1)))
    made.append([[len(one.quote), one.origin] for one in previews(held)])
    for probability in (0.0, 0.05, 0.0899, 0.0901, 0.2, 0.44, 0.45, 0.46):
        relevances = [Relevance(probability, {}, (), names) for names in ((), ("Fundy",))]
        settings = replace(Settings(), answer_floor=0.45)
        made += [[probability, doubted(relevance, retrieved, settings)] for relevance in relevances]
    freeze("beside an answer", made)
    assert doubted(Relevance(0.9, {}, ()), Retrieved((), (), {}, {}), Settings()) == "missing"
    assert FoundSpan(0, 1, 2.0).end == 1
