"""How a document is taken in: parse -> chunk -> enrich. Embedding and indexing follow in `pipeline.py`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import PurePath

from refdesk.errors import EmptyDocument
from refdesk.ingest.chunk import ChunkLimits, chunk
from refdesk.ingest.enrich import enrich
from refdesk.ingest.parse import parse
from refdesk.ingest.split import CountTokens
from refdesk.parsers.build import ParseOptions
from refdesk.terms import STEMMERS
from refdesk.types import Document, Parsed, Prepared

# Which language is a document in? Decides how its words are stemmed.

DEFAULT = "en"
_SAMPLE = 4000  # characters from each of three places
_SHORTEST = 100  # Latin letters; fewer say too little to leave the default
# Small words that no neighbour shares: German has "in", "an", "was", "will", Dutch "of", "we", Danish "for", "at".
# fmt: off
_ENGLISH = frozenset({
    "the", "and", "that", "this", "these", "those", "which", "with", "from", "are", "were", "been", "has", "had",
    "would", "could", "should", "their", "they", "there", "when", "where", "what", "how", "than", "then", "its", "your",
})
# fmt: on
_ENGLISH_SHARE = 0.07  # of running English text .12 and more; of other languages .01
_KNOWN = frozenset(STEMMERS) | {"ja", "zh", "ko", "th", "he", "uk", "bg", "vi"}  # the last are told apart, not stemmed
_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str) -> str:
    """The ISO 639-1 code of a text; `en` when there is too little to tell.

    >>> detect_language("Der Hafenmeister hat die Gebühren für das nächste Jahr bereits festgelegt, " * 2)
    'de'
    """
    sample = text
    if len(text) > 3 * _SAMPLE:
        middle = len(text) // 2
        sample = "\n".join((text[:_SAMPLE], text[middle : middle + _SAMPLE], text[-_SAMPLE:]))
    words = _WORD.findall(sample.lower())
    latin = sum(len(word) for word in words if word < "\u0250")
    other = sum(map(len, words)) - latin
    if other <= latin and latin < _SHORTEST:
        return DEFAULT
    # Most documents are English and say so; the model takes most of a second to load.
    if sum(word in _ENGLISH for word in words) > _ENGLISH_SHARE * len(words):
        return DEFAULT
    import py3langid  # a model of a few megabytes, for documents that are not plainly English

    return next((code for code, _ in py3langid.rank(sample) if code in _KNOWN), DEFAULT)


def prepare(
    data: bytes, document: Document, options: ParseOptions, limits: ChunkLimits, count_tokens: CountTokens
) -> Prepared:
    """Everything about a document but its vectors."""
    parsed = parse(data, document.name, options, document.format or None)
    title = document.title or parsed.title or readable_name(document.name)
    language = detect_language(parsed.text)
    chunks = chunk(parsed, document_id=document.id, title=title, limits=limits, count_tokens=count_tokens)
    chunks = enrich(chunks, language=language)
    if not chunks:
        raise EmptyDocument("nothing readable was found in it")
    figures = {hashlib.sha256(png).hexdigest(): png for png in parsed.figures}
    return Prepared(
        document=replace(
            document,
            title=title,
            format=parsed.format,
            language=language,
            page_count=len(parsed.pages),
            chunk_count=len(chunks),
            date=document.date or _date(parsed),
            metadata={**parsed.metadata, **document.metadata},
            notes=parsed.notes,
        ),
        text=parsed.text,
        pages=parsed.pages,
        chunks=tuple(chunks),
        geometry=parsed.geometry,
        figures=figures,
        children=parsed.children,
    )


def readable_name(name: str) -> str:
    """`3M_2018_10K.pdf` -> `3M 2018 10K`; a name that is only a number says nothing and gives ``."""
    stem = PurePath(name).stem if re.search(r"\.\w{1,5}$", name) else name
    words = re.sub(r"[_\s]+", " ", stem).strip()
    return words if re.search(r"[^\W\d_]{3}", words) else ""


def _date(parsed: Parsed) -> str:
    """The day the document gives as its own."""
    for name in ("date", "created", "modified"):
        if found := re.match(r"\d{4}-\d{2}-\d{2}", parsed.metadata.get(name, "")):
            return found.group()
    return ""
