"""What the codes of a PDF page say as text: ligatures, presentation forms, hyphens at line ends. Pure."""

from __future__ import annotations

import unicodedata
from sys import intern

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]

HYPHENS = (0xFFFE, 0x2, 0xAD)  # pdfium's marks for a hyphen at the end of a line, and the soft hyphen
_LIGATURES = {0xAD: None, 0xFFFE: "-", 0xFFFD: None, 0x2: "-", 0x200E: None, 0x200F: None, 0x2011: "-", 0x2010: "-"}
_LIGATURES.update({code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)})
_LIGATURES.update(dict.fromkeys((*range(0x0, 0x2), *range(0x3, 0x20), *range(0x7F, 0xA0))))
# ff, fi, fl, ffi and ffl in the encodings OT1 and T1 of TeX; the code of fl in OT1 is that of a line end as well.
_TEX = {0x0B: 0xFB00, 0x0C: 0xFB01, 0x0E: 0xFB03, 0x0F: 0xFB04}
_TEX.update({0x1B + number: 0xFB00 + number for number in range(5)})


def with_ligatures(codes: Codes, widths: NDArray[np.float32]) -> Codes:
    """Ligatures where a font does not say what its signs mean, by the places that TeX gives them.

    Only a sign that is drawn, beside a letter: `signi` 28 `cant` -> `significant`.
    """
    places = np.isin(codes, list(_TEX)) & (widths > 0)
    if not places.any():
        return codes
    is_letter = np.pad(((codes | 32) >= ord("a")) & ((codes | 32) <= ord("z")), 1)
    found = codes.copy()
    for place in np.flatnonzero(places & (is_letter[:-2] | is_letter[2:])):
        found[place] = _TEX[int(codes[place])]
    return found


def is_cjk(codes: Codes) -> NDArray[np.bool_]:
    ranges = ((0x2E80, 0x9FFF), (0xF900, 0xFAFF), (0xFF00, 0xFF60), (0x20000, 0x3FFFF))
    found = np.zeros(len(codes), bool)
    for first, last in ranges:
        found |= (codes >= first) & (codes <= last)
    return found


def texts_of(codes: Codes, starts: NDArray[np.intp], ends: NDArray[np.intp]) -> tuple[list[str], list[bool]]:
    """The words as text, cleaned, and which of them ended with a hyphen mark."""
    valid = np.where((codes >= 0xD800) & (codes <= 0xDFFF) | (codes > 0x10FFFF), 0xFFFD, codes).astype("<u4")
    whole = valid.tobytes().decode("utf-32-le")
    # Interned: a word is kept once for the whole document.
    words = [intern(whole[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    last = codes[np.maximum(ends - 1, 0)]
    marked = np.isin(last, HYPHENS)
    if not (codes[(codes > 126) | (codes == 2)]).size:
        return words, marked.tolist()
    hyphens = marked.tolist()
    for index, word in enumerate(words):
        if not word.isascii() or "\x02" in word:
            words[index] = intern(clean_word(word[:-1] if hyphens[index] else word))
    return words, hyphens


def clean_word(word: str) -> str:
    """Ligatures and presentation forms to letters, no soft hyphens or control characters: `oﬃce` -> `office`."""
    word = word.translate(_LIGATURES)
    if any("\ufb13" <= character <= "\ufdff" or "\ufe70" <= character <= "\ufefc" for character in word):
        word = unicodedata.normalize("NFKC", word).replace(" ", "")
    return word
