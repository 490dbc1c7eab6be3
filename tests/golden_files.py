"""The golden files: what the program does today, kept in tests/golden and compared at every run.

    check("openapi.json", value)                   # the whole file
    check("answers.json", value, "07 …")           # one entry of it
    check("prompts/07.txt", text)

With REFDESK_WRITE_GOLDEN=1 (`make golden`) they are written instead of compared. Figures that hang on the embedding
model differ a little between processors: those under the names in `CLOSE` may differ by `CLOSE_ENOUGH`, and are then
left in the file as they are, so that rewriting changes only what has changed.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"
IS_WRITING = os.environ.get("REFDESK_WRITE_GOLDEN") == "1"
REWRITE = (
    "If this change is meant, run `make golden` (for some of the files: REFDESK_WRITE_GOLDEN=1 python -m pytest "
    "tests/test_golden.py -k NAME), commit what it rewrote and say in the message why."
)
CLOSE = ("score", "coverage_score", "relevance_score", "similarity_score")
CLOSE_ENOUGH = 0.03
MOST_LINES = 60
WIDTH = 120


def check(name: str, value: Any, entry: str | None = None) -> None:
    """Fails when `value` is not what the file holds; with an entry, what the file holds under it."""
    path = GOLDEN / name
    is_text = isinstance(value, str)
    kept: Any = None
    if path.exists():
        text = path.read_text(encoding="utf-8")
        kept = text if is_text else json.loads(text)
    old = (kept or {}).get(entry) if entry is not None else kept
    new = value if is_text else _settled(value, old)
    if IS_WRITING:
        whole = new if entry is None else {**(kept or {}), entry: new}
        _write(path, whole if is_text else dump(whole) + "\n")
    elif new != old:
        before = "" if old is None else old if is_text else dump(old)
        pytest.fail(_difference(name if entry is None else f"{name}: {entry}", before, new if is_text else dump(new)))


def check_entries(name: str, entries: list[str]) -> None:
    """Fails when the file has an entry that no test asks for any more, or lacks one."""
    path = GOLDEN / name
    kept = json.loads(path.read_text(encoding="utf-8"))
    if IS_WRITING:
        _write(path, dump({entry: kept[entry] for entry in entries if entry in kept}) + "\n")
    else:
        assert sorted(kept) == sorted(entries), REWRITE


def dump(value: Any, indent: int = 0) -> str:
    """JSON with sorted keys; what fits on a line stands on one, so that a list of boxes is not a page long."""
    if isinstance(value, str | int | float | bool | None):
        return json.dumps(value, ensure_ascii=False)
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(line) + indent <= WIDTH:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        rows = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {dump(value[key], indent + 1)}" for key in sorted(value)
        ]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + dump(one, indent + 1) for one in value) + "\n" + " " * indent + "]"


def shape(value: Any) -> Any:
    """The names and types of a JSON value; the elements of a list are taken together."""
    if isinstance(value, dict):
        return {key: shape(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        shapes = [shape(one) for one in value]
        if shapes and all(isinstance(one, dict) for one in shapes):
            return [{key: one[key] for one in reversed(shapes) for key in one}]
        return sorted({json.dumps(one) if isinstance(one, list | dict) else one for one in shapes})
    names = {bool: "true or false", int: "number", float: "number", str: "text", type(None): "null"}
    return names[type(value)]


def _settled(new: Any, old: Any, name: str = "") -> Any:
    """`new` as it would stand in a file; figures close enough to the old ones are the old ones."""
    if isinstance(new, dict):
        return {key: _settled(new[key], old.get(key) if isinstance(old, dict) else None, key) for key in sorted(new)}
    if isinstance(new, list | tuple):
        olds = old if isinstance(old, list) and len(old) == len(new) else [None] * len(new)
        return [_settled(one, other, name) for one, other in zip(new, olds, strict=True)]
    if isinstance(new, float):
        is_close = name in CLOSE and isinstance(old, int | float) and abs(new - old) <= CLOSE_ENOUGH
        return old if is_close else round(new, 3)
    return new


def _difference(name: str, old: str, new: str) -> str:
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), "golden", "now", lineterm="", n=2))
    left = len(lines) - MOST_LINES
    more = [f"… and {left} more lines"] if left > 0 else []
    return "\n".join([f"tests/golden/{name} differs.", *lines[:MOST_LINES], *more, REWRITE])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
