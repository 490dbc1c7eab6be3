"""Which formula does a question ask for? One that it defines, one that a ratio is known by, a share, a sum.

    "DPO is defined as: 365 * (average accounts payable between FY2016 and FY2017) / FY2017 cost of sales"
    "What is the FY2015 - FY2017 3 year average of capex as a % of revenue?"      "What was the current ratio in 2022?"

Read into a tree of figures with their times. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache

from refdesk.answer import Query
from refdesk.ask.sentences import asking_part, question_words
from refdesk.ask.support import is_change
from refdesk.ask.table_answer import asks_for_figure, asks_yes_or_no
from refdesk.ask.table_question import asking_clause
from refdesk.ask.table_view import MOST_AT_ONCE
from refdesk.ask.wording import NUMBER, NUMBER_WORDS, PART, PERCENT, YEAR_NUMBER
from refdesk.periods import named_times, read_period, spoken_periods, year_ranges
from refdesk.text import QUERY_STOP_WORDS, asset_lines, terms, words

DECIMALS = 2  # where the question says nothing of them
ENDS = QUERY_STOP_WORDS - {"a"} | {"during"}  # no figure begins or ends with these; one may be called "a"
_DEFINED = re.compile(r"\b(?:defined|calculated|computed) as\b:?", re.IGNORECASE)
_ENDED = re.compile(r"[?!;]|\.(?=\s|$)")
_TOKEN = re.compile(
    r"(?P<open>[(\[])|(?P<close>[)\]])|(?P<sign>[+*/×÷]|(?<=\s)[-−–](?=\s)|(?<=\))\s*[-−–])"
    r"|(?P<word>divided by|multiplied by|plus|minus|times)\b"
    r"|(?P<number>\d+(?:[.,]\d+)*(?!\w)(?! ?%))|(?P<text>[^\s()\[\]+*/×÷]+)",
    re.IGNORECASE,
)
_SIGNS = {"divided by": "/", "÷": "/", "multiplied by": "*", "times": "*", "×": "*", "plus": "+", "minus": "-"}
_BETWEEN = re.compile(
    r"^(?P<how>average|mean|change|increase|decrease) (?:of |in )?(?:the )?(?P<what>.+?)"
    r" (?:between|from|for|in) (?P<times>.+)$",
    re.IGNORECASE,
)
_SHARE = re.compile(r"^(?P<what>.+?),? as an? (?:%|per ?cent(?:age)?|share|ratio) of (?P<of>.+)$", re.IGNORECASE)
_AVERAGE = re.compile(r"\b(?:\w+[ -]year )?average (?:of )?(?:the )?(?P<what>[^?]+)", re.IGNORECASE)
_FOR_WHOM = re.compile(r" (?:for|of|at|by) (?:the )?[A-Z][\w&.'’-]*(?: [A-Z0-9][\w&.'’-]*)*\s*$")
_GROWTH = frozenset(terms("growth grow grew grown"))
_BY_HOW_MUCH = re.compile(r"\bby (?:what|how many|how much) (?:%|per ?cent\w*)", re.IGNORECASE)
# "What share of Ortel's net sales came from winches?", "what percentage of revenue is due to services?"
_PART = re.compile(
    r"\b(?:share|percentage|per ?cent|proportion|%) of (?P<whole>.{3,60}?) "
    r"(?:came|comes|is|was|were|are) (?:from|due to) (?P<part>[^?,.]{2,60})",
    re.IGNORECASE,
)
# "The ratio of fees to costs", "the sum of fees and dues", "the difference between fees and costs"
_OPERATION = re.compile(r"\b(?P<how>ratio of|sum of|difference between) (?P<both>[^?;:()]{5,160})", re.IGNORECASE)
_BEGINS = re.compile(r"(?:^|\b(?:is|was|were|are|what|calculate|compute|give|me))\s*(?:the\s)?$", re.IGNORECASE)
_OPERATIONS = {"ratio of": ("/", " to "), "sum of": ("+", " and "), "difference between": ("-", " and ")}
_WHOSE = re.compile(r"^.*['’]s? ")


def asks_for_growth(question: str) -> bool:
    """Is the growth of something asked for, which no amount of it is? "By what percentage did fees rise in 2021?" """
    return not _GROWTH.isdisjoint(terms(question)) or (
        PERCENT.search(question) is not None and any(map(is_change, words(question)))
    )


def without_growth(question: str) -> str:
    """What is left is what has grown, and when.

    >>> without_growth("By what percentage did fees increase in 2021?")
    'What was fees in 2021?'
    """
    plain = _BY_HOW_MUCH.sub("", question)
    said = plain.replace("growth rate", "growth").split()
    asked = [word for word in said if not is_change(word) and _GROWTH.isdisjoint(terms(word))]
    return " ".join(["What was", *asked[1:]] if plain != question and asked[:1] in (["did"], ["Did"]) else asked)


@dataclass(frozen=True, slots=True)
class AskedFigure:
    """A figure of the formula: what it is called, and of when."""

    what: str
    when: str = ""
    may_lack: bool = False  # counts as nothing where no table has it


@dataclass(frozen=True, slots=True)
class Node:
    """A number, a figure, or an operation over others: + - * / and "average"."""

    sign: str = ""
    parts: tuple[Node, ...] = ()
    figure: AskedFigure | None = None
    number: float = 0.0

    def figures(self) -> Iterator[AskedFigure]:
        if self.figure is not None:
            yield self.figure
        for part in self.parts:
            yield from part.figures()

    def of_time(self, when: str) -> Node:
        """With its figures as those of one time."""
        figure = replace(self.figure, when=when) if self.figure is not None else None
        return replace(self, figure=figure, parts=tuple(part.of_time(when) for part in self.parts))

    def with_parts(self, others: Mapping[AskedFigure, Node]) -> Node:
        """With what some of its figures are computed from in their place."""
        if self.figure is not None:
            return others.get(self.figure, self)
        return replace(self, parts=tuple(part.with_parts(others) for part in self.parts))

    def without(self, missing: Set[AskedFigure]) -> Node:
        """Sums without these figures."""
        parts = [part.without(missing) for part in self.parts]
        remaining = [part for part in parts if part.figure is None or part.figure not in missing]
        return remaining[0] if self.sign == "+" and len(remaining) == 1 else replace(self, parts=tuple(parts))

    def value(self, known: Mapping[AskedFigure, float]) -> float:
        """What it gives; a division by zero is raised as such."""
        if self.figure is not None:
            return known[self.figure]
        values = [part.value(known) for part in self.parts]
        match self.sign:
            case "":
                return self.number
            case "average":
                return sum(values) / len(values)
            case "+":
                return values[0] + values[1]
            case "-":
                return values[0] - values[1]
            case "*":
                return values[0] * values[1]
        return values[0] / values[1]

    def spelled(self, shown: Callable[[AskedFigure], str]) -> str:
        """As a person would write it down: "(4,210 + 4,430) / 2"."""
        if self.figure is not None:
            return shown(self.figure)
        if not self.sign:
            return f"{self.number:,g}"
        shown_parts = [part.spelled(shown) for part in self.parts]
        if self.sign == "average":
            return f"({' + '.join(shown_parts)}) / {len(shown_parts)}" if len(shown_parts) > 1 else shown_parts[0]
        if self.sign == "+":
            return " + ".join(shown_parts)
        first, second = (self.parts[at].sign in ("+", "-", "average") for at in (0, 1))
        second = second or (self.sign == "/" and bool(self.parts[1].sign))  # "a / (b × c)"
        left = f"({shown_parts[0]})" if first and self.sign != "-" else shown_parts[0]
        return f"{left} {self.sign} {f'({shown_parts[1]})' if second else shown_parts[1]}".replace("*", "×")


@dataclass(frozen=True, slots=True)
class Formula:
    name: str
    root: Node
    is_percent: bool = False
    decimals: int = DECIMALS
    is_defined: bool = False  # by the question itself
    is_change: bool = False  # of one figure between two times
    reported: str = ""  # what the documents themselves say that it is


def formulas_in(question: str, times: Sequence[str] = ()) -> list[Formula]:
    """The formulas that a question asks for, in order; `times`: for which it asks for a ratio that it only names.

    "Has the gross margin improved from 2021 to 2022?" asks for two, and what is known by two formulas for both.
    """
    match, years = _DEFINED.search(question), _years(question)
    if match:
        default = _time(question[: match.end()])
        name = _without_ends(PART.split(question[: match.start()].rstrip(" ,"))[-1]) or "It"  # "It is defined as"
        root = _read(_ENDED.split(question[match.end() :], maxsplit=1)[0], default)
        return _checked([(name, root)], question, is_defined=True)
    if (average := _AVERAGE.search(question)) and len(years) > 1:
        name = _FOR_WHOM.sub("", average["what"].partition("(")[0].strip(" ?"))
        roots = [_named(name, str(year))[:1] for year in years]
        root = Node("average", tuple(root for of_year in roots for root in of_year)) if all(roots) else None
        return _checked([(name, root)], question, is_defined=True)
    if part := _PART.search(question):
        when = _time(question)
        whole, portion = (_named_thing(part[name], when) for name in ("whole", "part"))
        shared = Node("/", tuple(Node(figure=AskedFigure(what, when)) for what in (f"{portion} {whole}", whole)))
        return (
            _checked([(f"{portion} as a share of {whole}", shared)], question, is_defined=True, is_percent=True)
            if portion and whole
            else []
        )
    if (spoken := _spoken_operation(question)) is not None:
        return _checked([spoken], question, is_defined=True)
    found: list[Formula] = []
    name = ratio_named(question)
    whens = times or [_time(question)]
    for when in whens:
        for formula in _ratios().get(name, ()):
            called = f"{name}, {when}" if len(whens) > 1 else name
            pairs = [(called, own_root) for own_root in _of_ratio(formula, when)]
            found += _checked(pairs, question, is_percent=formula.endswith("%"))
    return found


def _spoken_operation(question: str) -> tuple[str, Node] | None:
    """What is computed from two things that the question names, with its name; None where it says no such thing.

    Things may be called by "and" themselves, so that the one in the middle joins them.

    >>> _spoken_operation("What was the sum of sales and marketing and rent in 2022?")[0]
    'Sum of sales and marketing and rent'
    """
    match = _OPERATION.search(question)
    # Between two times it is a change; and "the share that the sum of both has" is no sum.
    if match is None or len(YEAR_NUMBER.findall(question)) > 1 or not _BEGINS.search(question[: match.start()]):
        return None
    sign, joint = _OPERATIONS[match["how"].lower()]
    words, when = match["both"].split(joint), _time(question)
    middle = (len(words) + 1) // 2
    sides = [_without_time(joint.join(side), when) for side in (words[:middle], words[middle:])]
    things = [_named_thing(_FOR_WHOM.sub("", side), "") for side in sides]
    figures = tuple(Node(figure=AskedFigure(thing, when)) for thing in things)
    name = f"{match['how'][:1].upper()}{match['how'][1:]} {joint.join(things)}"
    return (name, Node(sign, figures)) if all(things) else None


def _without_time(text: str, when: str) -> str:
    """ "rent in 2022" -> "rent"."""
    return _plain(" ".join((text.replace(when, " ") if when else text).split()))


def _checked(
    roots: Sequence[tuple[str, Node | None]], question: str, *, is_defined: bool = False, is_percent: bool = False
) -> list[Formula]:
    """As far as they are formulas over several figures."""
    asked_words = words(question)
    at = next((at for at, word in enumerate(asked_words[1:]) if word.startswith("decimal")), None)
    count = NUMBER_WORDS.get(asked_words[at], asked_words[at]) if at is not None else DECIMALS
    decimals = int(count) if str(count).isdecimal() else DECIMALS
    is_percent = is_percent or bool(PERCENT.search(question))
    return [
        Formula(name, root, is_percent and root.sign in ("/", "average"), decimals, is_defined)
        for name, root in roots
        if root is not None and name and 1 < len({*root.figures()}) <= MOST_AT_ONCE
    ]


def _named_thing(text: str, when: str) -> str:
    """Without the time and whose it is: "Ortel's net sales in 2022" are net sales."""
    return _plain(_WHOSE.sub("", _without_time(text, when)).strip(" ?"))


def _without_ends(text: str) -> str:
    """Without small words where it begins and ends."""
    words = text.split()
    telling = [place for place, word in enumerate(words) if word.lower() not in ENDS]
    return " ".join(words[telling[0] : telling[-1] + 1]) if telling else ""


def _years(text: str) -> list[int]:
    return list(next(year_ranges(text), ()))


def _time(text: str) -> str:
    """The first time of a text that names one alone; "" where it names none or several."""
    if not read_period(text).year:
        return ""
    named = (text[start:end] for start, end in sorted(spoken_periods(text), key=lambda span: (span[0], -span[1])))
    return next((when for when in named if read_period(when).year), "")


# --- reading a formula ------------------------------------------------------------------------------------------------


def _read(text: str, default: str) -> Node | None:
    """The tree of a formula in its letters; None where it has no operation or does not close."""
    tokens = [(match.lastgroup or "", match.group().strip()) for match in _TOKEN.finditer(text)]
    if tokens and tokens[-1][0] == "close" and text.count("(") < text.count(")"):  # "(it is defined as a / b)"
        tokens.pop()
    reader = _Reader(tokens, default)
    root = reader.sum()
    return root if root is not None and reader.at == len(tokens) and (root.sign or root.figure) else None


class _Reader:
    """Recursive descent: sums of products of figures, numbers and brackets."""

    def __init__(self, tokens: list[tuple[str, str]], default: str) -> None:
        self.tokens, self.default, self.at = tokens, default, 0

    def sum(self) -> Node | None:
        return self._chain(self.product, "+-")

    def product(self) -> Node | None:
        return self._chain(self.leaf, "*/")

    def _chain(self, part: Callable[[], Node | None], signs: str) -> Node | None:
        found = part()
        while found is not None and (sign := self._sign()) and sign in signs:
            self.at += 1
            other = part()
            found = Node(sign, (found, other)) if other is not None else None
        return found

    def _sign(self) -> str:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        if kind == "word":
            return _SIGNS[" ".join(text.lower().split())]
        return _SIGNS.get(text, text).replace("−", "-").replace("–", "-") if kind == "sign" else ""

    def leaf(self) -> Node | None:
        if self.at >= len(self.tokens):
            return None
        if self.tokens[self.at][0] == "open":
            self.at += 1
            inside = self.sum()
            if inside is None or self.at >= len(self.tokens) or self.tokens[self.at][0] != "close":
                return None
            self.at += 1
            return inside
        words = []
        while self.at < len(self.tokens) and self.tokens[self.at][0] in ("text", "number"):
            words.append(self.tokens[self.at])
            self.at += 1
        if [kind for kind, _ in words] == ["number"]:
            return Node(number=float(words[0][1].replace(",", "")))
        return _figure(" ".join(word for _, word in words), self.default) if words else None


def _figure(text: str, default: str) -> Node | None:
    """A figure, or an average or a change of one between two times."""
    text = text.strip(" ,.")
    if (match := _BETWEEN.match(text)) and len(years := YEAR_NUMBER.findall(match["times"])) > 1:
        times = [f"the end of FY{year}" for year in years]
        figures = tuple(Node(figure=AskedFigure(_plain(match["what"]), when)) for when in times)
        if match["how"].lower() in ("average", "mean"):
            return Node("average", figures)
        first, last = figures[0], figures[-1]
        return Node("-", (first, last) if match["how"].lower() == "decrease" else (last, first))
    when = _time(text)
    what = _without_time(text, when)
    may_lack = what.endswith("?")
    return Node(figure=AskedFigure(what.rstrip("?"), when or default, may_lack)) if what else None


def _plain(text: str) -> str:
    return _without_ends(text.strip(" ,"))


# --- formulas that have a name ---------------------------------------------------------------------------------------


@cache
def _ratios() -> dict[str, list[str]]:
    """By each of its names the formulas of a ratio (assets/ratios.txt)."""
    found: dict[str, list[str]] = {}
    for line in asset_lines("ratios", "ratios"):
        names, _, formula = line.partition(" = ")
        for name in names.split(","):
            formulas = found.setdefault(name.strip().lower().replace("-", " "), [])
            formulas += [formula] if formula not in formulas else []
    return found


@cache
def derived() -> dict[str, Node]:
    """Figures that not every statement has a row for, with what they are computed from."""
    found = {}
    for line in asset_lines("ratios", "derived"):
        name, _, formula = line.partition(" = ")
        root = _read(formula, "")
        assert root is not None
        found[name] = root
    return found


def names_ratio(question: str) -> bool:
    """Does it name one that is computed? Then no row of another name is it: a gross margin is no operating margin."""
    return bool(ratio_named(question))


def ratio_named(question: str) -> str:
    """The ratio that the question names, the longest name of those it holds."""
    spoken = f" {' '.join(words(question.replace('-', ' ')))} "
    names = [name for name in _ratios() if f" {name} " in spoken or f" {name}s " in spoken]
    return max(names, key=len, default="")


def _named(what: str, when: str) -> list[Node]:
    """A ratio by its name, or one thing as a share of another; several where people mean several by it."""
    if match := _SHARE.match(what):
        parts = [Node(figure=AskedFigure(_plain(match[part]), when)) for part in ("what", "of")]
        return [Node("/", tuple(parts))]
    return [root for formula in _ratios().get(what.lower().strip(), ()) for root in _of_ratio(formula, when)]


def _of_ratio(formula: str, when: str) -> list[Node]:
    """Of one time; none where it needs the year before, and no year is named."""
    before = str(int(when_year.group()) - 1) if (when_year := YEAR_NUMBER.search(when)) else ""
    if "average" in formula and not before:
        return []
    root = _read(formula.strip("% ").replace("{between}", f"between {before} and {when}"), when)
    return [root] if root is not None else []


# --- is anything to be computed? --------------------------------------------------------------------------------------


def asks_to_compute(query: Query) -> bool:
    """May a formula answer it? Yes or no only where it names a time or a ratio: "has debt grown since 2021?"."""
    is_of_time = asks_yes_or_no(query) and (bool(named_times(query.fullest)) or names_ratio(query.fullest))
    return query.number >= NUMBER or asks_for_figure(query) or is_of_time


def asks_over_time(query: Query) -> bool:
    """Does it ask how a figure has become, and name no time?"""
    text = asking_part(query.fullest)
    is_so = asks_for_figure(query) and asking_clause(text).lower().startswith(("how has ", "how have "))
    return is_so and not named_times(text)


def asks_of_several(query: Query) -> bool:
    """Does it ask for a figure and name more than one thing that may have it? "WB-7" is one."""
    text = asking_part(query.fullest)
    names = question_words(asking_clause(text)).sentence.names
    naming = [word for word in text.replace("/", " ").split() if not names.isdisjoint(terms(word))]
    return asks_for_figure(query) and len(naming) > 1


def asks_for_formula(query: Query) -> bool:
    """Does it ask for a formula, for growth, or between two times for a change?"""
    text = query.fullest
    times = named_times(text)
    has_grown = any(map(asks_for_growth, query.parts or [text]))
    return len(times) == 2 or has_grown or bool(formulas_in(text, times if len(times) > 1 else ()))
