"""Does a second model agree with the answer, and how is it corrected when it does not?

A verifier gives one verdict for every claim, as JSON. Silence, nonsense, a claim left out or a failure count as *not
verified*, never as agreement. A reconciler writes the answer anew from the same passages; its text is a draft like any
other, and goes through the markers and the checks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import get_args

import orjson

from refdesk.answer import Claim, Context, Query, Usage, Verdict, Verification
from refdesk.answer import Turn as Message
from refdesk.ask.passages.render import render
from refdesk.ask.proving.claims import MARKER
from refdesk.errors import RefdeskError
from refdesk.ports import LLM, Request
from refdesk.prompts import RECONCILE, RECONCILE_SYSTEM, VERIFY, VERIFY_SCHEMA, VERIFY_SYSTEM
from refdesk.trace import Trace

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
TOKENS_PER_VERDICT = 80  # number, verdict and one short reason, with room to spare
REWRITTEN_TOKENS = 1200
NOTES = 10


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
        return Review(Verification("disputed", tuple(disputed[:NOTES])), usage, tuple(verdicts))
    proved = Verification("verified", (f"{llm.name} found every sentence proved by the passages",))
    return Review(proved, usage, tuple(verdicts))


def verify_request(query: Query, claims: Sequence[Claim], context: Context) -> Request:
    numbered = [{"claim": number, "text": claim.text} for number, claim in enumerate(claims, 1)]
    message = VERIFY.format(passages=_passages(query, context), claims=orjson.dumps(numbered).decode())
    tokens = 200 + TOKENS_PER_VERDICT * len(claims)
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
        stage.cost_usd = usage.cost_usd or 0.0
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
        found[number] = (verdict, " ".join(str(reason or "").split())[:200])
    if set(found) != set(range(1, count + 1)):
        return None
    return [found[number] for number in range(1, count + 1)]


def _json_part(text: str) -> str:
    """Models put JSON into a code block, or a word before it."""
    opens = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    closes = text.rfind("}" if opens >= 0 and text[opens] == "{" else "]")
    return text[opens : closes + 1] if 0 <= opens < closes else ""
