"""Text as sentences, words and stems, in normal forms. Pure, and linear in the length of the text.

Words are lower-cased, stemmed in the language of their document and stripped of accents; runs of Chinese, Japanese
and Korean characters become overlapping pairs, because those scripts do not separate words; so do Thai, Lao, Khmer
and Burmese. Contractions are taken apart ("don't" is "do not"), and a period has one spelling ("FY19" is "2019").
Every BM25 index, the coverage of terms and the correction of spelling share this analysis.

>>> terms("The harbours' 1,250 pilots", "en")
['the', 'harbour', '1250', 'pilot']
>>> terms("東京都の港", "ja")
['東京', '京都', '都の', 'の港']
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import Stemmer

from refdesk.periods import alike, period_spans
from refdesk.types import Range

ASSETS = Path(__file__).parent / "assets"


@cache
def _sections(name: str) -> Mapping[str, Sequence[str]]:
    """The lines of `assets/<name>.txt` under each `[heading]`; `#` begins a comment."""
    found: dict[str, list[str]] = {}
    for line in (ASSETS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = found.setdefault(line.strip("[] "), [])
        elif line.strip() and not line.startswith("#"):
            words.append(line)
    return found


def asset_lines(name: str, section: str) -> Sequence[str]:
    return _sections(name)[section]


def word_list(name: str, section: str) -> tuple[str, ...]:
    """The words of a section, in their order."""
    return tuple(" ".join(_sections(name)[section]).split())


def word_set(name: str, section: str) -> frozenset[str]:
    return frozenset(word_list(name, section))


def named_lines(name: str, section: str) -> dict[str, str]:
    """The lines `name = words` of a section."""
    pairs = (line.partition(" = ") for line in _sections(name)[section])
    return {label: words for label, _, words in pairs}


def patterns(name: str, section: str, flags: int = 0) -> dict[str, re.Pattern[str]]:
    """The same where the words are an expression."""
    return {label: re.compile(expression, flags) for label, expression in named_lines(name, section).items()}


STOP_WORDS = word_set("words", "stop words")

# --- sentences -------------------------------------------------------------------------------------------------------

_CLOSERS = "\"'”’»›)\\]}」』）】〉》"
_STRONG = "。！？｡؟۔।॥።፧။។։"  # these end a sentence with no space after them

# Lookbehind and possessive quantifiers keep each alternative linear on runs such as "......" or `."""""`.
_CANDIDATE = re.compile(
    rf"\n[^\S\n]*+\n"
    rf"|[{_STRONG}]++[{_CLOSERS}{_STRONG}.!?]*+"
    rf"|(?<![.!?…])[.!?…]++[{_CLOSERS}]*+(?:\[\d{{1,3}}\])*+(?=\s|\Z)"
    rf"|(?<=[a-z]{{3}}\.)\d{{1,2}}(?=\s+[A-Z])"  # a note's number set high, flat in the text: "revenue.1 The"
)
_OPENERS = "\"'“‘«‹([{„¿¡「『（【〈《*_–—-"
_NUMBERING = re.compile(r"(?:\d{1,3}(?:\.\d{1,3})*|[ivxlc]{1,5}|[IVXLC]{1,5}|[A-Za-z])\Z")
_LABEL = re.compile(
    r"(?:table|figure|fig\.|exhibit|item|chapter|section|part|note|appendix|article|annex|step|tabelle|abbildung|kapitel)"
    r"\s(?:\d{1,3}[A-Za-z]?(?:\.\d{1,3})*|[IVXLC]{1,6}|[A-Z])\Z",
    re.IGNORECASE,
)  # "Table 1. What things cost", "Item 1A. Risk factors"
_DOTTED = re.compile(r"(?:(?:Ph|[^\W\d_])\.)+[^\W\d_]{1,2}\Z")  # U.S, e.g, Ph.D (the last stop is the candidate)
_GOES_ON = "とっ，、,;；"  # 「行こう。」と言った: the quotation is part of the sentence around it

# Never the last word of a sentence.
_OPENING = word_set("words", "abbreviations that open")
# The last word only when a number does not follow: "No. 5", "Art. 3", "Jan. 12".
_BEFORE_NUMBER = word_set("words", "abbreviations before numbers")
# The last word when what follows is a usual first word: "Acme Inc. The firm", but "Acme Inc. Annual Report".
_SOFT = word_set("words", "abbreviations that may end")
_GERMAN_MONTHS = word_set("words", "german months")
_STARTERS = word_set("words", "first words")


def sentences(text: str) -> list[Range]:
    """The sentences of a paragraph as ranges without the white space around them; every other character is in one.

    A blank line always ends a sentence, a single line break never does.

    >>> sentences("Dr. Who paid $3.50. He left!")
    [(0, 19), (20, 28)]
    """
    found: list[Range] = []
    start = _skip_space(text, 0)
    lower_case = text.islower()  # a note typed without capitals still has sentences
    for match in _CANDIDATE.finditer(text):
        if match.start() < start:
            continue
        if not _ends(text, start, match, lower_case):
            continue
        stop = match.end()
        end = match.start() if text[match.start()] == "\n" else stop
        end = len(text[start:end].rstrip()) + start
        if end > start:
            found.append((start, end))
        start = _skip_space(text, stop)
    end = len(text[start:].rstrip()) + start
    if end > start:
        found.append((start, end))
    return found


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _ends(text: str, start: int, match: re.Match[str], lower_case: bool) -> bool:
    mark = text[match.start()]
    if mark == "\n" or mark.isdigit():
        return True
    if mark in _STRONG:
        return not (match.end() < len(text) and text[match.end()] in _GOES_ON)
    following = _next_word(text, match.end())
    if not following:
        return True
    first = following[0]
    if first.islower() and not lower_case and not _is_camel(following):
        return False
    run = match.group()
    if not run.startswith(".") or "!" in run or "?" in run or run.startswith("..") or len(run) > 1:
        return True
    word = _word_before(text, start, match.start())
    if not word:
        return True
    if match.start() - start <= 24 and _LABEL.match(text[start : match.start()]):
        return False
    if lower_case:
        following = following.capitalize()
    return _stop_ends(word, following, at_start=match.start() - len(word) == start)


def _stop_ends(word: str, following: str, *, at_start: bool) -> bool:
    """Is the full stop after `word`, before `following`, the end of a sentence?"""
    if at_start and _NUMBERING.match(word):
        return False  # "1. Install it", "3.2. Results"
    bare = word.lower()
    if bare in _OPENING:
        return False
    if bare in _BEFORE_NUMBER and following[0].isdigit():
        return False
    if following in _GERMAN_MONTHS and word.isdigit() and len(word) <= 2:
        return False  # "am 3. Mai"
    is_initial = len(word) == 1 and word.isupper()
    if is_initial or bare in _SOFT or _DOTTED.match(word):
        return following.rstrip("’'") in _STARTERS and not (is_initial and following == "A")
    return True


def _word_before(text: str, start: int, stop: int) -> str:
    """The word that ends at `stop`; 24 characters are enough for the longest abbreviation."""
    low = max(start, stop - 24)
    position = stop
    while position > low and (text[position - 1].isalnum() or text[position - 1] in ".'’&"):
        position -= 1
    return text[position:stop]


def _next_word(text: str, position: int) -> str:
    """The first word after `position`, without opening quotes and brackets; "" at the end of the text."""
    while position < len(text) and (text[position].isspace() or text[position] in _OPENERS):
        position += 1
    stop = position
    while stop < len(text) and stop - position < 24 and text[stop].isalnum():
        stop += 1
    return text[position : max(stop, min(position + 1, len(text)))]


def _is_camel(word: str) -> bool:
    """A name that begins small: iPhone, eBay, pH."""
    return len(word) > 1 and word[0].islower() and word[1].isupper()


_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪▫■□●○–—·o➢✓✔➔]\s|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)]\s)")


def rows(text: str) -> list[Range]:
    """The lines of a table or of code, without the white space around them; blank ones are left out.

    >>> rows("item | price\\n\\npaper | 3")
    [(0, 12), (14, 23)]
    """
    found = []
    for match in _LINE.finditer(text):
        line = match.group()
        start = match.start() + len(line) - len(line.lstrip())
        end = match.start() + len(line.rstrip())
        if end > start:
            found.append((start, end))
    return found


def items(text: str) -> list[Range]:
    """The sentences of a list, none reaching over two items; a line without a marker goes on with the item above.

    >>> items("- One. Two.\\n- Three\\n  goes on.")
    [(0, 6), (7, 11), (12, 30)]
    """
    lines = rows(text)
    marked = [_ITEM.match(text[start : end + 1] + " ") is not None for start, end in lines]
    groups: list[Range] = []
    is_marked = any(marked)
    for line, has_marker in zip(lines, marked, strict=True):
        if groups and is_marked and not has_marker:
            groups[-1] = (groups[-1][0], line[1])
        else:
            groups.append(line)
    found: list[Range] = []
    for start, end in groups:
        found.extend((start + low, start + high) for low, high in sentences(text[start:end]))
    return found


_BULLETED = re.compile(r"[^\S\n]*[-*+•‣◦▪▫■□●○·➢✓✔➔][^\S\n]+\S")
_NUMBERED = re.compile(r"[^\S\n]*\(?(\d{1,2})[.)][^\S\n]+\S")
_LABELLED = re.compile(r"[^\S\n]*[^\W\d_a-z][\w .#/'’-]{0,30}:[^\S\n]+\S")
_FEWEST = 2  # lines that are set apart; one may be a line of running text that happens to begin so


def paragraph(text: str) -> list[Range]:
    """The sentences of a paragraph, none reaching over lines that are set apart: items, or labels and their values.

    >>> paragraph("Please say\\n- whether it fits,\\n- what it costs.")
    [(0, 10), (11, 29), (30, 46)]
    """
    lines = rows(text)
    apart = set_apart([text[start:end] for start, end in lines]) if len(lines) >= _FEWEST else frozenset()
    if not apart:
        return sentences(text)
    starts = [start for place, (start, _) in enumerate(lines) if not place or place in apart]
    found: list[Range] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        found.extend((start + low, start + high) for low, high in sentences(text[start:end]))
    return found


def set_apart(lines: Sequence[str]) -> frozenset[int]:
    """The lines with a bullet, with numbers that count from 1, or with a label beside another such line."""
    bullets = [place for place, line in enumerate(lines) if _BULLETED.match(line)]
    numbers = [(place, int(found[1])) for place, line in enumerate(lines) if (found := _NUMBERED.match(line))]
    counted = [place for place, number in numbers]
    labels = {place for place, line in enumerate(lines) if _LABELLED.match(line)}
    beside = [place for place in labels if place - 1 in labels or place + 1 in labels]
    are_counted = [number for _, number in numbers] == list(range(1, len(numbers) + 1))
    groups = (bullets, counted if are_counted else (), beside)
    return frozenset(place for group in groups if len(group) >= _FEWEST for place in group)


# --- normal forms ----------------------------------------------------------------------------------------------------

_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
# Soft hyphen, zero-width space, word joiner, byte order mark. The joiners U+200C/D shape Persian and emoji: they stay.
_INVISIBLE = "\u00ad\u200b\u2060\ufeff\ufffe\uffff"
_NORMAL: dict[int, str | None] = (
    {code: None for code in range(32) if chr(code) not in "\t\n\r\f\v"}
    | {code: None for code in range(0x7F, 0xA0) if code != 0x85}
    | {ord(character): None for character in _INVISIBLE}
    | {ord(character): " " for character in _SPACES}
    | {ord(character): letters for character, letters in _LIGATURES.items()}
    | dict.fromkeys(range(0xD800, 0xE000))  # lone surrogates cannot be stored
    | {ord("\v"): "\n", ord("\f"): "\n", 0x85: "\n", 0x2028: "\n", 0x2029: "\n\n"}
)


def normalise(text: str) -> str:
    """The text as it is kept: NFC, ligatures spelled out, plain spaces and line breaks, nothing invisible.

    >>> normalise("eﬃ\\u00adcient\\u00a0cafe\\u0301\\r\\n")
    'efficient café\\n'
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", text.translate(_NORMAL))


_FOLDED = {ord(character): "'" for character in "‘’‚‛′`´"} | {ord(character): '"' for character in "“”„‟″«»"}
_FOLDED |= {ord(character): "-" for character in "‐‑‒–—―−"} | {ord("ß"): "ss", ord("ł"): "l", ord("ø"): "o"}


def fold(text: str) -> str:
    """The text for matching: no case, no accents, one kind of quote, of dash and of width.

    >>> fold("“Naïve” – ÉCOLE")
    '"naive" - ecole'
    """
    if text.isascii():
        return text.lower()
    text = normalise(text).translate(_FOLDED)
    for _ in range(2):  # Unicode 3.13, D146: what decomposing brings to light is folded too (𝕊 -> S -> s)
        text = unicodedata.normalize("NFKD", text.casefold())
    text = text.translate(_FOLDED)
    kept = "".join(character for character in text if not 0x300 <= ord(character) <= 0x36F)
    return unicodedata.normalize("NFC", kept)


def edit_distances(word: str, others: Sequence[str]) -> list[int]:
    """Letters added, dropped, replaced, or swapped with the next, to each of the others; all in one pass.

    >>> edit_distances("recieve", ["receive", "relieve"])
    [1, 1]
    """
    import numpy as np  # heavy, and not needed by those who only ask for help

    if not others:
        return []
    lengths = [len(other) for other in others]
    width = max(lengths)
    padded = "".join(other.ljust(width, "\0") for other in others).encode("utf-32-le")
    letters = np.frombuffer(padded, dtype=np.uint32).reshape(len(others), width)
    columns = np.arange(width + 1, dtype=np.int32)
    before, last = columns, np.tile(columns, (len(others), 1))
    for row, letter in enumerate(map(ord, word), 1):
        cost = np.empty_like(last)
        cost[:, 0] = row
        cost[:, 1:] = np.minimum(last[:, 1:] + 1, last[:, :-1] + (letters != letter))
        if row > 1:
            is_swapped = (letters[:, :-1] == letter) & (letters[:, 1:] == ord(word[row - 2]))
            cost[:, 2:] = np.where(is_swapped, np.minimum(cost[:, 2:], before[:, :-2] + 1), cost[:, 2:])
        # A letter put in costs one more than the column before, however many of them there are.
        before, last = last, np.minimum.accumulate(cost - columns, axis=1) + columns
    return [int(row[length]) for row, length in zip(last, lengths, strict=True)]


# --- scripts ---------------------------------------------------------------------------------------------------------

CJK_CLASS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30ff\u3100-\u312f"
    "\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff66-\uff9d\U0001b000-\U0001b16f\U00020000-\U000323af"
)  # the inside of a regular expression's class: Han, kana, bopomofo, hangul
_CJK = re.compile(f"[{CJK_CLASS}]")


def is_cjk(character: str) -> bool:
    """Is this a Chinese, Japanese or Korean letter (not punctuation)?"""
    return character >= "\u2e80" and _CJK.match(character) is not None


CHARACTERS_PER_TOKEN = 4  # of English text, for counts that no tokenizer was asked for


def rough_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


# --- which lines of an answer are headings, though no markup says so? -------------------------------------------------

_TITLE_WORDS = 6
_DECORATED = re.compile(r"\s*(?:\[[^\[\]\d]{1,60}\]|[^\w\s\[\]()|>*+•‣◦▪–·-]\S*\s[^\n]{1,80}|[^\n]{1,80}:)\s*$")


def title_lines(lines: Sequence[str]) -> frozenset[int]:
    """The lines that are headings though no markup says so: "🔹 Summary", "[Summary]", "Details:", "Final Answer".

    Each stands alone before what it is the heading of: a few words, no number, no citation, no full stop. One bare line
    may be the answer itself, so that bare ones count where there are two.
    """
    decorated, bare = set[int](), set[int]()
    for number, line in enumerate(lines):
        words = re.findall(r"[^\W\d_][\w'’-]*", line)
        is_alone = number == 0 or not lines[number - 1].strip()
        if not 0 < len(words) <= _TITLE_WORDS or re.search(r"\d|[.!?;,…。]\s*$", line) or "|" in line:
            continue
        if not any(line.strip() for line in lines[number + 1 :]):
            continue
        if _DECORATED.match(line) and words[0][0].isupper():
            decorated.add(number)
        elif is_alone and words[0][0].isupper() and line.lstrip().startswith(words[0]):
            bare.add(number)
    return frozenset(decorated | bare if len(bare) > 1 else decorated)


# --- words and stems --------------------------------------------------------------------------------------------------

# Rises when the same text gives other terms: an index of an earlier number finds less, and `doctor` says so.
VERSION = 2

# Snowball's language names by ISO 639-1 code; a language that is not here is not stemmed.
STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "nb": "norwegian", "nn": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip

QUERY_STOP_WORDS = word_set("words", "query stop words")

_UNSPACED = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
)
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]")
# Vowel signs and other marks (Hindi, Tamil, pointed Hebrew) belong to the word; `\w` leaves them out.
_MARKS = "".join(
    c for c in map(chr, range(0x300, 0xFE30)) if unicodedata.category(c)[0] == "M" and not _UNSPACED_RUN.match(c)
)
# A number keeps its decimals ("4.2") and loses its thousands ("1,250"); CJK runs are taken apart from other letters.
_WORD = re.compile(
    rf"\d+(?:,\d{{3}})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+(?!\w)|[{_UNSPACED}]+"
    rf"|[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
)
# The same for lower-case ASCII, at half the time; "\0" divides texts that are read in one pass.
_ASCII_WORD = re.compile(r"[a-z_]\w*|\d+(?:,\d{3})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+(?!\w)|\w+|\0", re.ASCII)
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])[’‘ʼ＇′´](?=[A-Za-z])")  # elsewhere ʼ is a letter: Ukrainian, Breton
# English joins its small words: "n't" stands for "not", "'ll" for "will"; of "'s" and "'d" nobody can tell for what.
_CONTRACTION = re.compile(r"(?<=[a-z])(?:(n't)|'(s|d|m|re|ve|ll))(?![a-z'])")
_WHOLE = {"won't": "will not", "can't": "can not", "shan't": "shall not"}
_IRREGULAR = re.compile(r"\b(?:wo|ca|sha)n't\b")
_JOINED = {"s": "", "d": "", "m": " am", "re": " are", "ve": " have", "ll": " will"}
_TYPED = re.compile(r"\d[\d.,]*\d|[^\W_]+(?:['’][^\W\d_]+)?|\w+")
_POINTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0640\u064b-\u065f\u0670]+")
_TERMS_KEPT = 200_000  # of a language
_LONGEST_TERM = 60  # longer "words" are base64 or DNA; their first characters are enough to find them


_per_thread = threading.local()  # a stemmer keeps a cache and must not be shared between threads


def _stemmer(language: str) -> Stemmer.Stemmer | None:
    known: dict[str, Stemmer.Stemmer | None] = _per_thread.__dict__.setdefault("stemmers", {})
    if language not in known:
        name = STEMMERS.get(language)
        known[language] = Stemmer.Stemmer(name, 100_000) if name else None
    return known[language]


class _Terms(dict[str, str]):
    """Word of a text -> its term in one language, each stemmed once: a question reads thousands of words again."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, word: str) -> str:
        stemmer = _stemmer(self._language)
        kept = (word.replace(",", "") if word[0].isdigit() else word)[:_LONGEST_TERM]
        term = strip_accents(stemmer.stemWord(kept) if stemmer else kept)
        if len(self) >= _TERMS_KEPT:
            self.clear()
        self[word] = term
        return term


_terms: dict[str, _Terms] = {}  # by language


def words(text: str) -> list[str]:
    """Lower-cased words, numbers and CJK pairs, not stemmed."""
    plain = _plain(text)
    if plain.isascii():
        return _ascii_words(plain)
    found: list[str] = []
    for word in _WORD.findall(plain):
        if _UNSPACED_RUN.match(word):
            found.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            found.append((word.replace(",", "") if word[0].isdigit() else word)[:_LONGEST_TERM])
    return found


def _ascii_words(plain: str) -> list[str]:
    found = _ASCII_WORD.findall(plain.replace("\0", " ") if "\0" in plain else plain)
    return [word.replace(",", "")[:_LONGEST_TERM] for word in found]


def _plain(text: str) -> str:
    """Lower case, without contractions, and with one spelling of each period."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _APOSTROPHE.sub("'", text))
    return alike(in_full(text.lower()))


def in_full(lowered: str) -> str:
    """Without contractions: `isn't` -> `is not`, `what's` -> `what`."""
    if "'" in lowered:
        lowered = _IRREGULAR.sub(lambda match: _WHOLE[match[0]], lowered)
        lowered = _CONTRACTION.sub(lambda match: " not" if match[1] else _JOINED[match[2]], lowered)
    return lowered


def as_typed(text: str) -> dict[str, str]:
    """How each of the words is written in the text.

    >>> as_typed("Amazon's FY2019 income")
    {'2019': 'FY2019', 'amazon': 'Amazon', 'income': 'income'}
    """
    pieces = [text[start:end] for start, end in period_spans(text)]
    pieces += (match.group() for match in _TYPED.finditer(text))
    found: dict[str, str] = {}
    for piece in pieces:
        piece_words = words(piece)
        begins = len(piece_words) == 1 and piece.lower().startswith(piece_words[0])
        for word in piece_words:
            found.setdefault(word, piece[: len(word)] if begins else piece)
    return found


def terms(text: str, language: str = "en") -> list[str]:
    """The terms of a text, in order, repeats kept."""
    return _stem(words(text), language)


def terms_of_each(texts: Sequence[str], language: str = "en") -> list[list[str]]:
    """`terms` of each text; all that are ASCII in one pass, for a question reads hundreds of sentences."""
    plain = [_plain(text) if text.isascii() and "\0" not in text else None for text in texts]
    joined = "\0".join(text for text in plain if text is not None)
    stems = _stem(_ASCII_WORD.findall(joined), language)
    found: list[list[str]] = []
    start = 0
    for text, known in zip(texts, plain, strict=True):
        if known is None:
            found.append(terms(text, language))
            continue
        try:
            stop = stems.index("\0", start)
        except ValueError:
            stop = len(stems)
        found.append(stems[start:stop])
        start = stop + 1
    return found


def query_terms(text: str, languages: Sequence[str] = ("en",)) -> list[str]:
    """The distinct terms to search for: stop words dropped unless nothing else is left, stemmed in each language."""
    return list(dict.fromkeys(repeated_terms(text, languages)))


def repeated_terms(text: str, languages: Sequence[str] = ("en",)) -> list[str]:
    """`query_terms`, each as often as the query says it, whatever the number of languages: what BM25 counts.

    >>> repeated_terms("the fee, which fee, and the berth")
    ['fee', 'fee', 'berth']
    """
    all_words = words(text)
    content = [word for word in all_words if word not in QUERY_STOP_WORDS] or all_words
    counts: Counter[str] = Counter()
    for language in languages or ("en",):
        counts |= Counter(_stem(content, language))  # the larger of two counts
    return list(counts.elements())


def _stem(found: Iterable[str], language: str) -> list[str]:
    known = _terms.get(language) or _terms.setdefault(language, _Terms(language))
    return list(map(known.__getitem__, found))


def idf(frequencies: Mapping[str, int], count: int) -> dict[str, float]:
    """The weight of each term by in how many of the library's chunks it stands (that of BM25).

    >>> idf({"anchor": 1, "the": 9}, 10)
    {'anchor': 1.99..., 'the': 0.14...}
    """
    return {
        term: math.log(1.0 + (count - min(found, count) + 0.5) / (found + 0.5)) for term, found in frequencies.items()
    }


def strip_accents(term: str) -> str:
    """`café` -> `cafe`, and Hebrew and Arabic without points; marks that are letters (Hindi, Thai, Japanese) stay."""
    if term.isascii():
        return term
    decomposed = unicodedata.normalize("NFD", term)
    kept = _POINTS.sub("", decomposed)
    return unicodedata.normalize("NFC", kept)
