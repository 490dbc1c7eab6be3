"""How does a spreadsheet show this number? 0.125 under "0.0%" is "12.5%". Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from fractions import Fraction
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
    r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]{0,255}+)[^\]]{0,255}+\]|(\[h+\]|\[m+\]|\[s+\])|\[[^\]]{0,255}\]|(General)|(E[+-])|'
    r"(AM/PM|A/P)|(y+|m+|d+|h+|s+|\.0+(?=$|[^0#?]))|([0#?][0#?,]*)|(.)",
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
        return general(value)
    sections = split_sections(code)
    if is_date(sections[0]):
        return _shown_date(value, sections[0], from_1904)
    if len(sections) >= 2 and value < 0:
        return _shown_number(-value, sections[1])
    if len(sections) >= 3 and value == 0:
        return _shown_number(0, sections[2])
    text = _shown_number(abs(value), sections[0])
    return f"-{text}" if value < 0 and re.search("[1-9]", text) else text


@lru_cache(maxsize=1000)
def is_date(section: str) -> bool:
    if ELAPSED.search(section):
        return True
    return DATE_LETTERS.search(QUOTED.sub("", section)) is not None


@lru_cache(maxsize=1000)
def split_sections(code: str) -> tuple[str, ...]:
    """Cut at semicolons that are not quoted: positive, negative, zero, text."""
    parts, current, quoted, escaped = [], "", False, False
    for c in code[:500]:
        if c == ";" and not quoted and not escaped:
            parts.append(current)
            current = ""
            continue
        quoted = quoted != (c == '"' and not escaped)
        escaped = c == "\\" and not escaped
        current += c
    return (*parts, current)


@lru_cache(maxsize=1000)
def _tokens(section: str) -> list[tuple[str | None, ...]]:
    return [found.groups() for found in TOKEN.finditer(section)]


def general(value: float) -> str:
    """As in a cell without a format: eleven characters at most, no needless zeros."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.10g}"


def _shown_number(value: float, section: str) -> str:
    tokens = _tokens(section)
    plain = QUOTED.sub("", section)
    percents = plain.count("%")
    exponent = next((group[5] for group in tokens if group[5]), "")
    placeholders = [group[8] for group in tokens if group[8]]
    if not placeholders:
        return "".join(_literal(group, value) for group in tokens)
    if "/" in plain and not exponent:
        number, replaced = _fraction(value, plain), True
    else:
        scale = 1000 ** len(re.findall(r",(?=[^0#?]*$)", re.sub(r"[^0#?,.]", "", plain)))
        mantissa = QUOTED.sub("", re.split(r"E[+-]", section, flags=re.I)[0])
        number, replaced = _digits(value * 100**percents / scale, mantissa, exponent), False
    return _placed(tokens, number, value, drop_slash=replaced)


def _placed(tokens: list[tuple[str | None, ...]], number: str, value: float, *, drop_slash: bool) -> str:
    """The number where its first placeholder stands, literals around it."""
    parts: list[str] = []
    placed = False
    last = max(index for index, group in enumerate(tokens) if group[8])
    for index, group in enumerate(tokens):
        if group[8]:
            if not placed:
                parts.append(number)
                placed = True
        elif group[5] or (drop_slash and group[9] == "/"):
            continue
        elif placed and index < last and (group[9] in (".", "/", " ") or group[7]):
            continue  # stands inside the number, which has its own
        else:
            parts.append(_literal(group, value))
    return " ".join("".join(parts).split())


def _literal(group: tuple[str | None, ...], value: float) -> str:
    quoted, escaped, currency, _, is_general, _, _, _, _, other = group
    if is_general:
        return general(value)
    if quoted is not None or escaped is not None or currency is not None:
        return quoted or escaped or currency or ""
    return other if other and other not in ".,?#@" else ""


def _digits(value: float, mantissa: str, exponent: str) -> str:
    whole, _, decimals = mantissa.partition(".")
    places = len(re.findall(r"[0#?]", decimals))
    least = len(re.findall("0", decimals))
    if exponent:
        text = f"{value:.{places}e}"
        digits, power = text.split("e")
        return f"{digits}E{'-' if int(power) < 0 else '+'}{abs(int(power)):02d}"
    with localcontext() as context:
        context.prec = 400
        try:
            rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
        except InvalidOperation:
            return general(value)
    grouped = re.search(r"[0#?],[0#?]", whole) is not None
    text = f"{rounded:,f}" if grouped else f"{rounded:f}"
    integer, _, rest = text.partition(".")
    while len(rest) > least and rest.endswith("0"):
        rest = rest[:-1]
    zeros = whole.count("0")
    if integer == "0" and zeros == 0:
        integer = ""
    return integer.rjust(zeros, "0") + (f".{rest}" if rest else "")


def _fraction(value: float, plain: str) -> str:
    after = re.split("/", plain, maxsplit=1)[1].strip()
    fixed = re.match(r"\d+", after)
    if fixed and int(fixed.group()) > 0:
        bottom = int(fixed.group())
        top = round((value - int(value)) * bottom)
    else:
        part = Fraction(value - int(value)).limit_denominator(
            10 ** max(1, min(4, after.count("?") + after.count("#"))) - 1
        )
        top, bottom = part.numerator, part.denominator
    whole = int(value) + (1 if top == bottom else 0)
    return str(whole) if top in (0, bottom) else (f"{whole} " if whole else "") + f"{top}/{bottom}"


def _shown_date(value: float, section: str, from_1904: bool) -> str:
    if ELAPSED.search(section):
        return _elapsed(value, section)
    # Serial 60 is 29 February 1900, which never was (Lotus 1-2-3); days before it are one later than counted.
    origin = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 if value >= 60 else 31)
    try:
        moment = origin + timedelta(milliseconds=round(value * 86_400_000))
    except OverflowError:
        return general(value)
    tokens = _tokens(section)
    letters = [(group[7] or "").lower()[:1] for group in tokens]
    twelve = any(group[6] for group in tokens)
    parts = []
    for index, group in enumerate(tokens):
        code = (group[7] or "").lower()
        if group[6]:
            parts.append("AM" if moment.hour < 12 else "PM")
        elif code:
            minutes = code[0] == "m" and len(code) <= 2 and _beside_time(letters, index)
            parts.append(_date_part(moment, code, minutes=minutes, twelve=twelve))
        elif group[0] or group[1]:
            parts.append(group[0] or group[1] or "")
        elif group[9] and group[9] not in "@;":
            parts.append(group[9])
    return " ".join("".join(parts).split())


def _beside_time(letters: list[str], index: int) -> bool:
    """`m` means minutes after hours or before seconds."""
    before = next((letter for letter in reversed(letters[:index]) if letter and letter != "."), "")
    after = next((letter for letter in letters[index + 1 :] if letter and letter != "."), "")
    return before == "h" or after == "s"


def _date_part(moment: datetime, code: str, *, minutes: bool, twelve: bool) -> str:
    hour = (moment.hour - 1) % 12 + 1 if twelve else moment.hour
    number = {"d": moment.day, "h": hour, "s": moment.second, "m": moment.minute if minutes else moment.month}
    if code[0] == ".":
        return f".{moment.microsecond:06d}"[: len(code)]
    if code[0] == "y":
        return f"{moment.year:04d}" if len(code) > 2 else f"{moment.year % 100:02d}"
    if len(code) <= 2:
        return f"{number[code[0]]:02d}" if len(code) == 2 else str(number[code[0]])
    names = {"m": ("%b", "%B"), "d": ("%a", "%A")}
    return moment.strftime(names[code[0]][0 if len(code) == 3 else 1]) if code[0] in names else str(number[code[0]])


def _elapsed(value: float, section: str) -> str:
    """Durations count on past 24 hours: 1.5 under [h]:mm is "36:00"."""
    seconds = round(value * 86_400)
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    lower = section.lower()
    if "[h" in lower:
        text = f"{seconds // 3600}:{seconds % 3600 // 60:02d}"
        return sign + text + (f":{seconds % 60:02d}" if "s" in lower else "")
    if "[m" in lower:
        return f"{sign}{seconds // 60}:{seconds % 60:02d}"
    return f"{sign}{seconds}"
