"""Claims with evidence and labels: the sets of the `verification` data in one form, with their vectors.

A case is a claim, the chunks that are its evidence, and whether they support it. Evidence is cut into chunks of whole
sentences and embedded as a library would; the vectors are kept, because that takes minutes.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CACHE, DATA, read_jsonl
from refdesk.providers.shipped import OnnxEmbedder, OnnxReader
from refdesk.text import sentences
from refdesk.types import Chunk, Sentence, Span

FOLDER = DATA / "verification"
SETS = (
    "scifact", "healthver", "fool_me_twice", "wice", "contract_nli", "qags", "begin_cmu", "begin_tc", "begin_wow",
)  # fmt: skip
MOST = 400  # cases of a set
CHUNK = 900  # characters; about 200 tokens


Rows = Iterator[tuple[str, list[str], bool, str]]


@dataclass(frozen=True, slots=True)
class Case:
    """`held`: kept apart from fitting; cases of one source text are on the same side."""

    set: str
    claim: str
    chunks: tuple[Chunk, ...]
    is_supported: bool
    held: bool
    title: str = ""


def cases(name: str, most: int = MOST) -> list[Case]:
    """At most this many cases of a set, by a fixed seed."""
    rows = list(_rows(name))
    random.Random(7).shuffle(rows)
    found = []
    for claim, texts, label, source in rows[:most]:
        title = source if name == "fool_me_twice" else ""  # the page that the evidence is from
        found.append(Case(name, claim, tuple(chunks(texts)), label, hash_of(source) % 2 == 0, title))
    return found


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _rows(name: str) -> Rows:
    """(claim, sentences of the evidence, supported, source) of every case."""
    if name.startswith("begin_"):
        yield from _begin(name.removeprefix("begin_"))
    else:
        yield from {
            "scifact": _scifact, "healthver": _healthver, "fool_me_twice": _fool_me_twice, "wice": _wice,
            "contract_nli": _contract_nli, "qags": _qags,
        }[name]()  # fmt: skip


def _json_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def _split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


def _scifact() -> Rows:
    corpus = {str(one["_id"]): one for one in read_jsonl(DATA / "retrieval" / "scifact" / "corpus.jsonl")}
    seen: set[tuple[str, str]] = set()
    with (FOLDER / "scifact_claims_train.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            documents = [row["evidence_doc_id"]] if row["evidence_doc_id"] else row["cited_doc_ids"].strip("[]").split()
            for document in documents[:1]:
                if (row["claim"], document) not in seen and document.strip(",") in corpus:
                    seen.add((row["claim"], document))
                    text = corpus[document.strip(",")]
                    yield (
                        row["claim"],
                        [str(text["title"]), *_split(str(text["text"]))],
                        row["evidence_label"] == "SUPPORT",
                        document,
                    )


def _healthver() -> Rows:
    with (FOLDER / "healthver_dev.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row["claim"], _split(row["evidence"]), row["label"] == "Supports", row["topic_ip"]


def _fool_me_twice() -> Rows:
    for row in _json_lines("fool_me_twice_dev.jsonl"):
        evidence = [one["text"] for one in row["gold_evidence"]]
        yield row["text"], evidence, row["label"] == "SUPPORTS", row["wikipedia_page"]


def _wice() -> Rows:
    for row in _json_lines("wice_claim_dev.jsonl"):
        yield row["claim"], row["evidence"], row["label"] == "supported", str(row["meta"])


def _contract_nli() -> Rows:
    data = json.loads((FOLDER / "contract_nli_dev.json").read_text(encoding="utf-8"))
    for document in data["documents"]:
        evidence = [document["text"][start:end] for start, end in document["spans"]]
        for name, annotation in document["annotation_sets"][0]["annotations"].items():
            yield (
                data["labels"][name]["hypothesis"],
                evidence,
                annotation["choice"] == "Entailment",
                str(document["id"]),
            )


def _qags() -> Rows:
    for row in _json_lines("qags_cnndm.jsonl"):
        for one in row["summary_sentences"]:
            votes = [vote["response"] == "yes" for vote in one["responses"]]
            yield one["sentence"], _split(row["article"]), sum(votes) * 2 > len(votes), row["article"][:200]


def _begin(part: str) -> Rows:
    with (FOLDER / "begin_dev" / f"begin_dev_{part}.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            is_supported = row["begin_label"] == "Fully attributable"
            yield row["response"], _split(row["knowledge"]), is_supported, row["knowledge"]


def pairs() -> list[tuple[str, str, str, bool]]:
    """RAGChecker: (reference answer, one response, another, is the second one more correct?), ties left out."""
    data = json.loads((FOLDER / "ragchecker_human_labeled.json").read_text(encoding="utf-8"))
    return [
        (row["gt_answer"], row["model1"]["response"], row["model2"]["response"], row["correctness_label"] > 0)
        for row in data
        if row["correctness_label"] != 0
    ]


def chunks(texts: Sequence[str]) -> Iterator[Chunk]:
    """Evidence as a library would hold it."""
    groups: list[list[str]] = [[]]
    for text in texts:
        text = " ".join(str(text).split())
        if groups[-1] and sum(map(len, groups[-1])) + len(text) > CHUNK:
            groups.append([])
        if text:
            groups[-1].append(text)
    for sequence, group in enumerate(filter(None, groups), 1):
        joined, ranges = "", []
        for text in group:
            joined += " " if joined else ""
            ranges.append(Sentence(len(joined), len(joined) + len(text), 1))
            joined += text
        key = hash_of(joined)
        yield Chunk(
            "d", sequence, "text", joined, (), (1,), [Span(0, len(joined), 0, 1)], ranges, len(joined) // 4, id=key
        )


# --- vectors ----------------------------------------------------------------------------------------------------------


@cache
def judge() -> OnnxReader:
    return OnnxReader()


@cache
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder(threads=1)


class Vectors:
    """Sentence vectors by chunk, and claim vectors by text; kept in one file per set."""

    def __init__(self, name: str) -> None:
        self._path = CACHE / "verification" / f"{name}.npz"
        self.chunks: dict[int, NDArray[np.int8]] = {}
        self._texts: dict[str, NDArray[np.float32]] = {}
        if self._path.exists():
            with np.load(self._path) as kept:
                self.chunks = {int(key[1:]): kept[key] for key in kept.files if key[0] == "c"}
                self._texts = {key: kept[key] for key in kept.files if key[0] == "t"}

    def embed(self, text: str) -> NDArray[np.float32]:
        key = f"t{hash_of(text)}"
        if key not in self._texts:
            self._texts[key] = embedder().embed_query(text)
        return self._texts[key]

    def prepare(self, found: Sequence[Case]) -> None:
        missing = {chunk.id: chunk for case in found for chunk in case.chunks if chunk.id not in self.chunks}
        if missing:
            print(f"embedding {len(missing)} chunks of {self._path.stem} …", flush=True)
        for key, chunk in missing.items():
            self.chunks[key] = embedder().embed_chunks([chunk])[0].sentences

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        kept = {f"c{key}": rows for key, rows in self.chunks.items()} | self._texts
        np.savez(self._path.with_suffix(""), **kept)  # type: ignore[arg-type]
