"""Where is a run of sentences best cut into chunks, and where a sentence that is too long for one? Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from math import inf

from refdesk.text import CJK_CLASS, is_cjk
from refdesk.types import Range

CountTokens = Callable[[Sequence[str]], list[int]]

TOO_SMALL = 0.5  # added for a chunk under the minimum: as much as being 70 % off the target


def best_breaks(
    weights: Sequence[int],
    costs: Sequence[float],
    repeated: Sequence[int],
    *,
    target: int,
    minimum: int,
    room: int,
    can_drop: bool,
) -> list[int]:
    """Where each chunk ends, so that the sum of all costs is least; the last is always `len(weights)`.

    A chunk costs the squared distance of its tokens from the target, in targets, and `costs[j - 1]` for being cut
    after piece j - 1. `repeated[i]` tokens stand again at the start of a chunk that begins with piece i (overlap, a
    table's header); if `can_drop`, they are left out when there is no room for them. No chunk goes over `room`
    unless a single piece does. Dynamic programming over the pieces; the inner loop is as long as a chunk has pieces.

    >>> best_breaks([100, 100, 100, 100], [0, 0, 0, 0], [0, 0, 0, 0], target=200, minimum=60, room=250, can_drop=True)
    [2, 4]
    """
    count = len(weights)
    best = [0.0] + [inf] * count
    origin = [0] * (count + 1)
    for end in range(1, count + 1):
        size = 0
        cut = costs[end - 1] if end < count else 0.0
        for begin in range(end - 1, -1, -1):
            size += weights[begin]
            whole = size + repeated[begin]
            if whole > room:
                if size > room and begin < end - 1:
                    break
                if can_drop:
                    whole = size
                elif begin < end - 1:
                    continue
            distance = (whole - target) / target
            cost = best[begin] + distance * distance + cut
            if whole < minimum:
                cost += TOO_SMALL
            if cost < best[end]:
                best[end] = cost
                origin[end] = begin
    ends = [count]
    while origin[ends[-1]] > 0:
        ends.append(origin[ends[-1]])
    return ends[::-1]


# --- a sentence longer than a chunk ----------------------------------------------------------------------------------

# A word, a CJK letter, or 32 characters of something without spaces (base64, a table of dots).
_UNIT = re.compile(rf"[{CJK_CLASS}]\s*|[^\s{CJK_CLASS}]{{1,32}}\s*")
_CLAUSE = ";:,|，；：、،؛–—"
_CHARACTERS_PER_TOKEN = 8  # English has 4.5; WordPiece makes one [UNK] of a word of 50,000 characters


def weight(tokens: int, characters: int) -> int:
    """Tokens, or what so many characters count as when the tokeniser gives up on them.

    >>> weight(1, 50_000)
    6250
    """
    return max(tokens, 1, -(-characters // _CHARACTERS_PER_TOKEN))


def cut_long(texts: Sequence[str], sizes: Sequence[int], count_tokens: CountTokens) -> list[list[Range]]:
    """Cuts each text into pieces of at most `size` tokens: after a clause, else after a word, else anywhere.

    All words of all texts are counted in one batch. A piece keeps no white space around it.
    """
    units = [_units(text) for text in texts]
    words = [text[a:b].rstrip() for text, spans in zip(texts, units, strict=True) for a, b in spans]
    distinct = list(dict.fromkeys(words))
    counted = dict(zip(distinct, count_tokens(distinct), strict=True))
    pieces = []
    for text, spans, size in zip(texts, units, sizes, strict=True):
        weights = [weight(counted[text[a:b].rstrip()], b - a) for a, b in spans]
        pieces.append(_greedy(text, spans, weights, size))
    return pieces


def _units(text: str) -> list[Range]:
    """The smallest parts a text is cut into; an accent or a vowel sign stays with its letter (Thai has no spaces)."""
    units = []
    position = 0
    while match := _UNIT.match(text, position):
        end = match.end()
        while end < len(text) and not text[end - 1].isspace() and unicodedata.category(text[end])[0] == "M":
            end += 1
        units.append((position, end))
        position = end
    return units


def _greedy(text: str, units: Sequence[Range], weights: Sequence[int], size: int) -> list[Range]:
    pieces: list[Range] = []
    first = 0
    while first < len(units):
        total, last = weights[first], first + 1
        while last < len(units) and total + weights[last] <= size:
            total += weights[last]
            last += 1
        if last < len(units):
            last = _good_cut(text, units, first, last)
        start, end = units[first][0], units[last - 1][1]
        pieces.append((start, start + len(text[start:end].rstrip())))
        first = last
    return pieces


def _good_cut(text: str, units: Sequence[Range], first: int, last: int) -> int:
    """The last clause end in the second half of units first..last, else the last word end, else `last`."""
    for cut in range(last, first + (last - first) // 2, -1):
        start, end = units[cut - 1]
        if text[start:end].rstrip()[-1] in _CLAUSE:
            return cut
    for cut in range(last, first, -1):
        end = units[cut - 1][1]
        if text[end - 1].isspace() or is_cjk(text[end - 1]) or is_cjk(text[end]):
            return cut
    return last


def middle(text: str) -> int:
    """Where to halve a text of two characters or more: at the space nearest the middle, never before an accent."""
    half = len(text) // 2
    reach = max(1, len(text) // 4)
    for distance in range(reach):
        for position in (half - distance, half + distance):
            if 0 < position < len(text) and text[position - 1].isspace():
                return position
    while half > 1 and unicodedata.combining(text[half]):
        half -= 1
    return half
