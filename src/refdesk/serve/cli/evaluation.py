"""`refdesk eval`: measures accuracy on questions with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from refdesk.errors import UsageError
from refdesk.serve.cli.ask import LevelName, ModelName, ModeName
from refdesk.serve.cli.main import DONE, FAILED
from refdesk.serve.cli.show import (
    AsJson,
    Collection,
    TopK,
    argument,
    desk_of,
    messages,
    option,
    out,
    print_json,
    styled,
)
from refdesk.serve.cli.show import table as plain_table
from refdesk.serve.evaluation import Outcome, evaluate, read_questions, summary

LABELS = {
    "questions": "questions",
    "right": "correct, including refusals",
    "answer_given": "correct where there is an answer",
    "f1": "word overlap with the expected answer (F1)",
    "refused_although_known": "refused although there is an answer",
    "refused_rightly": "refused where there is none",
    "document_found": "document found",
    "place_cited": "expected document and page cited",
    "right_of_high_confidence": "correct among high-confidence answers",
    "median_ms": "median time in ms",
    "cost_usd": "cost in US dollars",
}
SHOWN = 120  # characters of an answer


def eval_command(
    context: typer.Context,
    file: Annotated[
        Path, argument("FILE", "JSONL with question, answer (null: not in the documents), document and page.")
    ],
    k: TopK = None,
    level: LevelName = None,
    mode: ModeName = None,
    model: ModelName = "",
    collection: Collection = None,
    at_least: Annotated[
        float, option("SHARE", "Exit with status 1 if a smaller share is correct; 0 to 1.", "--at-least")
    ] = 0.0,
    wrong: Annotated[int, option("N", "Number of wrong answers to show.", "--wrong")] = 10,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy on questions whose answers you know."""
    if not 0.0 <= at_least <= 1.0:
        raise UsageError(f"--at-least must be between 0 and 1, not {at_least}")
    questions = read_questions(file)
    options: dict[str, Any] = {"k": k, "level": level, "mode": mode, "model": model, "collection": collection}
    outcomes: list[Outcome] = []
    with desk_of(context) as desk:
        for outcome in evaluate(questions, lambda question: desk.ask_sync(question, cache=False, **options)):
            outcomes.append(outcome)
            if messages.is_terminal:
                messages.print(f"{len(outcomes)} of {len(questions)}", end="\r")
    figures = summary(outcomes)
    if as_json:
        print_json({"figures": figures, "questions": [outcome.to_dict() for outcome in outcomes]})
    else:
        _show(figures, [outcome for outcome in outcomes if not outcome.is_right][: max(wrong, 0)])
    raise typer.Exit(DONE if (figures["right"] or 0.0) >= at_least else FAILED)


def _show(figures: dict[str, Any], wrong: list[Outcome]) -> None:
    table = plain_table("what", "figure", right=("figure",))
    for name, label in LABELS.items():
        table.add_row(label, "–" if figures[name] is None else f"{figures[name]:g}")
    out.print(table)
    for outcome in wrong:
        expected = " or ".join(outcome.expected.texts) or "not in the documents"
        out.print(styled(("wrong", "red"), f"  {outcome.expected.question}"))
        out.print(styled(f"       expected {expected}; got {(outcome.short or outcome.content)[:SHOWN]}"))
