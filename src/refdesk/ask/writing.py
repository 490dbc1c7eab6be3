"""From search results to the answer: assemble → generate → attest → verify → keep.

The second half of `flow.py`, which an agent and a report go through as well: whoever has searched, and however, what is
written is checked the same way. A verifier gives one verdict for every claim, as JSON. Silence, nonsense, a claim left
out or a failure count as *not verified*, never as agreement. A reconciler writes the answer anew from the same
passages; its text is a draft like any other, and goes through the markers and the checks again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, get_args

import orjson

from refdesk.answer import (
    Answer,
    Claim,
    Context,
    Done,
    Event,
    Plan,
    Query,
    Question,
    Replace,
    Retrieved,
    Sources,
    Spent,
    Thinking,
    Usage,
    Verdict,
    Verification,
    Verifying,
)
from refdesk.answer import Turn as Message
from refdesk.ask.assemble import assemble, joined_later, previews, said_of_short, with_neighbours, with_whole_tables
from refdesk.ask.attest import (
    CONTRADICTED,
    REFUTED,
    Attested,
    JudgeClaim,
    Proofs,
    Settled,
    attest,
    attest_quotes,
    remove_unsupported,
)
from refdesk.ask.citations import render
from refdesk.ask.draft import Draft, WritingTask, drafted, quoted
from refdesk.ask.extract import Quote, extract
from refdesk.ask.generate import refuses
from refdesk.ask.judge import Doubt, Relevance, candidates, conclude, doubted, learned, right_features
from refdesk.ask.keep import BESIDE, AskPorts, Keeper
from refdesk.ask.markers import MARKER, numbered_by_passage, statements
from refdesk.ask.model_figures import Tables, cited_tables, cites_tables
from refdesk.ask.plan import Budget, Fitted, Prices, fit_to_cost, is_paid, named, with_house_rules
from refdesk.ask.support import kept_verdicts, stricter
from refdesk.ask.table_answer import TablesRead, likelier_answer
from refdesk.ask.wording import other_language, wanted
from refdesk.errors import RefdeskError
from refdesk.library import LibraryReader
from refdesk.models import model_info
from refdesk.ports import LLM, Models, Reader, Request
from refdesk.prompts import LONGEST_TEXT, RECONCILE, RECONCILE_SYSTEM, VERIFY, VERIFY_SCHEMA, VERIFY_SYSTEM
from refdesk.settings import Settings
from refdesk.trace import Trace, in_thread, run

NOT_PROVED = "{model} wrote nothing that the documents support, so this answer is quoted from them."


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known before anything is read: the question understood and planned, what was found and how it is judged.

    `writer` is who writes the draft; `outline` is what an agent noted while it searched.
    """

    question: Question
    query: Query
    answer: Answer
    plan: Plan
    budget: Budget
    retrieved: Retrieved
    relevance: Relevance
    tables: TablesRead
    doubt: Doubt
    writer: Callable[[Draft, WritingTask], AsyncGenerator[Event, None]]
    outline: Callable[[Context], Context] = lambda context: context


def doubt_of(
    question: Question, relevance: Relevance, retrieved: Retrieved, settings: Settings, keeper: Keeper
) -> Doubt:
    """Whether the answer is there; of documents in another language the nearest is always shown, and that is said."""
    doubt = doubted(relevance, retrieved, settings)
    written = {hit.document.language for hit in retrieved.hits}
    beside = {hit.document.language for hit in retrieved.considered}
    foreign = other_language(question.text, written)
    if doubt == "missing" and not other_language(question.text, written | beside):
        foreign = ""  # what comes nearest by chance is no sign of the language of the others
    if foreign:
        keeper.notes.append(foreign)
    return "near" if doubt and foreign else doubt


def doubt_of_quotes(
    doubt: str, query: Query, relevance: Relevance, retrieved: Retrieved, settings: Settings, quotes: Sequence[Quote]
) -> str:
    """The same doubt once it is known what is quoted: whether a sentence stands out tells more than the passages do.

    Reasons are not doubted for want of one: several sentences tell them together.
    """
    by_words = relevance.told != relevance.probability
    is_settled = doubt == "missing" or relevance.missing_names or retrieved.key_sentences or by_words
    if is_settled or not quotes or quotes[0].chance is not None or "answered" not in relevance.features:
        return doubt
    if learned("read_told", right_features(relevance, quotes)) >= settings.answer_floor:
        return ""
    return doubt if query.intent == "analytical" else "near"


async def read_and_write(found: Findings, desk: AskPorts, keeper: Keeper, trace: Trace) -> AsyncGenerator[Event, None]:
    """From what was found to the answer: assemble, generate, attest, settle, keep."""
    question, query, plan, doubt = found.question, found.query, found.plan, found.doubt
    library, models, settings, retrieved = desk.library, desk.models, desk.settings, found.retrieved
    fitted = await assembled(question, desk, query, plan, found.budget, retrieved, keeper, trace)
    plan, budget, context = fitted.plan, fitted.budget, found.outline(fitted.context)
    vision: Any = import_module("refdesk.ask.vision") if question.images or question.mode == "vision" else None
    if vision is not None:
        context = await vision.with_pictures(question, context, plan, desk, keeper, trace)
    missing = joined_later(retrieved, context)
    retrieved = await run(trace, "neighbours", with_neighbours, retrieved, context, library, is_quick=not missing)
    yield Sources(previews(context))
    yield Thinking("generate", f"Reading {len(context.passages)} passage{'s' * (len(context.passages) != 1)}")
    draft = Draft(context)
    draft.notes += fitted.cuts.values()
    with trace.stage("generate", **context.sizes) as stage:
        turns = await keeper.memory(budget.history)
        asked = (query, plan, retrieved, turns, models, budget, settings, trace, doubt, question.max_context_chars)
        doubted_again = partial(doubt_of_quotes, doubt, query, found.relevance, retrieved, settings)
        task = WritingTask(*asked, doubt_of_quotes=doubted_again)
        is_cut = found.plan.use_llm and not plan.use_llm  # a model would have cost more than an answer may
        async with aclosing((quoted if is_cut else found.writer)(draft, task)) as written:
            async for event in written:
                yield event
        stage.gave(**draft.sizes)

    judge = claim_judge(desk.reader, trace)
    proofs = Proofs(context, retrieved.sentence_vectors, desk.embedder.embed_query, judge)
    if plan.drafts > 1 and not draft.quotes:
        yield Thinking("vote", f"Comparing {plan.drafts} drafts")
        voted: Any = import_module("refdesk.ask.voting").voted
        async for event in voted(draft, task, proofs):
            yield event
    yield Thinking("attest", "Checking every sentence")
    plan, attested, cells, events = await _checked(draft, task, proofs, desk)
    attested = vision.seen(attested, draft.context, desk) if vision is not None else attested
    for event in events:
        yield event
    if plan.verify:
        yield Verifying("checking")
    with trace.stage("settle", mode=question.response_mode, **attested.sizes) as stage:
        checked = await check(query, plan, attested, context, models, trace)
        if checked.needs_correction(plan):
            yield Thinking("reconcile", "Resolving disputes")
        settled = await correct(query, plan, checked, proofs, models, trace, cells)
        stage.gave(status=settled.verification.status)
    if vision is not None:
        settled = replace(settled, attested=vision.seen(settled.attested, draft.context, desk))
    if settled.attested.content != draft.content:
        yield Replace(settled.attested.content, settled.verification.status)
    yield Verifying(settled.verification.status, settled.verification.notes)
    answer = conclude(found.answer, plan, query, retrieved, found.relevance, context, draft, settled, settings)
    if not plan.use_llm:
        answer = await in_thread(likelier_answer, answer, found.answer, query, plan, retrieved, found.tables, library)
    if answer.figures:
        yield Replace(answer.content, answer.verification.status)
    trace.passages = candidates(retrieved, context, answer.citations)
    yield Done(await keeper.keep(answer, query))


def claim_judge(reader: Reader, trace: Trace) -> JudgeClaim:
    """What the reader says of claims; once it has failed, they are checked without it, and the trace says so."""
    failed: list[str] = []

    def judged(claim: str, evidence: str, title: str) -> float | None:
        if failed:
            return None
        try:
            return reader.judge_claim(claim, evidence, title)
        except RefdeskError as error:
            failed.append(type(error).__name__)
            trace.skip("judge_claims", f"it failed: {failed[0]}")
            return None

    return judged


async def _attested(
    query: Query, draft: Draft, proofs: Proofs, library: LibraryReader, trace: Trace
) -> tuple[Attested, Tables]:
    """What is quoted needs no check; of what a model wrote, as much as can be checked in reasonable time."""
    if draft.quotes:
        quoted = (draft.content, draft.quotes, draft.order, proofs)
        return await run(trace, "attest", attest_quotes, *quoted, is_quick=True), {}
    if len(content := await in_thread(checkable, draft.content)) < len(draft.content):
        draft.notes.append(LEFT_OUT)
    tables: Tables = {}  # in whose cells its numbers are looked for
    if cites_tables(draft.context, draft.order):
        with trace.optional("cells", passages=len(draft.order)) as stage:
            tables = await in_thread(cited_tables, draft.context, draft.order, library)
            stage.gave(tables=len({table.id for found in tables.values() for table in found}))
    attested = await run(trace, "attest", attest, query, content, draft.order, proofs, tables)
    return with_fragment(attested) if draft.is_cut else attested, tables


async def _checked(
    draft: Draft, task: WritingTask, proofs: Proofs, desk: AskPorts
) -> tuple[Plan, Attested, Tables, list[Event]]:
    """The draft with its proofs; of so small a model that it often makes things up, as much as stays of it."""
    query, plan, trace = task.query, task.plan, task.trace
    attested, tables = await _attested(query, draft, proofs, desk.library, trace)
    if task.budget.tier != "tiny" or draft.quotes or not attested.claims:
        return plan, attested, tables, []
    small: Any = import_module("refdesk.ask.small_models")
    quotes = await in_thread(extract, query, proofs.context, task.retrieved, task.settings)
    if text := small.kept(attested):
        both = drafted(small.with_quotes(text, quotes), proofs.context)
        asked = (query, both.content, both.order, proofs, tables)
        return replace(plan, reconcile=True), await in_thread(attest, *asked), tables, []
    # What it says in words that nothing proves may still be what the reader's sentences say.
    doubt = small.doubt_left(task.doubt, query, [draft.content], quotes)
    task = replace(task, doubt=doubt, doubt_of_quotes=task.doubt_of_quotes if doubt else None)
    draft.notes.append(NOT_PROVED.format(model=draft.model))
    events = [event async for event in quoted(draft, task)]
    attested, tables = await _attested(query, draft, proofs, desk.library, trace)
    return replace(plan, reconcile=True), attested, tables, events


async def assembled(
    question: Question,
    desk: AskPorts,
    query: Query,
    plan: Plan,
    budget: Budget,
    retrieved: Retrieved,
    keeper: Keeper,
    trace: Trace,
) -> Fitted:
    """The plan, the budget and the context within what an answer may cost; what was cut is in the trace."""
    names, settings = named(desk.models), desk.settings
    plan = with_house_rules(plan, (hit.document.collection for hit in retrieved.hits), settings)
    spent = await in_thread(desk.spent) if plan.use_llm and is_paid(names) else Spent()
    prices = Prices(names, spent, keeper.turns, settings, question.max_context_chars)

    def again(plan: Plan, budget: Budget) -> Context:
        asked = (query, plan, retrieved, desk.library, budget, settings, question.max_context_chars)
        return keeper.context(plan, budget, lambda: assemble(*asked))

    context = await run(trace, "assemble", again, plan, budget)
    cost = trace.usage(*BESIDE).cost_usd or 0.0
    fitted = await run(
        trace, "cost", fit_to_cost, plan, budget, context, prices, again, cost, is_quick=not plan.use_llm
    )
    for what, why in fitted.cuts.items():
        trace.skip(what, why)
    if retrieved.others:
        seen = await in_thread(said_of_short, fitted.context, retrieved, desk.library)
        fitted = replace(fitted, cuts={**fitted.cuts, "survey": seen})
    if wanted(query) == "several" and not plan.use_llm:
        fitted = replace(fitted, context=await in_thread(with_whole_tables, fitted.context, desk.library))
    return fitted


# --- does a second model agree? ---------------------------------------------------------------------------------------

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
TOKENS_PER_VERDICT = 100  # number, verdict and one short reason, with room to spare
REWRITTEN_TOKENS = 1200
MOST_NOTES = 10  # claims named in the notes; the verdicts say the rest
WORD_FOR_WORD = "every sentence stands in the documents word for word"


@dataclass(frozen=True, slots=True)
class Review:
    """What a second model says: (verdict, reason) of every claim, or none when it gave no verdict on each."""

    verification: Verification
    usage: Usage
    verdicts: tuple[tuple[Verdict, str], ...] = ()


async def verify(query: Query, claims: Sequence[Claim], context: Context, llm: LLM, trace: Trace) -> Review:
    """What a second model says of every claim: verified, disputed with notes, or failed."""
    if not claims:
        return Review(Verification("failed", ("there was no claim to verify",)), Usage())
    try:
        text, usage = await _written(verify_request(query, claims, context), llm, trace)
    except RefdeskError as error:
        return Review(Verification("failed", (f"not verified: {error}",)), Usage(calls=1))
    verdicts = read_verdicts(text, len(claims))
    if verdicts is None:
        return Review(Verification("failed", ("not verified: the verifier gave no verdict on every claim",)), usage)
    disputed = [
        f"“{claim.text}”: {verdict}{f' ({reason})' if reason else ''}"
        for claim, (verdict, reason) in zip(claims, verdicts, strict=True)
        if verdict != "supported"
    ]
    if disputed:
        return Review(Verification("disputed", tuple(disputed[:MOST_NOTES])), usage, tuple(verdicts))
    proved = Verification("verified", (f"{llm.name} found every sentence proved by the passages",))
    return Review(proved, usage, tuple(verdicts))


async def _reviewed(query: Query, attested: Attested, context: Context, llm: LLM, trace: Trace) -> Review:
    """`verify`; a tiny model is asked of what a model said in words of its own, not of sentences of the documents."""
    claims = attested.claims
    if model_info(llm.name).tier != "tiny":
        return await verify(query, claims, context, llm, trace)
    small: Any = import_module("refdesk.ask.small_models")
    own = small.own_words(attested)
    verdicts: list[tuple[Verdict, str]] = [("supported", "")] * len(claims)
    if not own:
        trace.skip("model", WORD_FOR_WORD)
        return Review(Verification("verified", (WORD_FOR_WORD,)), Usage(), tuple(verdicts))
    read = await in_thread(_read_by, llm, context, attested)
    review = await verify(query, [claims[place] for place in own], read, llm, trace)
    for place, verdict in zip(own, review.verdicts, strict=False):  # none where it gave none
        verdicts[place] = verdict
    return replace(review, verdicts=tuple(verdicts) if review.verdicts else ())


def verify_request(query: Query, claims: Sequence[Claim], context: Context) -> Request:
    numbered = [{"claim": number, "text": claim.text} for number, claim in enumerate(claims, 1)]
    message = VERIFY.format(passages=_passages(query, context), claims=orjson.dumps(numbered).decode())
    tokens = TOKENS_PER_VERDICT * (1 + len(claims))
    return Request(VERIFY_SYSTEM, (Message("user", message),), tokens, schema=VERIFY_SCHEMA, role="verifier")


async def reconcile(
    query: Query, content: str, verification: Verification, context: Context, llm: LLM, trace: Trace
) -> tuple[str, Usage]:
    """The answer written anew from the passages, with the numbers of the passages as markers."""
    message = RECONCILE.format(
        passages=_passages(query, context),
        draft=orjson.dumps(MARKER.sub("", content)).decode(),  # its markers are not the passages' numbers
        notes=orjson.dumps(list(verification.notes)).decode(),
    )
    request = Request(RECONCILE_SYSTEM, (Message("user", message),), REWRITTEN_TOKENS, role="reconciler")
    return await _written(request, llm, trace)


def _read_by(model: LLM, context: Context, attested: Attested) -> Context:
    """All passages; for a model that reads some fifty tokens a second, what the answer was written from and cites."""
    if model_info(model.name).tier != "tiny":
        return context
    small: Any = import_module("refdesk.ask.small_models")
    read: Context = small.proofs(context, attested.citations)
    return read


def _passages(query: Query, context: Context) -> str:
    return render(context.passages, query.standalone, "numbered", for_model=True)


async def _written(request: Request, llm: LLM, trace: Trace) -> tuple[str, Usage]:
    """All that the model wrote; what came before a restart is void."""
    parts: list[str] = []
    usage = Usage(calls=1)
    with trace.stage("model", model=llm.name, role=request.role) as stage:
        async with aclosing(llm.stream(request)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if piece.restarted:
                    parts.clear()
                parts.append(piece.text)
                usage = piece.usage or usage
        stage.usage = usage
        stage.gave(prompt=usage.prompt_tokens, completion=usage.completion_tokens)
    return "".join(parts), usage


def read_verdicts(text: str, count: int) -> list[tuple[Verdict, str]] | None:
    """(verdict, reason) of claims 1..count, or None when any is missing, doubled, unknown or not readable.

    >>> read_verdicts('{"verdicts": [{"claim": 1, "verdict": "partly", "reason": "no date"}]}', 1)
    [('partly', 'no date')]
    """
    try:
        value = orjson.loads(_json_part(text))
    except orjson.JSONDecodeError:
        return None
    rows = value.get("verdicts") if isinstance(value, dict) else value
    if not isinstance(rows, list) or len(rows) != count:
        return None
    found: dict[int, tuple[Verdict, str]] = {}
    for row in rows:
        if not isinstance(row, dict):
            return None
        number, verdict, reason = row.get("claim"), row.get("verdict"), row.get("reason", "")
        if not isinstance(number, int) or isinstance(number, bool) or verdict not in VERDICTS or number in found:
            return None
        found[number] = (verdict, " ".join(str(reason or "").split())[:LONGEST_TEXT])
    if set(found) != set(range(1, count + 1)):
        return None
    return [found[number] for number in range(1, count + 1)]


def _json_part(text: str) -> str:
    """Models put JSON into a code block, or a word before it."""
    opens = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    closes = text.rfind("}" if opens >= 0 and text[opens] == "{" else "]")
    return text[opens : closes + 1] if 0 <= opens < closes else ""


# Is the answer right? The built-in check, a verifier where one is named, and what is done when they disagree.


@dataclass(frozen=True, slots=True)
class Checked:
    """What was attested with what the verifier says of it; `review` is None where none was asked."""

    attested: Attested
    verification: Verification
    spent: Usage
    review: Review | None = None

    def needs_correction(self, plan: Plan) -> bool:
        refuted = any(claim.verdict in REFUTED for claim in self.attested.claims)
        return plan.verify and plan.reconcile and (refuted or self.verification.status == "disputed")


async def check(
    query: Query, plan: Plan, attested: Attested, context: Context, models: Models, trace: Trace
) -> Checked:
    """The built-in check, and that of a verifier where one is named."""
    if not plan.verify:
        trace.skip("verify", "the mode is quick")
        return Checked(attested, Verification("off"), Usage())
    verification, spent = _built_in(attested.claims), Usage()
    review: Review | None = None
    if plan.ask_verifier and (verifier := models.role("verifier")) is not None and attested.claims:
        with trace.stage("verify", claims=len(attested.claims)) as stage:
            review = await _reviewed(query, attested, context, verifier, trace)
            attested = replace(attested, claims=stricter(attested.claims, review.verdicts, verifier.name))
            verification, spent = _together(review.verification, attested.claims), review.usage
            stage.gave(status=verification.status, notes=len(verification.notes))
    return Checked(attested, verification, spent, review)


async def correct(
    query: Query,
    plan: Plan,
    checked: Checked,
    proofs: Proofs,
    models: Models,
    trace: Trace,
    tables: Tables | None = None,
) -> Settled:
    """Without what is disputed, or as a reconciler writes it; as it was where the plan does not ask for that."""
    attested, verification, spent, review = checked.attested, checked.verification, checked.spent, checked.review
    if not checked.needs_correction(plan):
        return Settled(attested, verification, spent)
    # Drafts are read as a model writes them: markers are numbers of passages, not yet renumbered.
    text = numbered_by_passage(remove_unsupported(attested.content, attested.claims), attested.order)
    if plan.ask_reconciler and (reconciler := models.role("reconciler")) is not None:
        with trace.optional("reconcile", notes=len(verification.notes)) as stage:
            read = await in_thread(_read_by, reconciler, proofs.context, attested)
            written, cost = await reconcile(query, attested.content, verification, read, reconciler, trace)
            spent += cost
            # It may be wrong too: what both checks have found proved is not given up for "the documents do not say".
            is_refused = refuses(written) and any(claim.verdict == "supported" for claim in attested.claims)
            text = written if written.strip() and not is_refused else text
            stage.gave(characters=len(text), refused=is_refused)
    again = await _read_again(text, query, proofs, tables)
    if any(claim.verdict in CONTRADICTED for claim in again.claims):  # a reconciler may be wrong too
        text = numbered_by_passage(remove_unsupported(again.content, again.claims, CONTRADICTED), again.order)
        again = await _read_again(text, query, proofs, tables)
    if review is not None:
        again = replace(again, claims=kept_verdicts(again.claims, attested.claims))
    status = verification.status if verification.status == "failed" else "reconciled"
    return Settled(again, replace(verification, status=status), spent)


async def _read_again(text: str, query: Query, proofs: Proofs, tables: Tables | None) -> Attested:
    draft = drafted(text, proofs.context)
    return await in_thread(attest, query, draft.content, draft.order, proofs, tables)


def _together(reviewed: Verification, claims: Sequence[Claim]) -> Verification:
    """Of both checks the stricter: what either disputes is disputed, and a check that failed is no agreement."""
    built_in = _built_in(claims)
    if reviewed.status == "failed":
        return replace(reviewed, notes=(*reviewed.notes, *(built_in.notes if built_in.status == "disputed" else ())))
    if built_in.status != "disputed":
        return reviewed
    return replace(built_in, notes=tuple(dict.fromkeys((*built_in.notes, *_unsaid(reviewed, claims)))))


def _unsaid(reviewed: Verification, claims: Sequence[Claim]) -> list[str]:
    """The reviewer's notes on claims of which the notes of the built-in check say nothing."""
    if reviewed.status != "disputed":
        return []
    named = [f"“{claim.text}”:" for claim in claims if claim.verdict in REFUTED]
    return [note for note in reviewed.notes if not note.startswith(tuple(named))]


def _built_in(claims: Sequence[Claim]) -> Verification:
    """Agreement means that every claim is supported by the sentence it cites."""
    wrong = [claim for claim in claims if claim.verdict in REFUTED]
    if not wrong:
        return Verification("verified", ("every sentence was checked against the lines it cites",))
    notes = tuple(f"“{claim.text}”: {claim.note or claim.verdict}" for claim in wrong[:MOST_NOTES])
    return Verification("disputed", notes)


# What of a very long answer, or of one that was cut off, can be stood behind?

MOST_CLAIMS = 300
LEFT_OUT = f"Only the first {MOST_CLAIMS} sentences of the model's answer were checked; the rest was left out."
CUT_OFF = "the model was cut off here"
_ENDS = (".", "!", "?", "…", "。", "！", "？", ":", ";", "”", '"', ")", "`")


def checkable(content: str) -> str:
    """The content up to as many sentences as are checked."""
    found = statements(content)
    return content[: found[MOST_CLAIMS].start].rstrip() if len(found) > MOST_CLAIMS else content


def with_fragment(attested: Attested) -> Attested:
    """The same, its last sentence unsupported where it does not end: nothing proves what it would have said."""
    if not attested.claims or attested.claims[-1].text.rstrip().endswith(_ENDS):
        return attested
    last = replace(attested.claims[-1], verdict="unsupported", note=CUT_OFF)
    return replace(attested, claims=(*attested.claims[:-1], last))
