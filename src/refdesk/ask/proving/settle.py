"""Is the answer right? The built-in check, a verifier where one is named, and what is done when they disagree.

quick      nothing more than the verdicts of the claims
standard   a verifier, or else the built-in check; disagreement is shown
thorough   a reconciler settles it, or else the unproved sentences are taken out; the corrected text replaces the first
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from refdesk.answer import Context, Plan, Query, Usage, Verification
from refdesk.ask.attest import Attested, attest
from refdesk.ask.proving.amend import REFUTED, without_refuted
from refdesk.ask.proving.markers import numbered_by_passage
from refdesk.ask.proving.verify import reconcile, verify
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
    verification, spent = _built_in(attested), Usage()
    if (verifier := models.role("verifier")) is not None and attested.claims:
        with trace.stage("verify", claims=len(attested.claims)) as stage:
            verification, spent = await verify(query, attested.content, attested.claims, context, verifier, trace)
            stage.gave(status=verification.status, notes=len(verification.notes))
    if verification.status != "disputed" or not plan.reconcile:
        return Settled(attested, verification, spent)
    # Drafts are read as a model writes them: markers are numbers of passages, not yet renumbered.
    text = numbered_by_passage(without_refuted(attested.content, attested.claims), attested.order)
    if (reconciler := models.role("reconciler")) is not None:
        with trace.optional("reconcile", notes=len(verification.notes)) as stage:
            written, cost = await reconcile(query, attested.content, verification, context, reconciler, trace)
            spent += cost
            text = written if written.strip() else text
            stage.gave(characters=len(text))
    draft = drafted(text, context)
    again = await aside(attest, query, draft.content, draft.order, context, vectors, embed)
    return Settled(again, replace(verification, status="reconciled"), spent)


def _built_in(attested: Attested) -> Verification:
    """Agreement means that every claim is supported by the sentence it cites."""
    wrong = [claim for claim in attested.claims if claim.verdict in REFUTED]
    if not wrong:
        return Verification("verified", ("every sentence was checked against the lines it cites",))
    notes = tuple(f"“{claim.text}”: {claim.note or claim.verdict}" for claim in wrong[:NOTES])
    return Verification("disputed", notes)
