"""The words that figures are written with: scales, units, currencies, number words. Data only."""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    base: str
    factor: float


SCALES: dict[str, float] = {
    "hundred": 1e2, "thousand": 1e3, "thousands": 1e3, "k": 1e3, "K": 1e3, "tsd": 1e3, "million": 1e6, "millions": 1e6,
    "mn": 1e6, "mln": 1e6, "mio": 1e6, "M": 1e6, "m": 1e6, "millionen": 1e6, "billion": 1e9, "billions": 1e9,
    "bn": 1e9, "B": 1e9, "b": 1e9, "mrd": 1e9, "milliarden": 1e9, "trillion": 1e12, "tn": 1e12, "trn": 1e12,
    "lakh": 1e5, "crore": 1e7, "dozen": 12.0,
}  # fmt: skip

CURRENCIES: dict[str, str] = {
    "US$": "USD", "$": "USD", "USD": "USD", "dollars": "USD", "dollar": "USD", "€": "EUR", "EUR": "EUR", "euros": "EUR",
    "euro": "EUR", "£": "GBP", "GBP": "GBP", "sterling": "GBP", "¥": "JPY", "JPY": "JPY", "yen": "JPY", "CHF": "CHF",
    "francs": "CHF", "₹": "INR", "INR": "INR", "rupees": "INR", "CAD": "CAD", "C$": "CAD", "AUD": "AUD", "A$": "AUD",
    "RMB": "CNY", "CNY": "CNY", "yuan": "CNY", "kr": "SEK", "SEK": "SEK", "NOK": "NOK", "DKK": "DKK", "cents": "cent",
}  # fmt: skip


def _units() -> dict[str, Reading]:
    """Every spelling of every unit, in its base: grams, metres, seconds, litres, watts …"""
    table = {
        "g": ("g gram grams gramme grammes", 1.0),
        "kg": ("kg kilo kilos kilogram kilograms kilogramme kilogrammes", 1e3),
        "mg": ("mg milligram milligrams", 1e-3), "ug": ("µg μg mcg microgram micrograms", 1e-6),
        "t": ("t tonne tonnes ton tons", 1e6), "oz": ("oz ounce ounces", 28.349523), "lb": ("lb lbs", 453.59237),
    }  # fmt: skip
    found = {name: Reading("g", factor) for names, factor in table.values() for name in names.split()}
    lengths = {
        "m metre metres meter meters": 1.0, "km kilometre kilometres kilometer kilometers": 1e3,
        "cm centimetre centimetres centimeter centimeters": 1e-2,
        "mm millimetre millimetres millimeter millimeters": 1e-3,
        "µm μm micron microns": 1e-6, "nm nanometre nanometres nanometer nanometers": 1e-9, "mile miles mi": 1609.344,
        "ft foot feet": 0.3048, "inch inches": 0.0254, "yard yards yd": 0.9144, "nmi": 1852.0,
    }  # fmt: skip
    times = {
        "s sec secs seconds": 1.0, "ms millisecond milliseconds": 1e-3, "min mins minute minutes": 60.0,
        "h hr hrs hour hours": 3600.0, "day days": 86400.0, "week weeks": 604800.0,
    }  # fmt: skip
    calendar = {"month months": 1.0, "year years yr yrs": 12.0, "decade decades": 120.0, "century centuries": 1200.0}
    volumes = {"l litre litres liter liters": 1.0, "ml millilitre millilitres milliliter milliliters": 1e-3}
    areas = {"ha hectare hectares": 1e4, "acre acres": 4046.8564, "m² m2 sqm": 1.0, "km² km2": 1e6}
    powers = {
        "W watt watts": 1.0,
        "kW kilowatt kilowatts": 1e3,
        "MW megawatt megawatts": 1e6,
        "GW gigawatt gigawatts": 1e9,
    }
    works = {"Wh": 1.0, "kWh": 1e3, "MWh": 1e6, "GWh": 1e9, "TWh": 1e12}
    bytes_ = {"KB kB kilobytes": 1e3, "MB megabytes": 1e6, "GB gigabytes": 1e9, "TB terabytes": 1e12}
    tension = {"V volt volts": 1.0, "kV": 1e3, "mV": 1e-3}
    speeds = {"km/h kmh kph": 1.0, "mph": 1.609344, "knots knot kn": 1.852, "m/s": 3.6}
    pressures = {"Pa": 1.0, "hPa mbar millibar": 1e2, "kPa": 1e3, "MPa": 1e6, "bar bars": 1e5, "psi": 6894.757}
    frequencies = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
    groups = (
        ("m", lengths), ("s", times), ("month", calendar), ("l", volumes), ("m²", areas), ("W", powers), ("Wh", works),
        ("byte", bytes_), ("V", tension), ("km/h", speeds), ("Pa", pressures), ("Hz", frequencies),
    )  # fmt: skip
    for base, group in groups:
        found |= {name: Reading(base, factor) for names, factor in group.items() for name in names.split()}
    alone = "°C °F °K degrees kelvin mol mmol ppm ppb dB people persons points basis bps fathoms rpm BC AD"
    return found | {name: Reading(name, 1.0) for name in alone.split()}


UNITS = _units()

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS: dict[str, float] = {word: float(number) for number, word in enumerate(_SMALL.split())}
WORDS |= {word: 10.0 * number for number, word in enumerate(_TENS.split(), 2)}
WORDS |= {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12.0}

_ORDERED = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
)
ORDINALS: dict[str, int] = {word: number for number, word in enumerate(_ORDERED.split(), 1)}
ORDINALS |= {"twentieth": 20}

FRACTIONS: dict[str, float] = {
    "half": 0.5, "a half": 0.5, "one half": 0.5, "a third": 1 / 3, "one third": 1 / 3, "two thirds": 2 / 3,
    "a quarter": 0.25, "one quarter": 0.25, "three quarters": 0.75, "a fifth": 0.2, "one fifth": 0.2, "two fifths": 0.4,
    "three fifths": 0.6, "four fifths": 0.8, "a tenth": 0.1, "one tenth": 0.1,
}  # fmt: skip
