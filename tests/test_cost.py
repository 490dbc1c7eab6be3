"""What an answer costs is counted on what will be sent; too dear, it loses what is cheapest to lose, and says so."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_samples import chunk, passage
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.answer import Answer, Context, Plan, Spent, Turn
from refdesk.ask.plan import FEW_QUESTIONS, FEWEST_TOKENS, THOUGHTS, USUAL, Budget, Fitted, Prices, fit_to_cost
from refdesk.models import estimate, model_info
from refdesk.settings import Settings
from refdesk.text import CHARACTERS_PER_TOKEN
from wire_server import Recorded, Reply, WireServer

STORES = ON_DISK

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
MODEL = "openai:gpt-4o"
PLAN = Plan("hybrid", 10, 20, use_llm=True, verify=True, reconcile=True, reasoning=True)
TURNS = (Turn("user", "What is at the buoy? " * 40), Turn("assistant", "An anchor. " * 40))
TOKENS = 8_000


def assembled(plan: Plan, budget: Budget) -> Context:
    """As many tokens of passages as the budget has room for, of the 8,000 there are."""
    tokens = min(TOKENS, budget.passages)
    return Context((passage(1, chunk("The anchor weighs 350 kg.")),), "x" * tokens * CHARACTERS_PER_TOKEN, tokens)


NOTHING = Spent()


def fitted(spent: Spent = NOTHING, model: str = MODEL, already: float = 0.0, **limits: float) -> Fitted:
    settings = Settings().changed({f"answer.cost_{name}_usd": value for name, value in limits.items()})
    budget = Budget.for_model(model_info(model), settings)
    names: Any = dict.fromkeys(USUAL, model)
    return fit_to_cost(
        PLAN, budget, assembled(PLAN, budget), Prices(names, spent, TURNS, settings), assembled, already_usd=already
    )


def test_what_fits_is_left_alone() -> None:
    found = fitted(average=10.0, limit=10.0)
    assert (found.plan, found.budget, found.cuts) == (PLAN, Budget.for_model(model_info(MODEL), Settings()), {})


@pytest.mark.parametrize("limit", [0.06, 0.05, 0.04, 0.03, 0.02, 0.01])
def test_one_question_stays_under_its_limit_and_every_cut_is_said(limit: float) -> None:
    found = fitted(average=10.0, limit=limit)
    assert found.plan.use_llm and found.plan.verify, "the check that costs nothing stays"
    assert found.expected_usd is not None and found.expected_usd <= limit
    assert found.cuts and all("answer.cost_limit_usd" in said for said in found.cuts.values())


def test_what_is_cheapest_to_lose_goes_first() -> None:
    whole = fitted(average=10.0, limit=10.0).expected_usd
    assert whole is not None
    steps = [list(fitted(average=10.0, limit=whole * share / 100).cuts) for share in range(100, 8, -1)]
    seen = [cuts for place, cuts in enumerate(steps) if place == 0 or cuts != steps[place - 1]]
    without_length = [tuple(cut for cut in cuts if cut != "length") for cuts in seen]
    assert list(dict.fromkeys(without_length)) == [
        (),
        ("reconcile",),
        ("reconcile", "history"),
        ("reconcile", "history", "passages"),
        ("reconcile", "history", "passages", "verify"),
    ]


def test_in_the_end_no_model_is_asked_and_the_built_in_check_stays() -> None:
    found = fitted(average=10.0, limit=0.0)
    assert not found.plan.use_llm and found.plan.verify and found.plan.reconcile
    assert list(found.cuts) == ["model"] and found.cuts["model"].startswith(MODEL)


@pytest.mark.parametrize("model", ["ollama:llama3.1", "openai:a-model-nobody-priced"])
def test_models_without_a_price_are_not_cut(model: str) -> None:
    assert fitted(model=model, average=0.0, limit=0.0).plan == PLAN


def test_the_average_is_over_a_day_and_a_few_questions_say_nothing_of_it() -> None:
    usual = fitted(average=10.0, limit=10.0).expected_usd
    assert usual is not None
    average = usual / 2
    assert fitted(average=average).cuts == {}, "the first question of a day"
    cheap = Spent(usd=average * 10, questions=100)
    assert fitted(cheap, average=average).cuts == {}, "the others were cheap"
    dear = Spent(usd=usual * 100, questions=100)
    found = fitted(dear, average=average)
    assert found.expected_usd is not None and found.expected_usd <= average
    assert found.cuts and all("answer.cost_average_usd" in said for said in found.cuts.values())
    assert fitted(replace(dear, usd=usual * FEW_QUESTIONS, questions=FEW_QUESTIONS), average=average).cuts


def test_the_average_never_takes_the_model_away() -> None:
    found = fitted(Spent(usd=100.0, questions=100), average=0.0)
    assert found.plan.use_llm and found.budget.passages == TOKENS // 2
    assert not found.plan.ask_verifier and found.plan.verify


def test_what_was_spent_on_the_question_already_counts() -> None:
    whole = fitted(average=10.0, limit=10.0).expected_usd
    assert whole is not None
    assert fitted(average=10.0, limit=whole * 1.2).plan.ask_reconciler is not False
    assert fitted(average=10.0, limit=whole * 1.2, already=whole * 0.3).cuts


def test_the_length_is_what_the_model_usually_writes() -> None:
    short = fitted(Spent(lengths={(MODEL, "answer"): 100.0}), average=10.0, limit=10.0).expected_usd
    new = fitted(average=10.0, limit=10.0).expected_usd
    long = fitted(Spent(lengths={(MODEL, "answer"): 3000.0}), average=10.0, limit=10.0).expected_usd
    assert short is not None and new is not None and long is not None
    each = (estimate(MODEL, 0, 1000) or 0.0) / 1000
    assert new - short > 300 * each * 0.99 and long - new == pytest.approx(2600 * each)


def test_a_model_that_thinks_is_expected_to_write_more() -> None:
    prices = Prices({"answer": "openai:o3", "verifier": MODEL}, Spent(), (), Settings())
    assert (prices.usual("answer"), prices.usual("verifier")) == (USUAL["answer"] + THOUGHTS, USUAL["verifier"])


def test_a_model_that_does_not_stop_costs_no_more_than_the_limit() -> None:
    found = fitted(model="anthropic:claude-opus-4-1", average=10.0, limit=0.4)
    assert "length" in found.cuts and found.budget.passages >= FEWEST_TOKENS
    prices = Prices(dict.fromkeys(USUAL, "anthropic:claude-opus-4-1"), Spent(), TURNS, Settings())  # type: ignore[arg-type]
    usual = found.expected_usd or 0.0
    more = estimate("anthropic:claude-opus-4-1", 0, found.budget.generation - prices.usual("answer")) or 0.0
    assert usual + more <= 0.4 + 1e-9


# whole questions over HTTP, at the prices of today


STRONG = {
    "anthropic:claude-sonnet-4-5": "ANTHROPIC",
    "openai:gpt-5": "OPENAI",
    "openai:o3": "OPENAI",
    "gemini:gemini-2.5-pro": "GEMINI",
    "xai:grok-4": "XAI",
}


def point(monkeypatch: pytest.MonkeyPatch, server: WireServer, name: str, verifier: str = "") -> None:
    monkeypatch.setenv("REFDESK_LLM", name)
    monkeypatch.setenv("REFDESK_LLM_VERIFIER", verifier or name)
    for provider in set(STRONG.values()):
        path = "" if provider == "ANTHROPIC" else "/v1"
        monkeypatch.setenv(f"{provider}_BASE_URL", f"{server.url}{path}")
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-test")


def answering(usage: tuple[int, int] = (6000, 300)) -> Any:
    def say(request: Recorded) -> Reply:
        if '"verdict' in request.system or "verdict" in request.question:
            text = json.dumps({"verdicts": [{"claim": 1, "verdict": "supported", "reason": ""}]})
            return Reply(pieces=[text], usage=usage)
        before = request.question[: request.question.index("cast iron sinker")]
        number = re.findall(r"^\[(\d+)\]", before, re.MULTILINE)[-1]
        return Reply(pieces=[f"The anchor weighs 350 kg [{number}]."], usage=usage)

    return say


PARTS = ("anchor", "chain", "float", "lamp", "mast", "swivel", "rope", "shackle", "gauge", "panel", "battery", "buoy")


@pytest.fixture
def own_folder(new_folder: Path) -> Path:
    """A library of twelve manuals, each a passage of its own: ten of them are read for a question."""
    about = "The {0} of the standard wave buoy mooring is checked twice a year. A worn {0} is replaced before winter. "
    texts = [{"name": f"{part}.txt", "text": about.format(part) * 5} for part in PARTS]
    texts[0]["text"] = (
        "The anchor of the standard wave buoy mooring is a cast iron sinker of 350 kg. " + texts[0]["text"]
    )
    with Refdesk(new_folder) as desk:
        desk.add_texts(texts)
    return new_folder


def asked(folder: Path, **options: Any) -> Answer:
    with Refdesk(folder) as desk:
        return desk.ask_sync(QUESTION, cache=False, **options)


@pytest.mark.only_on("sql", reason="what differs is the model")
@pytest.mark.parametrize("model", STRONG)
def test_by_default_a_strong_model_reads_everything_and_is_verified(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    point(monkeypatch, server, model)
    server.answer_by(answering())
    answer = asked(own_folder)
    without_limits = {"answer.cost_limit_usd": 100.0, "answer.cost_average_usd": 100.0}
    asked(own_folder, settings=without_limits)
    writer, verifier, unlimited, _ = server.requests
    assert writer.json == unlimited.json, "the same passages, the same room to write"
    assert "350 kg" in verifier.question and answer.verification.status == "verified"
    assert answer.model == model and answer.notes == () and (answer.usage.cost_usd or 0.0) > 0.01


@pytest.mark.only_on("sql", reason="what differs is the model")
@pytest.mark.parametrize("mode", ["standard", "thorough"])
def test_over_the_hard_limit_the_free_check_stays_and_the_cuts_are_told(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    point(monkeypatch, server, "openai:gpt-4")
    server.say("The anchor weighs 950 kg [1].", usage=(600, 20))
    with Refdesk(own_folder) as desk:
        answer = desk.ask_sync(QUESTION, cache=False, mode=mode, settings={"answer.cost_limit_usd": 0.06})
        stages = {one["name"]: one["skipped"] for one in desk.trace(answer.id)["stages"] if one["skipped"]}
    assert [one.model for one in server.requests] == ["gpt-4"], "a verifier would cost too much"
    assert answer.verification.status in ("disputed", "reconciled")
    assert len(answer.notes) >= 2 and all("answer.cost_limit_usd" in note for note in answer.notes)
    assert stages["verify"] in answer.notes and stages["passages"] in answer.notes


def test_a_day_that_was_dear_makes_the_next_questions_cheaper(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(monkeypatch, server, "anthropic:claude-sonnet-4-5")
    server.answer_by(answering(usage=(20_000, 2_000)))
    with Refdesk(own_folder) as desk:
        answers = [desk.ask_sync(QUESTION, cache=False) for _ in range(FEW_QUESTIONS)]
        spent = desk.parts.asking.answers.spent()
    assert answers[0].notes == ()
    assert any("answer.cost_average_usd" in note for note in answers[-1].notes)
    assert spent.questions == FEW_QUESTIONS
    assert spent.usd == pytest.approx(sum(one.usage.cost_usd or 0.0 for one in answers))
    assert spent.lengths[("anthropic:claude-sonnet-4-5", "answer")] == pytest.approx(2000)
    sizes = [len(one.question) for one in server.requests if "cast iron" in one.question]
    assert sizes[-1] < sizes[0]
