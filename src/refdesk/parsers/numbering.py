"""Numbers of list items and headings as word processors count them: "2.", "(b)", "1.2 iv". Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ROMAN = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
         (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))  # fmt: skip
LEVELS = 9


@dataclass(slots=True)
class Numbering:
    """Counts list items as Word does; a list is known by the number of its definition."""

    levels: dict[str, dict[int, tuple[str, str, int]]]  # abstract list -> level -> (format, text, start)
    lists: dict[str, tuple[str, dict[int, int]]]  # list -> (abstract list, levels that start anew)
    counters: dict[str, list[int | None]] = field(default_factory=dict)

    def label(self, number: str, depth: int) -> str | None:
        """The label of the next item: "- ", "2.", "(b)"; None when there is no such list."""
        abstract, overrides = self.lists.get(number, ("", {}))
        levels = self.levels.get(abstract)
        if levels is None:
            return None
        kind, text, start = levels.get(depth, ("bullet", "", 1))
        if kind in ("bullet", "none"):
            return "-" if kind == "bullet" else ""
        key = f"{abstract}/{number}" if overrides else abstract
        counters = self.counters.setdefault(key, [None] * LEVELS)
        current = counters[depth]
        counters[depth] = overrides.get(depth, start) if current is None else current + 1
        counters[depth + 1 :] = [None] * (LEVELS - depth - 1)

        def counted(place: re.Match[str]) -> str:
            level = int(place.group(1)) - 1
            kind, _, start = levels.get(level, ("decimal", "", 1))
            count = counters[level]
            return _in_format(start if count is None else count, kind)

        return re.sub(r"%([1-9])", counted, text).strip()


def _in_format(number: int, kind: str) -> str:
    """(4, "lowerRoman") -> "iv", (28, "upperLetter") -> "BB"."""
    if kind in ("lowerLetter", "upperLetter") and 0 < number <= 780:
        letters = chr(97 + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters if kind == "lowerLetter" else letters.upper()
    if kind in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        text, rest = "", number
        for size, sign in ROMAN:
            text, rest = text + sign * (rest // size), rest % size
        return text.lower() if kind == "lowerRoman" else text
    return f"{number:02d}" if kind == "decimalZero" else str(number)
