"""Which words are figures written with? Scales, currencies, units, fractions and numbers (assets/units.txt).

`g 1 k m = g gram`: g, kg, mg, gram, grams, kilogram, kilograms, milligram, milligrams, in grams
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from refdesk.ask.wording import NUMBER_WORDS
from refdesk.text import asset_lines, word_list


class Unit(NamedTuple):
    base: str
    factor: float


def _lines(section: str) -> Iterator[tuple[str, list[str]]]:
    """(what it stands for, spellings) of `what = spelling spelling …`; a word alone stands for itself."""
    for line in asset_lines("units", section):
        meaning, _, spellings = line.partition(" = ")
        yield meaning, (spellings or meaning).split()


def _with_plural(word: str) -> tuple[str, ...]:
    return (word, f"{word}s") if word.isalpha() and word.islower() and len(word) > 2 and word[-1] != "s" else (word,)


def _units() -> Iterator[tuple[str, Unit]]:
    """(spelling, unit): "kg" and "kilograms" come from `g 1 k = g gram` and the prefixes."""
    prefixes = {sign: (signs[0], float(factor)) for factor, signs in _lines("prefixes") for sign in signs[1:]}
    for meaning, (sign, *names) in _lines("units"):
        base, factor, *own = [*meaning.split(), "1"] if " " not in meaning else meaning.split()
        written = [(one, 1.0) for one in (sign, *names)]
        for prefix in own:
            name, times = prefixes[prefix]
            written += [(prefix + sign, times), *((name + one, times) for one in names)]
        for word, times in written:
            yield from ((one, Unit(base, float(factor) * times)) for one in _with_plural(word))


SCALES = {word: float(factor) for factor, own in _lines("scales") for one in own for word in _with_plural(one)}
CURRENCIES = {word: code for code, words in _lines("currencies") for own in words for word in _with_plural(own)}
UNITS = dict(_units())
ORDINALS = {word: number for number, word in enumerate(word_list("units", "ordinals"), 1)} | {"twentieth": 20}
WORDS: dict[str, float] = {word: float(number) for word, number in NUMBER_WORDS.items()}
WORDS |= {word: SCALES[word] for word in ("hundred", "thousand", "million", "billion", "trillion", "dozen")}
_PARTS = {"half": 2, "quarter": 4} | {word: number for word, number in ORDINALS.items() if 2 < number <= 10}
FRACTIONS = {f"a {part}": 1 / number for part, number in _PARTS.items()} | {"half": 1 / 2}
FRACTIONS |= {
    f"{word} {part}{'s' * (count > 1)}": count / number
    for part, number in _PARTS.items()
    for word, count in NUMBER_WORDS.items()
    if 0 < count < number
}
