"""What does remembering cost a question? Cache, answers, conversations, settings, on a library of its own.

python -m benchmarks.remembering
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.common import Figure, median_ms, use_one_core
from refdesk.answer import Answer, Citation, Claim, Question, Turn, decode_answer, encode_answer
from refdesk.ask.keep import cache_namespace
from refdesk.settings import Settings
from refdesk.store.cache import SqlCache
from refdesk.store.database import BackgroundWriter, PreparedReader, open_database
from refdesk.store.records import SqlAnswers, SqlConversations, SqlSettings
from refdesk.trace import Trace
from refdesk.types import Box

ENTRIES, DIMENSIONS, ROUNDS = 1000, 384, 300


def sample() -> Answer:
    """Eight sentences, each with a quote of two lines and three boxes: 8 kB."""
    quote = "The anchor of the outer buoy weighs 350 kg, its chain not included, and is galvanised. " * 2
    boxes = tuple(Box(3, 12.345, 20.0 + line, 70.125, 2.25) for line in range(3))
    path = ("Part 2", "Anchors")
    return Answer(
        id="a" * 32,
        question="What does the anchor weigh?",
        content="The anchor weighs 350 kg [1]. " * 8,
        claims=tuple(
            Claim("The anchor weighs 350 kg.", i * 30, i * 30 + 29, (i + 1,), (i,), "supported", 0.9) for i in range(8)
        ),
        citations=tuple(
            Citation(i + 1, "d" * 16, "manual.pdf", 100 + i, i, path, 3, boxes, True, quote, 0.81, 0.77, (1000, 1120))
            for i in range(8)
        ),
    )


@contextmanager
def stores() -> Iterator[tuple[SqlCache, SqlAnswers, SqlConversations, SqlSettings, BackgroundWriter]]:
    with tempfile.TemporaryDirectory() as name:
        engine = open_database(Path(name) / "library.db")
        reader, background = PreparedReader(engine), BackgroundWriter(engine)
        cache, answers = SqlCache(reader, background), SqlAnswers(engine, background)
        yield cache, answers, SqlConversations(engine), SqlSettings(reader), background
        background.close()
        reader.close()
        engine.dispose()


def figures() -> list[Figure]:
    answer = sample()
    data = encode_answer(answer)
    question, settings = Question(answer.question), Settings()
    rows = np.random.default_rng(1).standard_normal((ENTRIES, DIMENSIONS)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    name = cache_namespace(question, settings, "extractive", 1)
    found: list[Figure] = []

    def measure(what: str, bar: float | None, call: object, rounds: int = ROUNDS) -> None:
        p50, p95 = median_ms(call, rounds)  # type: ignore[arg-type]
        said = f"p50 {p50:.3f} ms, p95 {p95:.3f} ms"
        found.append(Figure(what, said, f"≤ {bar} ms" if bar else "", p50 <= bar if bar else None))

    with stores() as (cache, answers, conversations, kept, background):
        for number, vector in enumerate(rows):
            cache.put(name, f"question {number}", vector, data)
        background.flush()
        fresh = [f"question {number}" for number in range(ENTRIES - 200)]  # no longer held in the process
        measure("cached answer, in the process", 0.1, lambda i: cache.get(name, f"question {ENTRIES - 1}"))
        measure("cached answer, from the table", 1.0, lambda i: cache.get(name, fresh[i]))
        measure(f"similar questions among {ENTRIES:,}", None, lambda i: cache.nearest(name, rows[i], 5))
        measure("naming the namespace", None, lambda i: cache_namespace(question, settings, "extractive", 1))
        measure("answer to bytes", None, lambda i: encode_answer(answer))
        measure("bytes to answer", 0.3, lambda i: decode_answer(data))
        trace = Trace().to_dict() | {"stages": [{"name": "retrieve", "took_ms": 1.5, "input": {}, "output": {}}] * 12}
        measure(
            "keeping an answer and its trace (in the background)",
            None,
            lambda i: answers.put(f"{i}", question=answer.question, answer=data, trace=trace),
        )
        background.flush()
        turns = (Turn("user", answer.question), Turn("assistant", answer.content))
        measure("adding an exchange to a conversation", None, lambda i: conversations.append("talk", turns, "a"), 100)
        measure("reading the last ten exchanges", None, lambda i: conversations.turns("talk", 20))
        measure("seeing whether a setting has changed", 0.1, lambda i: kept.current())
    return found


def main() -> None:
    use_one_core()
    for one in figures():
        print(f"{one.what:52} {one.figure:34} {one.bar} {'' if one.met is None else one.met}")


if __name__ == "__main__":
    main()
