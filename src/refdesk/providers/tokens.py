"""What are the tokens of a text? The WordPiece tokenizer of the shipped embedding model.

Plain Python: words come again and again, so most are looked up. On ASCII text it takes a third of the time of the
`tokenizers` library, elsewhere as much, and it does not bring that library's download client (34 MB) along. A test
holds it to `tokenizers`; it differs only on letters younger than that library's Unicode tables.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.errors import ModelError

ASSETS = Path(__file__).parent.parent / "assets"
MODEL_FILE, TOKENIZER_FILE, READER_FILE = "minilm-l6-v2.int8.onnx", "tokenizer.json", "reader.int8.onnx"
SHA256 = {
    MODEL_FILE: "7b564170e959dab28f063c4d3f6403004541d21db90b2efe9be0eca037fc2043",
    TOKENIZER_FILE: "9114256b104cca80e04367526f03f46aa3c443c2ed174904142a73bbf13b9fbb",
    READER_FILE: "bb858ad3c0efae2dd9adb56695ab4c5dcacb8a53f139654ab2001b8aa8a8a00c",
}
UNKNOWN = 100  # [UNK]
LONGEST_WORD = 100  # characters; a longer one is unknown, as in tokenizer.json
MOST_WORDS = 50_000  # remembered

_PLAIN_WORD = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WORD = re.compile(r"[^ ]+")
_IDEOGRAPHS = (  # each is a word of its own; the ranges of BERT
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)),
    *((0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class ShippedTokenizer:
    """Loaded when first used; safe to share between threads.

    >>> ShippedTokenizer().count(["Pumps fail.", ""])
    [3, 0]
    """

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets

    def count(self, texts: Sequence[str]) -> list[int]:
        word_pieces = self._load()
        return [len(word_pieces.encode(text)[0]) for text in texts]

    def encode(self, text: str, limit: int) -> tuple[list[int], NDArray[np.int32]]:
        """The first `limit` tokens and where each begins in the text, special tokens left out."""
        ids, starts = self._load().encode(text)
        return ids[:limit], np.array(starts[:limit], dtype=np.int32)

    def cut(self, text: str, limit: int) -> str:
        """The text up to its first `limit` tokens, well formed."""
        text = well_formed(text)
        _, starts = self.encode(text, limit + 1)
        return text[: int(starts[limit])] if len(starts) > limit else text

    def _load(self) -> WordPieces:
        with _loading:
            return _word_pieces(self._assets)


class WordPieces:
    """`"Pumps fail."` -> the ids of "pumps", "fail" and ".", which begin at 0, 6 and 10."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._vocabulary = vocabulary
        self._words: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._letters: dict[str, str] = {}

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, where each begins)."""
        ids: list[int] = []
        starts: list[int] = []
        if text.isascii() and not _CONTROL.search(text):
            for word in _PLAIN_WORD.finditer(text.lower()):
                word_ids, inside = self._pieces(word.group())
                ids += word_ids
                start = word.start()
                starts += [start + place for place in inside]
            return ids, starts
        parts = [self._letters.get(letter) or self._plain(letter) for letter in well_formed(text)]
        places = [place for place, part in enumerate(parts) for _ in part]
        for word in _WORD.finditer("".join(parts)):
            word_ids, inside = self._pieces(word.group())
            ids += word_ids
            start = word.start()
            starts += [places[start + place] for place in inside]
        return ids, starts

    def _pieces(self, word: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the longest known beginning, then of the rest: "pumping" -> "pump", "##ing"; all or nothing."""
        known = self._words.get(word)
        if known is not None:
            return known
        ids: list[int] = []
        starts: list[int] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            ends = range(len(word), start, -1)
            prefix = "##" if start else ""
            end = next((end for end in ends if prefix + word[start:end] in self._vocabulary), 0)
            if not end:
                break
            ids.append(self._vocabulary[prefix + word[start:end]])
            starts.append(start)
            start = end
        pieces = (tuple(ids), tuple(starts)) if start == len(word) else ((UNKNOWN,), (0,))
        if len(self._words) >= MOST_WORDS:
            self._words.clear()
        self._words[word] = pieces
        return pieces

    def _plain(self, letter: str) -> str:
        """ "É" -> "e", "中" -> " 中 ", "–" -> " – ", a line end -> " ", a control character -> ""."""
        if letter in "\t\n\r":
            plain = " "
        elif letter == "\ufffd" or unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs"):
            plain = ""
        elif letter.isspace():
            plain = " "
        elif any(first <= ord(letter) <= last for first, last in _IDEOGRAPHS):
            plain = f" {letter} "
        else:
            parts = [
                part.lower() for part in unicodedata.normalize("NFD", letter) if unicodedata.category(part) != "Mn"
            ]
            plain = "".join(f" {part} " if _is_punctuation(part) else part for part in parts)
        self._letters[letter] = plain
        return plain


def _is_punctuation(letter: str) -> bool:
    is_ascii_sign = letter.isascii() and letter.isprintable() and not letter.isalnum()
    return is_ascii_sign or unicodedata.category(letter).startswith("P")


_loading = threading.Lock()


@cache
def _word_pieces(assets: Path) -> WordPieces:
    return WordPieces(orjson.loads(read_asset(assets / TOKENIZER_FILE))["model"]["vocab"])


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs, which no encoder takes, as "?"; its length stays.

    >>> well_formed("a\\ud800b")
    'a?b'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_asset(path: Path) -> bytes:
    """The bytes of a shipped file, as they were shipped."""
    hint = "install Refdesk again"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"The model file {path} cannot be read ({reason})", hint=hint) from error
    if hashlib.sha256(data).hexdigest() != SHA256[path.name]:
        raise ModelError(f"The model file {path} is damaged ({len(data)} bytes that were not shipped)", hint=hint)
    return data
