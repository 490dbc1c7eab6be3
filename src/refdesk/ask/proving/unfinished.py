"""What of a very long answer, or of one that was cut off, can be stood behind? Pure.

Checking a sentence takes milliseconds, and nobody reads a thousand of them: what is beyond the first ones is left out.
The last sentence of an answer that was cut off is a fragment, which may lack the word that turns it about.
"""

from __future__ import annotations

from dataclasses import replace

from refdesk.ask.attest import Attested
from refdesk.ask.proving.claims import statements

MOST_CLAIMS = 300
LEFT_OUT = f"Only the first {MOST_CLAIMS} sentences of the model's answer were checked; the rest is left out."
CUT_OFF = "the model was cut off here"
_ENDS = (".", "!", "?", "…", "。", "！", "？", ":", ";", "”", '"', ")", "`")


def checkable(content: str) -> str:
    """The content up to as many sentences as are checked."""
    found = statements(content)
    return content[: found[MOST_CLAIMS].start].rstrip() if len(found) > MOST_CLAIMS else content


def with_fragment(attested: Attested) -> Attested:
    """The same, its last sentence unsupported where it does not end: nothing proves what it would have said."""
    if not attested.claims or attested.claims[-1].text.rstrip().endswith(_ENDS):
        return attested
    last = replace(attested.claims[-1], verdict="unsupported", note=CUT_OFF)
    return replace(attested, claims=(*attested.claims[:-1], last))
