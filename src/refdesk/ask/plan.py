"""Decides what to do for a question: level, intent and complexity become a plan.

    level      search                                       writing and checks
    basic      dense                                        none beyond the citations
    standard   hybrid; two stages when it is not easy       relevance, claims, verifier
    enhanced   two stages, beside graph and a second hop    + the model reasons before every answer
    maximum    two stages, twice as deep, all engines       + three drafts that must agree, thoughts, reconciler

What it may cost is counted on the prompt as it was assembled and on the length that a model usually writes: the mean of
its last answers in this library, or `USUAL` for one that has not written here. Two limits:

    answer.cost_average_usd   the last day's questions on average; a dear question is fine while the others are cheap
    answer.cost_limit_usd     one question; nothing dearer is begun

Over a limit, what is cheapest to lose is cut first, and the notes of the answer name each cut. What costs nothing
is never cut: the built-in check of every sentence stays.

`skipped` is what was wished for and cannot be done, such as a check by a model that nobody named; the trace says it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

from refdesk.answer import Context, Level, Plan, Query, Question, Spent, Strategy, Turn
from refdesk.ask.strategies import STRATEGIES
from refdesk.ask.strategies.registry import DEEP, DEEPEST
from refdesk.models import THOUGHTS, ModelInfo, Tier, estimate, model_info
from refdesk.ports import ModelRole, Models, Request
from refdesk.prompts import RECONCILE_SYSTEM, VERIFY_SYSTEM, answering_system
from refdesk.settings import Settings, rules_by_collection
from refdesk.text import rough_tokens
from refdesk.trace import Trace

# How much room has each part of a prompt? The window of a model, shared out by its size.

# Shares of the window: history, passages, generation; seed 001 step 8. The rest is for the rules.
SHARES = dict.fromkeys(get_args(Tier), (0.15, 0.60, 0.15)) | {"tiny": (0.10, 0.55, 0.20)}
# More passages than this cost money and attention and add nothing: ten hits with neighbours are about 6,000 tokens.
MOST_PASSAGES: dict[Tier, int] = {"tiny": 2_500, "small": 5_000, "medium": 8_000, "large": 12_000}
MOST_HISTORY = 8_000
MOST_GENERATION = 4_000
MOST_HIDDEN = 8_000  # for models that think before they write: their thoughts count as written
FEWEST_TOKENS = 500  # that are read, which is the best passage, and written, however little an answer may cost
PICTURE_TOKENS = 1_600  # that a picture of the largest size that is sent counts for, about, with either provider


def longest(length: int, fits: Callable[[int], bool]) -> int:
    """The most characters of a text that fit; 0 where none do."""
    return bisect_left(range(1, length + 1), True, key=lambda count: not fits(count))


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens for each part; `generation` is also the most that is written. Parts may take less than the window."""

    history: int
    passages: int
    generation: int
    tier: Tier = "medium"

    @classmethod
    def for_model(cls, info: ModelInfo | None, settings: Settings) -> Budget:
        """The shares of this model's window, bounded by the settings; without a model a generous default."""
        if info is None:
            passages = settings.max_context_tokens or 6_000
            return cls(0, passages, settings.max_answer_tokens)
        history, passages, generation = (int(share * info.context_window) for share in SHARES[info.tier])
        most_written = MOST_HIDDEN if info.thinks else MOST_GENERATION
        return cls(
            history=min(history, MOST_HISTORY),
            passages=min(passages, settings.max_context_tokens or MOST_PASSAGES[info.tier]),
            generation=min(generation, settings.max_answer_tokens or most_written),
            tier=info.tier,
        )


BASIC_K = 5  # seed 001 step 5: dense only, five chunks
# Chunks that a survey reads in full: it reads none of their neighbours, which it has in short. The page that answers is
# among the passages of .538 of financebench's questions with ten chunks and their neighbours, of .712 with twenty.
SURVEYED = 20
USUAL_TOP_K = 10  # what the hints of an intent are given for; rag.top_k scales them
DRAFTS = 3  # of which two must agree


def make_plan(
    question: Question, query: Query, models: Models, settings: Settings, trace: Trace
) -> tuple[Plan, Budget]:
    """What will be done and with how much room; what is left out is written into the trace."""
    writer, has_verifier = models.role("answer"), models.role("verifier") is not None
    plan = wished_plan(
        question,
        query,
        settings,
        has_llm=writer is not None,
        has_verifier=has_verifier,
        has_reconciler=models.role("reconciler") is not None,
        can_think=writer is not None and model_info(writer.name).thinking != "",
    )
    budget = Budget.for_model(model_info(writer.name) if writer is not None else None, settings)
    for what, why in plan.skipped:
        trace.skip(what, why)
    return plan, budget


# What a level promises, in the words of a note that says it was left out.
PROMISED = {
    "reason": "reasoning before the answer",
    "think": "a thinking budget",
    "vote": "several drafts",
    "verify": "a second model's check",
    "reconcile": "a reconciler",
}
NO_MODEL = "no model is set"
_SMALL = "models this small are asked for a single sentence"
# Variants only where a model writes them: those made without one lose .02 nDCG@10 on direct questions (docs/evals.md).
ENGINES: Mapping[Level, tuple[Strategy, ...]] = {"enhanced": ("graph", "multi_hop")}
ENGINES_WITH_MODEL: Mapping[Level, tuple[Strategy, ...]] = {"enhanced": ("graph", "fusion", "multi_hop")}
# What every other engine is added to; and the survey, which decides what is read in full and not only what is found.
ALONE = ("dense", "hybrid", "two_stage", "survey")


def engines(level: Level, strategy: Strategy, *, has_llm: bool = False) -> tuple[Strategy, ...]:
    """Those that a level searches beside its strategy, as far as there are such; of `maximum` all."""
    by_level = ENGINES_WITH_MODEL if has_llm else ENGINES
    wished = tuple(STRATEGIES) if level == "maximum" else by_level.get(level, ())
    return tuple(name for name in wished if name in STRATEGIES and name not in (*ALONE, strategy))


def left_out(question: Question, plan: Plan, budget: Budget, settings: Settings) -> list[str]:
    """What of its level and its format a plan does without, and why, in sentences: for the notes of the answer."""
    why = _in_one_part(question, plan, budget) if settings.answer_format == "three_part" else ""
    found = [f"The answer does not have three parts (answer.format): {why}."] if why else []
    if question.level not in ("enhanced", "maximum"):
        return found
    by_reason: dict[str, list[str]] = {}
    for what, why in plan.skipped:
        if what in PROMISED:
            by_reason.setdefault(why, []).append(PROMISED[what])
    notes = [f"Level {question.level} skipped {_listed(names)}: {why}." for why, names in by_reason.items()]
    return [*found, *notes]


def _in_one_part(question: Question, plan: Plan, budget: Budget) -> str:
    """Why an answer cannot have the three parts of seed 003; "" where it can."""
    if not plan.use_llm:
        return f"{NO_MODEL}, so the answer is quoted from the documents"
    if question.mode == "report":
        return "a report has its own sections"
    return _SMALL if budget.tier == "tiny" else ""


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class Skipped(NamedTuple):
    """What of a level is left out."""

    what: str
    why: str


def _skipped(
    question: Question, *, has_llm: bool, has_verifier: bool, has_reconciler: bool, can_think: bool
) -> list[Skipped]:
    """All that the level and the mode ask for and that cannot be done."""
    level, found = question.level, list[Skipped]()
    is_deep, is_checked = level in ("enhanced", "maximum"), question.response_mode != "quick" and level != "basic"
    if not has_llm:
        promised = {"enhanced": ("reason",), "maximum": ("vote", "think", "reconcile")}.get(level, ())
        return [Skipped(what, NO_MODEL) for what in promised]
    if is_checked and not has_verifier:
        found.append(Skipped("verify", "no verifier model is set; only the built-in check was used"))
    if level == "maximum" and not has_reconciler:
        found.append(Skipped("reconcile", "no reconciler model is set; unsupported sentences are removed"))
    if level == "maximum" and not can_think:
        found.append(Skipped("think", "the model does not support one; it reasons before answering instead"))
    if is_deep and not is_checked and has_verifier:
        found.append(Skipped("verify", "the mode is quick"))
    return found


def wished_plan(
    question: Question,
    query: Query,
    settings: Settings,
    *,
    has_llm: bool,
    has_verifier: bool,
    has_reconciler: bool = True,
    can_think: bool = True,
) -> Plan:
    """The plan; it holds no model and no clock, so the same question gives the same plan."""
    strategy = _strategy(question, query, settings)
    is_deep = strategy in ("two_stage", "survey")
    k = question.k or max(_top_k(question, query, settings), SURVEYED if strategy == "survey" else 1)
    verify = question.response_mode != "quick" and question.level != "basic"
    reconcile = question.response_mode == "thorough" or question.level == "maximum"
    is_maximum = question.level == "maximum"
    # At `basic` nothing is put in another order: with half of them 300 questions of two sets are answered as with all.
    least = settings.candidates // 2 if question.level == "basic" else settings.candidates
    # A question why is reasoned about wherever disputes are settled; the deeper levels reason about every question.
    wants_reasons = query.hints.use_reasoning and question.response_mode == "thorough"
    reasons = settings.reasoning or wants_reasons or question.level in ("enhanced", "maximum")
    thinking = settings.thinking_tokens if has_llm and is_maximum and can_think else 0
    named = {"has_verifier": has_verifier, "has_reconciler": has_reconciler, "can_think": can_think}
    return Plan(
        strategy=strategy,
        k=k,
        candidates=max(k, least, (DEEPEST if question.level == "maximum" else DEEP) if is_deep else 0),
        rerank=settings.rerank and strategy != "dense",
        read=question.level != "basic",
        check_relevance=settings.verification_enabled and question.level != "basic",
        use_mmr=query.hints.use_mmr and question.level != "basic",
        reasoning=has_llm and reasons and not thinking,
        template=query.hints.template,
        use_llm=has_llm,
        verify=verify,
        reconcile=reconcile,
        engines=_beside(question, strategy, settings, has_llm=has_llm),
        drafts=(settings.drafts or (DRAFTS if is_maximum else 1)) if has_llm else 1,
        thinking=thinking,
        skipped=tuple(_skipped(question, has_llm=has_llm, **named)),
    )


def _beside(question: Question, strategy: Strategy, settings: Settings, *, has_llm: bool) -> tuple[Strategy, ...]:
    """The engines of the level and those that are switched on, beside the one that was chosen."""
    wished = engines(question.level, strategy, has_llm=has_llm) if settings.strategy == "auto" else ()
    switched = {
        "fusion": settings.query_expansion_enabled or settings.hyde_enabled,
        "graph": settings.knowledge_graph_enabled,
    }
    return tuple(dict.fromkeys((*wished, *(name for name, is_on in switched.items() if is_on and name != strategy))))


def _strategy(question: Question, query: Query, settings: Settings) -> Strategy:
    if settings.strategy != "auto":
        return settings.strategy
    if question.level == "basic" or not settings.use_hybrid_search:
        return "dense"
    # Dense alone for easy questions, as seed 001 has it, loses a seventh of the answers (docs/evals.md) for 1 ms.
    is_easy = query.complexity != "complex" and query.intent in ("factual", "analytical")
    return "hybrid" if is_easy and question.level == "standard" else "two_stage"


def _top_k(question: Question, query: Query, settings: Settings) -> int:
    if question.level == "basic":
        return min(BASIC_K, settings.top_k)
    return max(1, round(query.hints.top_k * settings.top_k / USUAL_TOP_K))


# Which rules go before the context? The same for assembling, which leaves room for them, and for asking.


def system_message(plan: Plan, budget: Budget, settings: Settings, most: int | None) -> str:
    """The system message of one answer; within `most` bytes for the whole prompt it is shortened or left out."""
    return answering_system(
        plan.template,
        settings.context_format,
        reasoning=plan.reasoning,
        quote_first=budget.tier == "tiny",
        suggest=settings.suggest_questions,
        in_short=plan.strategy == "survey",
        in_parts=settings.answer_format == "three_part",
        house_rules=plan.house_rules,
        room=most,
    )


def with_house_rules(plan: Plan, collections: Iterable[str], settings: Settings) -> Plan:
    """With the rules of the library, and of the collections that are read and those around them, the outer ones first.

    {"finance": "…"} is for `finance/2024` too.
    """
    if not plan.use_llm or not (settings.house_rules or settings.collection_rules):
        return plan
    read = {f"{collection}/" for collection in collections}
    by_collection = sorted(rules_by_collection(settings.collection_rules).items())
    found = [rules for name, rules in by_collection if any(path.startswith(f"{name}/") for path in read)]
    rules = dict.fromkeys(text.strip() for text in (settings.house_rules, *found) if text.strip())
    return replace(plan, house_rules="\n".join(rules))


def make_request(
    plan: Plan,
    context: Context,
    turns: Sequence[Turn],
    info: ModelInfo,
    budget: Budget,
    settings: Settings,
    max_context_chars: int | None = None,
) -> Request:
    """The system message, what was said before, and the context, which ends with the question."""
    most = max_context_chars or settings.max_context_chars or None
    system = system_message(plan, budget, settings, most)
    message = Turn("user", (context.text, *context.pictures) if context.pictures else context.text)
    messages = (*recent(turns, budget.history), message)
    return with_sampling(Request(system, messages, budget.generation, thinking=plan.thinking), info, settings)


def with_sampling(request: Request, info: ModelInfo, settings: Settings) -> Request:
    temperature = info.temperature if settings.temperature < 0 else settings.temperature
    return replace(request, temperature=temperature, top_p=info.top_p, top_k=settings.sampling_top_k)


def recent(turns: Sequence[Turn], tokens: int) -> tuple[Turn, ...]:
    """The last turns that find room; a conversation never begins with an answer."""
    latest: list[Turn] = []
    for turn in reversed(turns):
        tokens -= rough_tokens(turn.content)
        if tokens < 0:
            break
        latest.append(turn)
    while latest and latest[-1].role != "user":
        latest.pop()
    return tuple(reversed(latest))


def prompt_tokens(request: Request) -> int:
    tokens = rough_tokens(request.system) + sum(rough_tokens(turn.content) for turn in request.messages)
    return tokens + PICTURE_TOKENS * sum(len(turn.images) for turn in request.messages)


# --- what will an answer cost, and what is given up when that is too much? ------------------------------------------

# Tokens that a model writes of which nothing is known yet.
USUAL: Mapping[ModelRole, int] = dict.fromkeys(("answer", "verifier", "reconciler"), 400)
FEW_QUESTIONS = 10  # fewer than these say nothing of a day's average: they may cost as much as so many together
Assemble = Callable[[Plan, Budget], Context]
Cut = Callable[["Fitted"], "Fitted"]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What will be done within the limits."""

    plan: Plan
    budget: Budget
    context: Context
    cuts: Mapping[str, str] = field(default_factory=dict)  # what was cut, and the sentence that says so
    expected_usd: float | None = None  # None: no price is known

    @property
    def sizes(self) -> dict[str, Any]:
        return {"expected_usd": self.expected_usd, "cuts": len(self.cuts)}


@dataclass(frozen=True, slots=True)
class Prices:
    """The models of one answer, and what is known of what they write."""

    names: Mapping[ModelRole, str]
    spent: Spent
    turns: Sequence[Turn]
    settings: Settings
    most_characters: int | None = None

    def expected(self, plan: Plan, budget: Budget, context: Context) -> float | None:
        """US dollars of an answer by this plan from this context; None where a price is not known."""
        if not plan.use_llm:
            return 0.0
        costs = [
            estimate(self.names[role], read, written) for role, read, written in self._calls(plan, budget, context)
        ]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def _calls(self, plan: Plan, budget: Budget, context: Context) -> Iterator[tuple[ModelRole, int, int]]:
        """(role, tokens read, tokens written) of each call that the plan may make."""
        for _ in range(plan.drafts):
            yield "answer", self._prompt(plan, budget, context), self.usual("answer") + plan.thinking
        answer = min(USUAL["answer"], self.usual("answer"))  # as it is read by others: without its thoughts
        if asks_verifier(plan, self.names):
            read = rough_tokens(VERIFY_SYSTEM) + context.token_count + answer
            yield "verifier", read, self.usual("verifier")
        if asks_reconciler(plan, self.names):
            read = rough_tokens(RECONCILE_SYSTEM) + context.token_count + 2 * answer
            yield "reconciler", read, self.usual("reconciler")

    def _prompt(self, plan: Plan, budget: Budget, context: Context) -> int:
        info = model_info(self.names["answer"])
        return prompt_tokens(make_request(plan, context, self.turns, info, budget, self.settings, self.most_characters))

    def usual(self, role: ModelRole) -> int:
        """Tokens that the model of this role usually writes."""
        name = self.names[role]
        known = self.spent.lengths.get((name, role))
        return round(known) if known is not None else USUAL[role] + THOUGHTS * model_info(name).thinks

    def affordable(self, plan: Plan, budget: Budget, context: Context, limit: float) -> int:
        """Tokens that the answering model may write so that all calls together stay under the limit."""
        read, usual = self._prompt(plan, budget, context), self.usual("answer")
        one_token, no_token = (estimate(self.names["answer"], read, count) or 0.0 for count in (1, 0))
        spare = limit - (self.expected(plan, budget, context) or 0.0)
        each = one_token - no_token
        return budget.generation if each <= 0 else usual + int(spare / each)


def asks_verifier(plan: Plan, names: Mapping[ModelRole, str]) -> bool:
    return plan.verify and plan.ask_verifier and "verifier" in names


def asks_reconciler(plan: Plan, names: Mapping[ModelRole, str]) -> bool:
    return plan.verify and plan.reconcile and plan.ask_reconciler and "reconciler" in names


def named(models: Models) -> dict[ModelRole, str]:
    """The models that an answer may ask, by role."""
    return {role: llm.name for role in USUAL if (llm := models.role(role)) is not None}


def is_paid(names: Mapping[ModelRole, str]) -> bool:
    """Whether one of these models costs anything that is known."""
    return any(estimate(name, 1, 1) for name in names.values())


def fit_to_cost(
    plan: Plan, budget: Budget, context: Context, prices: Prices, assemble: Assemble, already_usd: float = 0.0
) -> Fitted:
    """The plan, budget and context, cut down until they fit; `assemble` makes the context of a smaller budget.

    The average never takes the model away, and leaves it half of the passages; the limit for one question may do more.
    A model without a known price is not cut: nothing can be said of it.
    """
    whole = Fitted(plan, budget, context, expected_usd=prices.expected(plan, budget, context))
    if not plan.use_llm or whole.expected_usd is None:
        return whole
    settings, spent = prices.settings, prices.spent
    questions = max(FEW_QUESTIONS, spent.questions + 1)
    left = max(settings.cost_average_usd, settings.cost_average_usd * questions - spent.usd) - already_usd
    why = f"questions cost ${spent.usd / max(1, spent.questions):.2g} on average over the last day, "
    why += f"and answer.cost_average_usd is ${settings.cost_average_usd:g}"
    cutter = Cutter(prices, assemble, context.token_count, why)
    fitted = cutter.cut(whole, left, (*cutter.first, cutter.without_verifier))
    limit = settings.cost_limit_usd - already_usd
    cutter = replace(cutter, why=f"a question may cost at most ${settings.cost_limit_usd:g} (answer.cost_limit_usd)")
    fitted = cutter.cut(fitted, limit, (*cutter.first, cutter.without_verifier, *cutter.last))
    return cutter.bounded(fitted, limit)


@dataclass(frozen=True, slots=True)
class Cutter:
    """What can be given up, each once; a cut that would change nothing gives back what it was given."""

    prices: Prices
    assemble: Assemble
    tokens: int  # of the whole context
    why: str

    @property
    def first(self) -> tuple[Cut, ...]:
        return self.without_voting, self.without_reconciler, self.without_history, self.fewer(0.75), self.fewer(0.5)

    @property
    def last(self) -> tuple[Cut, ...]:
        return self.fewer(0.25), self.fewer(0.0), self.without_model

    def cut(self, fitted: Fitted, limit: float, cuts: Sequence[Cut]) -> Fitted:
        """One cut after the other, as far as is needed."""
        for cut in cuts:
            if fitted.expected_usd is None or fitted.expected_usd <= limit:
                break
            fitted = cut(fitted)
        return fitted

    def without_voting(self, fitted: Fitted) -> Fitted:
        if fitted.plan.drafts == 1:
            return fitted
        note = f"{self.prices.names['answer']} wrote one draft instead of {fitted.plan.drafts}"
        return self._changed(fitted, "vote", note, plan=replace(fitted.plan, drafts=1))

    def without_reconciler(self, fitted: Fitted) -> Fitted:
        if not asks_reconciler(fitted.plan, self.prices.names):
            return fitted
        note = f"{self.prices.names['reconciler']} was not asked to resolve disputes; refuted sentences were removed"
        return self._changed(fitted, "reconcile", note, plan=replace(fitted.plan, ask_reconciler=False))

    def without_history(self, fitted: Fitted) -> Fitted:
        if not recent(self.prices.turns, fitted.budget.history):
            return fitted
        budget = replace(fitted.budget, history=0)
        return self._changed(fitted, "history", "The model was not given the earlier conversation", budget=budget)

    def fewer(self, share: float) -> Cut:
        """With this share of the passages' tokens, and no less than the best passage needs."""

        def cut(fitted: Fitted) -> Fitted:
            tokens = max(FEWEST_TOKENS, int(share * self.tokens))
            if tokens >= min(fitted.budget.passages, fitted.context.token_count):
                return fitted
            budget = replace(fitted.budget, passages=tokens)
            context = self.assemble(fitted.plan, budget)
            note = f"About {context.token_count:,} tokens of passages were read instead of {self.tokens:,}"
            return self._changed(fitted, "passages", note, budget=budget, context=context)

        return cut

    def without_verifier(self, fitted: Fitted) -> Fitted:
        if not asks_verifier(fitted.plan, self.prices.names):
            return fitted
        note = f"{self.prices.names['verifier']} did not check the answer; only the built-in check was used"
        return self._changed(fitted, "verify", note, plan=replace(fitted.plan, ask_verifier=False))

    def without_model(self, fitted: Fitted) -> Fitted:
        """The other cuts are void then: nothing of them is paid for."""
        plan = replace(fitted.plan, use_llm=False, reasoning=False, drafts=1, thinking=0)
        budget = Budget.for_model(None, self.prices.settings)
        note = f"{self.prices.names['answer']} was not used; this answer is quoted from the documents"
        bare = replace(fitted, cuts={})
        return self._changed(bare, "model", note, plan=plan, budget=budget, context=self.assemble(plan, budget))

    def bounded(self, fitted: Fitted, limit: float) -> Fitted:
        """What is written is bounded too, so that a model that does not stop costs no more than the limit."""
        if not fitted.plan.use_llm or fitted.expected_usd is None:
            return fitted
        most = max(FEWEST_TOKENS, self.prices.affordable(fitted.plan, fitted.budget, fitted.context, limit))
        if most >= fitted.budget.generation:
            return fitted
        note = f"{self.prices.names['answer']} was limited to {most:,} tokens"
        return self._changed(fitted, "length", note, budget=replace(fitted.budget, generation=most))

    def _changed(
        self,
        fitted: Fitted,
        what: str,
        text: str,
        plan: Plan | None = None,
        budget: Budget | None = None,
        context: Context | None = None,
    ) -> Fitted:
        plan, budget, context = plan or fitted.plan, budget or fitted.budget, context or fitted.context
        cuts = {**fitted.cuts, what: f"{text}: {self.why}."}
        return Fitted(plan, budget, context, cuts, self.prices.expected(plan, budget, context))
