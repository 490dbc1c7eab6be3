"""Plans by a model where the learned one is not sure: its reply is checked against the tables and executed by us."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from large_sheets import as_csv, orders
from memory_desk import KINDS, AnyDesk, kept_in, opened_again
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.model_figures import read_plan, request_text
from refdesk.ask.plan_choice import FoundTable
from refdesk.ask.table_answer import reading
from refdesk.ingest.parse import parse
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder, ParseOptions
from refdesk.records import StoredTable
from refdesk.types import Document
from wire_server import Recorded, WireServer

STORES = KINDS

REPORT = """# Yards

Ships that were repaired, by yard

| Yard | 2019 | 2018 |
|---|---|---|
| Bergen | 40 | 25 |
| Gdansk | 31 | 33 |
| Hull | 12 | 10 |

The yards were painted green in May, and the crews were glad of it.
"""
QUESTION = "What is the relation of Bergen to Hull in 2018?"  # no plan of ours is sure of it
PLAN = {"table": 1, "operation": "ratio", "rows": ["Bergen", "Hull"], "columns": ["2018"], "filters": []}
MODEL = "writer-70b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("plans")
    (folder / "yards.md").write_text(REPORT, encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(folder / "yards.md")
        yield desk


@pytest.fixture(scope="module")
def library(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


Ask = Callable[..., tuple[Answer, dict[str, Any]]]


@pytest.fixture
def ask(library: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Ask:
    def asked(reply: str, **settings: Any) -> tuple[Answer, dict[str, Any]]:
        """The answer, and the stages of its trace by name; the model gives this reply when it is asked for a plan."""

        def write(request: Recorded) -> str:
            return reply if is_plan(request) else "The crews were glad of the paint [1]."

        server.answer_by(write)
        for name, value in server.openai_env(MODEL).items():
            monkeypatch.setenv(name, value)
        with opened_again(library) as desk:
            answer = desk.ask_sync(QUESTION, cache=False, settings=settings)
            return answer, {stage["name"]: stage for stage in desk.trace(answer.id)["stages"]}

    return asked


def is_plan(request: Recorded) -> bool:
    return "which cells of which table" in request.system


def test_the_plan_of_a_model_is_executed_by_us(ask: Ask, server: WireServer) -> None:
    answer, stages = ask(json.dumps(PLAN))
    assert stages["tables"]["output"]["chance"] < 0.4
    (figure,) = answer.figures
    assert figure.operation == "ratio" and figure.number == 2.5 and "25 / 10" in figure.formula
    assert [cell.text for cell in figure.cells] == ["25", "10"]
    assert len(answer.citations) == 2 and answer.usage.calls == 1
    assert any(MODEL in note for note in answer.notes) and answer.confidence.level != "high"
    (request,) = server.requests
    assert "Bergen; Gdansk; Hull" in request.question and "columns: Yard; 2019; 2018" in request.question
    assert "40" not in request.question, "the numbers stay here"


@pytest.mark.parametrize(
    "reply",
    [
        "I would divide Bergen by Hull.",
        json.dumps(PLAN | {"operation": "none"}),
        json.dumps(PLAN | {"operation": "multiply"}),
        json.dumps(PLAN | {"table": 7}),
        json.dumps(PLAN | {"rows": ["Bergen", "Oslo"]}),
        json.dumps(PLAN | {"columns": ["2017"]}),
        json.dumps(PLAN | {"rows": "Bergen"}),
        json.dumps(["ratio"]),
    ],
    ids=["prose", "none", "unknown_operation", "no_table", "no_row", "no_column", "no_list", "not_an_object"],
)
def test_what_does_not_fit_falls_back_to_the_text(ask: Ask, server: WireServer, reply: str) -> None:
    answer, stages = ask(reply)
    assert not answer.figures and "plan_model" in stages
    assert sum(map(is_plan, server.requests)) == 1


def test_a_plan_that_fails_is_left_out(ask: Ask, server: WireServer, library: AnyDesk, monkeypatch: Any) -> None:
    server.fail(500)
    server.say("The crews were glad of the paint [1].")
    for name, value in server.openai_env(MODEL).items():
        monkeypatch.setenv(name, value)
    with opened_again(library) as desk:
        answer = desk.ask_sync(QUESTION, cache=False, settings={"llm.tries": 1})
        stages = {stage["name"]: stage for stage in desk.trace(answer.id)["stages"]}
    assert not answer.figures and stages["plan_model"]["error"]


def test_a_plan_that_costs_too_much_is_not_asked_for(
    server: WireServer, library: AnyDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_by(lambda request: json.dumps(PLAN))
    for name, value in server.openai_env("gpt-4o").items():
        monkeypatch.setenv(name, value)
    with opened_again(library) as desk:
        answer = desk.ask_sync(QUESTION, cache=False, settings={"answer.cost_limit_usd": 0.0001})
        stages = {stage["name"]: stage for stage in desk.trace(answer.id)["stages"]}
    assert not answer.figures and not any(map(is_plan, server.requests))
    assert "cost_limit_usd" in stages["plan_model"]["output"]["fell_back"]


def test_without_a_model_nothing_is_asked(library: AnyDesk) -> None:
    with opened_again(library) as desk:
        answer = desk.ask_sync(QUESTION, cache=False)
        assert "plan_model" not in {stage["name"] for stage in desk.trace(answer.id)["stages"]}


# --- what becomes of a reply -----------------------------------------------------------------------------------------


def found(table: StoredTable) -> FoundTable:
    return FoundTable(table, Document("d", "yards.md", "", "h", "ready"), 1.0)


def yards() -> FoundTable:
    builder = Builder()
    builder.table([["Yard", "2019", "2018"], ["Bergen", "40", "25"], ["Gdansk", "31", "33"], ["Hull", "12", "10"]])
    return found(tables_of(builder.build("html"))[0])


@pytest.mark.parametrize(
    ("operation", "rows", "columns", "value"),
    [
        ("value", ["Gdansk"], ["2018"], "33"),
        ("sum", [], ["2019"], "83"),
        ("average", [], ["2018"], "22.67"),
        ("largest", [], ["2018"], "33"),
        ("smallest", [], ["2018", "Yard"], "Hull"),
        ("difference", ["Bergen"], ["2019", "2018"], "15"),
        ("growth", ["Bergen"], ["2019", "2018"], "60.00%"),
        ("share", ["Hull", "Bergen"], ["2018"], "40.00%"),
        ("sum", ["Hull"], ["2019", "2018"], "22"),
        ("count", [], [], "3"),
    ],
)
def test_replies_become_plans(operation: str, rows: list[str], columns: list[str], value: str) -> None:
    reply = {"table": 1, "operation": operation, "rows": rows, "columns": columns, "filters": []}
    plan = read_plan(reply, "How did the yards do?", [yards()])
    assert plan is not None and reading(plan).value == value


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("How did the yards do?", "Bergen"),
        ("Which two yards had the most repairs?", "Bergen; Gdansk"),
        ("List the yards sorted by repairs", "Bergen; Gdansk; Hull"),
    ],
)
def test_the_highest_that_a_model_names_is_widened_to_as_many_as_the_question_asks_for(
    question: str, value: str
) -> None:
    reply = {"table": 1, "operation": "largest", "rows": [], "columns": ["2019", "Yard"], "filters": []}
    plan = read_plan(reply, question, [yards()])
    assert plan is not None and reading(plan).value == value


@pytest.mark.parametrize("operation", ["sum", "average", "largest"])
def test_all_rows_of_two_columns_are_no_plan(operation: str) -> None:
    """Which of both is meant nobody has said."""
    reply = {"table": 1, "operation": operation, "rows": [], "columns": ["2019", "2018"], "filters": []}
    plan = read_plan(reply, "How did the yards do?", [yards()])
    assert plan is None or operation == "largest"  # "the 2018 of the highest 2019"


def test_filters_choose_the_rows_of_a_sheet() -> None:
    made = orders(2000)
    table = found(tables_of(parse(as_csv(made), "orders.csv", ParseOptions()))[0])
    shown = request_text("How many?", [table])
    assert "Region holds: " in shown and "2,000 rows" in shown and len(shown) < 2000
    filters = [
        {"column": "Region", "is": "equal", "value": "North"},
        {"column": "Units", "is": "more", "value": "80"},
        {"column": "Date", "is": "least", "value": "2023-01-01"},
    ]
    reply = {"table": 1, "operation": "sum", "rows": [], "columns": ["Amount"], "filters": filters}
    plan = read_plan(reply, "What did the large orders of the North bring since 2023?", [table])
    wanted = sum(one.amount for one in made if one.region == "North" and one.units > 80 and one.date.year >= 2023)
    assert plan is not None and reading(plan).number == pytest.approx(wanted)
    assert read_plan(reply | {"filters": [{"column": "Region", "is": "equal", "value": "Mars"}]}, "?", [table]) is None
