"""Is a changed number caught? Sentences of real documents, as they are and with one figure changed.

Each sentence is checked as a claim against the chunk it is from, once as a light paraphrase (so that it is not simply
found word for word) and once with one of its figures changed: another number, another scale, unit, date or sign.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from benchmarks.common import CACHE, DATA, ROOT, Figure, read_jsonl
from benchmarks.verification import chunks, embedder, judge
from refdesk import Refdesk
from refdesk.answer import Context, Passage, Query
from refdesk.ask.attest import Proofs, attest
from refdesk.ask.figures import Quantity, agrees, figures
from refdesk.text import sentences
from refdesk.types import Chunk, Document, Hit

COUNT = 500
SOURCES = ("scifact", "cranfield", "mtrag_cloud", "mtrag_govt", "hotpot500", "musique_train100")
_SWAPS = (
    (r"\bThe\b", "This"), (r"\bwhich\b", "that"), (r"\bhowever\b", "but"), (r"\bapproximately\b", "about"),
    (r"\balso\b", "too"),
    (r"\busing\b", "with"), (r"\bshowed\b", "shows"), (r"\bwas\b", "is"), (r"\bwere\b", "are"), (r"\bhas\b", "had"),
)  # fmt: skip
_SCALES = {"million": "billion", "billion": "million", "thousand": "million", "hundred": "thousand"}
_UNITS = {
    "kg": "tonnes", "mm": "cm", "cm": "mm", "km": "miles", "miles": "km", "metres": "feet",
    "hours": "minutes", "days": "hours", "minutes": "hours", "years": "months", "months": "years", "%": " kg",
    "percent": "percentage points", "weeks": "days",
}  # fmt: skip


def perturbed() -> list[Figure]:
    """Changed figures that are not called supported, and sentences left as they are that still are."""
    rng = random.Random(11)
    caught, kept, paraphrased, missed = [], [], [], []
    for sentence, chunk in _with_figures(rng):
        changed = change(sentence, rng)
        if changed is None:
            continue
        check = _checker(chunk)
        verdict = check(paraphrase(changed, rng) if rng.random() < 0.5 else changed)
        caught.append(verdict != "supported")
        kept.append(check(sentence) == "supported")
        paraphrased.append(check(paraphrase(sentence, rng)) == "supported")
        if verdict == "supported" and len(missed) < 40:
            missed.append((sentence, changed))
        if len(caught) == COUNT:
            break
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "perturbed-missed.txt").write_text("\n\n".join("\n".join(pair) for pair in missed), encoding="utf-8")

    def share(found: list[bool]) -> float:
        return sum(found) / len(found)

    return [
        Figure(
            f"a changed figure is caught ({len(caught)} sentences)",
            f"{share(caught):.3f}",
            "≥ .98",
            share(caught) >= 0.98,
        ),
        Figure("the same sentence unchanged stays supported", f"{share(kept):.3f}", "≥ .98", share(kept) >= 0.98),
        Figure(
            "lightly paraphrased it stays supported", f"{share(paraphrased):.3f}", "≥ .98", share(paraphrased) >= 0.98
        ),
    ]


def _with_figures(rng: random.Random) -> Iterator[tuple[str, Chunk]]:
    """Sentences of 8 to 45 words that state a figure, with the chunk they stand in."""
    with Refdesk(CACHE / "examples") as desk:
        desk.add(ROOT / "examples" / "documents", sync=True)
        for _, chunk in list(desk.parts.documents.all_chunks()):
            own = [" ".join(chunk.text[one.start : one.end].split()) for one in chunk.sentences]
            usable = [one for one in own if _is_usable(one) and one in chunk.text]
            if usable:
                yield rng.choice(usable), chunk
    passages = []
    for name in SOURCES:
        rows = read_jsonl(DATA / "retrieval" / name / "corpus.jsonl")
        passages += [str(row["text"]) for row in rng.sample(rows, min(len(rows), 400))]
    rng.shuffle(passages)
    for text in passages:
        ranges = [text[start:end] for start, end in sentences(text)]
        usable = [one for one in ranges if _is_usable(one)]
        if usable:
            sentence = " ".join(rng.choice(usable).split())
            chunk = next((c for c in chunks(ranges) if sentence in c.text), None)
            if chunk is not None:
                yield sentence, chunk


def _is_usable(sentence: str) -> bool:
    """No address and no number of a list item: these are not read as part of a claim."""
    if (
        "://" in sentence
        or re.match(r"\s*(?:\(?\d+[.)]|\[\d+\]|[-*])\s", sentence)
        or sentence.rstrip().endswith((":", "?"))
    ):
        return False
    return 8 <= len(sentence.split()) <= 45 and any(not one.weak for one in figures(sentence))


def _checker(chunk: Chunk) -> Callable[[str], str]:
    """The verdict of the whole stage on one claim that cites this chunk."""
    document = Document("d", "source.pdf", "", "hash", "ready")
    passage = Passage(1, Hit(chunk, document, 1.0, 0.5, 0.5), (chunk,), chunk.text)
    context = Context((passage,), chunk.text, chunk.token_count)
    vectors = {chunk.id: embedder().embed_chunks([chunk])[0].sentences}
    query = Query("", "", None, ())

    def check(claim: str) -> str:
        found = attest(
            query, f"{claim} [1]", (1,), Proofs(context, vectors, embedder().embed_query, judge().judge_claim)
        )
        return (
            found.claims[0].verdict
            if len(found.claims) == 1
            else min(
                (one.verdict for one in found.claims),
                key=("contradicted", "unsupported", "partly", "supported").index,
                default="none",
            )
        )

    return check


def paraphrase(sentence: str, rng: random.Random) -> str:
    """Two small changes of wording that leave every figure as it is."""
    swaps = list(_SWAPS)
    rng.shuffle(swaps)
    done = 0
    for pattern, other in swaps:
        sentence, count = re.subn(pattern, other, sentence, count=1)
        done += count
        if done == 2:
            break
    return (
        sentence
        if done
        else f"According to the text, {sentence[0].lower()}{sentence[1:]}"
        if sentence[1:2].islower()
        else sentence
    )


def change(sentence: str, rng: random.Random) -> str | None:
    """The sentence with one figure changed so that no figure of the sentence agrees with it any more."""
    stated = [one for one in figures(sentence) if not one.weak]
    rng.shuffle(stated)
    for one in stated:
        for _ in range(4):
            other = _other(sentence[one.start : one.end], one, rng)
            changed = f"{sentence[: one.start]}{other}{sentence[one.end :]}"
            fresh = [f for f in figures(changed) if f.start == one.start] or list(figures(other))
            if (
                other != sentence[one.start : one.end]
                and fresh
                and not any(agrees(f, s) for f in fresh for s in stated)
            ):
                return changed
    return None


def _other(text: str, one: Quantity, rng: random.Random) -> str:
    kind = rng.choice(("number", "number", "scale", "unit", "sign"))
    if kind == "scale":
        for scale, other in _SCALES.items():
            if re.search(rf"\b{scale}\b", text):
                return text.replace(scale, other)
    if kind == "unit":
        for unit, other in _UNITS.items():
            if re.search(rf"(?<![a-z]){re.escape(unit)}(?![a-z])", text):
                return text.replace(unit, other)
    if kind == "sign" and one.kind == "number" and text[:1].isdigit() and one.unit == "%":
        return f"-{text}"
    digits = [match.start() for match in re.finditer(r"\d", text)]
    if not digits:
        words = [*"two three four five six seven eight nine eleven fifteen".split()]  # noqa: SIM905
        return re.sub(r"[A-Za-z]+", lambda match: rng.choice(words), text, count=1)
    place = digits[0] if rng.random() < 0.7 else rng.choice(digits)
    fresh = rng.choice([d for d in "123456789" if d != text[place]])
    return f"{text[:place]}{fresh}{text[place + 1 :]}"
