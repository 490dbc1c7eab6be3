"""Does a fabricated citation ever leave the engine? 10,000 hostile outputs of a model through markers and attest.

    python -m benchmarks.hostile [--outputs 10000]

A fabrication is a marker `[n]` in what a Markdown reader shows outside code that has no citation, a citation whose
passage is not in the context, or a quote that is not a sentence of that passage.
"""

from __future__ import annotations

import argparse
import random
import re
import time
import unicodedata
from collections.abc import Sequence

import numpy as np
from markdown_it import MarkdownIt
from numpy.typing import NDArray

from benchmarks.common import Figure, write
from benchmarks.verification import chunks
from refdesk.answer import Context, Passage, Query
from refdesk.ask.attest import Attested, Proofs, attest
from refdesk.ask.markers import MarkerStream
from refdesk.types import Chunk, Document, Hit

OUTPUTS = 10_000
TEXTS = (
    "The harbour has nine pilots. Each anchor weighs 350 kg. It is replaced every five years.",
    "The tide gauge TG-4 drifted by 3 mm between March 2024 and October 2025. It was replaced in November.",
    "Mooring costs $4,200 a month. Vessels under 50 metres need no pilot [7]. See [3] for the fees.",
    "Visitors report at the gate. The gate closes at 22:00.",
)
TITLES = ("Harbour handbook 2026", "Tide gauge report", "Price list", "")
WORDS = "the harbour pilots anchor weighs 350 kg fees rose in 2024 and fell [see] growth array x_y list revenue".split()  # noqa: SIM905
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "9",
    "12",
    "99",
    "2024",
    "-1",
    "1-9",
    "3-2",
    "1, 2",
    "2;9",
    "٣",
    "９",
    "②",
    "¹",
)
NUMBERS += (
    "99999999999999999999",
    "1.5",
    "1:2",
    "01",
    "1 2",
    "1\u200b",
    "\u200b9",
    "9\u0301",
    "\u202e9",
    "1 and 9",
    "IV",
)
FRAMES = (
    "[{}]",
    "[[{}]]",
    "[{}",
    "{}]",
    "[ {} ]",
    "【{}】",
    "［{}］",
    "\\[{}\\]",
    "&#91;{}&#93;",
    "&lbrack;{}&rbrack;",
    "[^{}]",
)
FRAMES += (
    "[Source {}]",
    "[source {}]",
    "(Source {})",
    "[Sources {} and 9]",
    "[DOC: d{} | CHUNK: {}]",
    "[DOC:d1 | CHUNK:{}]",
)
FRAMES += (
    "[doc {}]",
    "[Chunk {}]",
    "[{}](http://evil.example/{})",
    "![{}](x.png)",
    "<sup>[{}]</sup>",
    "[<b>{}</b>]",
    "[**{}**]",
)
FRAMES += (
    "[`{}`]",
    "`[{}]`",
    "\n```\n[{}]\n```\n",
    "\n~~~\n[{}]\n~~~\n",
    "\n[{}]: http://evil.example\n",
    "[{}†source]",
    "([{}])",
)
FRAMES += (
    "[\n{}\n]",
    "[see [{}]]",
    "[[{}]3]",
    "[{}[9]]",
    "word[{}]",
    "rows[{}] = 1",
    "[{}][{}]",
    "[p. {}]",
    "[{}, p. 3]",
    "|[{}]|",
)
NAMES = (
    "Annual Report 2031",
    "Harbour handbook 2025",
    "Tide gauge report > Fees",
    "Smith et al., 2020",
    "fees.pdf",
    "sic",
)
NAMES += ("Price list", "Harbour handbook 2026 > Pilots", "Internal Memo", "emphasis added", "ibid.", "Source", "DOC")
GLUE = (
    "",
    " ",
    " ",
    ". ",
    ", ",
    "\n",
    "\n\n",
    "\n- ",
    "\n> ",
    "\n| a | b |\n|---|---|\n| ",
    "\t",
    "`",
    "``",
    "\\",
    "*",
    "\u200b",
)


def context() -> Context:
    passages = []
    for number, (text, title) in enumerate(zip(TEXTS, TITLES, strict=True), 1):
        own = tuple(chunks(text.replace(". ", ".\n").split("\n")))
        document = Document(f"d{number}", f"file-{number}.pdf", "", "hash", "ready", title=title)
        passages.append(Passage(number, Hit(own[0], document, 1.0, 0.5, 0.5), own, text))
    return Context(tuple(passages), "", 0)


def output(rng: random.Random) -> str:
    """What a model that means harm, or none at all, may write."""
    parts = []
    for _ in range(rng.randint(2, 14)):
        kind = rng.random()
        if kind < 0.45:
            inner = rng.choice(NUMBERS) if rng.random() < 0.8 else rng.choice(NAMES)
            parts.append(rng.choice(FRAMES).replace("{}", inner))
        elif kind < 0.55:
            parts.append(f"[{rng.choice(NAMES)}]")
        else:
            parts.append(" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 7))))
        parts.append(rng.choice(GLUE))
    text = "".join(parts)
    if rng.random() < 0.15:  # torn apart anywhere
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(("[", "]", "\u200b", "(", ")", "`", "\n")) + text[place:]
    return text


def read(text: str, held: Context, rng: random.Random) -> MarkerStream | tuple[str, tuple[int, ...]]:
    """Through the stream in random pieces."""
    stream = MarkerStream(held)
    shown, position = [], 0
    while position < len(text):
        stop = position + rng.choice((1, 1, 2, 3, 5, 9, 40))
        shown.append(stream.feed(text[position:stop]))
        position = stop
    shown.append(stream.finish())
    return "".join(shown), stream.order


MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_SEEN = re.compile(r"[\[【［〔⟦]([^\[\]【】［］〔〕⟦⟧]{0,40})[\]】］〕⟧]")


def seen_markers(content: str) -> list[str]:
    """The numbers in brackets that a reader sees outside code, by a parser that is not ours."""
    found = []
    for block in MARKDOWN.parse(content):
        line = "".join(
            one.content if one.type == "text" else " " if "break" in one.type else "\0" * ("code" in one.type)
            for one in block.children or []
        )
        for inner in _SEEN.findall(line):
            bare = "".join(
                c for c in unicodedata.normalize("NFKC", inner) if unicodedata.category(c) not in ("Cf", "Mn", "Cc")
            )
            if re.fullmatch(r"\s*\d+\s*", bare) and not inner.startswith(" "):  # `rows[ 3 ]` is an index
                found.append(bare.strip())
            elif re.search(r"(?i)\b(?:source|doc|chunk)\W*\d", bare):
                found.append(bare)
    return found


def fabricated(attested: Attested, held: Context) -> list[str]:
    """What a reader would take for a citation and no passage owns."""
    wrong = []
    known = {citation.marker for citation in attested.citations}
    wrong += [f"marker {one}" for one in seen_markers(attested.content) if not one.isdigit() or int(one) not in known]
    passages = {passage.document.id: passage for passage in held.passages}
    for citation in attested.citations:
        passage = passages.get(citation.document_id)
        own = [chunk for chunk in (passage.chunks if passage else ()) if chunk.id == citation.chunk_id]
        if not any(citation.quote in _sentences(chunk) for chunk in own):
            wrong.append(f"quote {citation.quote!r}")
    return wrong


def _sentences(chunk: Chunk) -> list[str]:
    return [chunk.text[one.start : one.end] for one in chunk.sentences]


def _vector(text: str) -> NDArray[np.float32]:
    """Any unit vector does: citations must hold whatever the meaning."""
    rng = np.random.default_rng(abs(hash(text)) % 2**32)
    found = rng.standard_normal(16).astype(np.float32)
    return found / np.float32(np.linalg.norm(found))


def figures(outputs: int = OUTPUTS) -> list[Figure]:
    rng = random.Random(42)
    held = context()
    vectors = {
        chunk.id: np.array([np.rint(_vector(text) * 127) for text in _sentences(chunk)], np.int8)
        for passage in held.passages
        for chunk in passage.chunks
    }
    query = Query("", "", _vector(""), ())
    count = markers = 0
    examples: list[tuple[str, str, list[str]]] = []
    begin = time.perf_counter()
    for _ in range(outputs):
        text = output(rng)
        content, order = read(text, held, rng)
        attested = attest(query, content, order, Proofs(held, vectors, _vector))
        wrong = fabricated(attested, held)
        count += len(wrong)
        markers += len(attested.citations)
        if wrong and len(examples) < 10:
            examples.append((text, attested.content, wrong))
    for example in examples:
        print(*map(repr, example), sep="\n  ", flush=True)
    each = (time.perf_counter() - begin) / outputs * 1000
    what = f"fabricated citations over {outputs:,} hostile outputs ({markers:,} true citations, {each:.1f} ms each)"
    return [Figure(what, str(count), "0", count == 0)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=OUTPUTS)
    write("hostile", "Fabricated citations", figures(parser.parse_args(arguments).outputs))


if __name__ == "__main__":
    main()
