"""Which tests run which statement? Recorded once, in a copy in which every statement of a function notes that it ran.

The notes go through a file, so those of worker processes count as well. The record of a test file is kept until the
file changes. A statement is known by its function and its place in it, so that a record outlives changes of other
functions; for a changed function every test that ran it before is tried. An outdated record can only lack a test, so
that a change looks uncaught which is caught, never the other way round.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# The file is named in the module: workers that read files are given no variable of the environment.
NOTING = """import os
seen = set()
file = os.open({file!r}, os.O_WRONLY | os.O_APPEND)
def note(statement):
    if statement not in seen:
        seen.add(statement)
        os.write(file, (statement + "\\n").encode())
"""
# Servers, browsers and processes cost a second a test and look at the same numbers from further away; those that ask a
# model that runs are left out as well. A thread that is started (`thread.start()`) costs nothing.
DEAR = re.compile(r"(?<![.\w])(?:browsing|served|serve_here|start)\(")
LEFT_OUT = (
    "test_page",
    "test_http",
    "test_uploads",
    "test_gguf",
    "test_real_model",
    "test_ask_real_model",
    "test_house",
    "test_docs",
    "test_ci",
)


@dataclass(frozen=True)
class Ran:
    """A test, how long it took, and the keys of the statements it ran."""

    test: str
    seconds: float
    statements: frozenset[str]


@cache
def keys(text: str, file: Path) -> dict[tuple[int, int], str]:
    """Of each statement of a function, by line and column: "file:function:version of the function:line:column"."""
    found: dict[tuple[int, int], str] = {}

    def visit(body: list[ast.stmt], path: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{path}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                version = hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:8]
                for part in ast.walk(node):
                    if isinstance(part, ast.stmt):
                        place = f"{part.lineno - node.lineno}:{part.col_offset}"
                        found[part.lineno, part.col_offset] = f"{file}:{path}{node.name}:{version}:{place}"

    visit(ast.parse(text).body, "")
    return found


def with_notes(text: str, file: Path) -> str:
    """The module with a note before every statement of its functions."""
    tree, known = ast.parse(text), keys(text, file)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for owner in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                body = getattr(owner, name, None)
                if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                    setattr(owner, name, _noting(body, known))
    first = next(place for place, node in enumerate(tree.body) if not _is_before_imports(node))
    tree.body.insert(first, ast.parse("from refdesk_notes import note as __note__").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_before_imports(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _noting(body: list[ast.stmt], known: dict[tuple[int, int], str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in body:
        is_note = isinstance(node, ast.Expr) and "__note__" in ast.unparse(node)[:8]
        is_noted = bool(found) and isinstance(found[-1], ast.Expr) and "__note__" in ast.unparse(found[-1])[:8]
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_note or is_noted or is_text):
            key = known[node.lineno, node.col_offset]
            found.append(ast.copy_location(ast.parse(f"__note__({key!r})").body[0], node))
        found.append(node)
    return found


def statements_of(file: Path, text: str, line: int, others: Iterable[tuple[Path, str]]) -> set[str]:
    """The statements that run what stands in a line: its own; for a constant those that name it."""
    tree, known = ast.parse(text), keys(text, file)
    function, own = None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                function, own = node, None
            elif function is not None:
                own = node  # ast.walk goes from the outside to the inside
    if function is not None and own is not None:
        return {known[own.lineno, own.col_offset]}
    if function is not None:
        return {known[node.lineno, node.col_offset] for node in function.body}  # a default of an argument
    names = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or 0)
        for name in _given(node)
    }
    found: set[str] = set()
    for _ in range(3):  # a constant may be made of another
        for other, its_text in others:
            is_own = other == file
            for top in ast.parse(its_text).body:
                used = {one.id for one in ast.walk(top) if isinstance(one, ast.Name)}
                used |= {one.attr for one in ast.walk(top) if isinstance(one, ast.Attribute)}
                if not names & used:
                    continue
                if isinstance(top, ast.Assign | ast.AnnAssign) and is_own:
                    names |= _given(top)
                for node in ast.walk(top):
                    if isinstance(node, ast.stmt) and names & {
                        getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node)
                    }:
                        found |= {keys(its_text, other).get((node.lineno, node.col_offset), "")}
    return found - {""}


def tests_that_ran(ran: Sequence[Ran], statements: set[str]) -> list[Ran]:
    """The tests that ran one of the statements; of a function that has changed since, those that ran any of it."""
    functions = {key.rsplit(":", 3)[0]: key.rsplit(":", 2)[0] for key in statements}
    recorded = {key.rsplit(":", 2)[0] for test in ran for key in test.statements}
    changed = tuple(f"{name}:" for name, version in functions.items() if version not in recorded)
    return [
        test
        for test in ran
        if test.statements & statements or (changed and any(key.startswith(changed) for key in test.statements))
    ]


def _given(node: ast.Assign | ast.AnnAssign) -> set[str]:
    """The names that it gives a value to."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


class Notes:
    """The pytest plugin that reads after each test what was run."""

    def __init__(self, file: Path, dear: set[str]) -> None:
        self.file, self.dear = file, dear
        self.found: list[Ran] = []
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.name.partition("[")[0] not in self.dear and not _is_elsewhere(item)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        notes = sys.modules.get("refdesk_notes")
        if notes is not None:
            notes.seen.clear()
        os.truncate(self.file, 0)
        result = yield
        if item.nodeid not in self.failed:
            statements = frozenset(self.file.read_text(encoding="utf-8").split())
            self.found.append(Ran(item.nodeid, self.seconds.get(item.nodeid, 0.0), statements))
        return result


def _is_elsewhere(item: pytest.Item) -> bool:
    """Whether it runs on another store than SQLite: asking and ingesting have the same numbers on all of them."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("store_kind", "sql") != "sql"


def is_asked(test: Path) -> bool:
    """A file with a few dear tests is asked for the others; one whose fixtures are dear is not."""
    return not test.stem.startswith(LEFT_OUT) and "" not in _dear(test)


def _dear(test: Path) -> set[str]:
    """The names of the dear tests of a file; "" for what several of them share."""
    text = test.read_text(encoding="utf-8")
    found = set()
    for node in ast.parse(text).body:
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        if DEAR.search("\n".join(lines)):
            name = str(getattr(node, "name", ""))
            found.add(name if name.startswith("test_") else "")
    return found


def trace(
    root: Path, traced: list[Path], environment: dict[str, str], apart: Callable[..., Path], remembered: Path
) -> list[Ran]:
    """What every test file runs; `apart` calls a function in a process of its own. The copy is noting afterwards."""
    sources = {file: (root / file).read_text(encoding="utf-8") for file in traced}
    known: dict[str, Any] = json.loads(remembered.read_text(encoding="utf-8")) if remembered.exists() else {}
    for file, text in sources.items():
        (root / file).write_text(with_notes(text, file), encoding="utf-8")
    notes = root / "notes"
    (root / "src" / "refdesk_notes.py").write_text(NOTING.format(file=str(notes)), encoding="utf-8")
    notes.touch()
    found: list[Ran] = []
    tests = [test for test in sorted((root / "tests").glob("test_*.py")) if is_asked(test)]
    for number, test in enumerate(tests, 1):
        state = hashlib.sha256(test.read_bytes()).hexdigest()
        rows = known.get(test.name, {})
        if rows.get("state") != state:
            print(f"which statements do the tests run? {number} of {len(tests)}: {test.name}", flush=True)
            log = apart(_run_noting, root, environment, f"tests/{test.name}", notes)
            rows = {"state": state, "tests": json.loads(log.read_text(encoding="utf-8") or "[]")}
            known[test.name] = rows
            remembered.write_text(json.dumps(known), encoding="utf-8")
        found += [Ran(name, seconds, frozenset(statements)) for name, seconds, statements in rows["tests"]]
    return found


def _run_noting(result: Path, test: str, notes: Path) -> None:
    plugin = Notes(notes, _dear(Path(test)))
    try:
        pytest.main(["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:randomly", test], plugins=[plugin])
    finally:
        rows = [[ran.test, ran.seconds, sorted(ran.statements)] for ran in plugin.found]
        result.write_text(json.dumps(rows), encoding="utf-8")
