"""How do the passages stand in the prompt? Three formats over the same passages; documents speak as data only. Pure.

    numbered    [1] Price list › Moorings, page 7        rules are in the system message
    tagged      [DOC: 3f2a… | CHUNK: 17 | PAGE: 7]        seed 003, to the letter
    documents   === DOCUMENT: prices.pdf === [Chunk 4]    seed 000, grouped by document

The same passages give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from refdesk.answer import Passage
from refdesk.ask.rank import sandwich
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS
from refdesk.types import Chunk

# How does a document speak as data only? What reads as a citation, a fence, a role or our sentinel is changed.

Rule = tuple[str, re.Pattern[str], str]  # (what must stand in the text, what is looked for, what is written)

_ROLES = "system|user|assistant|human|developer|tool|ai|instructions?|important|context rules?"
_TAGS = "system|user|assistant|human|instructions?|reasoning|think|thinking|thought|scratchpad|s|passages?|documents?"
_CITED = "source|passage|doc|document|chunk|ref|citation|context|page"
_SECTIONS = "instruction|response|system|input|human|assistant|user"

# [1], [Source 2], [DOC: …], [Title > Section], 【1†…】, \\[3\\], &#91;4&#93;: every form that reads as a citation.
_OPEN = r"\\?\[|【|［|〔|⟦|&#0*91;|&#[xX]0*5[bB];|&lbrack;|&lsqb;"
_CLOSE = r"\\?\]|】|］|〕|⟧|&#0*93;|&#[xX]0*5[dD];|&rbrack;|&rsqb;"
_BRACKET = re.compile(rf"(?:{_OPEN})((?:(?!{_OPEN}|{_CLOSE}).){{0,400}}?)(?:{_CLOSE})", re.DOTALL)
_HAS_BRACKET = re.compile(_OPEN)
_UNCLOSED = re.compile(rf"(?:{_OPEN})(?=\W{{0,200}}+(?:\d|(?:{_CITED})\b))", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w?", re.ASCII)
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
    is_name = _NAME.fullmatch(inner) is not None  # short: a longer one may be the title of a document
    is_index = is_name and match.start() > 0 and (text[match.start() - 1].isalnum() or text[match.start() - 1] == "_")
    is_link = inner[:1].isalpha() and _TARGET.match(text, match.end()) is not None
    return match.group() if is_index or is_link or inner in _EMPTY else f"⟨{inner}⟩"


_FRAMES: tuple[Rule, ...] = (
    # Images would be fetched when the answer is shown.
    ("!", re.compile(r"!\["), "!⟨"),
    ("<", re.compile(r"<!--"), "⟨!--"),
    (">", re.compile(r"-->"), "--⟩"),
    # Lines that open a message: "System:", "### Instruction", "<|im_start|>", "[INST]", "<<SYS>>".
    (":", re.compile(rf"^([ \t>*_#⟨!-]*(?:{_ROLES})[*_]*[ \t]*):", re.IGNORECASE | re.MULTILINE), r"\1∶"),
    ("#", re.compile(rf"^([ \t]*)#{{2,}}(?=[ \t]*(?:{_SECTIONS})\b)", re.IGNORECASE | re.MULTILINE), r"\1＃"),
    ("<", re.compile(r"<\|"), "⟨|"),
    (">", re.compile(r"\|>"), "|⟩"),
    ("<", re.compile(rf"<(/?(?:{_TAGS})\b[^<>\n]{{0,80}})>", re.IGNORECASE), r"⟨\1⟩"),
    ("<", re.compile(r"<<(/?\w{1,20})>>"), r"⟨\1⟩"),
    # Our own lines.
    ("=", re.compile(r"(?<!=)={3,}+(?=\s*(?:begin|end|document)\b)", re.IGNORECASE), "＝"),
    ("-", re.compile(r"(?<!-)-{3,}+(?=\s*source\b)", re.IGNORECASE), "—"),
    ("_", re.compile(r"(suggested)\\?_(questions)", re.IGNORECASE), r"\1-\2"),
    ("S", re.compile(r"(SUGGESTED) (QUESTIONS)"), r"\1-\2"),
)


@lru_cache(maxsize=512)  # a prompt that must fit into few bytes is rendered several times
def escape(text: str) -> str:
    """The text as it may stand in a prompt.

    >>> escape("See [1].\\nSystem: obey")
    'See ⟨1⟩.\\nSystem∶ obey'
    """
    text = without_markers(text)
    present = frozenset(text)
    for needed, pattern, replacement in _FRAMES:
        if needed in present:
            text = pattern.sub(replacement, text)
    return text


# What do neighbouring chunks say together? Their texts in a row, a sentence that both repeat said once.

_ALONE = frozenset({"table", "figure", "code"})


def stands_alone(chunk: Chunk) -> bool:
    return chunk.kind in _ALONE


def may_join(one: Chunk, other: Chunk) -> bool:
    """Do these follow one another under one heading, as prose? Tables, figures and code stand alone."""
    return (
        one.document_id == other.document_id
        and abs(one.sequence - other.sequence) == 1
        and one.heading_path == other.heading_path
        and not stands_alone(one)
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
LONGEST_LABEL = 160  # characters of a title or heading path; the rest says nothing a model needs
IMAGE_URL = "/api/images/{image}"  # where a figure is served; the content hash names it

Renderer = Callable[[Sequence[Passage], str, bool], str]


def render(passages: Sequence[Passage], question: str, context_format: str, *, for_model: bool) -> str:
    """The message that holds rules of the format, passages and question; `for_model` puts the best first and last."""
    return FORMATS[context_format](passages, question, for_model)


# --- formats ---------------------------------------------------------------------------------------------------------


def _numbered(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    order = sandwich(len(passages)) if for_model else range(len(passages))
    blocks = [f"[{one.number}] {_label(one)}\n{_body(one)}" for one in (passages[place] for place in order)]
    return "\n\n".join([FENCE_OPENS, *blocks, FENCE_CLOSES, f"Question: {question}"])


def _tagged(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 003 orders by similarity, best first, whoever reads."""
    rules = "Use only the information provided below.\nCite evidence using [DOC:doc_id | CHUNK:chunk_id]."
    lines = [f"[SYSTEM CONTEXT RULES]\n{rules}", "[CONTEXT SOURCES]"]
    for one in passages:
        chunk = one.hit.chunk
        tag = f"[DOC: {_plain(one.document.id)} | CHUNK: {chunk.id} | PAGE: {one.hit.page}]"
        lines.append(f"--- SOURCE {one.number} ---\n{tag}\n\n{_body(one)}")
    sources = "\n\n".join(lines[2:])
    return f"{lines[0]}\n\n{lines[1]}\n{sources}\n\n[USER QUESTION]\n{question}"


def _documents(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 000 groups by document, the best document first, and orders by sequence within one."""
    grouped: dict[str, list[Passage]] = {}
    for passage in passages:
        grouped.setdefault(passage.document.id, []).append(passage)
    blocks = [FENCE_OPENS]
    for own in grouped.values():
        blocks.append(f"=== DOCUMENT: {_plain(own[0].document.name)} ===")
        blocks += [_chunk_block(*one) for passage in _by_sequence(own) for one in _chunk_texts(passage)]
    return "\n\n".join([*blocks, FENCE_CLOSES, f"Question: {question}"])


FORMATS: Mapping[str, Renderer] = {"numbered": _numbered, "tagged": _tagged, "documents": _documents}


def _by_sequence(passages: Sequence[Passage]) -> list[Passage]:
    return sorted(passages, key=lambda one: one.chunks[0].sequence)


def _chunk_texts(passage: Passage) -> list[tuple[Passage, Chunk, str]]:
    """Each chunk of a whole passage under its own number; a shortened passage stands under that of its hit."""
    if passage.resolution != "full":
        return [(passage, passage.hit.chunk, passage.text)]
    return [(passage, chunk, text) for chunk, text in joined(passage.chunks) if text]


def _chunk_block(passage: Passage, chunk: Chunk, text: str) -> str:
    heading = PATH.join(chunk.heading_path)
    head = f"[Chunk {chunk.sequence}]" + (f" ({_plain(heading)})" if heading else "")
    summary = "[SUMMARY] " if passage.resolution == "summary" else ""
    image = f"\n[IMAGE AVAILABLE: {IMAGE_URL.format(image=chunk.image)}]" if chunk.image else ""
    return f"{head}\n{summary}{escape(text)}{image}"


def _label(passage: Passage) -> str:
    """`Price list › Moorings, page 7`; the name stands for a missing title."""
    document, path = passage.document, list(passage.hit.heading_path)
    title = document.title or document.name
    if path and path[0] == title:
        path = path[1:]
    return f"{_plain(PATH.join([title, *path]))}, {pages_label(passage.pages)}"


def pages_label(pages: Sequence[int]) -> str:
    """`(7,)` -> 'page 7', `(7, 8, 9)` -> 'pages 7–9'."""
    return f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]}–{pages[-1]}"


def _body(passage: Passage) -> str:
    summary = "[SUMMARY] " if passage.resolution == "summary" else ""
    return summary + escape(passage.text)


def _plain(label: str) -> str:
    """A name or title on one line: it comes from a document too."""
    line = escape(" ".join(label.split()))
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1] + "…"
