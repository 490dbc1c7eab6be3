"""Generates docs/house.md: the folders, their layers, what imports what, and one line about each file.

python scripts/write_house.py            # write it
python scripts/write_house.py --check    # check that it is up to date
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "house.md"

# A module may import its own layer and those before it. What implements the ports is beside the stages.
VALUES = {"types", "errors", "answer", "records"}
HELPERS = {
    "text",
    "periods",
    "tables",
    "document_names",
    "file_names",
    "forms",
    "entities",
    "negation",
    "settings",
    "config",
    "prompts",
    "trace",
    "models",
    "arguments",
    "redis_link",
}
PORTS = {"ports", "store_ports", "summaries", "library"}  # `library`: what reads a library through them
IMPLEMENTATIONS = {"store", "index", "providers", "files"}
# `desk` makes a library's parts; `worker` those of a worker process, which must start without the database.
COMPOSITION_ROOTS = {"desk", "worker"}
LAYERS: dict[str, set[str]] = {
    "values": VALUES,
    "helpers and ports": HELPERS | PORTS,
    "parsers": {"parsers"},
    "stages and port implementations": {"ingest", "ask"} | IMPLEMENTATIONS,
    "desk": {"access", "caller_desk", "library_desk", *COMPOSITION_ROOTS},
    "public API": {"__init__"},
    "interfaces": {"serve", "langgraph", "ray"},
    "program": {"__main__"},
}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def part(module: str) -> str:
    """`refdesk.parsers.pdf` -> `parsers`, `refdesk.types` -> `types`, `refdesk` -> `__init__`."""
    return [*module.split("."), "__init__"][1]


def layer(module: str) -> int:
    return next(number for number, names in enumerate(LAYERS.values()) if part(module) in names)


def folder(module: str) -> str:
    """`refdesk.serve.http.app` -> `serve/http`, `refdesk.desk` -> `desk`: what the picture shows as one thing."""
    within = MODULES[module].parent.relative_to(SOURCE / "refdesk").as_posix()
    return part(module) if within == "." else within.removesuffix("/versions")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """Every module of ours that a module imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(tree(MODULES[module])):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "refdesk":
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                found.add(below if below in MODULES else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "refdesk"}
    return frozenset(found)


EDGES = [(module, other) for module in MODULES for other in imports(module)]


def edges_between_folders() -> dict[str, set[str]]:
    """What imports what, folders within folders too. The tests look for cycles in it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, other in EDGES:
        if folder(module) != folder(other):
            found[folder(module)].add(folder(other))
    return found


HEAD = """\
# Architecture

Generated from the imports and docstrings of `src/refdesk` by `scripts/write_house.py`.

Each folder covers one topic, each file one part of it. A layer imports only itself and the layers above it:

```text
"""

MIDDLE = """\
```

`ingest` and `ask` do not import each other, and neither do their stages. `store`, `index`, `files` and `providers`
implement the ports independently of each other. `desk.py` is the composition root that connects them; `worker.py` is
the one for worker processes, which must start without the database.

## What imports what

| folder or module | imports |
|---|---|
"""


def page() -> str:
    lines = [HEAD]
    for title, names in LAYERS.items():
        there = sorted({folder(module) for module in MODULES if part(module) in names})
        lines.append(f"{title:<38}{_wrapped(there)}\n")
    lines.append(MIDDLE)
    edges = edges_between_folders()
    order = sorted({folder(module) for module in MODULES}, key=lambda name: (_layer_of(name), name))
    for name in order:
        if edges[name]:
            others = sorted(edges[name], key=lambda other: (_layer_of(other), other))
            lines.append(f"| `{name}` | {', '.join(f'`{one}`' for one in others)} |\n")
    for name in order:
        files = [module for module in MODULES if folder(module) == name and MODULES[module].stat().st_size]
        if not files or MODULES[files[0]].parent == SOURCE / "refdesk":
            continue
        lines.append(f"\n## `{name}/`\n\n| file | what it is for |\n|---|---|\n")
        lines += [_row(module) for module in files]
    lines.append("\n## Top-level modules\n\n| file | what it is for |\n|---|---|\n")
    lines += [_row(module) for module in MODULES if MODULES[module].parent == SOURCE / "refdesk"]
    return "".join(lines)


def _layer_of(name: str) -> int:
    return min(layer(module) for module in MODULES if folder(module) == name)


def _wrapped(names: list[str]) -> str:
    """Joined, in lines that stand under one another."""
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) > 78:
            lines.append(line.rstrip())
            line = ""
        line += f"{name} "
    return ("\n" + " " * 38).join([*lines, line.rstrip()])


def _row(module: str) -> str:
    path = MODULES[module]
    purpose = (ast.get_docstring(tree(path)) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    return f"| `{path.name}` | {purpose} |\n"


def main() -> int:
    text = page()
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE.name} is not up to date: python scripts/write_house.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
