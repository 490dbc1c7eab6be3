"""Numbers that a model wrote: looked for in the cells it cites, recomputed, and doubted where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from memory_desk import KINDS, AnyDesk, kept_in, opened_again
from refdesk import Refdesk
from refdesk.answer import Answer, Claim
from refdesk.ask.model_figures import check_numbers
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder
from refdesk.records import StoredTable
from wire_server import Recorded, WireServer

STORES = KINDS

REPORT = """# Income

Consolidated statement of income (in millions of dollars)

| | 2019 | 2018 |
|---|---|---|
| Net sales | 1,452 | 1,146 |
| Cost of sales | 900 | 800 |
| Operating income | 552 | 346 |
| Employees | 4,100 | 3,900 |

The company opened a second yard in Bergen, and its managers describe the year as a good one for ship repair.
"""
QUESTION = "How do the managers describe the year, and why?"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "report.md").write_text(REPORT, encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(folder / "report.md")
        yield desk


@pytest.fixture(scope="module")
def library(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def asked(library: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch, sentence: str) -> Answer:
    """The answer of a model that writes this sentence, under the passage of the table."""

    def write(request: Recorded) -> str:
        before = request.question[: request.question.index("Net sales")]
        number = re.findall(r"^\[(\d+)\]", before, re.MULTILINE)[-1]
        return f"{sentence} [{number}]."

    server.answer_by(write)
    for name, value in server.openai_env("writer-8b").items():
        monkeypatch.setenv(name, value)
    with opened_again(library) as desk:
        return desk.ask_sync(QUESTION, cache=False)


@pytest.mark.parametrize(
    ("sentence", "verdict", "note"),
    [
        ("Net sales were $1,452 million in 2019", "supported", ""),
        (
            "Net sales grew 26.7 % to $1,452 million in 2019",
            "supported",
            "($1,452 million − $1,146 million)",
        ),
        ("Net sales grew 27 % in 2019 from $1,146 million", "supported", "/"),
        ("Operating income rose by $206 million in 2019", "supported", "−"),
        (
            "Net sales were $1,146 million in 2019",
            "contradicted",
            "the cell of Net sales, 2019 says $1,452 million",
        ),
        ("Net sales grew 35 % in 2019", "contradicted", "26.7 %"),
        ("Net sales were $1,700 million in 2019", "contradicted", "$1,452 million"),
        ("Net sales and operating income came to $9,300 million together in 2019", "unsupported", "no cell gives"),
    ],
)
def test_the_numbers_of_a_model_are_checked_against_cells(
    library: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch, sentence: str, verdict: str, note: str
) -> None:
    answer = asked(library, server, monkeypatch, sentence)
    claim: Claim = answer.claims[0]
    assert (claim.text.rstrip("."), claim.verdict) == (sentence, verdict) and note in claim.note, claim
    if verdict != "supported":
        assert answer.verification.status == "disputed" and answer.confidence.level != "high"


# --- which cells does a claim speak of? -------------------------------------------------------------------------------


def table(*rows: list[str], above: str = "In millions of dollars") -> StoredTable:
    builder = Builder()
    builder.block("text", above)
    builder.table([*rows])
    return tables_of(builder.build("html"))[0]


QUARTERS = table(
    ["", "Three Months Ended June 25, 2022", "Three Months Ended June 26, 2021"],
    ["iPhone", "40,665", "39,570"],
    ["Total net sales", "82,959", "81,434"],
)
REGIONS = table(
    ["", "2019", "2018"],
    ["Europe", "", ""],
    ["Net sales", "120", "100"],
    ["Asia", "", ""],
    ["Net sales", "300", "310"],
)


@pytest.mark.parametrize(
    ("claim", "held", "wrong", "computed"),
    [
        ("Total net sales were $82,959 million in the third quarter of 2022.", QUARTERS, 0, 0),
        ("Total net sales were $81,434 million in the third quarter of 2022.", QUARTERS, 1, 0),
        ("Total net sales of $82.96 billion were 2 % above those of the year before.", QUARTERS, 0, 1),
        ("The iPhone had a share of 49 % in total net sales in the third quarter of 2022.", QUARTERS, 0, 1),
        ("Net sales in Europe grew 20 % in 2019.", REGIONS, 0, 1),
        ("Net sales in Asia fell 3.2 % in 2019.", REGIONS, 0, 1),
        ("Net sales in Asia rose 3.2 % in 2019.", REGIONS, 1, 0),
        ("Net sales were $120 million in 2018.", REGIONS, 0, 0),  # of which region nobody can tell
        ("The harbour has 7 pilots.", QUARTERS, 0, 0),
    ],
)
def test_cells_that_a_claim_speaks_of(claim: str, held: StoredTable, wrong: int, computed: int) -> None:
    found = check_numbers(claim, [held], "")
    assert (len(found.wrong), len(found.computed)) == (wrong, computed), found
