"""What is read, planned, remembered and preferred around every number of assemble, plan, keep and library? Frozen."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from context_samples import chunk, passage
from edge_samples import TEXTS, Says, embed, freeze
from refdesk.answer import Context, Hints, Plan, Query, Question, Retrieved, Spent, Turn
from refdesk.ask.assemble import assemble, grow, shortened
from refdesk.ask.keep import exchanges_kept, gist, remember, summarise
from refdesk.ask.plan import USUAL, Budget, Prices, fit_to_cost, is_paid, make_request, recent, wished_plan
from refdesk.ask.wording import named_cells, read, read_all, table_header
from refdesk.document_names import match_names
from refdesk.library import EngineHits, convex, fuse, reciprocal_rank
from refdesk.models import Tier, model_info
from refdesk.settings import Settings
from refdesk.trace import Trace
from refdesk.types import Chunk, Document, Hit

DOCUMENT = Document("d1", "manual.pdf", "", "h", "ready", title="Manual")


def hit(found: Chunk, score: float = 0.5) -> Hit:
    return Hit(found, replace(DOCUMENT, id=found.document_id), 1.0, score, score)


def sized(sequence: int, tokens: int, document: str = "d1", **more: Any) -> Chunk:
    text = " ".join(f"Sentence {sequence} {place} is here." for place in range(max(1, tokens // 8)))
    made = chunk(
        text, id=sequence if document == "d1" else 100 + sequence, sequence=sequence, document_id=document, **more
    )
    return replace(made, token_count=tokens)


# --- passages --------------------------------------------------------------------------------------------------------


def test_hits_grow_by_their_neighbours() -> None:
    rng = random.Random(9)
    found = []
    for _ in range(80):
        chunks = [sized(number, rng.choice((10, 20, 30))) for number in range(1, 14)]
        hits = [hit(chunks[place]) for place in rng.sample(range(13), rng.randint(1, 6))]
        around = {one.chunk.id: [c for c in chunks if 0 < abs(c.sequence - one.chunk.sequence) <= 2] for one in hits}
        tokens = rng.choice((50, 100, 104, 120, 148, 200, 1000))
        found.append([[one.chunk.id, [c.id for c in run]] for one, run in grow(hits, around, tokens)])
    freeze("grown", found)


class Shelf:
    """The calls of the library that assembling makes, over literal chunks."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks

    def neighbours(self, chunks: list[Chunk], reach: int) -> dict[int, list[Chunk]]:
        return {
            one.id: [
                c
                for c in self.chunks
                if c.document_id == one.document_id and 0 < abs(c.sequence - one.sequence) <= reach
            ]
            for one in chunks
        }


def asked(text: str = "Which sentence is here?") -> Query:
    return Query(text, text, embed(text), (), number=0.0)


@pytest.mark.parametrize("use_llm", [True, False])
def test_passages_in_a_budget(use_llm: bool) -> None:
    """From a budget for all passages down to one without room for a word."""
    chunks = [sized(number, 40 + number, document=f"d{number % 5}") for number in range(1, 11)]
    hits = tuple(hit(one, 1.0 - one.sequence / 20) for one in chunks[:6])
    rows = {
        one.id: np.array([np.rint(embed(one.text[s.start : s.end])[:48] * 127) for s in one.sentences], np.int8)
        for one in chunks
    }
    found = []
    for tokens in (600, 420, 419, 400, 300, 250, 200, 150, 120, 100, 80, 60, 50, 40, 35, 30, 26, 25, 24, 10, 0):
        budget = Budget(0, tokens, 1000)
        retrieved = Retrieved(hits, hits, rows, {"sentenc": 2.0, "4": 3.0})
        plan = Plan("hybrid", 10, 20, use_llm=use_llm)
        made = assemble(asked(), plan, retrieved, Shelf(chunks), budget, Settings())  # type: ignore[arg-type]
        parts = [[one.number, one.resolution, len(one.text), [c.id for c in one.chunks]] for one in made.passages]
        found.append([tokens, parts, made.token_count, len(made.text)])
    freeze(f"budgets {use_llm}", found)


def test_one_long_passage_in_a_budget() -> None:
    """Cut to half of its sentences, to a quarter, to an eighth, then by the word."""
    long = sized(1, 240)
    retrieved = Retrieved((hit(long),), (hit(long),), {}, {"sentenc": 0.2, "1": 0.3})
    found = []
    for tokens in range(270, 0, -6):
        budget = Budget(0, tokens, 1000)
        made = assemble(asked("Sentence 1 7 of it"), Plan("hybrid", 5, 9), retrieved, Shelf([long]), budget, Settings())  # type: ignore[arg-type]
        found.append([tokens, len(made.passages[0].text), made.passages[0].resolution, made.passages[0].text[:14]])
    freeze("one long passage", found)


@pytest.mark.parametrize("most", [5000, 2000, 1200, 800, 500, 300, 200, 120, 60, 20, 1])
def test_passages_in_so_many_bytes(most: int) -> None:
    chunks = [sized(number, 40, document=f"d{number}") for number in range(1, 7)]
    hits = tuple(hit(one) for one in chunks)
    retrieved = Retrieved(hits, hits, {}, {})
    plan = Plan("hybrid", 10, 20)
    made = assemble(asked(), plan, retrieved, Shelf(chunks), Budget(0, 6000, 1000), Settings(), most)  # type: ignore[arg-type]
    assert len(made.text.encode()) <= most
    freeze(
        f"bytes {most}", [len(made.text), [[len(one.text), one.resolution] for one in made.passages], made.text[-30:]]
    )


def test_shortened_passages() -> None:
    found = []
    for count in range(1, 10):
        text = " ".join(f"{'Which sentence' if place % 3 == 0 else 'Item'} {place} is here." for place in range(count))
        own = passage(1, chunk(text))
        rows = {
            1: np.array([np.rint(embed(f"{place}") * 127) for place in range(max(0, count - 1))], np.int8).reshape(
                -1, 48
            )
        }
        for share in (0.5, 0.25, 0.12):
            made = shortened(own, asked("Which sentence is 4?"), rows, {"sentenc": 2.0}, share)
            found.append([made.text, made.resolution])
    freeze("shortened", found)


# --- plans -----------------------------------------------------------------------------------------------------------

MODELS = (
    "openai:gpt-4o",
    "openai:o3",
    "ollama:llama3.2:1b",
    "ollama:qwen2.5:7b",
    "ollama:llama3.1:70b",
    "anthropic:claude-sonnet-4-5",
)


TURNS = (Turn("user", "What is at the buoy? " * 40), Turn("assistant", "An anchor. " * 40))


def test_room_for_each_part() -> None:
    found = {}
    for name in MODELS:
        info = model_info(name)
        for window in (1000, 4096, 8192, 20000, 60000, 1_000_000):
            for changed in ({}, {"max_context_tokens": 700, "max_answer_tokens": 900}):
                settings = replace(Settings(), **changed)
                made = Budget.for_model(replace(info, context_window=window), settings)
                key = f"{info.tier} {info.thinks} {window} {len(changed)}"
                found[key] = [made.history, made.passages, made.generation]
    bare = [
        Budget.for_model(None, Settings()),
        Budget.for_model(None, replace(Settings(), max_context_tokens=700)),
    ]
    freeze("room", [found, [[one.passages, one.generation] for one in bare]])


@pytest.mark.parametrize("tier", ["tiny", "small", "medium", "large"])
def test_room_by_the_size_of_a_model(tier: Tier) -> None:
    found = []
    for window in (1000, 9000, 30000, 200000):
        info = replace(model_info(MODELS[0]), tier=tier, context_window=window)
        made = Budget.for_model(info, Settings())
        found.append([made.history, made.passages, made.generation])
        for temperature in (-1.0, 0.0, 0.5):
            settings = replace(Settings(), temperature=temperature)
            request = make_request(Plan("hybrid", 5, 9, use_llm=True), Context((), "x", 1), TURNS, info, made, settings)
            found.append([len(request.system), len(request.messages), request.temperature == info.temperature])
    freeze(f"tier {tier}", found)


def test_wished_plans() -> None:
    found = []
    intents = (("factual", 10), ("list", 15), ("comparison", 14), ("analytical", 12))
    for level in ("basic", "standard", "enhanced", "maximum"):
        for mode in ("quick", "thorough"):
            for intent, top_k in intents:
                for complexity in ("simple", "complex"):
                    hints = Hints(top_k, intent == "comparison", intent == "analytical", intent)  # type: ignore[arg-type]
                    query = replace(asked(), intent=intent, complexity=complexity, hints=hints)  # type: ignore[arg-type]
                    question = Question("q", level=level, response_mode=mode)  # type: ignore[arg-type]
                    made = wished_plan(question, query, Settings(), has_llm=True, has_verifier=top_k == 10)
                    found.append([
                        made.strategy, made.k, made.candidates, made.rerank, made.check_relevance, made.use_mmr,
                        made.reasoning, made.verify, made.reconcile, len(made.skipped),
                    ])  # fmt: skip
    for top_k in (1, 3, 5, 6, 20):
        settings = Settings().changed({"rag.top_k": top_k})
        for level in ("basic", "standard", "maximum"):
            made = wished_plan(Question("q", level=level), asked(), settings, has_llm=False, has_verifier=False)  # type: ignore[arg-type]
            found.append([made.k, made.candidates])
    for k in (1, 49, 50, 51, 99, 101, 150):
        made = wished_plan(Question("q", level="maximum", k=k), asked(), Settings(), has_llm=False, has_verifier=False)
        found.append([made.k, made.candidates])
    freeze("plans", found)


def test_turns_that_find_room() -> None:
    turns = [Turn("user" if place % 2 == 0 else "assistant", "word " * (place + 1)) for place in range(6)]
    freeze("recent", [[len(one.content) for one in recent(turns, tokens)] for tokens in range(0, 40)])


def assembled(plan: Plan, budget: Budget) -> Context:
    tokens = min(8000, budget.passages)
    return Context((passage(1, chunk("The anchor weighs 350 kg.")),), "x" * tokens * 4, tokens)


@pytest.mark.parametrize("questions", [0, 9, 10, 30])
@pytest.mark.parametrize("model", ["openai:gpt-4o", "openai:o3"])
def test_what_is_given_up_for_a_price(questions: int, model: str) -> None:
    """Limits as shares of what the whole would cost, so that no price of today is frozen."""
    plan = Plan("hybrid", 10, 20, use_llm=True, verify=True, reconcile=True, reasoning=True)
    names: Any = dict.fromkeys(USUAL, model)
    budget = Budget.for_model(model_info(model), Settings())
    whole = Prices(names, Spent(), TURNS, Settings()).expected(plan, budget, assembled(plan, budget))
    assert whole is not None and is_paid(names)
    found = []
    for share in (2.0, *(step / 20 for step in range(20, 4, -2)), *(step / 100 for step in range(20, 0, -1))):
        for kind in ("limit", "average"):
            limits = {"limit": 100.0, "average": 100.0} | {kind: share * whole}
            settings = replace(Settings(), cost_limit_usd=limits["limit"], cost_average_usd=limits["average"])
            spent = Spent(questions * whole, questions, {(model, "verifier"): 100.0})
            prices = Prices(names, spent, TURNS, settings)
            made = fit_to_cost(plan, budget, assembled(plan, budget), prices, assembled, already_usd=0.05 * whole)
            cost = None if made.expected_usd is None else round(made.expected_usd / whole, 2)
            found.append(
                [
                    kind,
                    share,
                    list(made.cuts),
                    made.budget.passages,
                    made.budget.history,
                    made.budget.generation // 50,
                    cost,
                ]
            )
    freeze(f"price {model} {questions}", found)


# --- memory ----------------------------------------------------------------------------------------------------------


def test_what_is_remembered() -> None:
    found = []
    for count in range(0, 17, 2):
        turns = [
            Turn(role, f"{role.title()} {n} asks. {'More is said here. ' * (n % 4)}[1]")  # type: ignore[arg-type]
            for n in range(count)
            for role in ("user", "assistant")
        ]
        for tier in ("tiny", "small", "medium", "large"):
            for budget in (-1, 0, 1, 20, 60, 150, 2000):
                made = remember(turns, tier, budget, "Before it was so." if count % 4 else "", most=12)
                found.append(
                    [len(made.turns), sum(len(one.content) for one in made.turns), len(made.summary), made.dropped]
                )
    assert [exchanges_kept(tier, most) for tier in ("tiny", "large") for most in (1, 3, 20)] == [1, 3, 3, 1, 3, 15]
    freeze("remembered", found)


def test_what_is_remembered_in_every_budget() -> None:
    turns = [Turn("user", "What is it? Tell me."), Turn("assistant", "It is so [1]. Yes."), Turn("user", "Why? " * 6)]
    found = []
    for budget in range(90):
        for most in (0, 1, 2, 3):
            made = remember(turns, "tiny", budget, "Before." if budget % 2 else "", most=most)
            found.append(
                [len(made.turns), sum(len(one.content) for one in made.turns), len(made.summary), made.dropped]
            )
    freeze("every budget", found)


def test_gists() -> None:
    turns = [
        Turn("user", "What does it cost? I forgot."),
        Turn("assistant", "It costs 4 euros [1]. " * 9),
        Turn("user", "w" * 300),
    ]
    freeze(
        "gists",
        [gist(turns, budget, before) for budget in range(0, 130, 6) for before in ("", "It was so before. Long ago.")],
    )
    long = Turn("user", "word " * 100)
    freeze("cut gists", [gist([long], budget) for budget in range(1, 80, 3)])


def test_summaries_of_a_model() -> None:
    turns = [Turn("user", "What?"), Turn("assistant", "That.")]
    for size in (1, 590, 599, 600, 601, 700):
        model = Says("word. " * size)
        made = asyncio.run(summarise(turns, model, Trace(), "Before."))
        assert model.asked[0].max_tokens == 300
        assert len(made) <= 2 * 300 * 4 and (size > 390 or made == ("word. " * size).strip())
    empty = asyncio.run(summarise(turns, Says(" "), Trace(), "Before."))
    assert empty == gist(turns, 300, "Before.")


# --- which documents are named? --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [5, 19, 20, 40])
def test_named_documents(chunks: int) -> None:
    shelf = tuple(
        Document(
            name, name, "", "h", "ready", title=title, chunk_count=chunks + place % 2, date=f"20{10 + place}-01-01"
        )
        for place, (name, title) in enumerate(TEXTS["files"])
    )
    freeze(f"named {chunks}", {text: match_names(text, shelf) for text in TEXTS["naming"]})
    assert match_names("3M", shelf[:1]) == {} and match_names("3M", shelf[:2]) == {}
    assert bool(match_names("Best Buy", shelf[1:3])) == (chunks > 5)  # of two documents one may be named
    assert all(value == round(value, 4) for text in TEXTS["naming"] for value in match_names(text, shelf).values())


def test_names_that_many_documents_share() -> None:
    found = []
    for sharing in (1, 2, 3, 5, 10, 30, 45, 50, 55, 59):
        shelf = tuple(
            Document(
                str(n),
                f"Kestrel {n % 7} x{n}.pdf" if n < sharing else f"Heron{n}y.pdf",
                "",
                "h",
                "ready",
                chunk_count=40,
            )
            for n in range(60)
        )
        made = match_names("What does Kestrel sell?", shelf)
        found.append([len(made), *sorted(set(made.values()))])
    freeze("shared names", found)


# --- rows of tables -------------------------------------------------------------------------------------------------


def test_sentences_are_remembered() -> None:
    texts = [f"Sentence {number} of many." for number in range(2100)]
    made = read_all(texts)
    assert len(made) == 2100 and read(texts[-1]) is made[texts[-1]] and read(texts[0]).terms == made[texts[0]].terms
    freeze("words", {text: [sorted(read(text).numbers), sorted(read(text).names)] for text in TEXTS["sentences"]})


def test_tables() -> None:
    found = {}
    for text in TEXTS["tables"]:
        own = chunk(text, kind="table")
        header = table_header(own)
        found[text] = [header.start, header.stop, [named_cells(own, place) for place in range(len(own.sentences))]]
    plain = chunk(TEXTS["tables"][1], kind="text")
    assert named_cells(plain, 1) == []
    freeze("tables", found)


# --- fusing ----------------------------------------------------------------------------------------------------------


def test_fused_lists() -> None:
    scores = (
        ({1: 4.0}, {1: 0.2, 2: 0.8}),
        ({}, {1: 0.5, 2: -1.0}),
        ({1: 2.0, 3: 1.0}, {}),
        ({}, {}),
        ({1: 0.0}, {2: -1.0}),
    )
    made = [convex(lexical, cosine, weight) for lexical, cosine in scores for weight in (0.0, 0.5, 0.8, 1.0)]
    freeze("convex", [[[one, round(score, 3)] for one, score in ranked] for ranked in made])
    lists = [[7, 8, 9], [8], [], [9, 7]]
    freeze(
        "ranks",
        [
            [[one, round(1000 * score, 2)] for one, score in reciprocal_rank(lists[:count], k)]
            for count in range(5)
            for k in (1, 30)
        ],
    )
    chunks = [sized(number, 10) for number in range(1, 5)]
    one, other = (
        EngineHits("a", [hit(chunks[0], 0.9), hit(chunks[1], 0.1)]),
        EngineHits("b", [hit(chunks[1], 0.8), hit(chunks[2], 0.7)], 2),
    )
    made = [
        [(found.chunk.id, round(100 * found.score, 3)) for found in fuse(lists, 30)]
        for lists in ([one], [one, other], [other, one])
    ]
    freeze("fused", made)
