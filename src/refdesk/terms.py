"""What is a term? The one analysis shared by every BM25 index, by term coverage and by spelling. Pure.

Words are lower-cased, stemmed in the language of their document and stripped of accents; runs of Chinese, Japanese
and Korean characters become overlapping pairs, because those scripts do not separate words; so do Thai, Lao, Khmer
and Burmese. Contractions are taken apart ("don't" is "do not"), and a period has one spelling ("FY19" is "2019").

>>> terms("The harbours' 1,250 pilots", "en")
['the', 'harbour', '1250', 'pilot']
>>> terms("東京都の港", "ja")
['東京', '京都', '都の', 'の港']
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import Stemmer

from refdesk import periods
from refdesk.text import word_set

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

_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
)
_CJK_RUN = re.compile(rf"[{_CJK}]")
# Vowel signs and other marks (Hindi, Tamil, pointed Hebrew) belong to the word; `\w` leaves them out.
_MARKS = "".join(
    c for c in map(chr, range(0x300, 0xFE30)) if unicodedata.category(c)[0] == "M" and not _CJK_RUN.match(c)
)
# A number keeps its decimals ("4.2") and loses its thousands ("1,250"); CJK runs are taken apart from other letters.
_WORD = re.compile(
    rf"\d+(?:,\d{{3}})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+(?!\w)|[{_CJK}]+"
    rf"|[^\W{_CJK}]+(?:[{_MARKS}]+[^\W{_CJK}]*)*"
)
# The same for lower-case ASCII, at half the time; "\0" divides texts that are read in one pass.
_ASCII_WORD = re.compile(
    r"[a-z_]\w*|\d+(?:,\d{3})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+(?!\w)|\w+|\0",
    re.ASCII,
)
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
        if _CJK_RUN.match(word):
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
    lowered = text.lower()
    if "'" in lowered:
        lowered = _IRREGULAR.sub(lambda match: _WHOLE[match[0]], lowered)
        lowered = _CONTRACTION.sub(lambda match: " not" if match[1] else _JOINED[match[2]], lowered)
    return periods.alike(lowered)


def as_typed(text: str) -> dict[str, str]:
    """How each of the words is written in the text.

    >>> as_typed("Amazon's FY2019 income")
    {'2019': 'FY2019', 'amazon': 'Amazon', 'income': 'income'}
    """
    pieces = [text[start:end] for start, end in periods.spans(text)]
    pieces += (match.group() for match in _TYPED.finditer(text))
    found: dict[str, str] = {}
    for piece in pieces:
        own = words(piece)
        shown = piece[: len(own[0])] if len(own) == 1 and piece.lower().startswith(own[0]) else piece
        for word in own:
            found.setdefault(word, shown)
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
    for text, one in zip(texts, plain, strict=True):
        if one is None:
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


def strip_accents(term: str) -> str:
    """`café` -> `cafe`, and Hebrew and Arabic without points; marks that are letters (Hindi, Thai, Japanese) stay."""
    if term.isascii():
        return term
    decomposed = unicodedata.normalize("NFD", term)
    kept = _POINTS.sub("", decomposed)
    return unicodedata.normalize("NFC", kept)
