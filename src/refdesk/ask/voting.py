"""Compares several drafts: keeps what two of them say and the passages support.

    three drafts → their claims, each with its proof → claims that say the same, together → what at least two drafts say

The first draft is what the reader has seen. The others are written at the same time as one another, at a temperature at
which a model that only guesses guesses otherwise. The answer is the draft that has most of what is kept, without its
other sentences, and with what the two other drafts agree on and it does not say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from refdesk.answer import Claim, Event, Query
from refdesk.ask.attest import Attested, Proofs, attest, remove_unsupported
from refdesk.ask.draft import Draft, WritingTask, gave_up, quoted, written_into
from refdesk.ask.extract import extract
from refdesk.ask.figures import agrees
from refdesk.ask.generate import generate, refuses
from refdesk.ask.markers import numbered_by_passage
from refdesk.ask.support import ClaimWords, read_claim
from refdesk.errors import ProviderError
from refdesk.negation import is_negated
from refdesk.ports import Piece
from refdesk.trace import in_thread

AGREE = 2  # drafts
WARMER = 0.7  # the temperature of the further drafts, at least; models that keep their sampling keep it
SAME_WORDS = 0.6  # of the stems of the shorter claim; a paraphrase keeps its nouns
SAME_MEANING = 0.8  # cosine of two claims that share fewer of their words

ALONE = "Only one of {count} drafts by {model} succeeded, so there was nothing to compare."
VOTED = (
    "{model} wrote {count} drafts; {kept} of {all} statements are supported and in two drafts. The rest was left out."
)
AGREED = "{model} wrote {count} drafts, and they agree."
NOTHING = "{count} drafts by {model} agree on nothing that the documents support, so this answer is quoted from them."


@dataclass(frozen=True, slots=True)
class Vote:
    """What came of it: the text with the passages' own numbers as markers, and a sentence for the notes.

    `text` is None where the first draft stands as it is, and "" where the drafts agree on nothing.
    """

    text: str | None
    note: str
    drafts: int
    kept: int = 0
    contents: tuple[str, ...] = ()  # of the drafts, where they agree on nothing


async def voted(draft: Draft, task: WritingTask, proofs: Proofs) -> AsyncGenerator[Event, None]:
    """Brings the draft to what the drafts agree on, and says so to the reader where that is another text."""
    found: Vote | None = None
    with task.trace.optional("vote", drafts=task.plan.drafts) as stage:
        found = await vote(draft, task, proofs)
        stage.gave(drafts=found.drafts, kept=found.kept)
    if found is None:
        return
    if found.text == "":
        if (
            task.doubt and task.budget.tier == "tiny"
        ):  # it says in its own words what the sentences say, as with one draft
            small: Any = import_module("refdesk.ask.small_models")
            quotes = await in_thread(extract, task.query, draft.context, task.retrieved, task.settings)
            doubt = small.doubt_left(task.doubt, task.query, found.contents, quotes, AGREE)
            task = replace(task, doubt=doubt, doubt_of_quotes=task.doubt_of_quotes if doubt else None)
        async for event in quoted(draft, task):
            yield event
    elif found.text is not None:
        if void := draft.start_over(draft.model, "the drafts were compared"):
            yield void
        for shown in (draft.take(Piece(found.text)), draft.finish()):
            if shown is not None:
                yield shown
    draft.notes.append(found.note)


async def vote(draft: Draft, task: WritingTask, proofs: Proofs) -> Vote:
    """Has the other drafts written and says what stays; their cost is added to the first draft's."""
    query, plan, settings, trace = task.query, task.plan, task.settings, task.trace
    llm = task.models.role("answer", lambda why: trace.skip("try", why))
    assert llm is not None, "somebody has written the first draft"
    warmer = settings if settings.temperature >= WARMER else replace(settings, temperature=WARMER)
    given = (query, plan, draft.context, task.turns, llm, warmer, trace)

    async def another() -> Draft:
        written = Draft(draft.context)
        try:
            pieces = generate(*given, budget=task.budget, max_context_chars=task.most_characters)
            async for _ in written_into(written, pieces):
                pass
        except ProviderError as error:
            gave_up(written, error, draft.model, trace, "the drafts that came are compared")
        return written

    others = await asyncio.gather(*(another() for _ in range(plan.drafts - 1)))
    for other in others:
        draft.usage += other.usage
    every = [draft, *(other for other in others if other.content and not other.failures)]
    if len(every) < AGREE:
        return Vote(None, ALONE.format(count=plan.drafts, model=draft.model), len(every))
    refusals = [written for written in every if refuses(written.content)]
    if len(refusals) >= AGREE:
        refusal = refusals[0].content
        return Vote(
            None if refusals[0] is draft else refusal, AGREED.format(count=len(every), model=draft.model), len(every)
        )
    answers = [written for written in every if written not in refusals]
    return await in_thread(_counted, query, answers, len(every), proofs, draft.model, answers[0] is draft)


def _counted(
    query: Query,
    drafts: Sequence[Draft],
    count: int,
    proofs: Proofs,
    model: str,
    has_first: bool,
) -> Vote:
    attested = [attest(query, written.content, written.order, proofs) for written in drafts]
    groups = align([checked.claims for checked in attested], proofs.embed)
    kept = [group for group in groups if is_kept(group)]
    if not kept:
        contents = tuple(written.content for written in drafts)
        return Vote("", NOTHING.format(count=count, model=model), count, contents=contents)
    own = {place for group in kept for place in group.members.get(0, ())}
    is_whole = len(own) == len(attested[0].claims) and all(0 in group.members for group in kept)
    if has_first and is_whole:
        return Vote(None, AGREED.format(count=count, model=model), count, len(kept))
    note = VOTED.format(count=count, model=model, kept=len(kept), all=len(groups))
    return Vote(composed(attested, kept), note, count, len(kept))


# --- which claims say the same? ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Claims of several drafts that say the same: by the number of the draft, the places of its claims."""

    members: Mapping[int, tuple[int, ...]]
    best: Claim  # the one that is proved best
    best_draft: int


def is_kept(group: Group) -> bool:
    return len(group.members) >= AGREE and group.best.verdict == "supported"


def align(drafts: Sequence[Sequence[Claim]], embed: Callable[[str], Any]) -> list[Group]:
    """The claims of all drafts, those that say the same together, in the order of the drafts."""
    read: dict[str, tuple[ClaimWords, Any]] = {}

    def words(text: str) -> tuple[ClaimWords, Any]:
        if text not in read:
            read[text] = (read_claim(text), embed(text))
        return read[text]

    groups: list[Group] = []
    for number, claims in enumerate(drafts):
        for place, claim in enumerate(claims):
            home = next(
                (at for at, group in enumerate(groups) if same(words(group.best.text), words(claim.text))), None
            )
            if home is None:
                groups.append(Group({number: (place,)}, claim, number))
                continue
            group = groups[home]
            members = {**group.members, number: (*group.members.get(number, ()), place)}
            is_better = _worth(claim) > _worth(group.best)
            groups[home] = Group(members, *((claim, number) if is_better else (group.best, group.best_draft)))
    return groups


def _worth(claim: Claim) -> tuple[bool, float]:
    return claim.verdict == "supported", claim.score


def same(one: tuple[ClaimWords, Any], other: tuple[ClaimWords, Any]) -> bool:
    """Whether two claims say the same: the same figures, the same yes or no, and the same words or meaning.

    >>> same("The anchor weighs 350 kg.", "It is an anchor of 350 kg."), same("… 350 kg", "… 450 kg")
    (True, False)
    """
    (first, vector), (second, other_vector) = one, other
    if is_negated(first.text) != is_negated(second.text):
        return False
    fewer, more = sorted((first.figures, second.figures), key=len)
    if (not fewer and more) or not all(
        any(agrees(figure, told) or agrees(told, figure) for told in more) for figure in fewer
    ):
        return False
    shared = set(first.stems) & set(second.stems)
    shorter = min(len(set(first.stems)), len(set(second.stems)))
    if shorter and len(shared) >= SAME_WORDS * shorter:
        return True
    return float(np.dot(vector, other_vector)) >= SAME_MEANING


# --- what is written of it? -------------------------------------------------------------------------------------------


def composed(drafts: Sequence[Attested], kept: Sequence[Group]) -> str:
    """The draft that has most of what is kept, without its other claims; then what only the others say.

    Markers are numbers of passages.
    """
    base = max(range(len(drafts)), key=lambda number: (sum(number in group.members for group in kept), -number))
    own = {place for group in kept for place in group.members.get(base, ())}
    claims = [
        claim if place in own else replace(claim, verdict="unsupported")
        for place, claim in enumerate(_without_verdicts(drafts[base].claims))
    ]
    text = numbered_by_passage(remove_unsupported(drafts[base].content, claims), drafts[base].order)
    missing = [group for group in kept if base not in group.members]
    added = [_cited(group.best, drafts[group.best_draft].order) for group in missing]
    return "\n\n".join(filter(None, [text, " ".join(added)]))


def _without_verdicts(claims: Sequence[Claim]) -> list[Claim]:
    """A claim whose group is proved stays, however well its own words fit."""
    return [replace(claim, verdict="supported") for claim in claims]


def _cited(claim: Claim, order: Sequence[int]) -> str:
    markers = "".join(f"[{order[marker - 1]}]" for marker in claim.markers if 0 < marker <= len(order))
    return f"{claim.text.rstrip()} {markers}".strip()
