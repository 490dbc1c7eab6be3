"""Are the numbers and comparisons held by tests? Changes one at a time, runs the tests of its module, puts it back.

    python scripts/mutate.py --count 40 --least 36 src/refdesk/ask src/refdesk/ingest

The tests of a module are those that import it and those that hold its folder, or are given with --tests. The same
seed picks the same places.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
# What holds the numbers of a whole folder: figures of quality, and what is read of the example documents.
WHOLE = {"refdesk.ask": "tests/test_quality.py", "refdesk.ingest": "tests/test_golden_reading.py"}
TIME_LIMIT_S = 600.0  # a change that makes the tests hang is caught


@dataclass(frozen=True)
class Place:
    """Characters of a file, and what stands there after the change."""

    file: Path
    line: int
    start: int
    end: int
    new: str

    def changed(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def places(file: Path) -> list[Place]:
    """Every number and every comparison by size or equality inside the functions and constants of a file."""
    text = file.read_text()
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def position(line: int, column: int) -> int:
        # ast counts columns in bytes
        row = text[begins[line - 1] : begins[line]]
        return begins[line - 1] + len(row.encode()[:column].decode())

    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            start, end = (
                position(node.lineno, node.col_offset),
                position(node.end_lineno or 0, node.end_col_offset or 0),
            )
            small = isinstance(node.value, int) and node.value < 5
            larger = node.value + 1 if small else node.value * 2 or 0.5  # 200 -> 201 would change nothing
            found.append(Place(file, node.lineno, start, end, repr(larger)))
        elif isinstance(node, ast.Compare):
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                start = position(left.end_lineno or 0, left.end_col_offset or 0)
                sign = re.compile(r"[)\s]*([<>=!]=|[<>])").match(text, start, position(right.lineno, right.col_offset))
                if sign is not None:
                    found.append(Place(file, left.lineno, *sign.span(1), SWAPPED[sign.group(1)]))
    return found


def tests_of(file: Path) -> list[str]:
    """The test files that import the module, and the one that holds its folder; all of the folder when none does."""
    module = ".".join(file.with_suffix("").parts[1:])
    package, name = module.rsplit(".", 1)
    own = re.compile(rf"from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{name}\b")
    texts = {str(test): test.read_text() for test in sorted(Path("tests").glob("test_*.py"))}
    inside = [test for test, text in texts.items() if f"from {package}." in text]
    whole = [test for folder, test in WHOLE.items() if module.startswith(f"{folder}.") and test in texts]
    tests = [test for test, text in texts.items() if own.search(text)]
    return [*dict.fromkeys([*tests, *whole])] if tests else inside


def is_caught(place: Place, tests: list[str]) -> bool:
    original = place.file.read_text()
    place.file.write_text(place.changed(original))
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_S).returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        place.file.write_text(original)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders of the package")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--least", type=int, default=0, help="fail when fewer are caught")
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--tests", nargs="*", default=[], help="test files to run instead of those that import it")
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    if subprocess.run(["git", "diff", "--quiet", "--", *map(str, files)]).returncode:
        print("commit or undo the changes in these files first: they are written over and put back")
        return 2
    every = [place for file in files for place in places(file)]
    chosen = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    caught = 0
    for place in chosen:
        old = place.file.read_text()[place.start : place.end]
        is_held = is_caught(place, arguments.tests or tests_of(place.file))
        caught += is_held
        print(f"{'caught  ' if is_held else 'SURVIVED'} {place.file}:{place.line}: {old} -> {place.new}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    return 1 if caught < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
