"""Which encoding are these bytes? Byte order mark, then UTF-8, then statistics."""

from __future__ import annotations

import codecs
import re

MARKS = (  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What people's files are written in; without this list charset-normalizer also proposes EBCDIC and Macintosh tables.
CANDIDATES = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "koi8_u", "cp932", "euc_jp", "iso2022_jp"),
    *("gb18030", "big5", "cp949", "tis_620", "mac_roman", "cp850"),
]
# What browsers read under these names (encoding.spec.whatwg.org): the larger set that writers really use.
SUPERSETS = {
    **{"gb2312": "gb18030", "gbk": "gb18030", "shift-jis": "cp932", "ks-c-5601-1987": "cp949", "euc-kr": "cp949"},
    **{"big5": "big5hkscs", "iso-8859-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252", "iso-8859-9": "cp1254"},
    **{"tis-620": "cp874", "iso-8859-8-i": "iso-8859-8"},
}
SAMPLE = 1 << 16
# UTF-8 read as Latin-1 and written as UTF-8 again leaves control characters behind letters: "1986â\x80\x931990".
CONTROLS = re.compile("[\x80-\x9f]")
TWICE_ENCODED = re.compile("[\xc2-\xf4][\x80-\xbf]{1,3}")
HIGH_RUN = re.compile(rb"[\x80-\xff]+")


def decode(data: bytes, declared: str = "") -> str:
    """Text of any encoding, with line ends as "\\n"; `declared` is what the file says of itself.

    >>> decode("žluťoučký".encode("utf-16"))
    'žluťoučký'
    """
    text = _decode(data, declared).replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    return TWICE_ENCODED.sub(_once, text) if CONTROLS.search(text) else text


def _once(found: re.Match[str]) -> str:
    try:
        return found.group().encode("latin-1").decode("utf-8")
    except UnicodeError:
        return found.group()


def wide_encoding(data: bytes) -> str:
    """UTF-16 or UTF-32 by its mark, or without one by where the zero bytes stand; "" if it is neither."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding if encoding != "utf-8-sig" else ""
    sample = data[:4096]
    if len(sample) < 4 or 0 not in sample:
        return ""
    quarters = [sample[offset::4].count(0) / max(1, len(sample[offset::4])) for offset in range(4)]
    if min(quarters[1:]) > 0.7 and quarters[0] < 0.1:
        return "utf-32-le"
    if min(quarters[:3]) > 0.7 and quarters[3] < 0.1:
        return "utf-32-be"
    even, odd = (quarters[0] + quarters[2]) / 2, (quarters[1] + quarters[3]) / 2
    # Prose in Latin letters has zeros in nearly every other byte; .4 leaves room for other scripts beside them.
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    if even > 0.4 and odd < 0.05:
        return "utf-16-be"
    return ""


def _decode(data: bytes, declared: str) -> str:
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if wide := wide_encoding(data):
        return data.decode(wide, errors="replace")
    declared = SUPERSETS.get(declared.lower().replace("_", "-"), declared)
    # Encodings of seven bits are valid UTF-8 as they stand, so what the file says goes first there.
    seven_bits = declared.lower().startswith(("iso-2022", "hz", "utf-7"))
    if b"\x1b$" in data[:SAMPLE] or b"\x1b(" in data[:SAMPLE]:
        seven_bits, declared = True, declared if seven_bits else "iso2022_jp_2"
    for encoding in (declared, "utf-8") if seven_bits else ("utf-8", declared):
        if encoding:
            try:
                return data.decode(encoding)
            except (UnicodeDecodeError, LookupError):
                continue
    return data.decode(_guess(data), errors="replace")


def _guess(data: bytes) -> str:
    """The most likely encoding of bytes that are not UTF-8."""
    from charset_normalizer import from_bytes  # 30 ms to import; most files are UTF-8

    sample = _around_high_bytes(data)
    if _mostly_utf8(data):
        return "utf-8"
    runs = HIGH_RUN.findall(sample)
    lonely = sum(1 for run in runs if len(run) == 1)
    if runs and lonely >= 0.9 * len(runs) and len(runs) < 40:
        return "cp1252"  # single accented letters among ASCII; too few of them for statistics
    best = from_bytes(sample, cp_isolation=CANDIDATES, preemptive_behaviour=True).best()
    if best is not None:
        return best.encoding
    return "cp1252"


def _mostly_utf8(data: bytes) -> bool:
    """One damaged character in a long UTF-8 text does not make it something else."""
    sample = data[: SAMPLE * 4]
    high = sum(len(run) for run in HIGH_RUN.findall(sample))
    wrong = sample.decode("utf-8", errors="replace").count("\ufffd")
    return high > 20 and wrong <= high * 0.05


def _around_high_bytes(data: bytes) -> bytes:
    """Up to 64 KiB from the first line that is not ASCII on, so that statistics see what matters."""
    found = HIGH_RUN.search(data)
    if found is None or len(data) <= SAMPLE:
        return data[:SAMPLE]
    begin = max(data.rfind(b"\n", 0, found.start()) + 1, found.start() - 1000)
    sample = data[begin : begin + SAMPLE]
    return sample[: sample.rfind(b"\n") + 1] or sample
