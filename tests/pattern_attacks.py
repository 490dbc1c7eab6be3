"""Every regular expression of the package, how it is used, and texts that make a bad one slow.

    expressions()            those that stand in modules, classes and containers, and those written where they are used
    attacks(expression)      texts that nearly match: a short unit again and again (literals, what repeats take, a match
                             cut off), or the beginning of a match and then what a repeat of the expression takes
    cost(expression, text)   CPU seconds to apply it as the package does: at the beginning, or everywhere in the text

One that is only ever matched at the beginning of a text is not searched for here; where it cannot be told how one is
used, it is.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import refdesk

codes: Any = importlib.import_module("re._constants")  # as the expressions are compiled; they have no types
parser: Any = importlib.import_module("re._parser")
SOURCE = Path(refdesk.__file__).parent
# What any text may be full of.
COMMON = (
    *(" ", "a", "1", "A", "\n", "\t ", "a ", "1 ", "A ", "a, ", "1,", "1.", ". ", "a.", "-", "_", "*", "#", "|", "`"),
    *("[", "[[", "[1", "(", "(a", "{", "<", "<a", "</", '"', '"a', "'", "a'", "“", "’", "/", "\\", "=", "&", ":", "é"),
)
CANDIDATES = "a1 A-.,;:_`*#>~|\"'()[]{}<>/\\\n\t=+%$é–…"
LONGEST_PREFIX = 24
# Hardly any expression waits for the first; where the second follows a letter or a digit, no word ends.
ENDS = ("\x01", "_")
Pattern = re.Pattern[Any]

ANCHORED = frozenset(("match", "fullmatch"))
EVERYWHERE = frozenset(("search", "sub", "subn", "split", "findall", "finditer"))


@dataclass(frozen=True)
class Expression:
    where: str
    pattern: Pattern
    uses: frozenset[str]  # names of methods


def expressions() -> dict[str, Expression]:
    """By where they stand; each once, with all its uses."""
    found: dict[tuple[Any, int], Expression] = {}
    calls = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}
    used = _uses(calls)

    def keep(where: str, one: Pattern, uses: frozenset[str] | None = None) -> None:
        name = where.removeprefix("refdesk.").partition("[")[0]
        uses = uses or used.get(name) or used.get(name.rpartition(".")[2]) or ANCHORED | EVERYWHERE
        known = found.get((one.pattern, one.flags))
        where = known.where if known else where
        found[one.pattern, one.flags] = Expression(where, one, uses | (known.uses if known else frozenset()))

    seen: set[int] = set()
    for info in pkgutil.walk_packages(refdesk.__path__, "refdesk."):
        if not info.name.endswith("__main__") and ".migrations" not in info.name:
            module = importlib.import_module(info.name)
            for name, value in list(vars(module).items()):
                _walk(value, f"{info.name}.{name}", seen, keep)
    for file, tree in calls.items():
        for where, one, use in _written_in(file, tree):
            keep(where, one, frozenset((use,)))
    return {one.where: one for one in found.values()}


def _uses(calls: Mapping[Path, ast.AST]) -> dict[str, frozenset[str]]:
    """The methods called on each name, `ask.assemble._TAG`; a name that is also handed on is used in every way.

    A private name is its module's own; one that others import has the uses of all.
    """
    found: dict[str, set[str]] = {}
    for file, tree in calls.items():
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        handed_on: dict[str, int] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                handed_on[node.id] = handed_on.get(node.id, 0) + 1
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = node.value.id
                found.setdefault(f"{module}.{name}" if name.startswith("_") else name, set()).add(node.attr)
                handed_on[name] = handed_on.get(name, 0) - 1
        for name, count in handed_on.items():
            if count:
                found.setdefault(f"{module}.{name}" if name.startswith("_") else name, set()).add("handed on")
    every = ANCHORED | EVERYWHERE
    return {name: frozenset(uses) & every for name, uses in found.items() if "handed on" not in uses and uses & every}


def _walk(value: Any, where: str, seen: set[int], keep: Any) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        keep(where, value)
    elif isinstance(value, dict):
        for number, one in enumerate((*value, *value.values())):
            _walk(one, f"{where}[{number}]", seen, keep)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, one in enumerate(value):
            _walk(one, f"{where}[{number}]", seen, keep)
    elif (isinstance(value, type) and value.__module__.startswith("refdesk")) or (
        type(value).__module__.startswith("refdesk") and hasattr(value, "__dict__")
    ):
        for name, one in list(vars(value).items()):
            _walk(one, f"{where}.{name}", seen, keep)


def _written_in(file: Path, tree: ast.AST) -> Iterator[tuple[str, Pattern, str]]:
    """`re.sub(r"…", …)`: never bound to a name."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        first = node.args[0]
        is_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if (
            is_re
            and node.func.attr in ANCHORED | EVERYWHERE
            and isinstance(first, ast.Constant)
            and isinstance(first.value, (str, bytes))
        ):
            said = ast.unparse(node)
            flags = 0
            for name in re.findall(r"re\.([A-Z]+)\b", said):
                flags |= int(getattr(re, name, 0))
            yield f"{file.relative_to(SOURCE)}:{node.lineno}", re.compile(first.value, flags), node.func.attr


@dataclass(frozen=True)
class Attack:
    """`before`, then `unit` again and again, then a character that lets the match fail."""

    unit: str
    before: str = ""
    end: str = ENDS[0]

    def text(self, size: int) -> str:
        return self.before + (self.unit * (size // len(self.unit) + 1))[: size - 1] + self.end


def attacks(expression: Expression) -> list[Attack]:
    pattern = expression.pattern
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = parser.parse(source, pattern.flags)
    units = {*COMMON, *_parts(parsed)}
    for count in (0, 1, 2):
        whole = _sample(parsed, count)
        units |= {whole, *(whole[:size] for size in range(1, min(len(whole), LONGEST_PREFIX)))}
    begun = {("", unit) for unit in units if unit} | {pair for count in (0, 1) for pair in _begun(parsed, "", count)}
    return [Attack(unit, before, end) for before, unit in sorted(begun) for end in ENDS]


def _begun(parsed: Any, before: str, count: int) -> Iterator[tuple[str, str]]:
    """For each repeat: what a match has before it, and what it repeats."""
    for item in parsed:
        operation, value = item
        if operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if value[1] > 2 and (unit := _sample(value[2], count) or _sample(value[2], 1)):
                yield before[-LONGEST_PREFIX:], unit
            yield from _begun(value[2], before, count)
        elif operation is codes.SUBPATTERN:
            yield from _begun(value[3], before, count)
        elif operation is codes.ATOMIC_GROUP:
            yield from _begun(value, before, count)
        elif operation is codes.BRANCH:
            for branch in value[1]:
                yield from _begun(branch, before, count)
        before += _sample([item], count)


def _parts(parsed: Any) -> set[str]:
    """What stands in the expression: runs of letters, a letter of each class, what its repeats repeat."""
    found: set[str] = set()
    run = ""
    for operation, value in parsed:
        if operation is codes.LITERAL:
            run += chr(value)
            continue
        found.add(run)
        run = ""
        if operation is codes.IN:
            found.add(_one_of(value))
        elif operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            found |= {_sample(value[2], 1), _sample(value[2], 2)} | _parts(value[2])
        elif operation is codes.SUBPATTERN:
            found |= _parts(value[3])
        elif operation is codes.ATOMIC_GROUP:
            found |= _parts(value)
        elif operation is codes.BRANCH:
            for branch in value[1][:12]:
                found |= _parts(branch)
        elif operation in (codes.ASSERT, codes.ASSERT_NOT):
            found |= _parts(value[1])
    return found | {run}


def _sample(parsed: Any, count: int) -> str:
    """A text that matches, more or less: each repeat as often as it must, or `count` times."""
    said = ""
    for operation, value in parsed:
        if operation is codes.LITERAL:
            said += chr(value)
        elif operation is codes.NOT_LITERAL:
            said += "b" if value == ord("a") else "a"
        elif operation is codes.ANY:
            said += "a"
        elif operation is codes.IN:
            said += _one_of(value)
        elif operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inner = value
            said += _sample(inner, count) * min(max(least, min(count, most)), 4)
        elif operation is codes.SUBPATTERN:
            said += _sample(value[3], count)
        elif operation is codes.ATOMIC_GROUP:
            said += _sample(value, count)
        elif operation is codes.BRANCH:
            said += _sample(value[1][count % len(value[1])], count)
    return said


def _one_of(items: Any) -> str:
    """A character that a class takes."""
    is_negated = items[0][0] is codes.NEGATE
    compiled = [one for one in items if one[0] is not codes.NEGATE]
    for character in CANDIDATES:
        if any(_holds(one, character) for one in compiled) != is_negated:
            return character
    first = compiled[0][1]
    return chr(first[0] if isinstance(first, tuple) else first) if isinstance(first, (int, tuple)) else "a"


def _holds(item: Any, character: str) -> bool:
    operation, value = item
    if operation is codes.LITERAL:
        return ord(character) == value
    if operation is codes.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    kinds = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
    name = str(value).removeprefix("CATEGORY_")
    is_there = re.fullmatch(kinds[name.removeprefix("NOT_").removeprefix("UNI_")], character) is not None
    return is_there != name.startswith("NOT_")


def cost(expression: Expression, text: str) -> float:
    pattern = expression.pattern
    said: Any = text if isinstance(pattern.pattern, str) else text.encode()
    began = time.process_time()
    if "match" in expression.uses:
        pattern.match(said)
    if "fullmatch" in expression.uses:
        pattern.fullmatch(said)
    if expression.uses & (EVERYWHERE - {"search"}):
        for _ in pattern.finditer(said):
            pass
    elif "search" in expression.uses:
        pattern.search(said)
    return time.process_time() - began
