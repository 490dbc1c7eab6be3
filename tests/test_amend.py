"""Sentences that nothing proves are taken out; what is left reads well."""

from __future__ import annotations

import pytest

from refdesk.answer import Claim, Verdict
from refdesk.ask.attest import remove_unsupported


def claims(content: str, **verdicts: Verdict) -> list[Claim]:
    """One claim for each quoted piece: `claims(content, first="supported")` in the order of `|` marks."""
    found, position = [], 0
    for piece, verdict in zip(content.split("|"), verdicts.values(), strict=True):
        found.append(Claim(piece.strip(), position, position + len(piece), (), (), verdict, 0.0))
        position += len(piece)
    return found


@pytest.mark.parametrize(
    ("marked", "verdicts", "left"),
    [
        ("It is red [1].| It is old.", ("supported", "unsupported"), "It is red [1]."),
        ("It is old. |It is red [1].", ("contradicted", "partly"), "It is red [1]."),
        ("- red [1]\n|- old\n|- big [2]", ("supported", "unsupported", "supported"), "- red [1]\n- big [2]"),
        ("It is old.", ("unsupported",), ""),
        ("It is red [1].", ("supported",), "It is red [1]."),
    ],
    ids=["last", "first", "bullet", "all", "none"],
)
def test_without_refuted(marked: str, verdicts: tuple[Verdict, ...], left: str) -> None:
    content = marked.replace("|", "")
    made = claims(marked, **{str(number): verdict for number, verdict in enumerate(verdicts)})
    assert remove_unsupported(content, made) == left
