"""TAT-QA as a library: tables with their text from annual reports, an HTML file each, and the questions about them.

Contexts with an even index may be learned from, the odd ones only measure.
"""

from __future__ import annotations

import html
import json
from typing import Any

from benchmarks.common import CACHE, DATA
from refdesk import Refdesk


def library() -> Refdesk:
    """All contexts; a document is named by its index."""
    desk = Refdesk(CACHE / "reports")
    contexts = _contexts()
    if len(desk.documents(status="ready")) < len(contexts):
        folder = CACHE / "reports-html"
        folder.mkdir(parents=True, exist_ok=True)
        for number, context in enumerate(contexts):
            (folder / f"{number}.html").write_text(_page(context), encoding="utf-8")
        print(f"adding {len(contexts)} contexts of TAT-QA …", flush=True)
        desk.add(folder)
    return desk


def questions(*, learning: bool) -> list[dict[str, Any]]:
    """Questions that are answered by words of the table or the text; `document` is the name of their context."""
    return [
        {"text": one["question"], "answers": one["answer"], "document": f"{number}.html", "from": one["answer_from"]}
        for number, context in enumerate(_contexts())
        if (number % 2 == 0) == learning
        for one in context["questions"]
        if one["answer_type"] == "span" and one["answer"]
    ]


def _contexts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    return found


def _page(context: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in context["table"]["table"]
    )
    paragraphs = sorted(context["paragraphs"], key=lambda one: int(one["order"]))
    text = "".join(f"<p>{html.escape(one['text'])}</p>" for one in paragraphs)
    return f"<!doctype html><title>Report</title><body><table>{rows}</table>{text}</body>"
