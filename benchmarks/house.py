"""Is the code easy to find one's way in? Its size, its imports, its names, and the modules that one question runs.

make house

Figures that take long are measured by their own commands and shown here with the day they were measured:

python -m benchmarks.question_speed
python -m scripts.mutate --least 36
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from benchmarks import rules
from benchmarks.common import ROOT, Figure, remembered, write

SOURCE = ROOT / "src"
PORTS = ("refdesk.ports", "refdesk.store_ports")
# One in each process: the worker of an add must start without the database.
COMPOSITION_ROOTS = {"refdesk.desk", "refdesk.worker"}
IMPLEMENTATIONS = {"store", "index", "providers", "files"}
MOST_FILES, MOST_LINES, MOST_WALKED = 130, 31_000, 45

# Every function of ours that runs while one question is asked, by its module.
WALK = """
import sys, threading
from refdesk import Refdesk

modules = set()
def note(frame, event, _):
    modules.add(frame.f_globals.get("__name__", ""))

threading.setprofile(note)  # threads that live longer than a question have it from their start
with Refdesk(sys.argv[1]) as desk:
    desk.add(sys.argv[2])
    desk.ask_sync("What does the express calibration of a TG-4 cost?", cache=False)
    modules.clear()
    sys.setprofile(note)
    answer = desk.ask_sync("How long is the mooring line of the WB-7?", cache=False)
    sys.setprofile(None)
assert answer.citations
print(*sorted(name for name in modules if name.startswith("refdesk")))
"""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[str]:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "refdesk":
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in MODULES else str(node.module)


def part(module: str) -> str:
    """`refdesk.serve.http.app` -> `serve`, `refdesk.types` -> `types`."""
    return [*module.split("."), "__init__"][1]


def folder(module: str) -> str:
    """`refdesk.serve.http.app` -> `serve/http`, `refdesk.types` -> `types`."""
    within = MODULES[module].parent.relative_to(SOURCE / "refdesk").as_posix()
    return part(module) if within == "." else within


def folder_cycles() -> list[str]:
    """Pairs of folders that import each other, by whatever way, those within folders too."""
    graph: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        graph[folder(module)] |= {folder(other) for other in imports(module)} - {folder(module)}
    reach: dict[str, set[str]] = {}
    for start in list(graph):
        seen, waiting = set(), [start]
        while waiting:
            for following in graph[waiting.pop()] - seen:
                seen.add(following)
                waiting.append(following)
        reach[start] = seen
    return sorted(f"{one} ↔ {other}" for one in reach for other in reach[one] if one < other and one in reach[other])


def outside_the_root() -> list[str]:
    return sorted(
        f"{module} → {other}"
        for module in MODULES
        if module not in COMPOSITION_ROOTS and part(module) not in IMPLEMENTATIONS
        for other in set(imports(module))
        if part(other) in IMPLEMENTATIONS
    )


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module in MODULES:
        yield from ((module, node) for node in ast.walk(tree(module)) if isinstance(node, ast.ClassDef))


def names_used_twice() -> list[str]:
    places = defaultdict(list)
    for module, node in classes():
        places[node.name].append(module)
    return sorted(name for name, modules in places.items() if len(modules) > 1)


def methods(node: ast.ClassDef) -> set[str]:
    defined = {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
    values = {target.id for part in node.body for target in assigned(part) if isinstance(target, ast.Name)}
    return {name for name in defined | values if not name.startswith("_")}


def assigned(part: ast.AST) -> list[ast.expr]:
    """What an assignment gives a value to: `a = b = 1`, `a: int = 1`, `a, b = 1, 2`."""
    targets = part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(part, ast.AnnAssign) else []
    return [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]


def is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def lonely_ports() -> list[str]:
    """Protocols that fewer than two classes have all the methods of."""
    ports = {node.name: methods(node) for module, node in classes() if module in PORTS and is_protocol(node)}
    by_name = {node.name: node for _, node in classes()}

    def offered(node: ast.ClassDef) -> set[str]:
        bases = [by_name[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in by_name]
        given = {
            target.attr for part in ast.walk(node) for target in assigned(part) if isinstance(target, ast.Attribute)
        } | {target.id for part in node.body for target in assigned(part) if isinstance(target, ast.Name)}
        return methods(node).union(given, *(offered(base) for base in bases))

    makers = [offered(node) for _, node in classes() if not is_protocol(node)]
    return sorted(name for name, wanted in ports.items() if wanted and sum(wanted <= have for have in makers) < 2)


def walked() -> list[str]:
    """The modules of ours that one question without a model goes through."""
    with tempfile.TemporaryDirectory() as place:
        arguments = [sys.executable, "-c", WALK, f"{place}/library", str(ROOT / "examples" / "documents")]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return done.stdout.split()


def listed(found: Sequence[str]) -> str:
    return f"{len(found)}" + (f": {', '.join(found[:8])}{' …' if len(found) > 8 else ''}" if found else "")


def figures() -> list[Figure]:
    lines = sum(len(path.read_bytes().splitlines()) for path in MODULES.values())
    cycles, outside, twice, lonely, steps = (
        folder_cycles(),
        outside_the_root(),
        names_used_twice(),
        lonely_ports(),
        walked(),
    )
    return [
        Figure("Python files under src/refdesk", str(len(MODULES)), f"≤ {MOST_FILES}", len(MODULES) <= MOST_FILES),
        Figure("lines in them", f"{lines:,}", f"≤ {MOST_LINES:,}", lines <= MOST_LINES),
        Figure("folders that import each other", listed(cycles), "0", not cycles),
        Figure(
            "imports of store, index, providers, files outside the composition roots", listed(outside), "0", not outside
        ),
        Figure("class names with two meanings", listed(twice), "0", not twice),
        Figure("ports with one implementation", listed(lonely), "0", not lonely),
        Figure(
            "modules that one question without a model walks through",
            str(len(steps)),
            f"≤ {MOST_WALKED}",
            len(steps) <= MOST_WALKED,
        ),
        *rules.figures(),
        *remembered(),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walk", action="store_true", help="list the modules that one question runs, nothing else")
    if parser.parse_args(arguments).walk:
        print("\n".join(walked()))
        return
    write("house", "The house", figures())


if __name__ == "__main__":
    main()
