"""The house stands as it was drawn: imports go one way, files stay small, the public door is true."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import refdesk
from write_house import (
    COMPOSITION_ROOTS,
    EDGES,
    IMPLEMENTATIONS,
    LAYERS,
    MODULES,
    PAGE,
    ROOT,
    edges_between_folders,
    imports,
    layer,
    page,
    part,
    tree,
)

LONGEST_FILE, LONGEST_FUNCTION = 600, 80
STAGES = ("parse", "chunk", "enrich", "pipeline")
ASKING = ("understand", "retrieve", "assemble", "generate", "attest")


def test_every_module_has_its_layer() -> None:
    assert {part(module) for module in MODULES} <= set().union(*LAYERS.values())


def test_imports_go_one_way() -> None:
    wrong = [(module, other) for module, other in EDGES if layer(other) > layer(module)]
    assert not wrong


def test_neighbours_keep_apart() -> None:
    """`ingest` and `ask` do not import one another."""
    beside = [{"ingest", "ask"}]
    wrong = [
        (module, other)
        for module, other in EDGES
        if part(module) != part(other) and any({part(module), part(other)} <= names for names in beside)
    ]
    assert not wrong


def test_the_ports_are_implemented_for_the_composition_root_alone() -> None:
    """What implements them knows nothing of another implementation either."""
    wrong = [
        (module, other)
        for module, other in EDGES
        if part(other) in IMPLEMENTATIONS and part(module) not in {part(other), *COMPOSITION_ROOTS}
    ]
    assert not wrong


def test_stages_do_not_import_one_another() -> None:
    names = {f"refdesk.ingest.{stage}" for stage in STAGES} | {f"refdesk.ask.{stage}" for stage in ASKING}
    assert names <= set(MODULES)
    assert not [(module, other) for module, other in EDGES if module in names and other in names]


def test_there_are_no_cycles() -> None:
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join((*path, module))
        if module not in done:
            for other in imports(module):
                walk(other, (*path, module))
            done.add(module)

    for module in MODULES:
        walk(module, ())


def test_there_are_no_cycles_between_folders() -> None:
    """Those within folders are layers too: `serve/http` imports `serve`, and is not imported back."""
    edges, done = edges_between_folders(), set[str]()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path, name))
        if name not in done:
            for other in edges[name]:
                walk(other, (*path, name))
            done.add(name)

    for name in list(edges):
        walk(name, ())


def test_the_house_is_drawn_as_it_stands() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python scripts/write_house.py"


def test_our_own_imports_stand_at_the_top() -> None:
    """What is hidden in a function hides a cycle; only heavy packages of others are imported when first used."""
    hidden = [
        (module, ast.unparse(node))
        for module, path in MODULES.items()
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "refdesk"
    ]
    assert not hidden


# doors and the desk

STORES = """
    parts catalogue shelves spool settings_store asking feedback reader writer maintenance index embedder models cache
    conversations_store answers engine
"""


def doors() -> Iterator[tuple[str, ast.Module]]:
    for module, path in MODULES.items():
        if module.startswith("refdesk.serve"):
            yield module, tree(path)


def test_doors_call_the_desk_and_never_a_store() -> None:
    """`desk.search`, `self._desk.ask`, `service.desk.for_caller(…).chunks`; never `desk.parts.…`."""
    reached = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, door in doors()
        for node in ast.walk(door)
        if isinstance(node, ast.Attribute) and node.attr in STORES.split() and "desk" in ast.unparse(node.value)
    ]
    assert not reached


def test_doors_do_not_ask_for_rights_themselves() -> None:
    """`caller.require` is the desk's to call, and `desk.require` is for what comes before a call of the desk."""
    asked = [
        f"{module}:{node.lineno}"
        for module, door in doors()
        for node in ast.walk(door)
        if isinstance(node, ast.Attribute) and node.attr == "require" and ast.unparse(node.value).endswith("caller")
    ]
    assert not [place for place in asked if not place.startswith("refdesk.serve.uploads:")]


def test_access_is_a_value_that_nobody_leaves_out() -> None:
    """What a caller may read is his desk's (`desk.for_caller`): no argument of which None means one's own."""
    wrong = [
        f"{module}:{node.lineno} {node.name}"
        for module, path in MODULES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument, default in defaults(node.args)
        if argument.arg == "access" and isinstance(default, ast.Constant) and default.value is None
    ]
    assert not wrong


def defaults(found: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    positional = [*found.posonlyargs, *found.args]
    yield from zip(positional[len(positional) - len(found.defaults) :], found.defaults, strict=True)
    yield from zip(found.kwonlyargs, found.kw_defaults, strict=True)


# sizes


def python_files() -> Iterator[Path]:
    for folder in ("src", "tests", "benchmarks", "examples", "scripts"):
        yield from (ROOT / folder).rglob("*.py")


def test_files_stay_small() -> None:
    long = {
        str(path): count for path in python_files() if (count := len(path.read_bytes().splitlines())) > LONGEST_FILE
    }
    assert not long


def test_functions_stay_small() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path in python_files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert not long


def test_nothing_of_ours_is_mocked() -> None:
    """Tests stand on real small things: real files, processes, databases and servers."""
    mocks = "unittest" + ".mock"
    assert not [path for path in (ROOT / "tests").rglob("*.py") if mocks in path.read_text(encoding="utf-8")]


def test_every_module_says_what_it_is_for() -> None:
    silent = [module for module, path in MODULES.items() if path.stat().st_size and not ast.get_docstring(tree(path))]
    assert not silent


# the public door

PUBLIC = """
    Added Answer Box Chunk Citation Claim Document DocumentError Hit LibraryError ModelError Progress Refdesk
    RefdeskError Scope Settings UsageError
"""
METHODS = """
    add add_text add_texts analytics answer ask ask_sync backup chunks close collections document documents locate
    move page_image pages reindex remove rename restore search trace watch
"""


def test_public_names() -> None:
    """A name that goes, or that comes by accident, is a change for every user."""
    assert sorted(refdesk.__all__) == sorted(PUBLIC.split())
    found = {name for name in dir(refdesk) if not name.startswith("_") and not inspect.ismodule(getattr(refdesk, name))}
    assert found == set(refdesk.__all__)
    assert not hasattr(refdesk, "Library")


def test_a_worker_does_not_wait_for_the_engine() -> None:
    """Two are started for every add, and for every upload to a server."""
    heavy = "{'refdesk.desk', 'sqlalchemy', 'fastapi', 'rich'}"
    loaded = f"import sys, refdesk.worker; print({heavy} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout == "set()\n"


def test_the_door_has_its_verbs() -> None:
    public = {name for name, value in inspect.getmembers(refdesk.Refdesk, callable) if not name.startswith("_")}
    assert set(METHODS.split()) <= public


# what no file may say: hosts of package registries, places on one machine, and by whom a text was typed

FORBIDDEN = [
    *("py" + "pi.org", "python" + "hosted.org", "npm" + "js.com", "--index" + "-url", "/wo" + "rk/", "/ro" + "ot/"),
    *("co-authored" + "-by", "chat" + "gpt", "cop" + "ilot", "cla" + "ude code", "as an a" + "i ", "ai-gen" + "erated"),
]


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:  # unpacked from an archive
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_says_what_it_must_not() -> None:
    found = []
    for path in tracked():
        if path.is_file() and path.name != "tokenizer.json":
            data = path.read_bytes()
            text = "" if b"\0" in data[:8000] else data.decode("utf-8", "replace").lower()
            found += [(str(path.relative_to(ROOT)), word) for word in FORBIDDEN if word in text]
    assert not found
