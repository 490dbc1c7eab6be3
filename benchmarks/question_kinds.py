"""Steps, several things, yes or no, a definition, or one thing: is what a question wants known? And how it is learned.

python -m benchmarks.question_kinds          measures
python -m benchmarks.question_kinds --fit    learns anew and writes question_kinds.json and intents.json under assets/

Examples are made from the families of paraphrases in `question_kinds.txt`, and measure in four folds, each family held
back whole. Questions of squad_dev11's first 24 articles, TAT-QA's even contexts, QAMR, HotpotQA and WikiTableQuestions'
even tables want one thing, but for those that begin as an example of another kind does; those that ask what something
is are learned from without their first words too. Nothing was learned from TREC,
MTRAG, filings_dev or the other articles, by which it is measured. Whether a question is to be summed up, compared or
reasoned about is learned alike from `intents.txt`; what begins with "why" is reasoned about, and all else is factual.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.answering import Articles, questions
from benchmarks.catalogue import _queries, _tables, _wiki, answers, one_of_each, sections
from benchmarks.common import DATA, Figure, read_jsonl
from benchmarks.intent import trec
from refdesk.ask.wording import (
    ARTICLES,
    AUXILIARIES,
    DOING,
    INTENTS,
    INTENTS_FILE,
    KINDS,
    KINDS_FILE,
    intent_of,
    patterns,
    tokens,
    wants,
)

FAMILIES = Path(__file__).with_suffix(".txt")
INTENT_FAMILIES = Path(__file__).with_name("intents.txt")
SEED, FOLDS, PER_FAMILY = 7, 4, 24
RIDGE, ROUNDS, RATE = 2e-5, 400, 0.05
RAREST = 3  # examples that a pattern stands in
CERTAIN = ("who", "when", "where", "whose", "whom")  # no such question is one for a summary or a comparison

Example = tuple[int, str, int]  # kind, question, fold; -1 is always learned from


def filled(text: str, draw: random.Random) -> str:
    text = one_of_each(text, draw)
    while match := re.search(r"\{(\w+)\}", text):
        slot = match[1]
        filler = draw.choice(answers() if slot == "topic" else sections(FAMILIES)[f"{{{slot}}}"])
        text = text[: match.start()] + filler + text[match.end() :]
    text = " ".join(text.split())
    text = text[0].upper() + text[1:]
    return text.rstrip("?¿ ") if draw.random() < 0.15 else text


def made(file: Path = FAMILIES, kinds: Sequence[str] = KINDS) -> list[Example]:
    found: list[Example] = []
    for name, lines in sections(file).items():
        kind = name.partition(" ")[0]
        if kind.startswith("{"):
            continue
        for place, line in enumerate(lines):
            draw = random.Random(f"{SEED} {line}")
            texts = {filled(line, draw) for _ in range(PER_FAMILY)}
            fold = place % FOLDS if len(lines) >= FOLDS else -1
            found += [(kinds.index(kind), text, fold) for text in sorted(texts)]
    return found


def known_words(*files: Path) -> frozenset[str]:
    """Words of the families outside of slots."""
    found: set[str] = set()
    for file in files:
        for name, lines in sections(file).items():
            if not name.startswith("{"):
                for line in lines:
                    found.update(tokens(re.sub(r"\{\w+\}|[()|]", " ", line)))
    return frozenset(found)


def for_intents() -> list[Example]:
    """Questions with their intents: families, and free questions, where their first words leave no doubt."""
    own = made(INTENT_FAMILIES, INTENTS)
    begun = {" ".join(tokens(text)[:2]) for intent, text, _ in own if intent}
    others = [text for kind, text, _ in made() if KINDS[kind] != "one"]
    tables = [*_tables(0), *_wiki(0, 1500)]  # they ask for cells, and what is computed from them
    free = [*tables, *(row["text"] for row in questions("squad_dev11", 3000, Articles().is_for_learning)), *single()]
    found: list[Example] = [(0, text, -1) for text in others]
    for place, text in enumerate(dict.fromkeys(free)):
        first = tokens(text)[:2]
        is_clear = place < len(tables) or first[0] in CERTAIN or first[1:] in (["many"], ["much"])
        if first[:1] == ["why"]:
            found.append((INTENTS.index("analytical"), text, -1))
        elif is_clear or " ".join(first) not in begun:
            found.append((0, text, -1))
    return [*own, *found]


def single() -> list[str]:
    """Free questions that want one thing, but for those that begin as one of another kind."""
    articles = Articles()
    found = [row["text"] for row in questions("squad_dev11", 3000, articles.is_for_learning)]
    found += _tables(0) + _wiki(0, 1500)
    rows = read_jsonl(DATA / "train" / "qamr.jsonl")
    found += [str(row["question"]) for row in rows[:: len(rows) // 2000]]
    found += [terse(text) for text in found if terse(text)]
    others = {" ".join(tokens(text)[:2]) for kind, text, _ in made() if kind}
    return [text for text in found if " ".join(tokens(text)[:2]) not in others]


def terse(text: str) -> str:
    """As it is typed into a search box; "" where it does not ask what something is.

    >>> terse("What was the cost of the annual policy?")
    'cost of the annual policy'
    """
    first, verb, *rest = [*text.rstrip("? ").split(), "", ""]
    is_name = first.lower() == "what" and verb in AUXILIARIES - DOING and rest[0] in ARTICLES
    return " ".join(rest[1:]).strip() if is_name else ""


# --- learning --------------------------------------------------------------------------------------------------------


def fit(examples: Sequence[Example], words: frozenset[str], kinds: int = len(KINDS)) -> dict[str, list[float]]:
    """Weights by pattern: softmax regression, by Adam."""
    held = [sorted(set(patterns(text, words))) for _, text, _ in examples]
    counts = Counter(pattern for one in held for pattern in one)
    kept = {pattern: place for place, pattern in enumerate(sorted(p for p, n in counts.items() if n >= RAREST))}
    rows = np.repeat(np.arange(len(held)), [sum(p in kept for p in one) for one in held])
    columns = np.array([kept[p] for one in held for p in one if p in kept])
    target = np.eye(kinds)[[kind for kind, *_ in examples]]
    balance = (1.0 / target.sum(axis=0))[[kind for kind, *_ in examples]]
    balance = balance / balance.mean()
    weights = np.zeros((len(kept), kinds))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, ROUNDS + 1):
        scores = np.zeros((len(held), kinds))
        np.add.at(scores, rows, weights[columns])
        chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        error = (chance - target) * balance[:, None] / len(held)
        slope = np.zeros_like(weights)
        np.add.at(slope, columns, error[rows])
        slope += RIDGE * weights
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return {pattern: [round(float(one), 2) for one in weights[place]] for pattern, place in kept.items()}


def told(text: str, words: frozenset[str], weights: dict[str, list[float]]) -> NDArray[Any]:
    scores = sum((np.array(weights[p]) for p in set(patterns(text, words)) if p in weights), np.zeros(len(KINDS)))
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def write(file: Path, words: frozenset[str], weights: dict[str, list[float]]) -> None:
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(weights.items()) if max(map(abs, row)) >= 0.05
    )
    listed = json.dumps(sorted(words), ensure_ascii=False)
    file.write_text(f'{{"words": {listed},\n"weights": {{\n{lines}\n}}}}\n', encoding="utf-8")


# --- measuring -------------------------------------------------------------------------------------------------------


def held_back() -> Figure:
    """Of families that were not learned from, each kind: how many are known."""
    examples, words = made(), known_words(FAMILIES)
    ones = [(0, text, -1) for text in single()]
    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for fold in range(FOLDS):
        weights = fit([*ones, *(one for one in examples if one[2] != fold)], words)
        for kind, text, _ in (one for one in examples if one[2] == fold):
            every[KINDS[kind]] += 1
            right[KINDS[kind]] += int(np.argmax(told(text, words, weights))) == kind
    return Figure("families held back", " · ".join(f"{kind} {right[kind] / every[kind]:.2f}" for kind in KINDS))


def figures() -> list[Figure]:
    articles = Articles()
    squad = [row["text"] for row in questions("squad_dev11", 3000, lambda row: not articles.is_for_learning(row))]
    by_label: dict[str, list[str]] = {}
    for label, text in trec(1):
        by_label.setdefault(label, []).append(text)
    asking = [
        text for text in by_label["DESC:manner"] if re.match(r"how (?:do|can|should) (?:i|you|we)\b|how to", text, re.I)
    ]
    sets = {
        "TREC, manner, how one does something": asking,
        "TREC, definition": by_label["DESC:def"],
        "TREC, numbers, people and places": [
            text for label, own in by_label.items() if label[:3] in ("NUM", "HUM", "LOC") for text in own
        ],
        "squad_dev11, other articles": squad,
        "TAT-QA, odd contexts": _tables(1),
        "WikiTableQuestions, odd tables": _wiki(1, 1500),
        "filings_dev": [str(row["question"]) for row in read_jsonl(DATA / "questions" / "filings_dev.jsonl")],
        "MTRAG cloud": _queries("mtrag_cloud", "cloud_rewrite.jsonl"),
        "MTRAG govt": _queries("mtrag_govt", "govt_rewrite.jsonl"),
    }
    found = [held_back()]
    for name, texts in sets.items():
        counts = Counter(wants(text) for text in texts)
        shares = " · ".join(f"{kind} {counts[kind] / len(texts):.1%}" for kind in KINDS)
        found.append(Figure(f"wanted, {name} ({len(texts)})", shares))
        intents = Counter(intent_of(text) for text in texts)
        shares = " · ".join(f"{intent} {intents[intent] / len(texts):.1%}" for intent in INTENTS)
        found.append(Figure(f"intent, {name} ({len(texts)})", shares))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="learn anew and write the file")
    if parser.parse_args(arguments).fit:
        words = known_words(FAMILIES)
        write(KINDS_FILE, words, fit([*made(), *((0, text, -1) for text in single())], words))
        words = known_words(FAMILIES, INTENT_FAMILIES)
        write(INTENTS_FILE, words, fit(for_intents(), words, len(INTENTS)))
    for one in figures():
        print(one, flush=True)


if __name__ == "__main__":
    main()
