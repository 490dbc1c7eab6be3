"""How a spreadsheet shows a number: number formats, dates and durations, as in the cell. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import lru_cache

# Formats a file names by number only (ECMA-376 part 1, 18.8.30); 14 and 22 follow the reader's country, so ISO it is.
BUILT_IN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: "#,##0", 42: "$#,##0",
    43: "#,##0.00", 44: "$#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss",
    47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[\$(?P<currency>[^\]-]{0,255}+)[^\]]{0,255}+\]|\[[^\]]{0,255}\]'
    r"|(?P<general>General)|(?P<exponent>E[+-])|(?P<half>AM/PM|A/P)|(?P<date>y+|m+|d+|h+|s+|\.0+(?=$|[^0#?]))"
    r"|(?P<digits>[0#?][0#?,]*)|(?P<other>.)",
    re.I,
)
DATE_LETTERS = re.compile(r"[ymdhs]", re.I)
QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\]]{0,255}\]|_.|\*.|General|E[+-]', re.I)
ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.I)


def shown(value: float, code: str, *, from_1904: bool = False) -> str:
    """The number as displayed.

    >>> shown(1234.5, "$#,##0.00"), shown(0.125, "0.0%"), shown(45352, "yyyy-mm-dd")
    ('$1,234.50', '12.5%', '2024-03-01')
    """
    if code == "General":
        return _general(value)
    sections = _sections(code)
    if _is_date(sections[0]):
        return _shown_date(value, sections[0], from_1904)
    if len(sections) >= 2 and value < 0:
        return _shown_number(-value, sections[1])
    if len(sections) >= 3 and value == 0:
        return _shown_number(0, sections[2])
    text = _shown_number(abs(value), sections[0])
    return f"-{text}" if value < 0 and re.search("[1-9]", text) else text


@lru_cache(maxsize=1000)
def _is_date(section: str) -> bool:
    return bool(ELAPSED.search(section) or DATE_LETTERS.search(QUOTED.sub("", section)))


@lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[str, ...]:
    """Cut at semicolons that are not quoted: positive, negative, zero, text."""
    parts, quoted, escaped = [""], False, False
    for c in code[:500]:
        if c == ";" and not quoted and not escaped:
            parts.append("")
            continue
        quoted = quoted != (c == '"' and not escaped)
        escaped = c == "\\" and not escaped
        parts[-1] += c
    return tuple(parts)


@lru_cache(maxsize=1000)
def _tokens(section: str) -> list[tuple[str, str]]:
    """(kind, text) by the groups of TOKEN; what only makes room has no kind."""
    return [(token.lastgroup or "", token.group(token.lastgroup or 0)) for token in TOKEN.finditer(section)]


def _general(value: float) -> str:
    """As in a cell without a format: eleven characters at most, no needless zeros."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.10g}"


def _shown_number(value: float, section: str) -> str:
    """The number where its first placeholder stands, literals around it."""
    tokens = _tokens(section)
    plain = QUOTED.sub("", section)
    exponent = any(kind == "exponent" for kind, _ in tokens)
    placeholders = [index for index, (kind, _) in enumerate(tokens) if kind == "digits"]
    if placeholders and "/" in plain and not exponent:
        return _general(value)  # a fraction, 1/8: as the decimal number it is
    if placeholders:
        scale = 1000 ** len(re.findall(r",(?=[^0#?]*$)", re.sub(r"[^0#?,.]", "", plain)))
        mantissa = QUOTED.sub("", re.split(r"E[+-]", section, flags=re.I)[0])
        number = _digits(value * 100 ** plain.count("%") / scale, mantissa, exponent)
    parts: list[str] = []
    for index, (kind, text) in enumerate(tokens):
        inside = placeholders and placeholders[0] < index < placeholders[-1]
        if kind == "digits":
            parts.append(number if index == placeholders[0] else "")
        elif kind == "general":
            parts.append(_general(value))
        elif kind in ("quoted", "escaped", "currency") or (
            kind == "other" and text not in ".,?#@" and not (inside and text in "/ 0123456789")
        ):
            parts.append(text)
    return " ".join("".join(parts).split()) if placeholders else "".join(parts)


def _digits(value: float, mantissa: str, exponent: bool) -> str:
    whole, _, decimals = mantissa.partition(".")
    places = len(re.findall(r"[0#?]", decimals))
    if exponent:
        digits, power = f"{value:.{places}e}".split("e")
        return f"{digits}E{'-' if int(power) < 0 else '+'}{abs(int(power)):02d}"
    with localcontext() as context:
        context.prec = 400
        try:
            rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
        except InvalidOperation:
            return _general(value)
    grouped = re.search(r"[0#?],[0#?]", whole) is not None
    integer, _, rest = (f"{rounded:,f}" if grouped else f"{rounded:f}").partition(".")
    least = decimals.count("0")
    rest = rest[:least] + rest[least:].rstrip("0")
    zeros = whole.count("0")
    integer = "" if integer == "0" and zeros == 0 else integer.rjust(zeros, "0")
    return integer + (f".{rest}" if rest else "")


def _shown_date(value: float, section: str, from_1904: bool) -> str:
    if ELAPSED.search(section):
        return _elapsed(value, section.lower())
    # Serial 60 is 29 February 1900, which never was (Lotus 1-2-3); days before it are one later than counted.
    origin = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 if value >= 60 else 31)
    try:
        moment = origin + timedelta(milliseconds=round(value * 86_400_000))
    except OverflowError:
        return _general(value)
    tokens = _tokens(section)
    letters = [text[0].lower() if kind == "date" and text[0] != "." else "" for kind, text in tokens]
    twelve = any(kind == "half" for kind, _ in tokens)
    parts = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "half":
            parts.append("AM" if moment.hour < 12 else "PM")
        elif kind == "date":
            # `m` means minutes after hours or before seconds.
            before, after = "".join(letters[:index])[-1:], "".join(letters[index + 1 :])[:1]
            minutes = letters[index] == "m" and len(text) <= 2 and (before == "h" or after == "s")
            parts.append(_date_part(moment, text.lower(), minutes=minutes, twelve=twelve))
        elif kind in ("quoted", "escaped") or (kind == "other" and text not in "@;"):
            parts.append(text)
    return " ".join("".join(parts).split())


def _date_part(moment: datetime, code: str, *, minutes: bool, twelve: bool) -> str:
    if code[0] == ".":
        return f".{moment.microsecond:06d}"[: len(code)]
    if code[0] == "y":
        return f"{moment.year:04d}" if len(code) > 2 else f"{moment.year % 100:02d}"
    if len(code) > 2 and code[0] in "md":
        return moment.strftime({"mmm": "%b", "ddd": "%a"}.get(code, "%B" if code[0] == "m" else "%A"))
    hour = (moment.hour - 1) % 12 + 1 if twelve else moment.hour
    number = {"d": moment.day, "h": hour, "s": moment.second, "m": moment.minute if minutes else moment.month}[code[0]]
    return f"{number:02d}" if len(code) == 2 else str(number)


def _elapsed(value: float, section: str) -> str:
    """Durations count on past 24 hours: 1.5 under [h]:mm is "36:00"."""
    seconds = abs(round(value * 86_400))
    sign = "-" if round(value * 86_400) < 0 else ""
    if "[h" in section:
        text = f"{seconds // 3600}:{seconds % 3600 // 60:02d}"
        return sign + text + (f":{seconds % 60:02d}" if "s" in section else "")
    if "[m" in section:
        return f"{sign}{seconds // 60}:{seconds % 60:02d}"
    return f"{sign}{seconds}"
