"""Are the numbers and comparisons held by tests? Changes one at a time, in a copy, and runs the tests that run it.

    python -m scripts.mutate --least 36         # the result is kept, and shown by `make house`
    python -m scripts.mutate --list             # the places, nothing is run
    python -m scripts.mutate --only 7 12        # these of them again
    python -m scripts.mutate --count 0 src/refdesk/ask/support.py   # every place of a file

The working tree is copied and stays as it is. The same seed picks the same places. Which tests run a statement is
recorded once (`mutate_tests.py`) and kept in .bench; they are tried the quickest first, to the first failure. A test
process is forked from this one, which has the libraries loaded: a change that a quick test sees costs a second.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.common import Figure, remember
from scripts.mutate_tests import Ran, statements_of, tests_that_ran, trace

SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
TIME_LIMIT_S = 240.0  # a change that makes the tests hang is caught
BUDGET_S = 60.0  # of tests that ran the statement, by the time they took when nothing was changed
# Reading shows in what is read of the examples, whoever made the library.
ALWAYS = {"ingest": ("tests/test_golden_reading.py",)}
# What every test process would load again.
LIBRARIES = (
    *(
        "numpy",
        "onnxruntime",
        "sqlalchemy",
        "sqlalchemy.orm",
        "alembic",
        "tantivy",
        "usearch.index",
        "hypothesis",
        "lxml.etree",
    ),
    *("PIL.Image", "pypdfium2", "openpyxl", "docx", "pptx", "reportlab.pdfgen.canvas", "fastapi", "uvicorn", "httpx2"),
    *("charset_normalizer", "spellchecker", "rich", "typer", "Stemmer", "py3langid", "nh3", "markdown_it", "filelock"),
)
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


def tests_of(place: Place, ran: list[Ran], sources: list[tuple[Path, str]]) -> list[str]:
    """The tests that run the place, files with quick ones first, as many as the budget allows."""
    text = dict(sources)[place.file]
    statements = statements_of(place.file, text, place.line, sources)
    chosen: list[str] = []
    spent = 0.0
    for run in sorted(tests_that_ran(ran, statements), key=lambda run: run.seconds):
        spent += run.seconds
        if chosen and spent > BUDGET_S:
            break
        chosen.append(run.test)
    always = [test for part, tests in ALWAYS.items() if part in place.file.parts for test in tests]
    return [*chosen, *(run.test for run in ran if run.test.startswith(tuple(always)) and run.test not in chosen)]


class Chosen:
    """The pytest plugin that runs the chosen tests alone, in their order, and notes the first that fails."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: place for place, test in enumerate(tests)}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        def place(item: pytest.Item) -> int:
            return self.order.get(item.nodeid, self.order.get(item.nodeid.split("::")[0], -1))

        items[:] = sorted((item for item in items if place(item) >= 0), key=place)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_chosen(result: Path, tests: list[str]) -> None:
    """Into the result: the test that failed, or nothing."""
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    plugin = Chosen(tests)
    code = pytest.main(["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *files], plugins=[plugin])
    result.write_text(plugin.failed or ("" if code == 0 else f"exit code {code}"), encoding="utf-8")


class Copy:
    """The working tree in a folder of its own, and the process that tests it."""

    def __init__(self, root: Path, examples: Path) -> None:
        self.root, self.examples = root, examples
        self.process, self.deadline = 0, 0.0
        self.result, self.log = root / "result", root / "log"
        self.original = ""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, check=True)
        for name in listed.stdout.decode().splitlines():
            if Path(name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, root / name)

    def environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(self.root / "src"), "REFDESK_NO_BROWSER": "1", "TMPDIR": str(self.root / "tmp")}
        return {**os.environ, **own}

    def begin(self, environment: dict[str, str], function: Callable[..., None], *arguments: Any) -> None:
        """Calls the function with the result's path in a process of its own, in the copy."""
        self.result.write_text("", encoding="utf-8")
        (self.root / "tmp").mkdir(exist_ok=True)
        self.process, self.deadline = os.fork(), time.monotonic() + TIME_LIMIT_S
        if self.process:
            return
        try:
            os.setsid()
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(self.root)
            os.environ.clear()
            os.environ.update(environment)
            tempfile.tempdir = None
            sys.path.insert(0, str(self.root / "src"))
            function(self.result, *arguments)
        except BaseException:
            traceback.print_exc()
            self.result.write_text("the tests could not be run", encoding="utf-8")
        finally:
            sys.stdout.flush()
            os._exit(0)

    def is_done(self) -> bool:
        """Whether the process has ended, by itself or because its time was up."""
        ended, _ = os.waitpid(self.process, os.WNOHANG)
        if not ended and time.monotonic() > self.deadline:
            self.end()
            os.waitpid(self.process, 0)
            self.result.write_text("time limit", encoding="utf-8")
            return True
        if ended:
            self.end()  # servers and workers that it left behind
        return bool(ended)

    def end(self) -> None:
        try:
            os.killpg(self.process, signal.SIGKILL)
        except ProcessLookupError:
            return

    def apart(self, function: Callable[..., None], root: Path, environment: dict[str, str], *arguments: Any) -> Path:
        self.begin(environment, function, *arguments)
        self.deadline += 600.0
        while not self.is_done():
            time.sleep(0.02)
        return self.result

    def change(self, place: Place, number: int) -> None:
        file = self.root / place.file
        self.original = file.read_text(encoding="utf-8")
        file.write_text(self.original[: place.start] + place.new + self.original[place.end :], encoding="utf-8")
        os.utime(file, (number, number))  # compiled modules are told apart by whole seconds and sizes

    def restore(self, place: Place) -> None:
        (self.root / place.file).write_text(self.original, encoding="utf-8")


def try_all(chosen: list[tuple[int, Place]], copies: list[Copy], tests: dict[Place, list[str]]) -> int:
    """How many of the places are caught; as many are tried side by side as there are copies."""
    waiting, busy, caught = list(chosen), {}, 0
    while waiting or busy:
        for copy in copies:
            if copy not in busy and waiting:
                number, place = waiting.pop(0)
                copy.change(place, number)
                # Asking reads a library and does not make it; where reading is changed, the examples are read again.
                is_read = "ingest" in place.file.parts or not copy.examples.exists()
                ready = {} if is_read else {"REFDESK_TEST_EXAMPLES": str(copy.examples)}
                copy.begin(copy.environment() | ready, run_chosen, tests[place])
                busy[copy] = (number, place, time.monotonic())
        for copy in [copy for copy in busy if copy.is_done()]:
            number, place, since = busy.pop(copy)
            copy.restore(place)
            by = copy.result.read_text(encoding="utf-8")
            caught += bool(by)
            verdict = f"caught   {place}  [{by}]" if by else f"SURVIVED {place}  [{len(tests[place])} tests]"
            print(f"{number:3} {verdict} {time.monotonic() - since:.1f} s", flush=True)
        time.sleep(0.02)
    return caught


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("src/refdesk/ask"), Path("src/refdesk/ingest")])
    parser.add_argument("--count", type=int, default=40, help="how many places; 0: every one")
    parser.add_argument("--least", type=int, default=0, help="fail when fewer are caught")
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="changes that are tried side by side")
    parser.add_argument("--list", action="store_true", help="show the places")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of the places to try")
    parser.add_argument("--tests", nargs="*", default=[], help="these test files alone, whatever they run")
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    every = [place for file in files for place in places(file)]
    count = min(arguments.count or len(every), len(every))
    sample = random.Random(arguments.seed).sample(every, count) if arguments.count else every
    chosen = [(number, place) for number, place in enumerate(sample, 1) if number in (arguments.only or [number])]
    if arguments.list:
        print("\n".join(f"{number:3} {place}" for number, place in chosen))
        return 0
    for name in LIBRARIES:
        importlib.import_module(name)
    remembered = Path(".bench/mutate.json").resolve()
    remembered.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        examples = folder / "examples" / "library"
        noting, *copies = (Copy(folder / str(number), examples) for number in range(arguments.jobs + 1))
        if arguments.tests:
            tests = dict.fromkeys((place for _, place in chosen), arguments.tests)
            print(f"{try_all(chosen, copies, tests)} of {len(chosen)} caught by these")
            return 0
        command = [sys.executable, "-m", "refdesk", "--library", str(examples), "add", "examples/documents"]
        subprocess.run(command, cwd=noting.root, env=noting.environment(), check=True, capture_output=True)
        traced = sorted(file for part in ("ask", "ingest") for file in Path("src/refdesk", part).rglob("*.py"))
        sources = [(file, file.read_text(encoding="utf-8")) for file in traced]
        ready = noting.environment() | {"REFDESK_TEST_EXAMPLES": str(examples)}
        ran = trace(noting.root, [file for file, text in sources if len(text) > 200], ready, noting.apart, remembered)
        tests = {place: tests_of(place, ran, sources) for _, place in chosen}
        caught = try_all(chosen, copies, tests)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{caught} of {len(chosen)} caught")
    if arguments.least and not arguments.only:  # shown by `make house`
        what = f"changed numbers and comparisons that a test catches, seed {arguments.seed}"
        found = Figure(what, f"{caught} of {len(chosen)}", f"≥ {arguments.least}", caught >= arguments.least)
        remember([found])
    return 1 if caught < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
