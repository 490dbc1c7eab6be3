"""How many answers say that their sources disagree, and where?

python -m benchmarks.conflicts

Every question about the 40 filings is asked without a model. The reports do not contradict one another: a conflict that
is reported is one to read, and each is printed with its quotes.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.common import CACHE, DATA, Figure, read_jsonl, use_one_core, write
from benchmarks.filings import FOLDERS, financebench, kgrag
from refdesk import Refdesk
from refdesk.answer import Answer

BAR = 0.02  # of the answers


def library() -> Refdesk:
    """The 40 filings in one library."""
    folder = Path(os.environ.get("REFDESK_FILINGS", CACHE / "filings" / "all"))
    desk = Refdesk(folder, settings={"ingest.ocr": False})
    files = [file for one in FOLDERS.values() for file in sorted(one.glob("*.pdf"))]
    if len(desk.documents(status="ready")) < len(files):
        print(f"adding {len(files)} reports …", flush=True)
        desk.add(*files)
    return desk


def questions(desk: Refdesk) -> dict[str, list[str]]:
    names = [one.name for one in desk.documents()]
    dev = read_jsonl(DATA / "questions" / "filings_dev.jsonl")
    return {
        "kgrag_10q": [one.text for one in kgrag(names)],
        "financebench": [one.text for one in financebench()],
        "filings_dev": [str(one["question"]) for one in dev],
    }


def show(answer: Answer) -> None:
    print(f"\n{answer.question}")
    for conflict in answer.sufficiency.conflicts:
        print(f"  {conflict.text}")
        for one in answer.citations:
            if one.marker in conflict.markers:
                print(f"    [{one.marker}] {one.document_name}, page {one.page}: {' '.join(one.quote.split())}")


def figures() -> list[Figure]:
    with library() as desk:
        return counted(desk)


def counted(desk: Refdesk) -> list[Figure]:
    found = []
    answered = conflicting = 0
    for name, asked in questions(desk).items():
        given = [desk.ask_sync(question, cache=False) for question in asked]
        answers = [answer for answer in given if answer.is_answered]
        clashing = [answer for answer in answers if answer.sufficiency.has_conflicts]
        for answer in clashing:
            show(answer)
        answered, conflicting = answered + len(answers), conflicting + len(clashing)
        found.append(Figure(f"{name}: answers with a conflict", f"{len(clashing)} of {len(answers)}"))
    share = conflicting / max(1, answered)
    shown = f"{conflicting} of {answered} ({share:.1%})"
    return [*found, Figure("all: answers with a conflict, true or false", shown, f"≤ {BAR:.0%}", share <= BAR)]


def main() -> None:
    use_one_core()
    write("conflicts", "Conflicts: which answers say that their sources disagree?", figures())


if __name__ == "__main__":
    main()
