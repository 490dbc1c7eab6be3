r"""Trains the reader that ships, from packing the data to the int8 file and its figures. One command, one seed:

    python -m training.found found.json.xz                       where Refdesk runs: what its search finds
    python -m training --data DATA --found found.json.xz \
        --minilm MINILM/model.safetensors --mpnet MPNET/model.safetensors --work WORK

Each stage leaves its result in WORK; `--stages` names those to run. Needs an accelerator with 80 GB for about a quarter
of an hour, and torch, tokenizers, onnx, onnxruntime, safetensors; training/README.md says what the data are and what
came out.
"""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from training.examples import SHARES, Prepared, find_rivals, group, prepare
from training.learn import Course, claim_pairs, learn, learn_claims, supported
from training.measure import auc, figures, readings, shown
from training.model import Reader
from training.weights import pack_weights, read_weights

SEED = 7
STAGES = ("pack", "prepare", "teacher", "student", "claims", "export")
TOKENIZER = Path(__file__).parent.parent / "src" / "refdesk" / "assets" / "tokenizer.json"
SHOWN = ("squad", "qamr", "medquad", "tatqa")
LEARNED = ("fool_me_twice", "wice", "contract_nli")

Row = dict[str, Any]


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def read_packed(path: Path) -> Row:
    found: Row = json.loads(lzma.decompress(path.read_bytes()))
    return found


class Run:
    """The stages, each with its file in the work folder."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.work = given, given.work
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = Tokenizer.from_file(str(given.tokenizer))
        self.tokenizer.encode_special_tokens = True

    def pack(self) -> None:
        from training.pack import pack

        if self.given.data:
            packed = json.dumps(pack(self.given.data, SEED), ensure_ascii=False).encode()
            (self.work / "learn.json.xz").write_bytes(lzma.compress(packed, preset=2))
            (self.work / "found.json.xz").write_bytes(self.given.found.read_bytes())
            pack_weights(self.given.minilm, self.work / "student.npz")
            pack_weights(self.given.mpnet, self.work / "teacher.npz")

    def prepare(self) -> None:
        learned = read_packed(self.work / "learn.json.xz")
        log("read")
        sources = [prepare(name, learned["sources"][name], self.tokenizer, SEED) for name in SHARES]
        log("in tokens")
        encoder = self.reader("student").to(self.device)
        for source in sources:
            find_rivals(source, encoder, self.device)
        log("rivals found")
        rest = {name: learned[name] for name in ("claims", "made_claims")}
        texts = {_letters(row["text"]) for row in learned["sources"]["squad"]["passages"]}
        (self.work / "prepared.pickle").write_bytes(pickle.dumps((sources, rest, texts)))

    def prepared(self) -> tuple[list[Prepared], Row, set[str]]:
        return pickle.loads((self.work / "prepared.pickle").read_bytes())

    def reader(self, name: str, saved: str = "") -> Reader:
        model = Reader(read_weights(self.work / f"{name}.npz"))
        if saved:
            model.load_state_dict(torch.load(self.work / saved, map_location="cpu", weights_only=True))
        return model.eval()

    def found(self) -> Row:
        """The questions that measure, without those about passages that were learned from."""
        found, (_, _, learned) = read_packed(self.work / "found.json.xz"), self.prepared()
        kept = found["squad2_disfl"]
        kept["questions"] = [
            row for row in kept["questions"] if _letters(kept["passages"][row["relevant"][0]]["text"]) not in learned
        ]
        return found

    def measure(self, model: Reader, name: str, depth: int = 20) -> None:
        found = self.found()
        for kept in found.values():
            for row in kept["questions"]:
                row["hits"] = row["hits"][:depth]
        said = readings(model.to(self.device), found, self.tokenizer, self.device)
        (self.work / f"{name}.said.json.xz").write_bytes(lzma.compress(json.dumps(said).encode(), preset=1))
        log(f"{name}\n{shown(figures(found, said))}")

    def teacher(self) -> None:
        sources, _, _ = self.prepared()
        model = self.reader("teacher").to(self.device)
        course = Course(self.given.teacher_steps, 64 // self.given.smaller, 5e-5, SEED, self.given.workers)
        model = learn(model, sources, course, self.device)
        torch.save({key: value.half() for key, value in model.state_dict().items()}, self.work / "teacher.pt")
        log("teacher learned")
        self.measure(model, "teacher", 10)

    def student(self) -> None:
        sources, _, _ = self.prepared()
        teacher = self.reader("teacher", "teacher.pt").to(self.device, torch.bfloat16)
        model = self.reader("student").to(self.device)
        course = Course(self.given.student_steps, 96 // self.given.smaller, 2e-4, SEED, self.given.workers)
        model = learn(model, sources, course, self.device, teacher)
        self.save(model, "student.pt")
        log("student learned")
        self.measure(model, "student")

    def save(self, model: Reader, name: str) -> None:
        """Without the word vectors, which were not touched."""
        kept = {key: value.half() for key, value in model.state_dict().items() if key != "words.weight"}
        torch.save(kept, self.work / name)

    def saved(self, name: str) -> Reader:
        model = self.reader("student")
        model.load_state_dict(torch.load(self.work / name, map_location="cpu", weights_only=True), strict=False)
        return model.eval()

    def claims(self) -> None:
        """Each set that may be learned from is left out once, for the report; the last reader learns from all."""
        sources, rest, _ = self.prepared()
        pairs = {name: claim_pairs(rows, self.tokenizer) for name, rows in rest["claims"].items()}
        made = claim_pairs(rest["made_claims"], self.tokenizer)
        teacher = self.reader("teacher", "teacher.pt").to(self.device, torch.bfloat16)
        model = self.saved("student.pt").to(self.device)
        scores: dict[str, Any] = {}
        for left_out in (*LEARNED, ""):
            groups = (64 if not left_out else 32) // min(32, self.given.smaller)
            course = Course(self.given.claim_steps, groups, 6e-5, SEED, self.given.workers)
            learned = [pairs[name] for name in LEARNED if name != left_out]
            trained = learn_claims(model, teacher, sources, [*learned, made], course, self.device)
            for name in [left_out] if left_out else [one for one in pairs if one not in LEARNED]:
                logits = supported(trained, pairs[name], self.device)
                labels = [is_true for _, is_true in pairs[name]]
                scores[name] = [[round(float(a), 3), int(b)] for a, b in zip(logits, labels, strict=True)]
                true, false = ([a for a, b in scores[name] if b == one] for one in (1, 0))
                right = (np.mean([a > 0 for a in true]) + np.mean([a <= 0 for a in false])) / 2
                log(f"claims of {name}, not learned from: balanced accuracy {right:.3f}, AUC {auc(true, false):.3f}")
        (self.work / "claims.json").write_text(json.dumps(scores))
        self.save(trained, "reader.pt")
        self.measure(trained, "reader")

    def export(self) -> None:
        """The reader that judges claims as well where there is one; some pairs show how large activations get."""
        from training.export import export, smooth

        learned, dice = read_packed(self.work / "learn.json.xz"), random.Random(SEED)
        sources = [prepare(name, learned["sources"][name], self.tokenizer, SEED) for name in SHOWN]
        pairs = [pair for source in sources for _ in range(5) for pair in group(source, dice)[:4]]
        with_claims = (self.work / "reader.pt").exists()
        model = self.saved("reader.pt" if with_claims else "student.pt")
        smooth(model, pairs)
        export(model, self.work / "reader.int8.onnx", 3 if with_claims else 2)


def _letters(text: str) -> str:
    return "".join(one for one in text.lower() if one.isalnum())[:80]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the development data")
    parser.add_argument("--found", type=Path, help="what training.found wrote")
    parser.add_argument("--minilm", type=Path, help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--mpnet", type=Path, help="model.safetensors of all-mpnet-base-v2")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--teacher-steps", type=int, default=700)
    parser.add_argument("--student-steps", type=int, default=1964)
    parser.add_argument("--claim-steps", type=int, default=350)
    parser.add_argument(
        "--smaller", type=int, default=1, help="divides the batches, to try the code without an accelerator"
    )
    parser.add_argument("--workers", type=int, default=14)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    run = Run(given)
    for stage in given.stages.split(","):
        log(stage)
        getattr(run, stage)()


if __name__ == "__main__":
    main()
