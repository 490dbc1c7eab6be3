"""Which plans do the words of a question make over a table, and how do they read? Around every number of plans.

Plans and their features are frozen, not which of them a learned weight prefers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edge_samples import TEXTS, freeze
from refdesk.ask.plan_choice import FoundTable, TablePlan, plans_over, result
from refdesk.ask.plans import TableViews, described
from refdesk.ask.table_answer import figure_of, reading
from refdesk.ask.table_question import PlanWeights, describe, word_slots
from refdesk.ask.table_view import AskedWords
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder
from refdesk.ports import NoReader
from refdesk.records import StoredTable
from refdesk.tables import grid_of, shown_value
from refdesk.types import Document

DOCUMENT = Document("d1", "harbour_fees.pdf", "", "h", "ready", title="Fees of the harbour")


def table(name: str, rows: int | None = None) -> StoredTable:
    builder = Builder()
    for text in TEXTS["tables_above"].get(name, ()):
        builder.block("text", text)
    builder.table(TEXTS["grids"][name][: None if rows is None else rows + 1])
    return replace(tables_of(builder.build("html"))[0], document_id="d1")


def shown(plan: object) -> list[object]:
    return [
        getattr(plan, name)
        for name in ("turned", "operation", "column", "mask", "kind", "texts", "number", "backwards")
    ]


@pytest.mark.parametrize("name", TEXTS["grids"])
def test_plans_over_tables(name: str) -> None:
    made = TableViews(grid_of(table(name)))
    found = {}
    for text in TEXTS["asked_of_tables"]:
        question = AskedWords(text)
        plans = made.plans(question)
        rows = sorted(
            str([shown(plan), [one.rows for one in plan.selections], round(plan.column_quality, 3)]) for plan in plans
        )
        kinds = sorted({f"{plan.operation}/{'+'.join(one.kind for one in plan.selections)}" for plan in plans})
        found[text] = [len(plans), kinds, rows[:: max(1, len(rows) // 6)]]
    freeze(f"plans {name}", found)


@pytest.mark.parametrize("name", TEXTS["grids"])
def test_features_of_plans(name: str) -> None:
    made = TableViews(grid_of(table(name)))
    found = {}
    for text in TEXTS["asked_of_tables"]:
        question = AskedWords(text)
        plans = made.plans(question)
        told = describe(question, made, plans, context=1)
        sums = np.abs(told.features).sum(axis=0)
        found[text] = [[round(float(value), 2) for value in sums], told.ids.sum(axis=0).tolist(), len(told.slots)]
        assert PlanWeights().scores(told).shape == (len(plans) + 1,)
    freeze(f"plan features {name}", found)


def test_words_as_slots() -> None:
    found = {
        text: word_slots(AskedWords(text), {"sale", "north"}).tolist()[:12] for text in TEXTS["asked_of_tables"][:8]
    }
    freeze("slots", found)
    asked = [
        AskedWords(text)
        for text in (
            "more than 5 and 1,000 or 2.5 in 2019",
            "between 3 May 2019 and twelve",
            "one two three four 5 6 7",
        )
    ]
    freeze("numbers asked", [[one.numbers, list(one.bits), one.place] for one in asked])


@pytest.mark.parametrize("rows", [2, 3, 13, 40, 79, 80, 81])
def test_long_tables(rows: int) -> None:
    builder = Builder()
    cells = [[f"Ship {n}", str(2000 + n % 30), str((n * 37) % 101)] for n in range(rows)]
    builder.table([["Name", "Year", "Length"], *cells])
    made = TableViews(grid_of(tables_of(builder.build("html"))[0]))
    found = []
    for text in (
        "Which ship has the highest length?",
        "How many ships have a length over 50?",
        "Ship 1 and Ship 2 length",
        "ships from 2003 to 2006",
    ):
        plans = made.plans(AskedWords(text))
        found.append(
            [len(plans), len({result(plan) for plan in plans}), max((len(plan.texts) for plan in plans), default=0)]
        )
    freeze(f"long table {rows}", [len(made.views), found])


@pytest.mark.parametrize("columns", [2, 14, 15, 16, 39, 40, 41])
def test_wide_tables(columns: int) -> None:
    builder = Builder()
    builder.table(
        [
            ["Name", *(f"Y{n}" for n in range(columns - 1))],
            *([f"R{k}", *(str(n + k) for n in range(columns - 1))] for k in range(4)),
        ]
    )
    made = TableViews(grid_of(tables_of(builder.build("html"))[0]))
    plans = made.plans(AskedWords("What is the sum of Y1 for R1 and R2?"))
    freeze(f"wide table {columns}", [len(made.views), len(plans), sorted({plan.operation for plan in plans})])


@pytest.mark.parametrize("name", TEXTS["grids"])
def test_plans_in_words(name: str) -> None:
    stored = table(name)
    made = TableViews(grid_of(stored))
    candidate = FoundTable(stored, DOCUMENT, 0.5)
    found = []
    for text in TEXTS["asked_of_tables"]:
        question = AskedWords(text)
        seen = set()
        for plan in made.plans(question):
            if plan.operation in seen:
                continue
            seen.add(plan.operation)
            own = TablePlan(candidate, made, question, plan, np.zeros(1, np.float32))
            what = reading(own)
            drawn = figure_of(own, what, 3)
            found.append(
                [
                    plan.operation,
                    described(plan, made, question),
                    what.label,
                    what.value,
                    what.unit,
                    what.scale,
                    what.formula,
                    what.places[:3],
                    len(drawn.cells),
                    len(drawn.table),
                    drawn.marked[:3],
                    [one.citation for one in drawn.cells][:2],
                ]
            )
    freeze(f"in words {name}", found[:: max(1, len(found) // 30)])


def test_candidates_and_their_features() -> None:
    stored = [replace(table(name), id=number) for number, name in enumerate(TEXTS["grids"])]
    found = {}
    for text in TEXTS["asked_of_tables"]:
        candidates = [FoundTable(one, DOCUMENT, 0.9 - 0.1 * place) for place, one in enumerate(stored * 3)]
        made = plans_over(text, candidates, {"sale": 2.0, "north": 1.0}, 0.5, NoReader())
        # Scores of learned weights are the first two columns.
        rows = np.array([one.features[2:] for one in made]).reshape(len(made), -1)
        found[text] = [
            len({one.candidate.score for one in made}),
            sorted({round(float(value), 2) for value in rows[:, 0]}),
        ]
    freeze("candidates", found)


def test_numbers_as_a_person_writes_them() -> None:
    texts = ("82,959", "$ (1,146)", "12.5", "-5", "(3)", "4.0 %", "€ 7", "1,000.50")
    pairs = (("$", "million"), ("$", ""), ("%", "million"), ("", ""), ("kg", "thousand"), ("euros", ""))
    freeze("shown values", [shown_value(text, unit, scale) for text in texts for unit, scale in pairs])


@pytest.mark.parametrize("name", TEXTS["grids"])
def test_tables_as_cells(name: str) -> None:
    stored = table(name)
    cells = [[one.row, one.column, one.text, one.number, one.unit, one.scale, one.period] for one in stored.cells]
    freeze(f"cells {name}", [stored.caption, stored.head_rows, stored.scale, [str(one) for one in stored.heads], cells])
