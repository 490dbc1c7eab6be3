"""Are the numbers and comparisons held by tests? Changes one at a time, in a copy, and runs the tests of its module.

    python scripts/mutate.py --least 36 src/refdesk/ask src/refdesk/ingest
    python scripts/mutate.py --list                          # the places, nothing is run
    python scripts/mutate.py --only 7 12                     # these of them again

What is committed is copied, so the working tree stays as it is. The same seed picks the same places. The tests are
those that import the module, the cheapest first, then the golden files and the floors of quality, to the first failure.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
TIME_LIMIT_S = 400.0  # a change that makes the tests hang is caught
GOLDEN = ("tests/test_golden_reading.py", "tests/test_quality.py", "tests/test_golden.py")
# Of the golden files what neither asks nor reads.
LEFT_OUT = ("openapi", "mcp_tools", "help", "public_names", "a_backup_of_version_0_1", "what_the_page_requests")
DEAR = re.compile(r"\b(?:browsing|served|run_refdesk|REFDESK|start)\(|subprocess")
LIBRARY = re.compile(r"\b(?:examples|own_examples|own_folder|desk|serving|open_desk)\b")
# How long is waited and how much is remembered shows in no result.
UNSEEN_NAMES = re.compile(r"_S$|_CACHED$|_KEPT$")
UNSEEN_ARGUMENTS = {"maxsize", "timeout", "max_workers"}


@dataclass(frozen=True)
class Place:
    """Characters of a file, and what stands there after the change."""

    file: Path
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"


def places(file: Path) -> list[Place]:
    """Every number and every comparison by size or equality that shows in what the file does."""
    text = file.read_text(encoding="utf-8")
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def position(line: int, column: int) -> int:
        # ast counts columns in bytes
        row = text[begins[line - 1] : begins[line]]
        return begins[line - 1] + len(row.encode()[:column].decode())

    found = []
    for node in seen_in_results(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            assert isinstance(node.value, int | float)
            start = position(node.lineno, node.col_offset)
            end = position(node.end_lineno or 0, node.end_col_offset or 0)
            small = isinstance(node.value, int) and node.value < 5
            larger = node.value + 1 if small else node.value * 2 or 0.5  # 200 -> 201 would change nothing
            found.append(Place(file, node.lineno, start, end, text[start:end], repr(larger)))
        elif isinstance(node, ast.Compare):
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                start = position(left.end_lineno or 0, left.end_col_offset or 0)
                sign = re.compile(r"[)\s]*([<>=!]=|[<>])").match(text, start, position(right.lineno, right.col_offset))
                if sign is not None:
                    found.append(Place(file, left.lineno, *sign.span(1), sign.group(1), SWAPPED[sign.group(1)]))
    return found


def seen_in_results(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes whose change could show: no types, no assertions, no log lines, no times and sizes of memory."""
    yield node
    for name, value in ast.iter_fields(node):
        children = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST)]
        if name in ("annotation", "returns"):
            continue
        for child in children:
            if isinstance(child, ast.Assert) or (isinstance(child, ast.Assign | ast.AnnAssign) and _is_unseen(child)):
                continue
            if isinstance(child, ast.keyword) and child.arg in UNSEEN_ARGUMENTS:
                continue
            if isinstance(child, ast.Call) and ast.unparse(child.func).startswith("logger."):
                continue
            yield from seen_in_results(child)


def _is_unseen(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether it gives a number to a name that stands for a time or for an amount that is remembered."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [one.id for one in targets if isinstance(one, ast.Name)]
    is_type = isinstance(node.value, ast.Subscript) and ast.unparse(node.value.value) in ("Literal", "tuple")
    return is_type or bool(names and all(UNSEEN_NAMES.search(name) for name in names))


def tests_of(file: Path) -> list[str]:
    """The test files that import the module, the cheapest first; all of the folder when none does."""
    module = ".".join(file.with_suffix("").parts[1:])
    package, name = module.rsplit(".", 1)
    own = re.compile(rf"from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{name}\b")
    texts = {str(test): test.read_text(encoding="utf-8") for test in sorted(Path("tests").glob("test_*.py"))}
    inside = [test for test, text in texts.items() if f"from {package}." in text]
    found = [test for test, text in texts.items() if own.search(text)] or inside

    def cost(test: str) -> tuple[int, int]:
        text = texts[test]
        return 2 if DEAR.search(text) else 1 if LIBRARY.search(text) else 0, len(text)

    found = sorted(set(found) - set(GOLDEN), key=cost)
    cheap = [test for test in found if cost(test)[0] < 2]
    return [*cheap, *(test for test in GOLDEN if Path(test).exists()), *(test for test in found if test not in cheap)]


@dataclass(frozen=True)
class Copy:
    """What is committed, in a folder of its own, and a library of the examples made with it."""

    root: Path
    examples: Path

    def caught_by(self, place: Place, tests: list[str]) -> str:
        """The test that fails when the place is changed; "" when none does."""
        file = self.root / place.file
        original = file.read_text(encoding="utf-8")
        file.write_text(original[: place.start] + place.new + original[place.end :], encoding="utf-8")
        left_out = [f"--deselect=tests/test_golden.py::test_{name}" for name in LEFT_OUT]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
        # Asking reads a library and does not make it; where reading is changed, the examples are read again.
        is_asked = "ingest" not in place.file.parts
        environment = self.environment() | ({"REFDESK_TEST_EXAMPLES": str(self.examples)} if is_asked else {})
        try:
            done = subprocess.run(
                [*command, *left_out, *tests],
                cwd=self.root,
                env=environment,
                capture_output=True,
                encoding="utf-8",
                timeout=TIME_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return "time limit"
        finally:
            file.write_text(original, encoding="utf-8")
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return "" if done.returncode == 0 else failed[1] if failed else f"exit code {done.returncode}"

    def environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1", "REFDESK_NO_BROWSER": "1"}
        return {**os.environ, **own}


def copy_commit(folder: Path, jobs: int) -> queue.Queue[Copy]:
    """As many copies as are changed side by side."""
    packed = subprocess.run(["git", "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    examples = folder / "examples" / "library"
    copies: queue.Queue[Copy] = queue.Queue()
    for number in range(jobs):
        root = folder / str(number)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(root, filter="data")
        copies.put(Copy(root, examples))
    command = [sys.executable, "-m", "refdesk", "--library", str(examples), "add", "examples/documents"]
    subprocess.run(command, cwd=root, env=Copy(root, examples).environment(), check=True, capture_output=True)
    return copies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("src/refdesk/ask"), Path("src/refdesk/ingest")])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--least", type=int, default=0, help="fail when fewer are caught")
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="changes that are tried side by side")
    parser.add_argument("--list", action="store_true", help="show the places and their tests")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of the places to try")
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    every = [place for file in files for place in places(file)]
    sample = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    chosen = [(number, place) for number, place in enumerate(sample, 1) if number in (arguments.only or [number])]
    if arguments.list:
        for number, place in chosen:
            print(f"{number:3} {place}  [{len(tests_of(place.file))} test files]")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        copies = copy_commit(folder, arguments.jobs)

        def is_caught(numbered: tuple[int, Place]) -> bool:
            number, place = numbered
            copy = copies.get()
            by = copy.caught_by(place, tests_of(place.file))
            copies.put(copy)
            print(f"{number:3} {'caught  ' if by else 'SURVIVED'} {place}{f'  [{by}]' if by else ''}", flush=True)
            return bool(by)

        with ThreadPoolExecutor(arguments.jobs) as pool:
            caught = sum(pool.map(is_caught, chosen))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{caught} of {len(chosen)} caught")
    return 1 if caught < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
