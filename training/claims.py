"""Claims with evidence: the sets that people judged, those written for this purpose, and those made from texts.

`written_claims.jsonl` has claims about stretches of texts that may be learned from; it names the stretches and does not
hold them. Of those that follow from a stretch half keep its words and half do not, and so of those that do not follow:
words alone tell nothing. A claim that was made is true as the text says it, or false because a name, a number, the
answer of another question or a "not" was put in. The sets that measure see the evidence as the product chooses it
(`ask/support.py`); where a set is learned from, the sentences that people named as proof are among it.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from refdesk.ask.support import EVIDENCE, evidence
from refdesk.text import sentences

LEARNED_CLAIMS = ("fool_me_twice", "wice", "contract_nli")
WRITTEN = Path(__file__).parent / "written_claims.jsonl"
WIDENED = 0.35  # of the written claims are read with more of the text around their stretch
NEARBY = 1200  # characters on each side that may be read with it
HELD = 12  # each so many-th text with written claims measures

Row = dict[str, Any]

_NAME = r"(?:[A-Z][\w'’.-]*\w|[A-Z])(?: (?:of |the |de |and )?[A-Z][\w'’-]*){0,4}"
_DATE = r"(?:(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{1,2}, \d{4})"
_THING = re.compile(
    rf"(?P<date>{_DATE}|\b(?:1[5-9]|20)\d\d\b)|(?P<number>[$€£]?\d[\d.,]*\d\b%?|\b\d\b)|(?P<name>{_NAME})"
)
_ASKED = re.compile(r"\b(?:who|whom|what|which|when|where|how many|how much|how long|how often)\b", re.IGNORECASE)
_DO = frozenset(("did", "does", "do"))
_BE = frozenset(
    ("is", "was", "are", "were", "has", "had", "have", "can", "could", "will", "would", "should", "might", "must")
)
_DENIED = re.compile(r"\b(?:is|was|are|were|has|had|can|could|will|would|should|must)\b(?! not)")


def things(text: str) -> list[tuple[str, int, int]]:
    """(kind, start, end) of the names, numbers and dates of a sentence; its first word is none."""
    return [(str(m.lastgroup), m.start(), m.end()) for m in _THING.finditer(text) if m.start() and len(m.group()) < 60]


def claims() -> dict[str, list[Row]]:
    """The nine sets of the benchmark as they measure."""
    from benchmarks.verification import SETS, cases

    return {
        name: [
            {
                "claim": case.claim,
                "evidence": evidence(
                    case.claim, [one.text[s.start : s.end] for one in case.chunks for s in one.sentences]
                ),
                "title": case.title,
                "label": case.is_supported,
            }
            for case in cases(name, 400)
        ]
        for name in SETS
    }


def learned_claims(dice: random.Random) -> dict[str, list[Row]]:
    """The three sets that may be learned from, whole, with what people named as proof among the evidence."""
    from benchmarks.verification import FOLDER

    found: dict[str, list[Row]] = {name: [] for name in LEARNED_CLAIMS}

    def add(name: str, claim: str, texts: Sequence[str], proofs: Iterable[int], label: bool, title: str = "") -> None:
        for most in (EVIDENCE, dice.randint(40, 120)):
            text = evidence(claim, texts, most, proofs)
            found[name].append({"claim": claim, "evidence": text, "title": title, "label": label})

    for line in (FOLDER / "fool_me_twice_dev.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts = [one["text"] for one in row["gold_evidence"]]
        add("fool_me_twice", row["text"], texts, range(len(texts)), row["label"] == "SUPPORTS", row["wikipedia_page"])
    for line in (FOLDER / "wice_claim_dev.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        proofs = min(row["supporting_sentences"] or [[]], key=len)
        add("wice", row["claim"], row["evidence"], proofs, row["label"] == "supported")
    data = json.loads((FOLDER / "contract_nli_dev.json").read_text(encoding="utf-8"))
    for document in data["documents"]:
        texts = [document["text"][start:end] for start, end in document["spans"]]
        for name, mark in document["annotation_sets"][0]["annotations"].items():
            claim = data["labels"][name]["hypothesis"]
            add("contract_nli", claim, texts, mark["spans"], mark["choice"] == "Entailment")
    return found


# --- written for this purpose ----------------------------------------------------------------------------------------


def texts_written_about(data: Path) -> dict[str, dict[str, str]]:
    """By source and key, the texts that claims and questions were written about, with single spaces."""
    found: dict[str, dict[str, str]] = {}

    def lines(path: str) -> list[Row]:
        return [json.loads(line) for line in (data / path).read_text(encoding="utf-8").splitlines()]

    squad = json.loads((data / "retrieval/squad_dev11/dev-v1.1.json").read_text(encoding="utf-8"))["data"][:24]
    texts = {
        "squad": [part["context"] for article in squad for part in article["paragraphs"]],
        "hotpot": [row["text"] for row in lines("retrieval/hotpot500/corpus.jsonl")],
        "covidqa": [row["context"] for row in lines("train/covidqa.jsonl")],
        "medquad": [row["passage"] for row in lines("train/medquad.jsonl")],
        "policyqa": [row["context"] for row in lines("train/policyqa.jsonl")],
        "govt": [row["text"] for row in lines("retrieval/mtrag_govt/corpus.jsonl")],
        "cloud": [row["text"] for row in lines("retrieval/mtrag_cloud/corpus.jsonl")],
    }
    for source, own in texts.items():
        spaced = (" ".join(text.split()) for text in own)
        found[source] = {text_key(text): text for text in spaced}
    return found


def text_key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def written_claims(data: Path, dice: random.Random) -> tuple[list[Row], list[Row]]:
    """Each claim with its stretch as evidence, now and then with what stands around it; apart, those of each twelfth
    text, which measure.
    """
    texts = texts_written_about(data)
    learned: list[Row] = []
    held: list[Row] = []
    rows = [json.loads(line) for line in WRITTEN.read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(rows):
        text, (start, end) = texts[row["source"]][row["text"]], row["range"]
        begin = text.rfind(". ", 0, max(0, start - NEARBY)) + 2 if start > NEARBY else 0
        near = text[begin : end + NEARBY]
        strange = dice.choice([other for other in dice.choices(rows, k=20) if other["text"] != row["text"]])
        judged = {True: row["yes"], False: [*row["no"], dice.choice(strange["yes"])]}  # one is of another text
        for label, written in judged.items():
            for claim in written:
                is_wide = dice.random() < WIDENED
                stretch = around(near, start - begin, end - begin - 1, dice) if is_wide else text[start:end]
                kept = held if number % HELD == 0 else learned
                kept.append({"claim": claim, "evidence": stretch, "title": row["title"], "label": label})
    return learned, held


# --- made without people ---------------------------------------------------------------------------------------------


def made_claims(passages: Sequence[Row], count: int, dice: random.Random) -> list[Row]:
    """Sentences of a passage, as they are, denied, or with a name, number or date of the same passage put in."""
    found: list[Row] = []
    order = [row for row in passages if 300 < len(row["text"]) < 1500 and "|" not in row["text"]]
    while len(found) < count:
        row = dice.choice(order)
        start, end = dice.choice(list(sentences(row["text"])))
        sentence = row["text"][start:end].strip()
        inside = things(sentence)
        if not inside or not 40 < len(sentence) < 300:
            continue
        is_true = dice.random() < 0.5
        if not is_true:
            denied = list(_DENIED.finditer(sentence))
            if denied and dice.random() < 0.2:
                at = dice.choice(denied).end()
                sentence = f"{sentence[:at]} not{sentence[at:]}"
            else:
                kind, low, high = dice.choice(inside)
                others = {row["text"][a:b] for k, a, b in things(row["text"]) if k == kind} - {sentence[low:high]}
                others = {one for one in others if one not in sentence}
                if not others:
                    continue
                sentence = sentence[:low] + dice.choice(sorted(others)) + sentence[high:]
        words = sentence.split()
        if dice.random() < 0.5:  # not to the letter
            words = [word for word in words if word == "not" or dice.random() > 0.08]
        found.append({"claim": " ".join(words), "evidence": row["text"], "title": row["title"], "label": is_true})
    return found


def as_claim(question: str, answer: str) -> str:
    """ "Who built the dam?", "the Hurons" -> "the Hurons built the dam"; in rough grammar, "" if nothing is asked."""
    text = question.strip().rstrip("? ")
    asked = _ASKED.search(text)
    if not asked:
        return ""
    before, rest = text[: asked.start()].strip(), text[asked.end() :].split()
    if asked.start() > 25 or not rest:
        return " ".join((before, answer, *rest)).strip()
    at = next((place for place, word in enumerate(rest[:5]) if word.lower() in _DO | _BE), None)
    if at is None:
        return " ".join((before, answer, *rest)).strip()
    noun, helper, tail = rest[:at], rest[at].lower(), rest[at + 1 :]
    word = asked.group().lower()
    if helper in _BE and word in ("who", "what", "which") and not before:
        return " ".join((answer, helper, *tail))
    counted = noun if word.startswith("how") else []
    return " ".join((*tail, before.lower(), answer, *counted)).replace("  ", " ").strip()


def asked_claims(source: Row, count: int, dice: random.Random) -> list[Row]:
    """Answered questions as claims; false ones have the answer of another question about the same passage."""
    answers: dict[int, set[str]] = {}
    for row in source["questions"]:
        for passage, start, end in row["spans"]:
            answers.setdefault(passage, set()).add(source["passages"][passage]["text"][start:end])
    found: list[Row] = []
    rows = [row for row in source["questions"] if row["spans"]]
    while len(found) < count:
        row = dice.choice(rows)
        passage, start, end = dice.choice(row["spans"])
        text, title = source["passages"][passage]["text"], source["passages"][passage]["title"]
        answer, question, is_true = text[start:end], row["text"], dice.random() < 0.5
        lower = answer.lower()
        if not 0 < len(answer) < 80:
            continue
        if not is_true and row.get("altered") and dice.random() < 0.3:
            question = dice.choice(row["altered"])
        elif not is_true:
            others = [one for one in sorted(answers[passage]) if not set(one.lower().split()) & set(lower.split())]
            alike = [one for one in others if _looks(one) == _looks(answer)]
            if not others:
                continue
            answer = dice.choice(alike or others)
        claim = as_claim(question, answer)
        if claim:
            found.append({"claim": claim, "evidence": around(text, start, end, dice), "title": title, "label": is_true})
    return found


def _looks(answer: str) -> tuple[bool, bool]:
    return any(one.isdigit() for one in answer), answer[:1].isupper()


def around(text: str, start: int, end: int, dice: random.Random) -> str:
    """The sentences with this stretch, and some of those beside it."""
    ranges = list(sentences(text)) or [(0, len(text))]
    low = max((place for place, one in enumerate(ranges) if one[0] <= start), default=0)
    high = min((place for place, one in enumerate(ranges) if one[1] >= end), default=len(ranges) - 1)
    most = dice.randint(20, EVIDENCE)
    while True:
        wider = [(a, b) for a, b in ((low - 1, high), (low, high + 1)) if a >= 0 and b < len(ranges)]
        wider = [(a, b) for a, b in wider if len(text[ranges[a][0] : ranges[b][1]].split()) <= most]
        if not wider:
            return text[ranges[low][0] : ranges[max(low, high)][1]]
        low, high = dice.choice(wider)
