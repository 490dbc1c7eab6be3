"""How much longer does adding the 40 filings take than with an earlier version of Refdesk?

python -m benchmarks.adding_time [--against fb8819b]

The earlier version runs in an environment of its own, made from its own lock. Both add the same few files, in turns and
beginning by turns, each in a new process and an empty library, so that a slow minute of the machine falls on both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import CACHE, ROOT, Figure, write
from benchmarks.filings import FOLDERS

AGAINST = "fb8819b"
BAR = 1.15
TOGETHER = 5  # files that are added by one process

_ADD = """
import json, sys, tempfile, time
from refdesk import Refdesk
with tempfile.TemporaryDirectory() as folder, Refdesk(folder + "/library", settings={"ingest.ocr": False}) as desk:
    desk.add_texts([{"name": "first.md", "text": "Loads what is loaded when it is first used."}])
    began = time.perf_counter()
    desk.add(*sys.argv[1:])
    took = time.perf_counter() - began
    ready = len(desk.documents(status="ready")) - 1
print(json.dumps([took, ready]))
"""


def environment(commit: str) -> tuple[Path, Path]:
    """The Python of the earlier version's environment and the folder of its code."""
    code = CACHE / "versions" / commit
    python = code / ".venv" / "bin" / "python"
    if not (code / ".venv" / "done").exists():
        code.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x"], cwd=code, check=True, input=archive)
        subprocess.run([sys.executable, "-m", "venv", "--clear", code / ".venv"], check=True)
        lock = str(code / "requirements" / "run.lock")
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", lock], check=True)
        (code / ".venv" / "done").touch()
    return python, code


def seconds(python: Path, code: Path, files: list[Path]) -> float:
    done = subprocess.run(
        [python, "-c", _ADD, *files],
        check=True,
        stdout=subprocess.PIPE,
        cwd=tempfile.gettempdir(),
        env=os.environ | {"PYTHONPATH": str(code / "src")},
    )
    took, ready = json.loads(done.stdout.splitlines()[-1])
    if ready != len(files):
        raise SystemExit(f"{code.name}: {ready} of {len(files)} files were added; the times cannot be compared.")
    return float(took)


def figures(commit: str) -> list[Figure]:
    earlier, now = environment(commit), (Path(sys.executable), ROOT)
    files = [file for folder in FOLDERS.values() for file in sorted(folder.glob("*.pdf"))]
    took = {"earlier": 0.0, "now": 0.0}
    for number, at in enumerate(range(0, len(files), TOGETHER)):
        turn = [("earlier", earlier), ("now", now)]
        for name, version in turn if number % 2 else reversed(turn):
            spent = seconds(*version, files[at : at + TOGETHER])
            took[name] += spent
            print(f"{at + 1} to {min(at + TOGETHER, len(files))}, {name}: {spent:.1f} s", flush=True)
    times = took["now"] / took["earlier"]
    what = f"adding {len(files)} filings: {took['now']:.0f} s, {commit}: {took['earlier']:.0f} s"
    return [Figure(what, f"{times:.3f} ×", f"≤ {BAR} ×", times <= BAR)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=AGAINST, help="a commit of this repository")
    write("adding-time", "Adding filings against an earlier version", figures(parser.parse_args().against))


if __name__ == "__main__":
    main()
