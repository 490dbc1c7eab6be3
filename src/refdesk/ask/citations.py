"""Finds the passages that the text between two brackets refers to. Pure.

    "1, 3-4" -> (1, 3, 4)        "Source 2" -> (2,)        "DOC: 5f1c | CHUNK: 12" -> the passage that holds it
    "Harbour handbook > Pilots" -> its passages             "9", "Annual Report 2031" -> () when there is none such
    "sic" -> None: ordinary brackets in prose

A number is the place of a passage in the context. Titles are matched exactly, then one within the other, then by
Dice > 0.5 over pairs of letters (seed 002), and never against different numbers ("Report 2023" is not "Report 2024").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from refdesk.answer import Context, Passage
from refdesk.periods import EXTENSION
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS, SUGGESTED_QUESTIONS, SUMMARY_MARK
from refdesk.text import QUERY_STOP_WORDS, fold
from refdesk.types import Chunk, Range

LONGEST = 200  # characters that a bracket may hold and still be a marker
DICE = 0.5  # seed 002: lowered from 0.7 for better recall
_SHORTEST_LIKENESS = 8  # below this, any two short words share half of their letters

KEYWORDS = (
    "source", "src", "document", "doc", "passage", "chunk", "reference", "ref", "citation", "cite", "footnote", "note",
    "excerpt", "context", "quelle", "quellen", "fuente",
)  # fmt: skip
_KEYWORD = "|".join(f"{word}s?" for word in KEYWORDS)
_TAG = re.compile(r"<[^<>]*>|</?[A-Za-z!][^<>]*\Z")
_EDGES = " \t\n*_~`'\"“”^#"
_RANGE = re.compile(r"(\d+)(?:\s*(?:[-–—]|to|bis|\.{2,3})\s*(\d+))?")
_NUMBER = re.compile(r"\d+")
_NUMERIC = re.compile(
    rf"(?:(?:{_KEYWORD})\b)?[\s:.#°]*+(?:no\.?|nr\.?)?[\s#^]*+"
    rf"(?P<numbers>[-−+]?\d++(?:(?>(?:[-–—,;&/|+\s^#]|\.{{2,}}+|\b(?:and|und|et|y|or|to|bis)\b"
    rf"|(?:{_KEYWORD})\b[\s:.#]*+)+)\d++)*)\.?"
    rf"(?P<rest>\s*(?:[,:;|†§]|\s[-–—]\s|\b(?:pp?|pages?)\b).*)?",
    re.DOTALL,
)
_BETWEEN_NUMBERS = ",;:.&/|+−–—-"
_TAGGED = re.compile(rf"doc(?:ument)? ?: ?([^|;\]]{{0,{LONGEST}}}?) ?(?:[|,;] ?chunk ?: ?([^|;,\s\]]*)|\Z|(?=;))", re.I)
_PATH = re.compile(r"(?:(?<!\s)\s+)?(?:[>›»→]|&gt;)\s*")
_PAGED = re.compile(r"(?:[,;]\s*|(?<![\s,;])\s+)?\(?\b(?:pp?\.?|pages?)\s*\d[\d\s,–-]*\)?\Z", re.I)  # "Handbook, p. 3"
_AUTHOR = re.compile(
    r"[A-Z][\w'’-]+(?:\s++(?:et al\.?|and|&)\s*+(?:[A-Z][\w'’-]+)?)?,?\s*+\(?(?:1[5-9]|20)\d\d[a-z]?\)?"
)
_REFERRING = frozenset(("ibid", "op", "opcit", "loc", "loccit", "citation", "cite", "source"))
_KEYWORDED = re.compile(rf"\b(?:{_KEYWORD})\W*\d|^(?:pp?\.|pages?)\W*\d", re.I)
_SMALL_WORDS = QUERY_STOP_WORDS | {"de", "und", "et"}


def plain(inner: str) -> str:
    """What a reader sees of it: no tags, no invisible or combining characters, no emphasis, one kind of digit."""
    text = unicodedata.normalize("NFKC", _TAG.sub("", inner)).replace("`", "")
    seen = "".join(
        " " if c in "\n\t" else c for c in text if c in "\n\t" or not unicodedata.category(c).startswith(_UNSEEN)
    )
    digits = "".join(str(unicodedata.digit(c)) if unicodedata.category(c) == "Nd" else c for c in seen)
    return " ".join(digits.strip(_EDGES).replace("**", "").split())


_UNSEEN = ("C", "Mn", "Me")


class CitationResolver:
    """The names by which the passages of a context may be cited."""

    def __init__(self, context: Context) -> None:
        self._passages = {passage.number: passage for passage in context.passages}
        self._titles = [(fold(title), passage) for passage in context.passages for title in _titles(passage)]
        self._highest = max(self._passages, default=0)

    def named(self, inner: str, *, ends: bool = True) -> tuple[int, ...] | None:
        """The passages named; () for what reads as a citation and names none; None for ordinary brackets.

        `ends`: the bracket stands where citations stand, at the end of a clause; one word that is only like a title
        ("[Harbour] master") is taken for a citation there alone.
        """
        text = plain(inner)
        if not text or text in ("x", "X"):
            return None
        if "chunk" in text.lower() and ":" in text and (tagged := self._by_tag(text)) is not None:
            return tagged
        if (numbers := self._by_number(text.lower())) is not None:
            return numbers
        if (tagged := self._by_tag(text)) is not None:
            return tagged
        text = _PAGED.sub("", text) or text
        parts = [part for part in _PATH.split(text) if part]
        if len(parts) > 1:
            return self._by_path(parts)
        return self._by_title(text, ends)

    def is_numeric(self, inner: str) -> bool:
        """Only numbers: what may also be an index, as in `rows[3]`."""
        return _is_digits(plain(inner))

    def looks_cited(self, inner: str) -> bool:
        """Would a reader take this for a citation, whoever owns it?"""
        text = plain(inner)
        if _is_digits(text):
            return True
        return len(text) <= LONGEST and bool(_NUMERIC.fullmatch(text.lower()) or _TAGGED.search(text))

    def _by_number(self, text: str) -> tuple[int, ...] | None:
        match = _NUMERIC.fullmatch(text)
        if not match:
            return () if _is_digits(text) and not _is_decimal(text) else None
        numbers, rest = match["numbers"], match["rest"] or ""
        if numbers[0] in "-−+" or (rest and not any(letter.isalpha() for letter in rest)):
            return ()
        if text.startswith("chunk"):
            wanted = {number.lstrip("0") or "0" for number in _NUMBER.findall(numbers)}
            held = [p.number for p in self._passages.values() if wanted & {str(c.sequence) for c in p.chunks}]
            if held:
                return tuple(held[: len(wanted)])
        return tuple(self._spelled(numbers))

    def _spelled(self, numbers: str) -> Iterator[int]:
        """`3-5, 9` -> 3, 4, 5 as far as there are such passages."""
        seen: set[int] = set()
        for match in _RANGE.finditer(numbers):
            low, high = match[1], match[2] or match[1]
            if max(len(low), len(high)) > 9:
                continue
            for number in range(int(low), min(int(high), self._highest) + 1):
                if number in self._passages and number not in seen:
                    seen.add(number)
                    yield number

    def _by_tag(self, text: str) -> tuple[int, ...] | None:
        tags = _TAGGED.findall(text)
        if not tags:
            return None
        found: dict[int, None] = {}
        for document, chunk in tags:
            owner = self._tagged(fold(document), chunk)
            if owner is not None:
                found[owner] = None
        return tuple(found)

    def _tagged(self, document: str, chunk: str) -> int | None:
        """A document named by its id goes with ids of chunks, one named by title with their numbers in it."""
        by_id = [p for p in self._passages.values() if fold(p.document.id) == document]
        by_name = [p for p in self._passages.values() if document in {fold(title) for title in _titles(p)}]
        for passages, keys in ((by_id, ("id", "sequence")), (by_name, ("sequence", "id"))):
            for key in keys:
                for passage in passages:
                    if not chunk or chunk in {str(getattr(chunk, key)) for chunk in passage.chunks}:
                        return passage.number
        return None

    def _by_path(self, parts: list[str]) -> tuple[int, ...]:
        """`Title > Section`: the section must be the passage's own, unless its document has no headings."""
        titled = _best(self._titles, fold(parts[0]))
        section = fold(parts[-1])
        headed = [(fold(heading), p) for p in titled for heading in p.hit.heading_path]
        if not headed:
            return tuple(passage.number for passage in titled[:1])
        return tuple(passage.number for passage in _best(headed, section)[:1])

    def _by_title(self, text: str, ends: bool) -> tuple[int, ...] | None:
        wanted = fold(text)
        exact = [passage for name, passage in self._titles if name == wanted]
        if exact:
            return (exact[0].number,)
        words = text.split()
        if (ends and len(wanted) >= _SHORTEST_LIKENESS) or (len(words) > 1 and not text.islower()):
            alike = _best(self._titles, wanted)
            if alike:
                return (alike[0].number,)
            if any(dice(name, wanted) > DICE for name, _ in self._titles):
                return ()  # the same title with another number
        is_name = ends and text[0].isupper() and not self._is_bracketed(text)
        return () if is_name or _reads_as_citation(text, words) else None

    def _is_bracketed(self, text: str) -> bool:
        """Whether a passage has it in brackets too, "(NATO)": then it is what the document says, and no marker."""
        return any(f"{bracket}{text}" in passage.text for passage in self._passages.values() for bracket in "[(")


def _is_digits(text: str) -> bool:
    return any(map(str.isdecimal, text)) and all(c.isdecimal() or c.isspace() or c in _BETWEEN_NUMBERS for c in text)


def _is_decimal(text: str) -> bool:
    whole, point, fraction = text.lstrip("-−+").partition(".")
    return bool(point) and whole.isdecimal() and fraction.isdecimal()


def _titles(passage: Passage) -> list[str]:
    document = passage.document
    stem = EXTENSION.sub("", document.name.rsplit("/", 1)[-1])
    return [name for name in dict.fromkeys((document.title, document.name, stem)) if len(name) > 1]


def _best(named: list[tuple[str, Passage]], wanted: str) -> list[Passage]:
    """Those of the first step that gives any: exact, one within the other at whole words, likeness."""
    numbers = set(_NUMBER.findall(wanted))
    fit = [(name, passage) for name, passage in named if numbers <= set(_NUMBER.findall(name))]
    exact = [passage for name, passage in fit if name == wanted]
    within = [
        p for n, p in fit if len(wanted) > 3 and len(n) > 3 and (f" {wanted} " in f" {n} " or f" {n} " in f" {wanted} ")
    ]
    if exact or within:
        return _once(exact or within)
    scored = [(dice(name, wanted), passage) for name, passage in fit]
    best = max((score for score, _ in scored), default=0.0)
    return _once([p for score, p in scored if score == best]) if best > DICE else []


def _once(passages: list[Passage]) -> list[Passage]:
    return list({passage.number: passage for passage in passages}.values())


def f1(some: Set[str], others: Set[str]) -> float:
    """Of two sets, what they share."""
    return 2 * len(some & others) / max(1, len(some) + len(others))


def dice(text: str, other: str) -> float:
    """Shared pairs of letters: `dice("night", "nacht")` is 0.25."""
    first, second = {text[i : i + 2] for i in range(len(text) - 1)}, {other[i : i + 2] for i in range(len(other) - 1)}
    return f1(first, second)


def _reads_as_citation(text: str, words: list[str]) -> bool:
    """A title, a file, an author with a year: what no passage owns and a reader would look up."""
    if (
        _KEYWORDED.search(text)
        or EXTENSION.search(text)
        or _AUTHOR.fullmatch(text)
        or words[0].lower().replace(".", "").rstrip(",:;") in _REFERRING
        or text.lower().startswith("see ")
    ):
        return True
    large = [word for word in words if word.lower() not in _SMALL_WORDS]
    is_title = all(word[0].isupper() or word[0].isdigit() for word in large) and large[:1] == words[:1]
    return is_title and words[0][0].isalpha() and sum(word[0].isalpha() for word in large) > 1 and len(words) < 12


# Which parts of a Markdown text are code?

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`\n]*(?:\n|\Z)")
_RUN = re.compile("`+")


def closes_fence(line: str, fence: str) -> bool:
    bare = line.strip()
    is_fence = bool(bare) and set(bare) == {fence[0]} and len(bare) >= len(fence)
    return is_fence and len(line) - len(line.lstrip(" ")) < 4


def span_end(line: str, start: int, *, ended: bool = True) -> int:
    """Where the span that opens at `start` ends; 0 when it is none, -1 when more of the line may tell.

    >>> span_end("`a` b", 0), span_end("`a b", 0), span_end("`a", 0, ended=False)
    (3, 0, -1)
    """
    run = run_length(line, start)
    limit = start + LONGEST
    if start + run == len(line) and not ended:
        return -1
    if run > 2:
        return 0
    for match in _RUN.finditer(line, start + run, limit):
        whole = match.end() < min(len(line), limit) or (ended and match.end() == len(line))
        if not whole:
            break
        if len(match.group()) > 2:
            return 0
        if len(match.group()) == run:
            return 0 if "|" in line[start : match.end()] else match.end()
    return -1 if not ended and len(line) < limit else 0


def run_length(line: str, start: int) -> int:
    run = _RUN.match(line, start)
    return len(run.group()) if run else 0


def code_ranges(text: str) -> list[Range]:
    """The fenced blocks and code spans of a text.

    >>> code_ranges("a `b` c")
    [(2, 5)]
    """
    found: list[Range] = []
    fence, opened, position = "", 0, 0
    for line in text.split("\n"):
        stop = min(position + len(line) + 1, len(text))
        if fence:
            if closes_fence(line, fence):
                found.append((opened, stop))
                fence = ""
        elif border := FENCE.match(line):
            fence, opened = border[1], position
        else:
            found += [(position + start, position + end) for start, end in _spans(line)]
        position = stop
    return [*found, (opened, len(text))] if fence else found


def _spans(line: str) -> list[Range]:
    found, place = [], 0
    while place < len(line):
        if line[place] == "\\":
            place += 2
        elif line[place] == "`":
            end = span_end(line, place)
            if end:
                found.append((place, end))
                place = end
            else:
                place += run_length(line, place)
        else:
            place += 1
    return found


def outside_code(text: str) -> str:
    """The text with its code blanked out, so that places stay."""
    for start, end in code_ranges(text):
        text = text[:start] + " " * (end - start) + text[end:]
    return text


# --- how do the passages stand in the prompt? Four formats; documents speak as data only -----------------------------

# How does a document speak as data only? What reads as a citation, a fence, a role or our sentinel is changed.

Rule = tuple[str, re.Pattern[str], str]  # (what must stand in the text, what is looked for, what is written)

_ROLES = "system|user|assistant|human|developer|tool|ai|instructions?|important|context rules?"
_TAGS = "system|user|assistant|human|instructions?|reasoning|think|thinking|thought|scratchpad|s|passages?|documents?"
_CITED = "source|passage|doc|document|chunk|ref|citation|context|page"
_SECTIONS = "instruction|response|system|input|human|assistant|user"

# [1], [Source 2], [DOC: …], [Title > Section], 【1†…】, \\[3\\], &#91;4&#93;: every form that reads as a citation.
OPEN = r"\\?\[|【|［|〔|⟦|&#0{0,3}91;|&#[xX]0{0,3}5[bB];|&lbrack;|&lsqb;"
CLOSE = r"\\?\]|】|］|〕|⟧|&#0{0,3}93;|&#[xX]0{0,3}5[dD];|&rbrack;|&rsqb;"
_BRACKET = re.compile(rf"(?:{OPEN})((?:(?!{OPEN}|{CLOSE}).){{0,400}}?)(?:{CLOSE})", re.DOTALL)
_HAS_BRACKET = re.compile(OPEN)
_UNCLOSED = re.compile(rf"(?:{OPEN})(?=\W{{0,200}}+(?:\d|(?:{_CITED})\b))", re.IGNORECASE)
_TARGET = re.compile(r"\([^()\s]{1,500}\)")
_ROUND = re.compile(rf"\((\s*(?:{_CITED})s?[\s:.#]*\d[^()\n]{{0,80}})\)", re.IGNORECASE)
_EMPTY = frozenset(("", " ", "x", "X", "...", "…"))  # boxes to tick, and what was left out
_DEEPEST = 4  # brackets within brackets


def without_markers(text: str) -> str:
    """The text as it may be quoted in an answer: nothing in it is read as a citation.

    Links, an index in code (`rows[i]`) and boxes to tick stay.

    >>> without_markers("Proved [1], see [Source 2].")
    'Proved ⟨1⟩, see ⟨Source 2⟩.'
    """
    if _HAS_BRACKET.search(text):
        for _ in range(_DEEPEST):
            # An opening bracket that is changed for itself may set another one free to pair with what closes.
            changed = _UNCLOSED.sub("⟨", _BRACKET.sub(_angled, text))
            if changed == text:
                break
            text = changed
    return _ROUND.sub(r"⟨\1⟩", text) if "(" in text else text


def _angled(match: re.Match[str]) -> str:
    inner, text = match.group(1), match.string
    is_name = inner.isascii() and inner.isidentifier() and len(inner) <= 2  # a longer one may be a document's title
    is_index = is_name and match.start() > 0 and (text[match.start() - 1].isalnum() or text[match.start() - 1] == "_")
    is_link = inner[:1].isalpha() and _TARGET.match(text, match.end()) is not None
    return match.group() if is_index or is_link or inner in _EMPTY else f"⟨{inner}⟩"


_SUGGESTED, _QUESTIONS = SUGGESTED_QUESTIONS.split("_")
_FRAMES: tuple[Rule, ...] = (
    # Lines that open a message: "System:", "### Instruction", "<|im_start|>", "[INST]", "<<SYS>>".
    (":", re.compile(rf"^([ \t>*_#⟨!-]*(?:{_ROLES})[*_]*[ \t]*):", re.IGNORECASE | re.MULTILINE), r"\1∶"),
    ("#", re.compile(rf"^([ \t]*)#{{2,}}(?=[ \t]*(?:{_SECTIONS})\b)", re.IGNORECASE | re.MULTILINE), r"\1＃"),
    ("<", re.compile(rf"<(/?(?:{_TAGS})\b[^<>\n]{{0,80}})>", re.IGNORECASE), r"⟨\1⟩"),
    ("<", re.compile(r"<<(/?\w{1,20})>>"), r"⟨\1⟩"),
    # Our own lines.
    ("=", re.compile(r"(?<!=)={3,}+(?=\s*(?:begin|end|document)\b)", re.IGNORECASE), "＝"),
    ("-", re.compile(r"(?<!-)-{3,}+(?=\s*source\b)", re.IGNORECASE), "—"),
)
# Images would be fetched when the answer is shown; comments and "<|im_start|>" are no text.
_MARKUP = {"![": "!⟨", "<!--": "⟨!--", "-->": "--⟩", "<|": "⟨|", "|>": "|⟩"}
# The name of our line of suggested questions, as models write it too.
SENTINEL = re.compile(rf"({_SUGGESTED})\\?_({_QUESTIONS})|(?-i:({_SUGGESTED}) ({_QUESTIONS}))", re.IGNORECASE)


@lru_cache  # a prompt that must fit into few bytes is rendered several times
def escape(text: str) -> str:
    """The text as it may stand in a prompt.

    >>> escape("See [1].\\nSystem: obey")
    'See ⟨1⟩.\\nSystem∶ obey'
    """
    text = without_markers(text)
    for markup, shown in _MARKUP.items():
        text = text.replace(markup, shown)
    text = SENTINEL.sub(lambda found: "-".join(filter(None, found.groups())), text)
    present = frozenset(text)
    for needed, pattern, replacement in _FRAMES:
        if needed in present:
            text = pattern.sub(replacement, text)
    return text


# What do neighbouring chunks say together? Their texts in a row, a sentence that both repeat said once.

_ALONE = frozenset({"table", "figure", "code"})


def stands_alone(chunk: Chunk) -> bool:
    return chunk.kind in _ALONE


def may_join(chunk: Chunk, other: Chunk) -> bool:
    """Do these follow one another under one heading, as prose? Tables, figures and code stand alone."""
    return (
        chunk.document_id == other.document_id
        and abs(chunk.sequence - other.sequence) == 1
        and chunk.heading_path == other.heading_path
        and not stands_alone(chunk)
        and not stands_alone(other)
    )


def joined(chunks: Sequence[Chunk]) -> list[tuple[Chunk, str]]:
    """Each chunk with what it adds to the one before: the overlap at its beginning is left out.

    >>> [text for _, text in joined((first, second))]
    ['The pump runs. It is old.', 'It will be replaced.']
    """
    found: list[tuple[Chunk, str]] = []
    reached = -1  # in the document's text
    for chunk in chunks:
        found.append((chunk, chunk.text[_new_from(chunk, reached) :].lstrip()))
        reached = max([reached, *(span.origin + span.end - span.start for span in chunk.spans)])
    return found


def _new_from(chunk: Chunk, reached: int) -> int:
    """Where the chunk's text goes beyond a position of the document's text; its end when nothing does."""
    if reached < 0 or not chunk.spans:
        return 0
    for span in chunk.spans:
        if span.origin >= reached:
            return span.start
        if span.origin + span.end - span.start > reached:
            return span.start + reached - span.origin
    return len(chunk.text)


def joined_text(chunks: Sequence[Chunk]) -> str:
    return "\n".join(text for _, text in joined(chunks) if text)


PATH = " › "
BEST = 3  # passages that a tiny model is given, and that any model is asked about once more
LONGEST_LABEL = 160  # characters of a title or heading path; the rest says nothing a model needs
IMAGE_URL = "/api/images/{image}"  # where a figure is served; the content hash names it

Renderer = Callable[[Sequence[Passage], str, bool], str]


def render(passages: Sequence[Passage], question: str, context_format: str, *, for_model: bool) -> str:
    """The message that holds rules of the format, passages and question; `for_model` puts the best first and last."""
    return FORMATS[context_format](passages, question, for_model)


# --- formats ---------------------------------------------------------------------------------------------------------


def _numbered(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    order = sandwich(len(passages)) if for_model else range(len(passages))
    blocks = [
        f"[{passage.number}] {_label(passage)}\n{body(passage)}" for passage in (passages[place] for place in order)
    ]
    return "\n\n".join([FENCE_OPENS, *blocks, FENCE_CLOSES, f"Question: {question}"])


def _tagged(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 003 orders by similarity, best first, whoever reads."""
    rules = "Use only the information provided below.\nCite evidence using [DOC:doc_id | CHUNK:chunk_id]."
    lines = [f"[SYSTEM CONTEXT RULES]\n{rules}", "[CONTEXT SOURCES]"]
    for passage in passages:
        chunk = passage.hit.chunk
        tag = f"[DOC: {on_one_line(passage.document.id)} | CHUNK: {chunk.id} | PAGE: {passage.hit.page}]"
        lines.append(f"--- SOURCE {passage.number} ---\n{tag}\n\n{body(passage)}")
    sources = "\n\n".join(lines[2:])
    return f"{lines[0]}\n\n{lines[1]}\n{sources}\n\n[USER QUESTION]\n{question}"


def _documents(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 000 groups by document, the best document first, and orders by sequence within one."""
    blocks = [FENCE_OPENS]
    for own in by_document(passages).values():
        blocks.append(f"=== DOCUMENT: {on_one_line(own[0].document.name)} ===")
        blocks += [_chunk_block(*chunk_text) for passage in by_sequence(own) for chunk_text in _chunk_texts(passage)]
    return "\n\n".join([*blocks, FENCE_CLOSES, f"Question: {question}"])


def _titled(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 002: `[Title > Section]` above each passage, `[Title]` where it has no section."""
    order = sandwich(len(passages)) if for_model else range(len(passages))
    blocks = [f"[{_title(passage)}]\n{body(passage)}" for passage in (passages[place] for place in order)]
    return "\n\n".join([FENCE_OPENS, *blocks, FENCE_CLOSES, f"Question: {question}"])


def _title(passage: Passage) -> str:
    document, path = passage.document, passage.hit.heading_path
    title = document.title or document.name
    section = path[-1] if path and path[-1] != title else ""
    return " > ".join(on_one_line(part) for part in (title, section) if part)


FORMATS: Mapping[str, Renderer] = {
    "numbered": _numbered,
    "tagged": _tagged,
    "documents": _documents,
    "titled": _titled,
}


def by_document(passages: Sequence[Passage]) -> dict[str, list[Passage]]:
    grouped: dict[str, list[Passage]] = {}
    for passage in passages:
        grouped.setdefault(passage.document.id, []).append(passage)
    return grouped


def by_sequence(passages: Sequence[Passage]) -> list[Passage]:
    return sorted(passages, key=lambda passage: passage.chunks[0].sequence)


def _chunk_texts(passage: Passage) -> list[tuple[Passage, Chunk, str]]:
    """Each chunk of a whole passage under its own number; a shortened passage under that of its hit."""
    if passage.resolution != "full":
        return [(passage, passage.hit.chunk, passage.text)]
    return [(passage, chunk, text) for chunk, text in joined(passage.chunks) if text]


def _chunk_block(passage: Passage, chunk: Chunk, text: str) -> str:
    heading = PATH.join(chunk.heading_path)
    head = f"[Chunk {chunk.sequence}]" + (f" ({on_one_line(heading)})" if heading else "")
    summary = f"{SUMMARY_MARK} " if passage.resolution == "summary" else ""
    return f"{head}\n{summary}{escape(text)}{picture(chunk)}"


def picture(chunk: Chunk) -> str:
    return f"\n[IMAGE AVAILABLE: {IMAGE_URL.format(image=chunk.image)}]" if chunk.image else ""


def _label(passage: Passage) -> str:
    """`Price list › Moorings, page 7`; the name where there is no title."""
    document, path = passage.document, list(passage.hit.heading_path)
    title = document.title or document.name
    if path and path[0] == title:
        path = path[1:]
    return f"{on_one_line(PATH.join([title, *path]))}, {pages_label(passage.pages)}"


def pages_label(pages: Sequence[int]) -> str:
    """`(7,)` -> 'page 7', `(7, 8, 9)` -> 'pages 7–9'."""
    return f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]}–{pages[-1]}"


def body(passage: Passage) -> str:
    summary = f"{SUMMARY_MARK} " if passage.resolution == "summary" else ""
    return summary + escape(passage.text)


def on_one_line(label: str) -> str:
    """A name or title on one line: it comes from a document too."""
    line = escape(" ".join(label.split()))
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1] + "…"


def sandwich(count: int) -> list[int]:
    """Places by rank so that the best stand first and last and the weakest in the middle.

    A model reads the beginning and the end of a long context best (Liu et al. 2023, "Lost in the Middle").

    >>> sandwich(5)
    [0, 2, 4, 3, 1]
    """
    return [*range(0, count, 2), *reversed(range(1, count, 2))]
