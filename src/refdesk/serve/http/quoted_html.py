"""How do quoted sentences become HTML? To the letter: what a document says is neither Markdown nor HTML.

    quoted_html("It is 2 * 3 * 4 <b>kg</b>. [1]", claims=[(0, 29)], markers={1})
    -> <p><span class="claim" data-claim="0">It is 2 * 3 * 4 &lt;b&gt;kg&lt;/b&gt;.&nbsp;</span><button …>1</button></p>

The elements are those of markdown.py. A marker is what stands at the end of a claim, or right after it; a "[1]" within
the sentence is the document's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html import escape

from refdesk.serve.http.markdown import NO_BREAK, TURNING
from refdesk.types import Range

_LAST = re.compile(r"[ \u00a0]?\[(\d{1,4})\]\Z")
_NEXT = re.compile(r"[ \u00a0]?\[(\d{1,4})\]")
_LONGEST_MARKER = 8  # characters, with its space
_BLANK_LINES = re.compile(r"\n\s*\n")


def quoted_html(content: str, claims: Sequence[Range] = (), markers: Collection[int] = ()) -> str:
    """HTML of an answer that quotes; `claims` are ranges of its characters, `markers` numbers that have a citation."""
    out = ["<p>"]
    done = 0
    for number, (start, end) in enumerate(claims):
        if not done <= start < end <= len(content):
            continue
        out.append(_text(content[done:start]))
        text, done = content[start:end], end
        found = _LAST.search(text, max(0, len(text) - _LONGEST_MARKER))
        if found is not None:
            text = text[: found.start()]
        elif (found := _NEXT.match(content, end)) is not None:
            done = found.end()
        is_known = found is not None and int(found[1]) in markers
        if found is not None and not is_known:
            text, found = content[start : found.end()] if done == end else text + found[0], None
        out.append(_claim(text, number, followed=found is not None))
        if found is not None:
            marker = int(found[1])
            out.append(
                f'<button type="button" class="chip" data-marker="{marker}" data-claim="{number}">{marker}</button>'
            )
    out += [_text(content[done:]), "</p>"]
    return "".join(out)


def _claim(text: str, number: int, *, followed: bool) -> str:
    """A span in each paragraph of it; a marker stays on the line of its sentence."""
    text += NO_BREAK if followed else ""
    parts = [_text(part) for part in _BLANK_LINES.split(text)]
    return "</p><p>".join(f'<span class="claim" data-claim="{number}">{part}</span>' for part in parts if part)


def _text(text: str) -> str:
    shown = escape(TURNING.sub("", text), quote=True)
    return _BLANK_LINES.sub("</p><p>", shown).replace("\n", "<br>")
