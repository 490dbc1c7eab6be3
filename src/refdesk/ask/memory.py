"""What of a conversation is remembered? The last exchanges that fit, and a summary of those before. Pure but for
`summarise`, which asks a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from refdesk.answer import Turn, Usage
from refdesk.errors import ProviderError
from refdesk.ports import LLM, Request
from refdesk.prompts import CONVERSATION_CLOSES, CONVERSATION_OPENS, SUMMARISE_CONVERSATION
from refdesk.text import sentences
from refdesk.trace import Trace

# Seed 001 step 8: exchanges (a question and its answer), and the share of the window they may take.
EXCHANGES: Mapping[str, int] = {"tiny": 3, "small": 6, "medium": 10, "large": 15}
SHARES: Mapping[str, float] = {"tiny": 0.10, "small": 0.15, "medium": 0.15, "large": 0.15}
SUMMARY_SHARE = 0.25  # of the budget; the rest is for what was said last, word by word
TURN_SHARE = 0.5  # of the budget, for one message
SUMMARY_TOKENS = 300  # of a summary that a model writes
GIST_TOKENS = 16  # of one message, at least
CHARACTERS_PER_TOKEN = 4

_MARKERS = re.compile(r"\s?\[\d{1,3}(?:\s?,\s?\d{1,3})*\]")

Count = Callable[[str], int]
Exchange = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """The turns to be read, oldest first, and a summary of the `dropped` exchanges before them."""

    turns: tuple[Turn, ...] = ()
    summary: str = ""
    dropped: int = 0


def estimate(text: str) -> int:
    """Tokens of a text, roughly: `estimate("four")` -> 1."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def exchanges_kept(tier: str, most: int) -> int:
    """How many exchanges a model of this size is given; `most` is `conversation.max_history_turns`."""
    return min(EXCHANGES[tier], most)


def history_budget(tier: str, window: int) -> int:
    """Tokens of the window that history may take."""
    return int(SHARES[tier] * window)


def remember(
    turns: Sequence[Turn],
    tier: str,
    budget_tokens: int,
    summary: str = "",
    *,
    most: int = EXCHANGES["large"],
    count: Count = estimate,
) -> Memory:
    """The last exchanges within the budget, the newest first to get room; what is older becomes part of the summary.

    `summary` is of what was said before `turns`. Markers of earlier answers are taken out: their numbers mean nothing
    beside the passages of this question. The newest exchange always stays, shortened if it must be.
    """
    exchanges = _exchanges(turns)
    if budget_tokens <= 0 or most <= 0:
        return Memory((), "", len(exchanges))
    # Room for a summary is only set aside when there is something to sum up.
    is_long = bool(summary) or len(exchanges) > exchanges_kept(tier, most)
    is_long = is_long or sum(count(turn.content) for turn in turns) > budget_tokens
    for_summary = int(SUMMARY_SHARE * budget_tokens) if is_long else 0
    room = budget_tokens - for_summary
    kept: list[Exchange] = []
    for exchange in reversed(exchanges[-exchanges_kept(tier, most) :]):
        fitted = _fitted(exchange, int(TURN_SHARE * budget_tokens), count)
        cost = sum(count(turn.content) for turn in fitted)
        if cost > room:
            if kept:
                break
            fitted = _fitted(exchange, room // len(exchange), count)
            cost = sum(count(turn.content) for turn in fitted)
        kept.append(fitted)
        room -= cost
    dropped = exchanges[: len(exchanges) - len(kept)]
    older = [turn for exchange in dropped for turn in exchange]
    return Memory(
        tuple(turn for exchange in reversed(kept) for turn in exchange),
        gist(older, for_summary, summary, count=count),
        len(dropped),
    )


def gist(turns: Sequence[Turn], budget_tokens: int, before: str = "", *, count: Count = estimate) -> str:
    """A summary without a model: the first sentence of each message, the latest ones if not all have room.

    >>> gist([Turn("user", "What does it cost? I forgot."), Turn("assistant", "It costs 4 euros [1].")], 50)
    'User: What does it cost?\\nAssistant: It costs 4 euros.'
    """
    lines: list[str] = []
    room = budget_tokens
    for turn in reversed(turns):
        said = _first_sentences(_bare(turn), 1, max(budget_tokens // 4, GIST_TOKENS), count)
        line = f"{turn.role.capitalize()}: {said}"
        if not said or count(line) > room:
            break
        lines.append(line)
        room -= count(line) + 1
    head = _first_sentences(before, None, room, count) if before else ""
    return "\n".join(filter(None, [head, *reversed(lines)]))


async def summarise(
    turns: Sequence[Turn], llm: LLM, trace: Trace, before: str = "", *, max_tokens: int = SUMMARY_TOKENS
) -> str:
    """A model's summary of these turns and of the summary `before` them; the extractive one when the model fails."""
    written: list[str] = []
    usage = Usage()
    request = Request(
        system=SUMMARISE_CONVERSATION,
        messages=(Turn("user", _fenced(turns, before)),),
        max_tokens=max_tokens,
        role="summariser",
    )
    with trace.optional("summarise", turns=len(turns), model=llm.name) as stage:
        async for piece in llm.stream(request):
            if piece.restarted:
                written.clear()
            written.append(piece.text)
            usage = piece.usage or usage
        text = " ".join("".join(written).split())
        stage.cost_usd = usage.cost_usd or 0.0
        stage.gave(characters=len(text), tokens=usage.completion_tokens)
        if not text:
            raise ProviderError(f"{llm.name} gave an empty summary")
        return _first_sentences(text, None, 2 * max_tokens, estimate)
    return gist(turns, max_tokens, before)


def _fenced(turns: Sequence[Turn], before: str) -> str:
    """The conversation as a model reads it; nothing said in it can end the fence."""
    lines = [f"Summary so far: {before}"] if before else []
    lines += [f"{turn.role.capitalize()}: {_bare(turn)}" for turn in turns]
    said = re.sub(r"<\s*+(?:/\s*+)?conversation\s*+>", "", "\n".join(lines), flags=re.IGNORECASE)
    return f"{CONVERSATION_OPENS}\n{said}\n{CONVERSATION_CLOSES}"


def _exchanges(turns: Sequence[Turn]) -> list[Exchange]:
    """A question and what was answered; an exchange begins with every message of the user."""
    found: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not found:
            found.append([])
        found[-1].append(turn)
    return [tuple(exchange) for exchange in found]


def _fitted(exchange: Exchange, most: int, count: Count) -> Exchange:
    """Each message within `most` tokens, by its first sentences; an answer without its markers."""
    bare = [Turn(turn.role, _bare(turn)) for turn in exchange]
    return tuple(Turn(turn.role, _first_sentences(turn.content, None, most, count)) for turn in bare)


def _bare(turn: Turn) -> str:
    return _MARKERS.sub("", turn.content) if turn.role == "assistant" else turn.content


def _first_sentences(text: str, number: int | None, most: int, count: Count) -> str:
    """The first sentences of a text within `most` tokens; when not even one fits, the first words of it."""
    if number is None and count(text) <= most:
        return text
    text = text[: most * 2 * CHARACTERS_PER_TOKEN + 200]  # no more can fit; a message may be megabytes long
    end = 0
    for _, stop in sentences(text)[:number]:
        if count(text[:stop]) > most:
            break
        end = stop
    return text[:end].strip() or _first_words(text, most, count)


def _first_words(text: str, most: int, count: Count) -> str:
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits, with the mark of the cut
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle] + "…") <= most else (low, middle - 1)
    cut = text[:low]
    whole = cut[: cut.rfind(" ")] if " " in cut[low // 2 :] else cut
    return f"{whole.rstrip()}…" if whole.strip() else ""
