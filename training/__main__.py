r"""Trains the reader and the judge that ship, from packing the data to the int8 files. One command, one seed:

    python -m training.found found.json.xz                       where Refdesk runs: what its search finds
    python -m training.plan_groups DATA WORK                     there too: the plans it makes for questions of tables
    python -m training --data DATA --found found.json.xz \
        --minilm MINILM/model.safetensors --mpnet MPNET/model.safetensors --work WORK

Each stage leaves its result in WORK; `--stages` names those to run. Needs an accelerator with 80 GB for about half
an hour, and torch, tokenizers, onnx, onnxruntime, safetensors; training/README.md says what the data are and what
came out.
"""

from __future__ import annotations

import argparse
import copy
import json
import lzma
import pickle
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from training.examples import LABELLED, SHARES, Drawn, Pair, Prepared, find_rivals, group, prepare
from training.judged import Claims, judgements, plan_figures, planned, prepare_claims, prepare_plans
from training.learn import Course, learn
from training.measure import auc, figures, held_figures, readings, shown
from training.model import ANSWERED, SUPPORTED, Reader
from training.weights import pack_weights, read_shipped, read_weights

SEED = 7
STAGES = (
    "pack", "prepare", "teacher", "student", "further", "export", "judge_teacher", "judge", "claims", "export_judge"
)  # fmt: skip
TOKENIZER = Path(__file__).parent.parent / "src" / "refdesk" / "assets" / "tokenizer.json"
SHOWN = ("squad", "qamr", "medquad", "tatqa")
PLAN_KINDS = {"plans_wiki": ("wiki",), "plans_tatqa": ("span", "multi-span", "arithmetic", "count", "text")}

Row = dict[str, Any]


@dataclass
class Learned:
    """All that is learned from and measured by, in tokens."""

    sources: list[Prepared]
    judged: list[Drawn]  # plans, and claims made without people
    labelled: list[Claims]
    claims: list[Claims]  # that measure
    plans: list[Row]  # held back
    texts: set[str]  # of the passages of SQuAD
    held: list[Row]  # written questions that measure


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
            if self.given.found:
                (self.work / "found.json.xz").write_bytes(self.given.found.read_bytes())
            for given, name in ((self.given.minilm, "student"), (self.given.mpnet, "teacher")):
                if given:
                    pack_weights(given, self.work / f"{name}.npz")

    def prepare(self) -> None:
        learned = read_packed(self.work / "learn.json.xz")
        log("read")
        sources = [prepare(name, learned["sources"][name], self.tokenizer, SEED) for name in SHARES]
        log("in tokens")
        encoder = self.reader("student").to(self.device)
        for source in sources:
            find_rivals(source, encoder, self.device)
        log("rivals found")
        plan_groups = self.work / "plan-groups.json.xz"
        plans = read_packed(plan_groups) if plan_groups.exists() else []  # the reader needs none
        judged: list[Drawn] = [
            prepare_plans(
                name, [row for row in plans if row["kind"] in kinds and not row["is_held_back"]], self.tokenizer
            )
            for name, kinds in PLAN_KINDS.items()
        ]
        claims = {name: prepare_claims(name, rows, self.tokenizer) for name, rows in learned["learned_claims"].items()}
        kept = Learned(
            sources,
            judged + [one for name, one in claims.items() if name not in LABELLED],
            [claims[name] for name in LABELLED],
            [prepare_claims(name, rows, self.tokenizer) for name, rows in learned["claims"].items()],
            [row for row in plans if row["is_held_back"]],
            {_letters(row["text"]) for row in learned["sources"]["squad"]["passages"]},
            learned["held_questions"],
        )
        (self.work / "prepared.pickle").write_bytes(pickle.dumps(kept))

    def prepared(self) -> Learned:
        found: Learned = pickle.loads((self.work / "prepared.pickle").read_bytes())
        return found

    def reader(self, name: str, saved: str = "") -> Reader:
        model = Reader(read_weights(self.work / f"{name}.npz"))
        if saved:
            model.load_state_dict(torch.load(self.work / saved, map_location="cpu", weights_only=True))
        return model.eval()

    def found(self) -> Row:
        """The questions that measure, without those about passages that were learned from."""
        found, learned = read_packed(self.work / "found.json.xz"), self.prepared().texts
        kept = found["squad2_disfl"]
        kept["questions"] = [
            row for row in kept["questions"] if _letters(kept["passages"][row["relevant"][0]]["text"]) not in learned
        ]
        return found

    def measure(self, model: Reader, name: str, depth: int = 20) -> None:
        model = model.to(self.device)
        learned = self.prepared()
        table = held_figures(model, learned.held, self.tokenizer, self.device)
        if learned.plans:
            logits = planned(model, learned.plans, self.tokenizer, self.device)
            (self.work / f"{name}.plans.json").write_text(json.dumps(logits))
            table |= plan_figures(learned.plans, logits)
        if (self.work / "found.json.xz").exists():
            found = self.found()
            for kept in found.values():
                for row in kept["questions"]:
                    row["hits"] = row["hits"][:depth]
            said = readings(model, found, self.tokenizer, self.device)
            (self.work / f"{name}.said.json.xz").write_bytes(lzma.compress(json.dumps(said).encode(), preset=1))
            table = figures(found, said) | table
        log(f"{name}\n{shown(table)}")

    def teacher(self) -> None:
        self.teach("teacher", self.prepared().sources, self.given.teacher_steps)

    def judge_teacher(self) -> None:
        learned = self.prepared()
        model = self.teach("judge-teacher", [*learned.sources, *learned.judged], self.given.judge_teacher_steps)
        logits = planned(model, learned.plans, self.tokenizer, self.device)
        log(f"judge's teacher\n{shown(plan_figures(learned.plans, logits))}")
        self.say_claims(model, learned.claims)

    def teach(self, name: str, sources: Sequence[Prepared | Drawn], steps: int) -> Reader:
        course = Course(steps, 64 // self.given.smaller, 5e-5, SEED, self.given.workers)
        model = learn(self.reader("teacher").to(self.device), sources, course, self.device)
        torch.save({key: value.half() for key, value in model.state_dict().items()}, self.work / f"{name}.pt")
        log(f"{name} learned")
        return model

    def say_claims(self, model: Reader, claims: Sequence[Claims]) -> dict[str, list[list[float]]]:
        """All that is said of every claim of these sets."""
        found = {}
        for one in claims:
            said = judgements(model, one.pairs, self.device)
            logits = said[:, SUPPORTED]
            marks = np.array([pair.mark for pair in one.pairs]) > 0.5
            right = (np.mean(logits[marks] > 0) + np.mean(logits[~marks] <= 0)) / 2
            log(f"claims of {one.name}: balanced accuracy {right:.3f}, AUC {auc(logits[marks], logits[~marks]):.3f}")
            found[one.name] = said.astype(float).round(3).tolist()
        return found

    def student(self) -> None:
        """The reader: it learns nothing but reading, which the judgements beside it cost .013 of F1."""
        self.study("teacher", "student", self.prepared().sources, self.given.student_steps)

    def further(self) -> None:
        """The reader that ships, or the one just learned, learns the written questions and keeps what it knows.

        It teaches itself all other sources, so that it needs no larger reader for this.
        """
        learned = self.prepared()
        begun = self.shipped() if self.given.shipped else self.saved("student.pt")
        self.measure(begun, "before")
        course = Course(self.given.further_steps, 96 // self.given.smaller, self.given.further_rate, SEED + 3,
                        self.given.workers, frozenset(["written"]))  # fmt: skip
        teacher = copy.deepcopy(begun).to(self.device, torch.bfloat16 if self.device == "cuda" else torch.float32)
        model = learn(begun.to(self.device), learned.sources, course, self.device, teacher)
        self.save(model, "student.pt")
        log("further learned")
        self.measure(model, "further")

    def shipped(self) -> Reader:
        model = self.reader("student")
        kept = model.state_dict()
        for name, array in read_shipped(self.given.shipped).items():
            kept[name][: len(array)] = torch.from_numpy(array)  # heads may have grown since
        model.load_state_dict(kept)
        return model.eval()

    def judge(self) -> None:
        """Plans and claims in a network of their own, which reads as well: that teaches it language."""
        learned = self.prepared()
        self.study("judge-teacher", "judge", [*learned.sources, *learned.judged], self.given.judge_steps)

    def study(self, taught_by: str, name: str, sources: Sequence[Prepared | Drawn], steps: int) -> None:
        teacher = self.reader("teacher", f"{taught_by}.pt").to(self.device, torch.bfloat16)
        model = self.reader("student").to(self.device)
        course = Course(steps, 96 // self.given.smaller, 2e-4, SEED, self.given.workers)
        model = learn(model, sources, course, self.device, teacher)
        self.save(model, f"{name}.pt")
        log(f"{name} learned")
        self.measure(model, name)

    def save(self, model: Reader, name: str) -> None:
        """Without the word vectors, which were not touched."""
        kept = {key: value.half() for key, value in model.state_dict().items() if key != "words.weight"}
        torch.save(kept, self.work / name)

    def saved(self, name: str) -> Reader:
        model = self.reader("student")
        model.load_state_dict(torch.load(self.work / name, map_location="cpu", weights_only=True), strict=False)
        return model.eval()

    def claims(self) -> None:
        """The judge that ships learns from all sets; then each one is left out once, for the report.

        Its teacher learns them first. Questions and plans are read on beside them, so that nothing is unlearned.
        """
        learned = self.prepared()
        judged: dict[str, list[list[float]]] = {}
        for left_out in ("", *LABELLED):
            sources = [*learned.sources, *learned.judged, *(one for one in learned.labelled if one.name != left_out)]
            rest, smaller = self.given.claim_steps, self.given.smaller
            tutor = self.reader("teacher", "judge-teacher.pt").float().to(self.device)
            course = Course(rest // 2, max(1, 32 // smaller), 2e-5, SEED + 1, self.given.workers)
            tutor = learn(tutor, sources, course, self.device)
            unseen = (left_out,) if left_out else {one.name for one in learned.claims} - set(LABELLED)
            sets = [one for one in learned.claims if one.name in unseen]
            log(f"teacher, without {left_out or 'nothing'}")
            self.say_claims(tutor, sets)
            model = self.saved("judge.pt").to(self.device)
            course = Course(rest, max(1, 64 // smaller), 6e-5, SEED + 2, self.given.workers)
            model = learn(model, sources, course, self.device, tutor.to(torch.bfloat16))
            log(f"judge, without {left_out or 'nothing'}")
            judged |= self.say_claims(model, sets)
            (self.work / "claims.json").write_text(json.dumps(judged))
            unseen = {name: [round(row[SUPPORTED], 3) for row in judged[name]] for name in LABELLED if name in judged}
            (self.work / "left_out_claims.json").write_text(json.dumps(unseen))  # for benchmarks/results
            if not left_out:
                self.save(model, "judge-claims.pt")
                self.measure(model, "judge-claims")

    def export(self) -> None:
        from training.export import export, follow_words, smooth

        model, heads = self.saved("student.pt"), ANSWERED + 1  # it judges nothing else
        model.judge.weight.data, model.judge.bias.data = model.judge.weight[:heads], model.judge.bias[:heads]
        smooth(model, self.shown_pairs())
        export(model, self.work / "reader.int8.onnx")
        if shipped := self.given.shipped:
            judge = "judge.int8.onnx"
            follow_words(shipped.parent / judge, shipped, self.work / "reader.int8.onnx", self.work / judge)

    def export_judge(self) -> None:
        """Its word vectors are those of the reader, and are read out of the reader's file."""
        from training.export import export, share_words, smooth

        model, dice = self.saved("judge-claims.pt"), random.Random(SEED)
        learned = self.prepared()
        judged = [pair for one in (*learned.judged, *learned.labelled) for _ in range(4) for pair in one.group(dice)]
        smooth(model, self.shown_pairs() + judged)
        export(model, self.work / "whole-judge.onnx")
        share_words(self.work / "whole-judge.onnx", self.work / "reader.int8.onnx", self.work / "judge.int8.onnx")

    def shown_pairs(self) -> list[Pair]:
        """Some pairs that show how large activations get."""
        learned, dice = read_packed(self.work / "learn.json.xz"), random.Random(SEED)
        sources = [prepare(name, learned["sources"][name], self.tokenizer, SEED) for name in SHOWN]
        return [pair for source in sources for _ in range(5) for pair in group(source, dice)[:4]]


def _letters(text: str) -> str:
    return "".join(one for one in text.lower() if one.isalnum())[:80]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the development data")
    parser.add_argument("--found", type=Path, help="what training.found wrote; without it reading is not measured")
    parser.add_argument("--minilm", type=Path, help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--mpnet", type=Path, help="model.safetensors of all-mpnet-base-v2")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--shipped", type=Path, help="a reader's int8 file that `further` begins with")
    parser.add_argument("--further-steps", type=int, default=2000)
    parser.add_argument("--further-rate", type=float, default=1e-4)
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--teacher-steps", type=int, default=700)
    parser.add_argument("--student-steps", type=int, default=1964)
    parser.add_argument("--judge-teacher-steps", type=int, default=600)
    parser.add_argument("--judge-steps", type=int, default=1800)
    parser.add_argument("--claim-steps", type=int, default=300)
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
