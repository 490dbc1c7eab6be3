"""How does an answer become HTML that can do no harm?

    html_of("It weighs **350 kg**. [1]", claims=[(0, 25)], markers={1})
    -> <p><span class="claim" data-claim="0">It weighs </span><strong>… <button class="chip" data-marker="1">1</button>

Markdown is rendered without raw HTML, the result is sanitised, and only then do our own elements come in: a span around
every run of text of a claim, a button for every known marker. They hold nothing but numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import nh3
from markdown_it import MarkdownIt

from refdesk.types import Range

TAGS = {"p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"}
TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
HEADING = re.compile(r"(</?h)([1-6])(?=[ >])")
UNDER_THE_QUESTION = 2  # the question is a heading of the second level, so those of an answer begin at the third

# Where a claim begins and ends travels through Markdown as characters of the private use area, which say nothing to it.
OPEN, CLOSE, ZERO = "\ue000", "\ue001", 0xE010
PRIVATE = re.compile("[\ue000-\ue01f]")
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")  # they turn letters about: a document's "053" would show as 350
SIGNS = re.compile("\ue000([\ue010-\ue019]+)\ue001|\ue001")
ENCODED = re.compile("%EE%80%[89][0-9A-F]", re.IGNORECASE)  # the same within an address
PIECES = re.compile(r"""<(/?)([a-zA-Z0-9]++)(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
# What opens a block must stay the first thing on its line.
MARKUP = re.compile(r"(?:\s|[-*+] |\d{1,9}[.)] |#{1,6} |> ?|\|)*")
MARKER = re.compile(r"\[(\d{1,4})\]")
NO_BREAK = "\u00a0"  # a marker stays on the line of its sentence
LITERAL = frozenset(("code", "pre", "a"))  # no buttons within these


def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    return made.disable(["reference", "image", "html_block", "html_inline"])


_MARKDOWN = _markdown()


def html_of(content: str, claims: Sequence[Range] = (), markers: Collection[int] = ()) -> str:
    """Sanitised HTML of an answer; `claims` are ranges of its characters, `markers` numbers that have a citation."""
    marked = TURNING.sub("", _with_signs(PRIVATE.sub("\ufffd", content), claims))
    clean = nh3.clean(
        _MARKDOWN.render(marked),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return _with_elements(HEADING.sub(_lowered, clean), frozenset(markers))


def _lowered(found: re.Match[str]) -> str:
    return f"{found[1]}{min(6, int(found[2]) + UNDER_THE_QUESTION)}"


def _with_signs(content: str, claims: Sequence[Range]) -> str:
    """The text with the places of its claims written in; ranges that overlap or lie outside are left out."""
    parts: list[str] = []
    done = 0
    for number, (start, end) in enumerate(claims):
        if not done <= start < end <= len(content):
            continue
        opening = MARKUP.match(content, start, end)  # no further: all claims of "> > > …" would go through all of it
        first = opening.end() if opening else start
        last = first + len(content[first:end].rstrip(" \n|"))
        if first < last and "```" not in content[start:end]:
            parts += [content[done:first], _sign(number), content[first:last], CLOSE]
            done = last
    return "".join([*parts, content[done:]])


def _sign(number: int) -> str:
    return OPEN + "".join(chr(ZERO + int(digit)) for digit in str(number)) + CLOSE


def _number(digits: str) -> int:
    return int("".join(str(ord(digit) - ZERO) for digit in digits))


def _with_elements(html: str, markers: frozenset[int]) -> str:
    """Goes through tags and texts; a claim that runs over several elements gets a span in each of them."""
    out: list[str] = []
    claim: int | None = None
    literal: list[str] = []
    at = 0
    for tag in PIECES.finditer(html):
        claim = _text(out, html[at : tag.start()], claim, None if literal else markers)
        out.append(ENCODED.sub("", PRIVATE.sub("", tag[0])))
        name = tag[2].lower()
        if name in LITERAL:
            literal = [one for one in literal if one != name] if tag[1] else [*literal, name]
        at = tag.end()
    _text(out, html[at:], claim, None if literal else markers)
    return "".join(out)


def _text(out: list[str], text: str, claim: int | None, markers: frozenset[int] | None) -> int | None:
    """Writes a run of text; gives the claim that is open after it."""
    at = 0
    for sign in SIGNS.finditer(text):
        _run(out, text[at : sign.start()], claim, markers)
        claim = None if sign[1] is None else _number(sign[1])
        at = sign.end()
    _run(out, text[at:], claim, markers)
    return claim


def _run(out: list[str], text: str, claim: int | None, markers: frozenset[int] | None) -> None:
    at = 0
    for marker in MARKER.finditer(text) if markers else ():
        number = int(marker[1])
        if markers and number in markers:
            before = text[at : marker.start()]
            _span(out, before[:-1] + NO_BREAK if before.endswith(" ") else before, claim)
            of = "" if claim is None else f' data-claim="{claim}"'
            out.append(f'<button type="button" class="chip" data-marker="{number}"{of}>{number}</button>')
            at = marker.end()
    _span(out, text[at:], claim)


def _span(out: list[str], text: str, claim: int | None) -> None:
    text = PRIVATE.sub("", text)
    if claim is None or not text.strip():
        out.append(text)
    else:
        out.append(f'<span class="claim" data-claim="{claim}">{text}</span>')
