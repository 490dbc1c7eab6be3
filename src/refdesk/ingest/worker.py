"""A worker process: parses, chunks, enriches and embeds the given documents under a memory limit.

parent -> Setup, then one Task after the other    worker -> WorkerMessage(): it has started; then progress, the result
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parseaddr
from multiprocessing.connection import Connection
from pathlib import Path, PurePath
from typing import Any

from refdesk.config import hash_bytes, write_new
from refdesk.errors import DocumentError, EmptyDocument, ParserDied, RefdeskError, TooLarge, UnreadableFile
from refdesk.ingest.chunk import ChunkLimits, chunk
from refdesk.ingest.enrich import enrich
from refdesk.ingest.parse import parse
from refdesk.ingest.split import SEPARATOR, CountTokens
from refdesk.ingest.tables import tables_of
from refdesk.ingest.workers import (
    AttachedFile,
    EmbedTask,
    PreparedFile,
    PrepareTask,
    Setup,
    Task,
    WorkerMessage,
    decode,
    encode,
    failure,
)
from refdesk.parsers.build import ParseOptions
from refdesk.ports import Embedded, Embedder
from refdesk.records import Prepared
from refdesk.settings import Settings
from refdesk.text import STEMMERS
from refdesk.types import Document, OcrEngine, Parsed

# Which language is a document in? Decides how its words are stemmed.

MAILS = ("eml", "msg")  # formats of single messages
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


def _told_of(parsed: Parsed, title: str) -> str:
    """What stands above every chunk: the title, of a mail also that it is one and who sent it.

    No part of a mail says so but its first lines: "What does Dana ask for in her mail?" found no mail of Dana's in the
    part that asks, and a reader does not know that what "From:" names sent it.
    """
    sender = parseaddr(parsed.metadata.get("from", "")) if parsed.format in MAILS else ("", "")
    return f"E-mail sent by {sender[0] or sender[1]}{SEPARATOR}{title}" if any(sender) else title


def prepare(
    data: bytes, document: Document, options: ParseOptions, limits: ChunkLimits, count_tokens: CountTokens
) -> Prepared:
    """Everything about a document but its vectors."""
    parsed = parse(data, document.name, options, document.format or None)
    title = document.title or parsed.title or readable_name(document.name)
    language = detect_language(parsed.text)
    about = _told_of(parsed, title)
    chunks = chunk(parsed, document_id=document.id, title=about, limits=limits, count_tokens=count_tokens)
    chunks = enrich(chunks, language=language)
    if not chunks:
        raise EmptyDocument("it contains nothing readable")
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
        tables=tuple(tables_of(parsed)),
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


class Preparer:
    """Does the tasks of a worker; also used in process for texts, which cannot be hostile."""

    def __init__(self, settings: Settings, embedder: Embedder, ocr: OcrEngine | None = None) -> None:
        self._settings, self._embedder, self._ocr = settings, embedder, ocr

    def prepare(self, task: PrepareTask, progress: Any) -> PreparedFile:
        settings = self._settings
        data = task.text.encode() if task.text is not None else self._read(task.path)
        options = ParseOptions(
            password=task.password,
            ocr=self._ocr,
            progress=progress,
            max_pages=settings.max_pages,
            max_characters=settings.max_characters,
            max_unpacked_bytes=settings.max_unpacked_mb << 20,
        )
        document = replace(task.document, content_hash=hash_bytes(data), size=len(data))
        prepared = prepare(data, document, options, chunk_limits(settings, self._embedder), self._embedder.count_tokens)
        original, children = None, []
        if task.folder is not None:
            original = write_new(data, task.folder)
            for name, child in zip(
                _distinct([child.name for child in prepared.children]), prepared.children, strict=True
            ):
                children.append(AttachedFile(name, write_new(child.data, task.folder), hash_bytes(child.data)))
        return PreparedFile(replace(prepared, children=()), original, tuple(children))

    def embed(self, task: EmbedTask) -> list[Embedded]:
        return self._embedder.embed_chunks(task.chunks)

    def _read(self, path: Path | None) -> bytes:
        assert path is not None
        limit = self._settings.max_file_mb << 20
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size  # looked at first: 2 GB are refused without being read
                data = b"" if size > limit else file.read()
        except OSError as error:
            raise UnreadableFile(f"it cannot be read: {error.strerror or error}") from error
        if size > limit or len(data) > limit:
            raise TooLarge(f"it is larger than {self._settings.max_file_mb} MB")
        return data


def _distinct(names: Sequence[str]) -> list[str]:
    """`a.png, a.png` -> `a.png, a (2).png`: attachments are told apart by name."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}  # the last of each name: of 10,000 messages, many are about the same
    for name in names:
        suffix = PurePath(name).suffix
        stem = name.removesuffix(suffix)
        number, candidate = numbers.get(name, 1), name
        while candidate in found:
            number += 1
            candidate = f"{stem} ({number}){suffix}"
        found[candidate], numbers[name] = None, number
    return list(found)


def chunk_limits(settings: Settings, embedder: Embedder) -> ChunkLimits:
    return ChunkLimits(
        target=settings.chunk_target,
        minimum=settings.chunk_minimum,
        maximum=min(settings.chunk_maximum, embedder.max_tokens),
        overlap=settings.chunk_overlap,
    )


def serve(connection: Connection, make: Callable[[Setup], Preparer]) -> None:
    """Does tasks until the parent goes away."""

    def send(message: WorkerMessage) -> None:
        connection.send_bytes(encode(message))

    setup: Setup = decode(connection.recv_bytes(), Setup)
    _limit_memory(setup.settings.memory_limit_mb)
    preparer = make(setup)
    send(WorkerMessage())
    while True:
        task: Task = decode(connection.recv_bytes(), Task)
        try:
            send(_done(preparer, task, lambda done, total: send(WorkerMessage(progress=(done, total)))))
        except RefdeskError as error:
            send(WorkerMessage(failed=failure(error)))
        except MemoryError:
            limit = setup.settings.memory_limit_mb
            send(WorkerMessage(failed=failure(ParserDied(f"it needs more than {limit} MB of memory"))))
        except (EOFError, BrokenPipeError, ConnectionError):
            return
        except Exception as error:  # a parser met something its author did not think of: this document only
            reason = f"reading it failed: {type(error).__name__}: {error}"[:300]
            send(WorkerMessage(failed=failure(DocumentError(reason))))


def _done(preparer: Preparer, task: Task, progress: Callable[[int, int], None]) -> WorkerMessage:
    if task.prepare is not None:
        return WorkerMessage(prepared=preparer.prepare(task.prepare, progress))
    assert task.embed is not None
    return WorkerMessage(embedded=tuple(preparer.embed(task.embed)))


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows; the time limit still holds
        return
    limit = megabytes << 20
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _leave_with_parent() -> None:
    """Nothing is ever written to standard input; it ends when the parent does, even by kill -9."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def run(make: Callable[[Setup], Preparer]) -> None:
    """The process: standard input and the socket whose number is its argument are its parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        serve(Connection(int(sys.argv[1])), make)
