"""How much of answering is written by hand? Patterns, listed words and numbers in `ask/` and the lists it reads.

python -m benchmarks.rules [--files]

Counted alike in this tree and in the one that the first version was judged by. A pattern is a literal handed to `re`,
or all lines of one name in a list of patterns; a listed word is one in a literal set, list, tuple or key of a
dictionary, in a literal of many plain words, or in a section of a list under assets/ that a file of `ask/` names; a
number is any literal but 0 and 1. What is learned and kept in a file of weights is none of these.

Counted twice: all of `ask/`, and without the files of `ADDED`, which do what the first version did not do at all
(questions to tables and to the catalogue, agents, votes, pictures, further engines). The first says how much there is
to keep up, the second whether what was there answers with fewer rules.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from benchmarks.common import ROOT, Figure

BEFORE = "fb8819b"  # what FINDINGS and the bars of retrieval and speed are measured against
KINDS = ("patterns", "alternatives", "listed words", "numbers")
LESS = 2 / 3
LISTS = ("words.txt", "units.txt", "intents.txt", "ratios.txt", "catalogue.txt")
_PATTERN_LISTS = ("intents.txt",)
ADDED = (
    *("formula_text", "formulas", "line_items", "model_figures", "named_figures", "plan_choice", "plans"),
    *("sheet_view", "side_by_side", "table_answer", "table_question", "table_rows", "table_view", "catalogue"),
    *("agent", "vision", "voting", "small_models"),
    *("strategies/fusion", "strategies/graph", "strategies/hierarchical", "strategies/multi_hop", "strategies/survey"),
)
ADDED_LISTS = ("assets/ratios.txt", "assets/catalogue.txt")
TABLES_BEFORE = "ask/evidence/rows.py"  # what the first version had in their place
MANY = 8  # plain words, from which on a literal is a list of them
_CALLS = frozenset(["compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"])
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PLAIN = re.compile(r"[^\W\d_A-Z]+(?:['’-][^\W\d_A-Z]+)*")


def literal(node: ast.expr) -> str | None:
    """The text of a literal, also of one that is put together; None where it is no literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = literal(node.left), literal(node.right)
        return None if left is None or right is None else left + right
    return None


def counted(source: str) -> Counter[str]:
    """What one file of code holds."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, text = node.func.value, literal(node.args[0]) if node.args else None
            if isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr in _CALLS and text is not None:
                found += Counter({"patterns": 1, "alternatives": text.count("|") + 1})
        elif isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict):
            entries = node.keys if isinstance(node, ast.Dict) else node.elts
            found["listed words"] += sum(len((literal(one) or "").split()) for one in entries if one is not None)
        elif (text := literal(node) if isinstance(node, ast.Constant | ast.JoinedStr) else None) is not None:
            words = text.split()
            found["listed words"] += len(words) if len(words) >= MANY and all(map(_PLAIN.fullmatch, words)) else 0
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in (0, 1):
            found["numbers"] += 1
    return found


def listed(name: str, text: str, code: str) -> Counter[str]:
    """What one file of lists holds, as far as `code` names its sections."""
    found: Counter[str] = Counter()
    for section in text.split("\n[")[1:]:
        title, _, body = section.partition("]\n")
        lines = [line for line in body.splitlines() if line.strip() and line[0] != "#"]
        if f'"{title}"' not in code and name != "catalogue.txt":
            continue
        if name in _PATTERN_LISTS:
            patterns = len({line.partition(" = ")[0] for line in lines})
            found += Counter({"patterns": patterns, "alternatives": len(lines) + sum(one.count("|") for one in lines)})
        else:
            found["listed words"] += sum(len(_WORD.findall(line)) for line in lines)
    return found


def files(commit: str = "") -> Iterator[tuple[str, str]]:
    """(path below src/refdesk, text) of the code and the lists of answering, as they are or were."""
    if not commit:
        base = ROOT / "src" / "refdesk"
        every = [(path.relative_to(base).as_posix(), path) for path in sorted(base.rglob("*")) if path.is_file()]
        yield from ((name, path.read_text(encoding="utf-8")) for name, path in every if _belongs(name))
        return
    packed = subprocess.run(["git", "archive", commit, "src/refdesk"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive.getmembers():
            name = member.name.removeprefix("src/refdesk/")
            if _belongs(name) and (content := archive.extractfile(member)) is not None:
                yield name, content.read().decode("utf-8")


def _belongs(name: str) -> bool:
    path = PurePosixPath(name)
    is_code = name == "negation.py" or (path.parts[0] == "ask" and path.suffix == ".py")  # it was a part of ask/
    return is_code or (path.parts[0] == "assets" and path.name in LISTS)


def by_file(commit: str = "") -> dict[str, Counter[str]]:
    every = dict(files(commit))
    code = "\n".join(text for name, text in every.items() if name.endswith(".py"))
    return {
        name: counted(text) if name.endswith(".py") else listed(PurePosixPath(name).name, text, code)
        for name, text in every.items()
    }


def figures() -> list[Figure]:
    try:
        before = by_file(BEFORE)
    except subprocess.CalledProcessError:  # a copy without its history
        before = {}
    now = by_file()
    added = {*(f"ask/{name}.py" for name in ADDED), *ADDED_LISTS}
    if missing := added - now.keys():
        raise SystemExit(f"ADDED names files that are gone: {', '.join(sorted(missing))}")
    return [
        *_compared("in ask/ and its lists", now, before, without=set()),
        *_compared("the same, without what was added to ask/ since", now, before, without=added | {TABLES_BEFORE}),
    ]


def _compared(
    where: str, now: dict[str, Counter[str]], before: dict[str, Counter[str]], without: set[str]
) -> list[Figure]:
    today, first = (
        sum((found for name, found in every.items() if name not in without), Counter[str]()) for every in (now, before)
    )
    return [
        Figure(
            f"{kind} {where}: now / {BEFORE}",
            f"{today[kind]:,} / {first[kind]:,} = {today[kind] / first[kind]:.2f}"
            if first[kind]
            else f"{today[kind]:,}",
            "≤ .67",
            today[kind] <= LESS * first[kind] if first[kind] else None,
        )
        for kind in KINDS
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="what each file holds")
    if parser.parse_args(arguments).files:
        for name, found in by_file().items():
            print(f"{name:28}", *(f"{found[kind]:5} {kind}" for kind in KINDS))
    for one in figures():
        print(one)


if __name__ == "__main__":
    main()
