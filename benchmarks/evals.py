"""`make eval`: every bar of answering, measured and written to docs/evals.md.

python -m benchmarks.evals [--only answers,claims]
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from collections.abc import Sequence

import orjson

from benchmarks.common import CACHE, ROOT, Figure, machine

# module, heading; each runs in a process of its own, so that one's memory and threads do not weigh on another's times
PARTS = (
    ("hostile", "Fabricated citations"),
    ("quotes", "Are quotes exact?"),
    ("answers", "Answers without a model (default settings)"),
    ("with_model", "Answers with a small model (set REFDESK_GGUF)"),
    ("model_ways", "Example questions with a small model, five setups"),
    ("filing_answers", "Answers about company reports"),
    ("filing_figures", "Figures from company reports"),
    ("conflicts", "Conflicting sources"),
    ("calibration", "Is the confidence calibrated?"),
    ("number_questions", "Does the question ask for a number?"),
    ("question_kinds", "Question types"),
    ("table_questions", "Questions about tables"),
    ("reranked", "Reranking"),
    ("claims", "Claim checking"),
    ("followups", "Follow-up questions"),
    ("filings", "Finding the page in company reports"),
    ("spelling", "Spelling"),
    ("intent", "Route and intent"),
    ("catalogue", "Questions about the library"),
    ("engines", "Search engines, alone and combined"),
    ("engine_building", "Building the engines"),
    ("ask_speed", "Speed"),
    ("rules", "Hand-written patterns, words and numbers"),
)
PAGE = ROOT / "docs" / "evals.md"
KEPT = CACHE / "evals"


def measured(name: str) -> list[Figure]:
    begin = time.perf_counter()
    print(f"{name} …", flush=True)
    done = subprocess.run([sys.executable, "-m", "benchmarks.evals", "--part", name], cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed")
    print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    return _kept(name)


def _kept(name: str) -> list[Figure]:
    path = KEPT / f"{name}.json"
    return [Figure(**one) for one in orjson.loads(path.read_bytes())] if path.exists() else []


def _sections(text: str) -> dict[str, str]:
    """What stands below each heading of the page as it is."""
    parts = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {heading: body.rstrip("\n") for heading, _, body in parts}


def page() -> str:
    lines = [
        "# Answer quality: measurements",
        "",
        f"{time.strftime('%Y-%m-%d')}, {machine()}. Command: `make eval` (for one part: `python -m benchmarks.evals"
        " --only answers`; parts not run on that day are older). The data are not part of the project; the first lines"
        " of each benchmark describe them and what was tuned on them. What did not help: [log.md](log.md).",
    ]
    known = _sections(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    for name, heading in PARTS:
        figures = _kept(name)
        if not figures and heading in known:  # measured elsewhere, and not here
            lines += ["", f"## {heading}", known[heading]]
        if figures:
            lines += ["", f"## {heading}", "", f"`python -m benchmarks.{name}`", ""]
            lines += ["| what | figure | bar | |", "|---|---|---|---|"]
            verdicts = {True: "met", False: "**missed**", None: ""}
            lines += [f"| {one.what} | {one.figure} | {one.bar} | {verdicts[one.met]} |" for one in figures]
            details = KEPT / f"{name}.md"
            lines += ["", details.read_text(encoding="utf-8")] if details.exists() else []
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(name for name, _ in PARTS))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        KEPT.mkdir(parents=True, exist_ok=True)
        module = importlib.import_module(f"benchmarks.{options.part}")
        (KEPT / f"{options.part}.json").write_bytes(orjson.dumps(module.figures()))
        if hasattr(module, "details"):  # a table of its own below that of the bars
            (KEPT / f"{options.part}.md").write_text(module.details(), encoding="utf-8")
        return
    every = [one for name in options.only.split(",") for one in measured(name)]
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    missed = [one.what for one in every if one.met is False]
    print(f"{len(missed)} of {sum(one.met is not None for one in every)} bars missed", *missed, sep="\n- ")


if __name__ == "__main__":
    main()
