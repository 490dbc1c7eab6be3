"""Questions about the library: are they known, and is nothing else taken for one? And the script that learns it.

python -m benchmarks.catalogue          measures
python -m benchmarks.catalogue --fit    learns anew and writes src/refdesk/assets/catalogue.npz

Examples are made from the families of paraphrases in `catalogue_questions.txt`; they measure in four folds, each family
held back whole. What is none: questions of squad_dev11's first 24 articles, TAT-QA's even contexts, QAMR, PolicyQA,
COVID-QA, MedQuAD, MTRAG, HotpotQA, MuSiQue and WikiTableQuestions' even tables. Names and topics that fill the examples
come from the same questions' answers; only words of the families themselves are features.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.answering import Articles, questions
from benchmarks.common import CACHE, DATA, Figure, read_jsonl
from benchmarks.filings import financebench, kgrag
from benchmarks.intent import clinc, trec
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.catalogue import answer_from_catalogue
from refdesk.document_names import FILE, LISTING, Learned, features, kind_of, learned, likely, tokens
from refdesk.providers.shipped import OnnxEmbedder
from refdesk.types import Document, Scope

FAMILIES = Path(__file__).with_suffix("").with_name("catalogue_questions.txt")
SEED = 11
FOLDS = 4
PER_FAMILY = 16
RIDGE = 3e-5
ROUNDS = 250
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Family:
    kind: str  # "" is no question to the catalogue
    language: str
    pattern: str
    fold: int  # held back when the others are learned from; -1 never: of few in a language each is the only one


@cache
def sections(file: Path = FAMILIES) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            own = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            own.append(line)
    return found


@cache
def families() -> list[Family]:
    return [
        Family("" if kind == "none" else kind, language, line, place % FOLDS if len(lines) >= FOLDS else -1)
        for kind, _, language in (name.partition(" ") for name in sections() if not name.startswith("{"))
        for lines in [sections()[f"{kind} {language}"]]
        for place, line in enumerate(lines)
    ]


# --- what fills the examples -----------------------------------------------------------------------------------------


@cache
def answers() -> tuple[str, ...]:
    """Short answers of free questions: topics and names."""
    rows = read_jsonl(DATA / "train" / "qamr.jsonl")[::7]
    articles = Articles()
    own = [row["answers"][0] for row in questions("squad_dev11", 2500, articles.is_for_learning)]
    found = {str(row["answer"]) for row in rows} | set(own)
    return tuple(sorted(one for one in found if 2 < len(one) < 40 and len(one.split()) <= 4 and re.match(r"\w", one)))


def one_of_each(text: str, draw: random.Random) -> str:
    """`(a|b) c` -> `a c`."""
    while match := re.search(r"\(([^()]*\|[^()]*)\)", text):
        text = text[: match.start()] + draw.choice(match[1].split("|")) + text[match.end() :]
    return text


def filled(text: str, language: str, draw: random.Random) -> str:
    """A question of the family: one of each `(a|b)`, and something for each `{slot}`."""
    text = one_of_each(text, draw)
    while match := re.search(r"\{(\w+)\}", text):
        text = text[: match.start()] + _filler(match[1], language, draw) + text[match.end() :]
    text = re.sub(r"\s+", " ", text).strip()
    way = draw.random()  # as people type
    if way < 0.15:
        text = text.rstrip("?¿ ")
    elif way < 0.3:
        text = text.lower()
    return text


def _filler(slot: str, language: str, draw: random.Random) -> str:
    topic = draw.choice(answers())
    if slot == "topic":
        return draw.choice(("", "", "the ")) + topic if language == "en" else topic
    if slot in ("thing", "work", "person"):
        return topic[0].upper() + topic[1:]
    if slot == "quoted":
        return draw.choice((topic, f'"{topic}"', f"“{topic}”", f"'{topic}'"))
    if slot in ("name", "file"):
        if draw.random() < (0.4 if slot == "name" else 0.7):
            joint = draw.choice(("_", "-", " ", ""))
            return joint.join(re.findall(r"\w+", topic)) + draw.choice(sections()["{ending}"])
        return f"{topic[0].upper()}{topic[1:]} {draw.choice(sections()['{form}'])}"
    if slot in ("year", "n"):
        return str(draw.randint(1990, 2026) if slot == "year" else draw.randint(2, 30))
    return draw.choice(sections().get(f"{{{slot}}} {language}") or sections()[f"{{{slot}}}"])


def made() -> list[tuple[Family, str]]:
    """Questions of every family."""
    found = []
    for family in families():
        draw = random.Random(f"{SEED} {family.pattern}")
        texts = {filled(family.pattern, family.language, draw) for _ in range(PER_FAMILY)}
        found += [(family, text) for text in sorted(texts)]
    return found


# --- questions that are none -----------------------------------------------------------------------------------------


def _queries(name: str, file: str = "queries.jsonl") -> list[str]:
    path = DATA / "retrieval" / name / file
    return [re.sub(r"\|user\|:\s*", "", str(row["text"])).strip().splitlines()[-1] for row in read_jsonl(path)]


def _tables(remainder: int) -> list[str]:
    contexts = json.loads((DATA / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    return [
        one["question"] for at, context in enumerate(contexts) if at % 2 == remainder for one in context["questions"]
    ]


def _wiki(remainder: int, most: int) -> list[str]:
    folder = DATA / "tables" / "wikitablequestions"
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for row in read_jsonl(path):
            table = str(row.get("table") or row.get("context") or "")
            numbers = re.findall(r"\d+", table)
            if numbers and int(numbers[-1]) % 2 == remainder:
                found.append(str(row.get("question") or row.get("utterance")))
    return found[:: max(1, len(found) // most)]


def learning_negatives() -> list[str]:
    articles = Articles()
    found = [row["text"] for row in questions("squad_dev11", 4000, articles.is_for_learning)]
    found += _tables(0) + _wiki(0, 2000)
    for name, most in {"qamr": 3000, "policyqa": 800, "covidqa": 600, "medquad": 800}.items():
        rows = read_jsonl(DATA / "train" / f"{name}.jsonl")
        found += [str(row["question"]) for row in rows[:: max(1, len(rows) // most)]]
    for name in ("hotpot_train100", "hotpot500", "musique_train100"):
        found += _queries(name)
    return found


def measured_negatives() -> dict[str, list[str]]:
    """Questions to documents by set; none of them was learned from."""
    articles = Articles()
    squad = [row["text"] for row in questions("squad_dev11", 6000, lambda row: not articles.is_for_learning(row))]
    sets = {"squad_dev11, other articles": squad, "TAT-QA, odd contexts": _tables(1)}
    # One of filings_dev's is a question to the catalogue: "What documents do you have?"
    every = [str(row["question"]) for row in read_jsonl(DATA / "questions" / "filings_dev.jsonl")]
    sets["filings_dev but one"] = [text for text in every if text != FILINGS[0][0]]
    sets["financebench"] = [one.text for one in financebench()]
    sets["kgrag_10q"] = [one.text for one in kgrag(())]
    sets["squadshift_reddit"] = _queries("squadshift_reddit")[::3]
    sets["squad2_disfl"] = _queries("squad2_disfl")[::3]
    for name in ("mtrag_cloud", "mtrag_govt"):
        sets[name] = _queries(name, f"{name.removeprefix('mtrag_')}_lastturn.jsonl")
    sets["WikiTableQuestions, odd tables"] = _wiki(1, 2000)
    sets["TREC"] = [text for _, text in trec(1)]
    sets["CLINC150"] = [text for texts in clinc().values() for text in texts]
    for name in ("cranfield", "cacm", "scifact"):
        sets[name] = _queries(name)
    return sets


# --- learning --------------------------------------------------------------------------------------------------------


_known: dict[str, Floats] = {}


def vectors(texts: Sequence[str]) -> Floats:
    """Of the shipped embedder; kept, for there are some ten thousand."""
    path = CACHE / "catalogue" / f"{zlib.crc32(chr(10).join(texts).encode()):08x}-{len(texts)}.npy"
    if any(text not in _known for text in texts):
        if not path.exists():
            embedder = OnnxEmbedder(threads=1)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.stack([embedder.embed_query(text) for text in texts]).astype(np.float32))
        _known.update(zip(texts, np.load(path), strict=True))
    return np.stack([_known[text] for text in texts])


def carried(own: Iterable[Family]) -> dict[str, set[str]]:
    """By kind, the words of its families outside the slots."""
    found: dict[str, set[str]] = {}
    for family in own:
        found.setdefault(family.kind, set()).update(tokens(re.sub(r"\{\w+\}", " ", family.pattern)))
    return found


def multinomial(rows: Floats, target: NDArray[Any], kinds: int) -> Floats:
    """Full gradients with Adam's steps; every weight but the constant is held small."""
    weights = np.zeros((kinds, rows.shape[1]), dtype=np.float32)
    wanted = np.eye(kinds, dtype=np.float32)[target]
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, ROUNDS + 1):
        slope = (likely(rows @ weights.T) - wanted).T @ rows / len(rows)
        slope[:, :-1] += RIDGE * weights[:, :-1]
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        weights -= 0.1 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weights


def learn(without: int | None) -> Learned:
    """From all families but those of a fold."""
    labelled = [(family.kind, text) for family, text in made()]
    kept = [family.fold != without for family, _ in made()]
    negatives = list(dict.fromkeys(learning_negatives()))
    found = np.concatenate([vectors([text for _, text in labelled])[kept], vectors(negatives)])
    labelled = [pair for pair, is_kept in zip(labelled, kept, strict=True) if is_kept]
    labelled += [("", text) for text in negatives]
    own = carried(family for family in families() if family.fold != without)
    kinds = ("", *sorted(kind for kind in own if kind))
    places = {word: place for place, word in enumerate(sorted(set().union(*own.values())))}
    rows = np.stack([features(text, vector, places) for (_, text), vector in zip(labelled, found, strict=True)])
    weights = multinomial(rows, np.array([kinds.index(kind) for kind, _ in labelled]), len(kinds))
    return Learned(kinds, places, weights, {kind: frozenset(words) for kind, words in own.items()})


def fit() -> None:
    model = learn(None)
    carriers = np.array([[word in model.carriers[kind] for word in model.places] for kind in model.kinds])
    np.savez_compressed(
        FILE,
        kinds=np.array(model.kinds),
        words=np.array(list(model.places)),
        weights=model.weights.astype(np.float16),
        carriers=carriers,
    )
    learned.cache_clear()
    print(f"{len(made())} examples of {len(model.kinds)} kinds, {len(model.places)} words", flush=True)


def filings() -> Path:
    return Path(os.environ.get("REFDESK_FILINGS", CACHE / "filings" / "all"))


# --- measuring -------------------------------------------------------------------------------------------------------


def read(texts: Sequence[str], model: Learned | None = None) -> list[str]:
    return [kind_of(text, vector, model or learned()) for text, vector in zip(texts, vectors(texts), strict=True)]


def recognition() -> Iterator[Figure]:
    """Every fold is read by what was learned from the others."""
    asked: list[tuple[str, str, str]] = []  # kind, text, what it was read as
    for fold in range(FOLDS):
        model = learn(fold)
        held = [(family.kind, text) for family, text in made() if family.fold == fold]
        found = read([text for _, text in held], model)
        asked += [(kind, text, one) for (kind, text), one in zip(held, found, strict=True)]
    own = [(kind, text, one) for kind, text, one in asked if kind]
    known, right = [bool(one) for _, _, one in own], [kind == one for kind, _, one in own]
    count = len([one for one in families() if one.kind and one.fold >= 0])
    yield Figure(f"families held back in turn ({count}, {len(own)} questions): known", f"{np.mean(known):.3f}")
    yield Figure("the same: known as the right kind", f"{np.mean(right):.3f}")
    others = [(text, one) for kind, text, one in asked if not kind]
    taken = [text for text, one in others if one]
    yield Figure(
        f"families that sound alike ({len(others)} questions): taken for one", f"{len(taken) / len(others):.3f}"
    )
    missed: dict[str, list[str]] = {}
    for kind, text, one in asked:
        if one != kind:
            missed.setdefault(f"{kind or 'none'} -> {one or 'none'}", []).append(text)
    for name, texts in sorted(missed.items()):
        print(f"  {name} ({len(texts)}): {'; '.join(texts[:: max(1, len(texts) // 4)])}")


class Shelf:
    """A library's list of documents alone."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = tuple(documents)

    def documents(self, scope: Scope) -> tuple[Document, ...]:
        return self._documents


def is_answered(kind: str, text: str, shelf: Shelf) -> bool:
    """Whether a list is given, or the list knows what is asked; else the documents are searched after all."""
    return kind in LISTING or answer_from_catalogue(Answer("", text, ""), kind, text, Scope(), shelf) is not None  # type: ignore[arg-type]


def false_positives() -> Iterator[Figure]:
    """Questions to documents that the list of the 40 filings would answer."""
    with Refdesk(filings(), settings={"ingest.ocr": False}) as desk:
        shelf = Shelf(desk.documents())
    total = taken = 0
    for name, texts in measured_negatives().items():
        found = [(kind, text) for kind, text in zip(read(texts), texts, strict=True) if kind]
        answered = [(kind, text) for kind, text in found if is_answered(kind, text, shelf)]
        total, taken = total + len(texts), taken + len(answered)
        share = len(answered) / len(texts)
        shown = f"{len(answered)} ({share:.2%}); {len(found)} before names are looked up"
        yield Figure(f"taken for one, {name} ({len(texts)})", shown, "≤ .2 %", share <= 0.002)
        for kind, text in answered[:8]:
            print(f"  {name}: {kind}: {text}")
    yield Figure(f"taken for one, all ({total})", f"{taken} ({taken / total:.3%})", "≤ .2 %", taken / total <= 0.002)


# Hand-written; with what the answer must hold, or with the words that the cited documents must hold and no others.
FILINGS: tuple[tuple[str, str, str], ...] = (
    ("What documents do you have?", "There are 40 documents", ""),
    ("How many pages has the Costco 10-K?", "COSTCO_2021_10K.pdf has 76 pages", ""),
    ("How many pages does the Microsoft 10-K of 2023 have?", "MICROSOFT_2023_10K.pdf has 116 pages", ""),
    ("how long is the Boeing annual report in pages", "BOEING_2022_10K.pdf has 190 pages", ""),
    ("Which documents mention Activision?", "", r"\bActivision\b"),
    ("How many reports talk about tariffs?", "", r"\btariffs?\b"),
    ("In which documents is remdesivir mentioned?", "", r"\bremdesivir\b"),
    ("Which files contain the words “supply chain”?", "", r"\bsupply[\s-]+chains?\b"),
    ("In welchen Dokumenten wird Azure erwähnt?", "", r"\bAzure\b"),
    ("Which is the longest document?", "AMERICANEXPRESS_2022_10K.pdf: 260 pages", ""),
    ("Which document has the fewest pages?", "JOHNSON_JOHNSON_2022Q4_EARNINGS.pdf: 24 pages", ""),
    ("What is the newest document?", "2023 Q3 NVDA.pdf: 21 November 2023", ""),
    ("Which is the oldest file?", "BESTBUY_2017_10K.pdf: 24 March 2017", ""),
    ("Who is the author of JOHNSON_JOHNSON_2022Q4_EARNINGS.pdf?", "Maria Johnson", ""),
    ("When was BOEING_2022_10K.pdf made?", "27 January 2023", ""),
    ("In which language is PFIZER_2021_10K.pdf written?", "PFIZER_2021_10K.pdf is in English", ""),
    ("What was added since 1 January 2026?", "40 documents were added since 1 January 2026", ""),
    ("How many documents are there about Best Buy?", "There are 4 documents", ""),
    ("Do you have any files on Nvidia?", "There are 4 documents", ""),
    ("Which documents from 2017 are there?", "There are 2 documents", ""),
    ("How many pages are there altogether?", "3,4", ""),
    ("Combien de pages a VERIZON_2022_10K.pdf ?", "VERIZON_2022_10K.pdf has 124 pages", ""),
)


def over_filings() -> Iterator[Figure]:
    """The catalogue of the 40 filings; mentions are checked against the text of every page."""
    with Refdesk(filings(), settings={"ingest.ocr": False}) as desk:
        texts = {one.name: " ".join(page.text for page in desk.pages(one.id)) for one in desk.documents()}
        wrong = []
        for question, held, words in FILINGS:
            answer = desk.ask_sync(question, cache=False)
            is_right = answer.model == "none" and held in answer.content
            if words:
                pattern = re.compile(words, re.IGNORECASE)
                cited = {one.document_name: one.quote for one in answer.citations}
                is_right &= set(cited) == {name for name, text in texts.items() if pattern.search(text)}
                is_right &= all(pattern.search(quote) for quote in cited.values())
            if not is_right:
                wrong.append(question)
                print(f"  wrong: {question} -> {answer.content[:300]}")
    right = len(FILINGS) - len(wrong)
    yield Figure("40 filings, hand-written questions: right", f"{right} of {len(FILINGS)}")


def figures() -> list[Figure]:
    return [*recognition(), *false_positives(), *over_filings()]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="learn anew and write the file")
    if parser.parse_args(arguments).fit:
        fit()
    for one in figures():
        print(one, flush=True)


if __name__ == "__main__":
    main()
