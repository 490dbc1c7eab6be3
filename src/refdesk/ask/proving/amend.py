"""What remains of an answer when the sentences that nothing proves are taken out? Pure.

The reconciler of an answer that no model can be asked to settle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from refdesk.answer import Claim, Verdict

REFUTED: tuple[Verdict, ...] = ("unsupported", "contradicted")
CONTRADICTED: tuple[Verdict, ...] = ("contradicted",)
_EMPTY_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]*$\n?", re.MULTILINE)
_BLANKS = re.compile(r"\n{3,}")
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}")


def without_refuted(content: str, claims: Sequence[Claim], verdicts: Sequence[Verdict] = REFUTED) -> str:
    """The content without the claims of these verdicts, bullets that held nothing else included."""
    kept, position = [], 0
    for claim in claims:
        if claim.verdict in verdicts:
            kept.append(content[position : claim.start])
            position = claim.end
    text = "".join([*kept, content[position:]])
    return _BLANKS.sub("\n\n", _SPACES.sub(" ", _EMPTY_ITEM.sub("", text))).strip()
