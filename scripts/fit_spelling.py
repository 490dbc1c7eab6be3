"""Fits the weights by which a misspelled word is told from a name or a rare word, and writes assets/spelling.json.

python -m scripts.fit_spelling

Words that nobody misspelled are those of questions (SQuAD 1.1 dev, its first 24 articles; HotpotQA; MTRAG; QAMR;
PolicyQA; COVID-QA; MedQuAD) that a library does not hold, though others of these texts do. Misspelled words are made of
the words of the same questions: two letters swapped, one left out, put in, or replaced by the key beside it, a vowel or
any other. A word is meant with a probability of exp(score) against the sum over all near words and the word itself.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from benchmarks.common import DATA, read_jsonl
from benchmarks.words_only import WordsOnly

from refdesk.ask.understand import WEIGHTS_FILE, candidates, features, keys_beside, meanings, word_list
from refdesk.text import query_terms, words

# Of an edit, what was done; of a near word, whether and how often it is written in the documents and in its language.
FEATURES = (
    "any", "swapped", "key_beside", "vowel", "other_letter", "single_for_double", "left_out", "double_for_single",
    "put_in", "first_letter", "last_letter", "two_edits", "in_documents", "documents", "in_language", "language",
    "length", "name", "name_of_document",
)  # fmt: skip

# Added to what is fitted, because typos that are made do not tell: how often a word or a name is misspelled, how often
# a question is about the library it is put to, that the first letter is seldom the wrong one (Pollock and Zamora 1984).
# Chosen on a third of the DL-2019 queries, half of Norvig's words and 130 questions of each of five sets.
SHIFTS = {"any": 1.5, "name": -0.9, "documents": 0.3, "first_letter": -1.4}
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
QUESTIONS = 120  # of each set, and over each library
SMALL = 300  # chunks of the libraries that are made of questions
RIGHT = 2.0  # how much more a right word weighs than a misspelled one, all of either kind together
ORIGIN = "SQuAD 1.1 dev articles 1-24 (CC BY-SA 4.0), HotpotQA (CC BY-SA 4.0), MTRAG (Apache-2.0), QAMR (MIT), "
ORIGIN += "PolicyQA (MIT), COVID-QA (Apache-2.0), MedQuAD (CC BY 4.0); weights only, no text of them"


@dataclass(frozen=True, slots=True)
class Group:
    """The near words of one word of a question, and which of them was meant (-1: the word itself)."""

    rows: list[list[float]]
    meant: int


def texts() -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, set[str]]]:
    """Questions, passages and names of documents by set."""
    articles = json.loads((DATA / "retrieval" / "squad_dev11" / "dev-v1.1.json").read_text("utf-8"))["data"][:24]
    paragraphs = [one for article in articles for one in article["paragraphs"]]
    asked = {"squad": [one["question"] for paragraph in paragraphs for one in paragraph["qas"]]}
    held = {"squad": [one["context"] for one in paragraphs]}
    names = {"squad": {article["title"].replace("_", " ") for article in articles}}
    for name, file in (("hotpot_train100", "queries.jsonl"), ("mtrag_govt", "govt_lastturn.jsonl")):
        folder = DATA / "retrieval" / name
        asked[name] = [str(row["text"]).split("|user|:")[-1].strip() for row in read_jsonl(folder / file)]
        rows = read_jsonl(folder / "corpus.jsonl")
        held[name] = [f"{row.get('title') or ''}\n{row['text']}" for row in rows]
        names[name] = {str(row.get("title") or "") for row in rows}
    for name in ("qamr", "policyqa", "covidqa", "medquad"):
        rows = read_jsonl(DATA / "train" / f"{name}.jsonl")
        asked[name] = [str(row["question"]) for row in rows]
        held[name] = [" ".join(str(value) for key, value in row.items() if key != "question") for row in rows[::3]]
    return asked, held, names


def misspelled(word: str, chance: random.Random) -> str:
    place, way = chance.randrange(len(word)), chance.random()
    if way < 0.22:
        place = chance.randrange(len(word) - 1)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if way < 0.5:
        doubles = [at for at in range(len(word) - 1) if word[at] == word[at + 1]]
        place = chance.choice(doubles) if doubles and chance.random() < 0.35 else place
        return word[:place] + word[place + 1 :]
    if way < 0.7:
        return word[:place] + (word[place] if chance.random() < 0.5 else chance.choice(ALPHABET)) + word[place:]
    letters = sorted(keys_beside(word[place])) if way < 0.85 else "aeiou" if word[place] in "aeiou" else ALPHABET
    return word[:place] + chance.choice(letters) + word[place + 1 :]


def groups() -> Iterator[tuple[bool, Group]]:
    """(is misspelled, group) over every set of questions and three libraries."""
    chance = random.Random(7)
    asked, held, names = texts()
    english = word_list("en")
    assert english is not None
    somewhere = Counter[str]()
    for passages in held.values():
        for passage in passages:
            somewhere.update(set(words(passage)))
    # Libraries of all sizes: a word of a small one says more than the same of a large one.
    small = [WordsOnly(chance.sample(asked[name], SMALL)) for name in ("squad", "medquad", "qamr")]
    large = [WordsOnly(held[name], names[name]) for name in ("squad", "hotpot_train100", "mtrag_govt")]
    for library in (*large, *small):

        def is_known(word: str, library: WordsOnly = library) -> bool:
            return word in english or any(library.frequencies(query_terms(word, ("en",))).values())

        for questions in asked.values():
            for question in chance.sample(questions, min(QUESTIONS, len(questions))):
                text = question.lower() if chance.random() < 0.15 else question
                places = list(candidates(text))
                for start, word in places:
                    if not is_known(word.lower()) and somewhere[word.lower()] > 1:
                        yield False, group(word.lower(), word[0].isupper() and start > 0, library, "")
                if places and chance.random() < 0.5:
                    start, word = chance.choice(places)
                    lowered = word.lower()
                    typed = misspelled(lowered, chance) if lowered.isascii() else lowered
                    if is_known(lowered) and len(typed) > 2 and not is_known(typed):
                        found = group(typed, word[0].isupper() and start > 0, library, lowered)
                        if found.meant >= 0:
                            yield True, found


def group(word: str, is_name: bool, library: WordsOnly, meant: str) -> Group:
    near = meanings(word, library.similar_words, word_list("en"), library.chunk_count, library.name_words())
    rows = []
    for one, counts in near.items():
        own = features(word, one, *counts, is_name=is_name)
        rows.append([own.get(name, 0.0) for name in FEATURES])
    return Group(rows, list(near).index(meant) if meant in near else -1)


def fitted(found: list[tuple[bool, Group]], steps: int = 1500) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Maximum likelihood with a small penalty, by Adam."""
    kept = [(is_typo, one) for is_typo, one in found if one.rows]
    typos = sum(is_typo for is_typo, _ in kept)
    share = RIGHT * typos / max(1, len(kept) - typos)
    rows = np.array([row for _, one in kept for row in one.rows])
    owner = np.array([place for place, (_, one) in enumerate(kept) for _ in one.rows])
    hit = np.array([float(at == one.meant) for _, one in kept for at in range(len(one.rows))])
    weight = np.array([1.0 if is_typo else share for is_typo, _ in kept])[owner]
    weights, mean, square = np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for step in range(1, steps + 1):
        score = np.exp(np.clip(rows @ weights, -30, 30))
        chosen = score / (1.0 + np.bincount(owner, score, len(kept)))[owner]
        slope = rows.T @ (weight * (chosen - hit)) / len(kept) + 1e-3 * weights
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        weights = weights - 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def main() -> None:
    found = list(groups())
    typos = sum(is_typo for is_typo, _ in found)
    print(f"{typos} misspelled words, {len(found) - typos} right ones that no list knows", flush=True)
    fit = zip(FEATURES, fitted(found), strict=True)
    weights = {name: round(float(value) + SHIFTS.get(name, 0.0), 3) for name, value in fit}
    made = {"made_by": "scripts/fit_spelling.py", "trained_on": ORIGIN, "weights": weights}
    WEIGHTS_FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(weights)


if __name__ == "__main__":
    main()
