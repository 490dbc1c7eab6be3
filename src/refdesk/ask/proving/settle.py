"""Is the answer right? The built-in check, a verifier where one is named, and what is done when they disagree.

quick      nothing more than the verdicts of the claims
standard   the built-in check, and a verifier where one is named; what either of them disputes is shown
thorough   a reconciler settles it, or else the refuted sentences are taken out; the corrected text replaces the first

A second check only ever makes the first stricter: its yes never overrules a number that the source gives otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refdesk.answer import Claim, Context, Plan, Query, Usage, Verification
from refdesk.ask.attest import Attested, attest
from refdesk.ask.proving.amend import CONTRADICTED, REFUTED, without_refuted
from refdesk.ask.proving.markers import numbered_by_passage
from refdesk.ask.proving.verdict import kept_verdicts, stricter
from refdesk.ask.proving.verify import Review, reconcile, verify
from refdesk.ask.writing.draft import drafted
from refdesk.ports import Models
from refdesk.threads import aside
from refdesk.trace import Trace

NOTES = 5  # claims named in the notes; the verdicts say the rest


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer as it stands after the checks."""

    attested: Attested
    verification: Verification
    usage: Usage


async def settle(
    query: Query,
    plan: Plan,
    attested: Attested,
    context: Context,
    vectors: Mapping[int, Any],
    embed: Callable[[str], Any],
    models: Models,
    trace: Trace,
) -> Settled:
    """What stands after the checks of the plan; a check that fails is written down and changes nothing."""
    if not plan.verify:
        trace.skip("verify", "the mode is quick")
        return Settled(attested, Verification("off"), Usage())
    verification, spent = _built_in(attested.claims), Usage()
    review: Review | None = None
    if plan.ask_verifier and (verifier := models.role("verifier")) is not None and attested.claims:
        with trace.stage("verify", claims=len(attested.claims)) as stage:
            review = await verify(query, attested.claims, context, verifier, trace)
            attested = replace(attested, claims=stricter(attested.claims, review.verdicts, verifier.name))
            verification, spent = _together(review.verification, attested.claims), review.usage
            stage.gave(status=verification.status, notes=len(verification.notes))
    refuted = [claim for claim in attested.claims if claim.verdict in REFUTED]
    if not plan.reconcile or not (refuted or verification.status == "disputed"):
        return Settled(attested, verification, spent)
    # Drafts are read as a model writes them: markers are numbers of passages, not yet renumbered.
    text = numbered_by_passage(without_refuted(attested.content, attested.claims), attested.order)
    if plan.ask_reconciler and (reconciler := models.role("reconciler")) is not None:
        with trace.optional("reconcile", notes=len(verification.notes)) as stage:
            written, cost = await reconcile(query, attested.content, verification, context, reconciler, trace)
            spent += cost
            text = written if written.strip() else text
            stage.gave(characters=len(text))
    again = await _read_again(text, query, context, vectors, embed)
    if any(claim.verdict in CONTRADICTED for claim in again.claims):  # a reconciler may be wrong too
        text = numbered_by_passage(without_refuted(again.content, again.claims, CONTRADICTED), again.order)
        again = await _read_again(text, query, context, vectors, embed)
    if review is not None:
        again = replace(again, claims=kept_verdicts(again.claims, attested.claims))
    status = verification.status if verification.status == "failed" else "reconciled"
    return Settled(again, replace(verification, status=status), spent)


async def _read_again(
    text: str, query: Query, context: Context, vectors: Mapping[int, Any], embed: Callable[[str], Any]
) -> Attested:
    draft = drafted(text, context)
    return await aside(attest, query, draft.content, draft.order, context, vectors, embed)


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
    notes = tuple(f"“{claim.text}”: {claim.note or claim.verdict}" for claim in wrong[:NOTES])
    return Verification("disputed", notes)
