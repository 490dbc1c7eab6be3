"""Turns a writer's stream into text that can be shown: trims it and reads its markers as it arrives.

Also what is quoted where no model writes, and what is said of models that failed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product
from typing import Any, NamedTuple

from refdesk.answer import Content, Context, Event, FailedModel, Passage, Plan, Query, Replace, Retrieved, Turn, Usage
from refdesk.ask.citations import SENTINEL
from refdesk.ask.extract import Quote, extract
from refdesk.ask.markers import MARKER, MarkerStream
from refdesk.ask.plan import Budget
from refdesk.ask.wording import said
from refdesk.errors import ProviderEmpty, ProviderError, ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.ports import LLM, Models, Piece
from refdesk.prompts import LONGEST_TEXT, REASONING_TAG, SUGGESTED_QUESTIONS
from refdesk.settings import Settings
from refdesk.trace import Trace, in_thread

# What of a model's words is not the answer? Hidden reasoning, a preamble, the questions it suggests.

AT_ONCE = 4096  # characters: of a whole answer in one piece, each filter holds no more than this
MOST_SUGGESTED = 5


class AnswerTrim:
    """The three filters in a row; for the words of a model, not for quoted sentences."""

    def __init__(self) -> None:
        self._reasoning = _Reasoning()
        self._preamble = _Preamble()
        self._suggestions = _Suggestions()

    def feed(self, text: str) -> str:
        """What may be shown now."""
        parts = (text[at : at + AT_ONCE] for at in range(0, len(text), AT_ONCE))
        return "".join(self._suggestions.feed(self._preamble.feed(self._reasoning.feed(part))) for part in parts)

    def finish(self) -> str:
        """What was still held back; nothing comes after."""
        rest = self._preamble.feed(self._reasoning.finish()) + self._preamble.finish()
        return self._suggestions.feed(rest) + self._suggestions.finish()

    @property
    def suggested(self) -> tuple[str, ...]:
        return self._suggestions.found


# --- reasoning -------------------------------------------------------------------------------------------------------

_TAG_NAMES = tuple(dict.fromkeys((REASONING_TAG, "think", "thinking", "thought", "scratchpad")))
_TAG = re.compile(rf"<(/?)({'|'.join(_TAG_NAMES)})\s{{0,8}}>", re.IGNORECASE)
_TAG_BEGUN = re.compile(r"</?[a-z]{0,12}\s{0,8}\Z", re.IGNORECASE)


class _Reasoning:
    """Drops what stands between reasoning tags, and tags that stand alone; an unclosed one hides all that follows.

    A tag right after a backtick is spoken of, not used.
    """

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # the character before what is held
        self._inside = ""

    def feed(self, text: str) -> str:
        self._held += text
        out: list[str] = []
        while match := _TAG.search(self._held):
            before = self._held[: match.start()]
            self._take(before, out)
            is_quoted = self._last == "`"
            closes, name = match.group(1), match.group(2).lower()
            self._held = self._held[match.end() :]
            if self._inside:
                self._inside = "" if closes and name == self._inside else self._inside
            elif is_quoted:
                self._take(match.group(), out)
            elif not closes:
                self._inside = name
        begun = _TAG_BEGUN.search(self._held)
        kept = begun.start() if begun else len(self._held)
        self._take(self._held[:kept], out)
        self._held = self._held[kept:]
        return "".join(out)

    def _take(self, text: str, out: list[str]) -> None:
        if text:
            self._last = text[-1]
            if not self._inside:
                out.append(text)

    def finish(self) -> str:
        rest, self._held = self._held, ""
        return "" if self._inside else rest


# --- preamble --------------------------------------------------------------------------------------------------------

_OPENERS = (
    *("sure thing", "sure", "certainly", "of course", "absolutely", "great question", "good question", "okay", "ok"),
)
_HELPING = ("i'll ", "i will ", "i can ", "i'd be ", "let me ", "happy to ", "here is ", "here's ", "here are ")
_HELP_ENDS = re.compile(r"[^\d\[:!.\n]*([:!\n]|\.(?=\s))")  # with a number or a marker it says something
_OFFERS = re.compile(r"help|explain|happy|summar|answer")
_LONGEST_HELP = 120


def _phrases() -> tuple[str, ...]:
    """Every way to say that the documents were read, in lower case; nothing specific: "the 2018 report" stays."""
    kinds = ("", "provided ", "given ", "available ", "supplied ", "above ", "retrieved ")
    things = ["context", "information", "text"]
    things += [form for word in ("document", "passage", "source", "excerpt", "material") for form in (word, f"{word}s")]
    things += [f"{word} provided" for word in things]
    leads = [f"{word} {article}" for word in ("based on", "according to", "from", "per") for article in ("the ", "")]
    read = ["".join(parts) for parts in product(leads, kinds, things, (",", ":"))]
    answers = ("answer", "response", "information", "summary")
    said = ["".join(parts) for parts in product(("here is ", "here's "), ("the ", "your ", "a "), answers, (":",))]
    return tuple(dict.fromkeys((*read, *said, "answer:", "**answer:**", "final answer:", "response:")))


_PHRASES = _phrases()
_BEGINNING = 512  # characters that are looked at, longer than every phrase: a preamble is decided within them


class _Preamble:
    """Drops politeness before the first word that says something, then begins with a capital letter."""

    def __init__(self) -> None:
        self._held: str | None = ""
        self._dropped = False

    def feed(self, text: str) -> str:
        if self._held is None:
            return text
        self._held += text
        return self._look(final=False)

    def finish(self) -> str:
        return "" if self._held is None else self._look(final=True)

    def _look(self, *, final: bool) -> str:
        assert self._held is not None
        while True:
            self._held = self._held.lstrip()
            size = _preamble(self._held, final=final)
            if size is None or not self._held:
                return ""
            if size == 0:
                text, self._held = self._held, None
                return text[0].upper() + text[1:] if self._dropped else text
            self._held, self._dropped = self._held[size:], True


def _preamble(text: str, *, final: bool) -> int | None:
    """How many characters of the beginning are a preamble; None while more text must tell."""
    final = final or len(text) > _BEGINNING
    low = _lowered(text[:_BEGINNING])
    if any(low.startswith(phrase) for phrase in _PHRASES):
        return max(len(phrase) for phrase in _PHRASES if low.startswith(phrase))
    for opener in _OPENERS:
        if low.startswith(opener) and low[len(opener) : len(opener) + 1] in tuple(",!.:"):
            return _opening(low, len(opener) + 1, final=final)
    if not final and any(phrase.startswith(low) for phrase in (*_PHRASES, *_OPENERS)):
        return None
    return 0


def _opening(low: str, size: int, *, final: bool) -> int | None:
    """`sure! i'll help you with that:` goes to its end, `sure, ` alone."""
    rest = low[size:]
    begun = rest.lstrip()
    skipped = size + len(rest) - len(begun)
    if not final and (not begun or any(word.startswith(begun) for word in _HELPING)):
        return None
    if not any(begun.startswith(word) for word in _HELPING):
        return skipped
    if end := _HELP_ENDS.match(begun[:_LONGEST_HELP]):
        says_nothing = end.group(1) != "." or _OFFERS.search(end.group()) is not None
        return skipped + end.end() if says_nothing else skipped
    is_open = not final and len(begun) < _LONGEST_HELP and not ("[" in begun or any(map(str.isdigit, begun)))
    return None if is_open else skipped


def _lowered(text: str) -> str:
    """Lower case, letter for letter: `str.lower` makes two of some letters, and places would no longer agree."""
    return "".join(letter.lower() if letter.isascii() else "'" if letter == "’" else letter for letter in text)


# --- suggested questions ---------------------------------------------------------------------------------------------

_SENTINEL = re.compile(rf"(?:{SENTINEL.pattern})[*_`]{{0,16}}\s?[:：]?[*_`]{{0,16}}", re.IGNORECASE)
_MARKUP = "*_#>`~-"
_LONGEST_MARKUP = 64  # before the sentinel: what is held back while it may still come, and goes with it
# "s", "su" … at the end of what has come: nested options of the word, its underscore perhaps escaped.
_LETTERS = [r"(?:\\?_| )" if letter == "_" else letter for letter in SUGGESTED_QUESTIONS.lower()]
_SENTINEL_BEGUN = re.compile(
    _LETTERS[0] + "".join(f"(?:{letter}" for letter in _LETTERS[1:]) + ")?" * (len(_LETTERS) - 1) + r"\\?\Z",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(?:[-*•+]|\d{1,2}[.)]|q\d?[:.])\s*", re.IGNORECASE)
_CITED = re.compile(r"(?:(?<!\s)\s+)?\[[^\[\]\n]{0,40}\]")


class _Suggestions:
    """Takes the line of suggested questions out, wherever it stands, with the markup and white space before it.

    The lines after it belong to it while they are list items, questions or parts divided by bars.
    """

    def __init__(self) -> None:
        self._held = ""
        self._taking = False
        self._is_first = False  # the rest of the line that the sentinel stands on
        self._lines: list[str] = []
        self._has_shown = False

    def feed(self, text: str) -> str:
        self._held += text
        return self._shown(self._run(final=False))

    def finish(self) -> str:
        return self._shown(self._run(final=True).rstrip())

    def _shown(self, text: str) -> str:
        text = text if self._has_shown else text.lstrip()
        self._has_shown = self._has_shown or bool(text)
        return text

    def _run(self, *, final: bool) -> str:
        out: list[str] = []
        while self._held:
            if self._taking:
                if not self._take_line(final=final):
                    break
                continue
            match = _SENTINEL.search(self._held)
            if match and (final or match.end() < len(self._held)):
                out.append(self._held[: _before_markup(self._held, match.start())])
                self._held = self._held[match.end() :]
                self._taking = self._is_first = True
                continue
            kept = len(self._held) if final else _undecided(self._held, match)
            out.append(self._held[:kept])
            self._held = self._held[kept:]
            break
        return "".join(out)

    def _take_line(self, *, final: bool) -> bool:
        """Moves one line to the questions, or ends the taking; False while the line is not whole."""
        line, newline, rest = self._held.partition("\n")
        if not newline and not final:
            return False
        if self._is_first or _is_question(line):
            self._lines.append(line)
            self._held, self._is_first = rest, False
        else:
            self._taking, self._held = False, "\n\n" + self._held
        return True

    @property
    def found(self) -> tuple[str, ...]:
        return parse_suggestions("\n".join(self._lines))


def _is_question(line: str) -> bool:
    bare = line.strip().strip("*_`")
    return not bare or "|" in bare or bare.endswith("?") or _ITEM.match(bare) is not None


def _undecided(text: str, found: re.Match[str] | None) -> int:
    """Where the part begins that may still become the sentinel: markup and space, then it or its first letters."""
    begun = found or _SENTINEL_BEGUN.search(text)
    return _before_markup(text, begun.start() if begun else len(text))


def _before_markup(text: str, place: int) -> int:
    """Where the markup and white space begin that stand right before a place."""
    last = max(0, place - _LONGEST_MARKUP)
    while place > last and (text[place - 1].isspace() or text[place - 1] in _MARKUP):
        place -= 1
    return place


def parse_suggestions(text: str) -> tuple[str, ...]:
    """`"a? | b? [2]"` -> ('a?', 'b?'): without list markers, markup, citations and repeats."""
    found: dict[str, None] = {}
    for part in text.replace("|", "\n").split("\n"):
        bare = _CITED.sub("", part).strip(" \t\"'“”*_`:")
        bare = _ITEM.sub("", bare, count=1).strip(" \t\"'“”*_`") if _ITEM.match(bare) else bare
        if bare and len(bare) <= LONGEST_TEXT and any(letter.isalpha() for letter in bare):
            found[bare] = None
    return tuple(found)[:MOST_SUGGESTED]


def not_planted(suggested: Sequence[str], passages: Sequence[Passage]) -> tuple[str, ...]:
    """Without questions that stand in a document which carries the sentinel itself: a model may have copied them."""
    planted = [passage.text for passage in passages if _SENTINEL.search(passage.text)]
    return tuple(question for question in suggested if not any(question in text for text in planted))


EXTRACTIVE = "extractive"  # the name of the answerer that needs no model
# What is said of an answer by the reason why it ended; every other reason means that it is whole.
CUT_OFF: Mapping[str, str] = {
    "length": "The model's answer was cut off at its length limit.",
    "too_long": "The model's answer was cut off: it is longer than llm.max_answer_kb allows.",
    "too_slow": "The model's answer was cut off: it took longer than llm.total_s allows.",
}


class PlacedQuote(NamedTuple):
    """A quote where it stands: characters `start..end` of the content, its marker included."""

    quote: Quote
    start: int
    end: int
    marker: int


class Draft:
    """The answer as it is being written; what was shown is never taken back without a `Replace`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.model = ""
        self.usage = Usage()
        self.failures: list[ProviderError] = []  # of models that were given up, in the order they were asked
        self.notes: list[str] = []
        self._begin()

    @property
    def is_cut(self) -> bool:
        """Whether the writer was ended before it had finished."""
        return bool(self._cut)

    def _begin(self) -> None:
        self._trim = AnswerTrim()
        self._markers: MarkerStream | None = None  # made when a model writes
        self._shown: list[str] = []
        self.quotes: list[PlacedQuote] = []
        self._quoted_passages: list[int] = []
        self._cut = ""

    def take(self, piece: Piece) -> Content | Replace | None:
        """What a reader is to be told of one more piece."""
        self.model = piece.model or self.model
        self.usage += piece.usage or Usage()
        if piece.restarted:
            was_shown = bool(self._shown)
            self._begin()
            if was_shown:
                next_writer = "quoting" if piece.model == EXTRACTIVE else piece.model or "the model"
                return Replace("", f"the connection to the model was lost; {next_writer} starts over")
        self._cut = CUT_OFF.get(piece.finish, "")
        if self._markers is None:
            if not piece.text:
                return None
            self._markers = MarkerStream(self.context)
        return self._show(self._markers.feed(self._trim.feed(piece.text)))

    def start_over(self, writer: str, why: str) -> Replace | None:
        """Another text instead of what was written so far."""
        was_shown = bool(self._shown)
        self.notes = [note for note in self.notes if note != self._cut]
        self._begin()
        self.model = writer
        return Replace("", why) if was_shown else None

    def say(self, text: str) -> Content | None:
        """A sentence of ours before the quotes; no marker is looked for in it."""
        return self._show(text)

    def quote(self, quote: Quote) -> Content | None:
        """A quote and its marker. Nothing in it is read as a marker or trimmed: it is the document's own text.

        `[1]` of the document is written `[ 1 ]` in the content, so that every `[n]` there is a citation of ours.
        """
        if quote.note:
            self.notes.append(quote.note)
        if quote.passage not in self._quoted_passages:
            self._quoted_passages.append(quote.passage)
        marker = self._quoted_passages.index(quote.passage) + 1
        before = quote.before if self._shown else quote.before.lstrip()
        start = sum(map(len, self._shown)) + len(before)
        text = MARKER.sub(r"[ \1 ]", quote.text) + f" [{marker}]"
        self.quotes.append(PlacedQuote(quote, start, start + len(text), marker))
        return self._show(before + text)

    def finish(self) -> Content | None:
        if self._cut:
            self.notes.append(self._cut)
        if self._markers is None:
            return None
        return self._show(self._markers.feed(self._trim.finish()) + self._markers.finish())

    def _show(self, text: str) -> Content | None:
        if not self._shown:
            text = text.lstrip()  # nothing is shown before the first word
        if not text:
            return None
        self._shown.append(text)
        return Content(text)

    @property
    def content(self) -> str:
        return "".join(self._shown).rstrip()

    @property
    def order(self) -> tuple[int, ...]:
        """Passage numbers by first use."""
        return tuple(self._quoted_passages) or (self._markers.order if self._markers is not None else ())

    @property
    def sizes(self) -> dict[str, Any]:
        return {"model": self.model, "characters": len(self.content), "tokens": self.usage.completion_tokens}

    @property
    def suggested(self) -> tuple[str, ...]:
        return self._trim.suggested


def drafted(text: str, context: Context) -> Draft:
    """A whole text read at once."""
    draft = Draft(context)
    draft.take(Piece(text=text))
    draft.finish()
    return draft


# --- who writes where no model does? ----------------------------------------------------------------------------------

QUOTING = "quoting the documents instead"
NEAREST_SENTENCES = 2
TOO_SMALL = "No passage fits into the context (max_context_chars is {most}), so only the best one was used."


@dataclass(frozen=True, slots=True, eq=False)
class WritingTask:
    """What is written into a draft, and by whom."""

    query: Query
    plan: Plan
    retrieved: Retrieved
    turns: Sequence[Turn]
    models: Models
    budget: Budget
    settings: Settings
    trace: Trace
    doubt: str = ""
    most_characters: int | None = None
    doubt_of_quotes: Callable[[Sequence[Quote]], str] | None = None  # the doubt, once it is known what is quoted

    def model(self, draft: Draft) -> LLM | None:
        """Who is to write; its failures are noted in the draft and the trace."""
        return self.models.role("answer", lambda why: self.trace.skip("try", why), draft.failures.append)


async def quoted(draft: Draft, task: WritingTask) -> AsyncGenerator[Event, None]:
    """The sentences of the documents, in place of whatever the draft holds; the nearest, where none answers."""
    query = task.query
    if draft.context.is_too_small:
        draft.notes.append(TOO_SMALL.format(most=task.most_characters or task.settings.max_context_chars))
    if void := draft.start_over(EXTRACTIVE, QUOTING):
        yield void
    asked = (query, draft.context, task.retrieved, task.settings)
    was_near = is_near = task.doubt == "near"
    quotes = await in_thread(extract, *asked, NEAREST_SENTENCES if is_near else None)
    if task.doubt_of_quotes is not None:
        is_near = task.doubt_of_quotes(quotes) == "near"
    if is_near != was_near:
        quotes = await in_thread(extract, *asked, NEAREST_SENTENCES if is_near else None)
    if is_near and quotes and (shown := draft.say(nearest(query.question))):
        yield shown
    for quote in quotes:
        if shown := draft.quote(quote):
            yield shown


def nearest(question: str) -> str:
    """What is said before the sentences that come nearest to a question that has no answer."""
    return f"{said('missing', question)} {said('nearest', question)}\n\n"


# --- what is said of a model that did not answer? A sentence for the reader, a warning in the log, a code to count ----

NO_CREDIT = "the account has no credit left"
REFUSED: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "the API key was refused",
    HTTPStatus.PAYMENT_REQUIRED: NO_CREDIT,
    HTTPStatus.FORBIDDEN: "the API key was refused",
    HTTPStatus.NOT_FOUND: "the provider does not know this model",
    HTTPStatus.TOO_MANY_REQUESTS: NO_CREDIT,  # any other of these is `ProviderUnavailable`
}

logger = logging.getLogger("refdesk.ask")


def notify(draft: Draft, trace: Trace) -> None:
    """Notes for the reader and warnings in the log of every model that failed before the writer of this draft."""
    failed = given_up(draft.failures, draft.model)
    warn(failed, trace)
    if failed:
        draft.notes.append(sentence(failed, draft.model, is_quoting=bool(draft.content)))


def given_up(failures: Sequence[ProviderError], writer: str) -> list[ProviderError]:
    """The last failure of each model, without the writer's: one that broke off and began anew has answered."""
    return list({failure.model: failure for failure in failures if failure.model != writer}.values())


def failed_models(draft: Draft) -> tuple[FailedModel, ...]:
    return tuple(
        FailedModel(provider_error.model, provider_error.code)
        for provider_error in given_up(draft.failures, draft.model)
    )


def sentence(failed: Sequence[ProviderError], writer: str, *, is_quoting: bool) -> str:
    """`openai:gpt-4o did not answer (the API key was refused), so this answer is quoted from the documents.`"""
    named = ", nor did ".join(
        f"{failure.model} did not answer ({reason(failure)})" if place == 0 else f"{failure.model} ({reason(failure)})"
        for place, failure in enumerate(failed)
    )
    if writer != EXTRACTIVE:
        return f"{named}, so {writer} wrote this instead."
    instead = "this answer is quoted from the documents" if is_quoting else "no model has searched for it"
    return f"{named}, so {instead}."


def warn(failed: Sequence[ProviderError], trace: Trace) -> None:
    """One line for each, under the id of its answer, whose trace has every try.

    Not in the provider's words: some say the whole request again, and questions are not logged.
    """
    for failure in failed:
        message = {
            "model": failure.model,
            "code": failure.code,
            "status": failure.status,
            "hint": failure.hint,
            "answer_id": trace.id,
        }
        logger.warning("%s did not answer: %s", failure.model, reason(failure), extra=message)


def reason(error: ProviderError) -> str:
    """Why it did not answer, in plain words; no address, no key and nothing that the provider said.

    >>> reason(ProviderRefused("openai:gpt-4o answered 401: wrong key sk-…", status=401))
    'the API key was refused'
    """
    match error:
        case ProviderRefused():
            return REFUSED.get(error.status, "it refused the request" if error.status else "it could not be called")
        case ProviderUnavailable():
            return _unavailable(error.status)
        case ProviderInterrupted():
            return "the connection was lost"
        case ProviderEmpty():
            return "it wrote nothing"
    return "it failed"


def _unavailable(status: int) -> str:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "it is overloaded"
    return "its server failed" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "it is not available"


async def written_into(draft: Draft, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Event, None]:
    """Takes a model's pieces into a draft to the end of them, and gives what a reader is to see of each."""
    async with aclosing(pieces):
        async for piece in pieces:
            if shown := draft.take(piece):
                yield shown
    if shown := draft.finish():
        yield shown


def gave_up(draft: Draft, error: ProviderError, model: str, trace: Trace, instead: str) -> None:
    """Notes in the draft and the trace that a model failed, what that cost, and what is done instead."""
    draft.usage += error.spent or Usage()
    if error not in draft.failures:  # no chain has heard of it
        error.model = error.model or model
        draft.failures.append(error)
    trace.skip("model", f"{error.sentence}; {instead}")
