"""What do answers without a model hold, and what is refused, as the program ships? Nothing here chooses a number.

python -m benchmarks.answers [--questions 400]

squad_dev11: the 24 articles that nothing was learned from. Each question is asked as it is, without its passage, and
without its whole article; refusing is right in the last two. Quoting the nearest sentences as just that is refusing.
squadshift_reddit and squad2_disfl: nothing was learned from either.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.answering import Articles, answer, contains, progress, questions, short_f1
from benchmarks.common import Figure
from benchmarks.retrieval import library


class Tally(NamedTuple):
    """What became of the questions of a set that can be answered."""

    asked: int
    refused: int
    sentences: int
    right: int  # one of the quotes holds the answer
    first_right: int  # the sentence that answers best; one that begins with a pronoun follows the one before it
    elsewhere: int  # a quote is from another document than the right one
    high: int
    high_right: int
    of_three: int  # the answer is in one of the three sentences that answer best
    shown: int  # a short answer is
    short: float  # F1 of the short answers, summed; 0 where there is none

    @property
    def given(self) -> int:
        return self.asked - self.refused


def answered(name: str, most: int) -> Tally:
    """Questions as they are; on squad2_disfl those that have an answer."""
    articles = Articles() if name == "squad_dev11" else None
    total: list[float] = [0] * len(Tally._fields)
    with library(name) as desk:
        keep = (lambda row: not articles.is_for_learning(row)) if articles else (lambda row: not row["is_impossible"])
        for row in progress(questions(name, most, keep), name):
            given = answer(desk, row["text"])
            if given is None or given.is_refused:
                one = [1, 1, *[0] * (len(Tally._fields) - 2)]
            else:
                held = [contains(quote.text, row["answers"]) for quote in given.quotes]
                is_high = given.level == "high"
                is_elsewhere = bool(row["relevant"]) and any(one not in row["relevant"] for one in given.documents)
                first = contains(given.first_three[0], row["answers"])
                of_three = any(contains(text, row["answers"]) for text in given.first_three)
                short = short_f1(given.short, row["answers"])
                one = [1, 0, len(held), any(held), first, is_elsewhere, is_high, is_high and any(held)]
                one += [of_three, bool(given.short), short]
            total = [a + b for a, b in zip(total, one, strict=True)]
    return Tally(*total)  # type: ignore[arg-type]


def refused(most: int, *, whole_article: bool) -> tuple[int, int]:
    """(asked, refused) of squad_dev11 without the passage, or without the whole article."""
    articles = Articles()
    asked = refusals = 0
    with library("squad_dev11") as desk:
        for row in progress(questions("squad_dev11", most, lambda row: not articles.is_for_learning(row)), "removed"):
            gone = articles.around(row["relevant"]) if whole_article else frozenset(row["relevant"])
            given = answer(desk, row["text"], gone)
            asked += 1
            refusals += given is None or given.is_refused
    return asked, refusals


def unanswerable(most: int) -> tuple[int, int]:
    """(asked, refused) of squad2_disfl's questions that their passage does not answer."""
    asked = refusals = 0
    with library("squad2_disfl") as desk:
        for row in progress(questions("squad2_disfl", most, lambda row: row["is_impossible"]), "unanswerable"):
            given = answer(desk, row["text"])
            asked += 1
            refusals += given is None or given.is_refused
    return asked, refusals


def f1(refused_rightly: float, refused_wrongly: float) -> float:
    """Of refusing, at even odds of both kinds of question."""
    return 2 * refused_rightly / (1.0 + refused_rightly + refused_wrongly)


def figures(most: int = 400) -> list[Figure]:
    squad = answered("squad_dev11", most)
    found = [_quotes("squad_dev11", squad, has_bar=True), _short("squad_dev11", squad, 0.68)]
    found += [_chosen(squad), _high("squad_dev11", squad, 0.9)]
    wrongly = squad.refused / squad.asked
    for what, whole, bar in (("passage removed", False, 0.76), ("article removed", True, 0.94)):
        asked, refusals = refused(most, whole_article=whole)
        value = f1(refusals / asked, wrongly)
        shown = f"F1 {value:.3f}: refused {refusals / asked:.3f} of {asked}, of the answerable {wrongly:.3f}"
        found.append(
            Figure(
                f"refusing, squad_dev11, {what}",
                shown,
                f"F1 ≥ {bar}, answerable refused ≤ .08",
                value >= bar and wrongly <= 0.08,
            )
        )
    disfl = answered("squad2_disfl", most)
    asked, refusals = unanswerable(most)
    wrongly = disfl.refused / disfl.asked
    value = f1(refusals / asked, wrongly)
    shown = f"F1 {value:.3f}: refused {refusals / asked:.3f} of {asked}, of the answerable {wrongly:.3f}"
    found += [
        Figure("refusing, squad2_disfl, the passage is there and does not say it", shown),
        _quotes("squad2_disfl", disfl),
        _short("squad2_disfl", disfl),
        _high("squad2_disfl, answerable", disfl, 0.9),
    ]
    reddit = answered("squadshift_reddit", most)
    found += [_quotes("squadshift_reddit", reddit), _short("squadshift_reddit", reddit)]
    found.append(_high("squadshift_reddit", reddit, 0.9))
    return found


def _quotes(name: str, tally: Tally, *, has_bar: bool = False) -> Figure:
    mean, right, elsewhere = (one / tally.given for one in (tally.sentences, tally.right, tally.elsewhere))
    shown = (
        f"{mean:.2f} / {right:.3f} / {elsewhere:.3f}; first sentence {tally.first_right / tally.given:.3f};"
        f" one of the best three {tally.of_three / tally.given:.3f};"
        f" refused {tally.refused / tally.asked:.3f} of {tally.asked}"
    )
    what = f"{name}: mean sentences / answer in one of them / a sentence from another document"
    is_met = (mean <= 1.7 and right >= 0.86 and elsewhere <= 0.1) if has_bar else None
    return Figure(what, shown, "≤ 1.7 / ≥ .86 / ≤ .10" if has_bar else "", is_met)


def _chosen(tally: Tally) -> Figure:
    first, three = tally.first_right / tally.given, tally.of_three / tally.given
    shown = f"{first:.3f} / {three:.3f}"
    return Figure(
        "squad_dev11: the first sentence / one of the best three holds the answer",
        shown,
        "≥ .84 / ≥ .93",
        first >= 0.84 and three >= 0.93,
    )


def _short(name: str, tally: Tally, bar: float | None = None) -> Figure:
    value = tally.short / tally.given
    shown = f"{value:.3f} of those answered ({tally.short / tally.asked:.3f} of all);"
    shown += f" shown {tally.shown / tally.given:.2f}, of those {tally.short / max(1, tally.shown):.3f}"
    return Figure(f"short answer F1, {name}", shown, f"≥ {bar}" if bar else "", value >= bar if bar else None)


def _high(name: str, tally: Tally, bar: float | None = None) -> Figure:
    share = tally.high_right / max(1, tally.high)
    shown = f"{share:.3f} of {tally.high} ({tally.high / tally.given:.2f} of the answers)"
    return Figure(f"`high` is right, {name}", shown, f"≥ {bar}" if bar else "", share >= bar if bar else None)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=400)
    for one in figures(parser.parse_args(arguments).questions):
        print(one, flush=True)


if __name__ == "__main__":
    main()
