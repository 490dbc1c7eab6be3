"""Exports an answer with its sources as Markdown, HTML or DOCX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

import nh3
from markdown_it import MarkdownIt

from refdesk.answer import Answer, Citation
from refdesk.ask.draft import EXTRACTIVE
from refdesk.errors import UsageError
from refdesk.serve import docx

TAGS = {"p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"}
TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".docx": "docx"}
MEDIA_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "docx": docx.TYPE}
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_LAST_MARKER = re.compile(r" \[\d{1,4}\]\Z")
_MARKER = re.compile(r"<[^<>]{0,4000}>|\[(\d{1,4})\]")  # tags are passed over: an address may hold brackets
_DOUBTS = {
    "partly": "only partly supported",
    "unsupported": "not supported by the documents",
    "contradicted": "contradicted by the documents",
}
_STYLE = """
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1.2rem; color: #1c1c1a; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2em; } a { color: inherit; }
table { border-collapse: collapse; } td, th { border: 1px solid #bbb; padding: .25em .6em; }
.sources { font-size: .9rem; } .sources li { margin: .4em 0; } .quiet { color: #666; font-size: .9rem; }
@media (prefers-color-scheme: dark) { body { background: #161614; color: #e8e6e0; } .quiet { color: #a5a29a; } }
@media print { body { margin: 0; } }
"""


def markdown_renderer() -> MarkdownIt:
    """CommonMark with tables, and nothing that fetches or is raw HTML."""
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    return made.disable(["reference", "image", "html_block", "html_inline"])


def clean_html(html: str) -> str:
    """Without anything that could run or fetch."""
    return nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def markdown(answer: Answer) -> str:
    """The question as title, the answer, what is doubtful in it, and below it what each marker points at."""
    lines = [f"# {_plain(answer.question)}", "", _content(answer), ""]
    doubts = [claim for claim in answer.claims if claim.verdict in _DOUBTS]
    if doubts:
        lines += ["## Not proved", ""]
        lines += [f"- “{_plain(claim.text)}”: {_DOUBTS[claim.verdict]}" for claim in doubts] + [""]
    if answer.citations:
        lines += ["## Sources", ""]
        lines += [f"{marker}. {_source(cites)}" for marker, cites in _by_marker(answer).items()] + [""]
    lines += [_plain(note) for note in answer.notes] + ([""] if answer.notes else [])
    confidence = answer.confidence
    lines.append(f"Confidence: {confidence.level}" + (f" ({_plain(confidence.reason)})" if confidence.reason else ""))
    return "\n".join(lines).rstrip() + "\n"


def html(answer: Answer) -> str:
    """The same as a page of its own, which needs nothing else and runs nothing."""
    body = clean_html(markdown_renderer().render(_content(answer)))
    known = {citation.marker for citation in answer.citations}

    def linked(found: re.Match[str]) -> str:
        number = int(found[1] or 0)
        return f'<a href="#source-{number}">[{number}]</a>' if number in known else found[0]

    sources = "".join(
        f'<li id="source-{marker}" value="{marker}">{_html_source(cites)}</li>'
        for marker, cites in _by_marker(answer).items()
    )
    doubts = [claim for claim in answer.claims if claim.verdict in _DOUBTS]
    parts = [f"<h1>{escape(answer.question)}</h1>", _MARKER.sub(linked, body)]
    if doubts:
        listed = "".join(f"<li>“{escape(claim.text)}”: {_DOUBTS[claim.verdict]}</li>" for claim in doubts)
        parts.append(f"<h2>Not proved</h2><ul>{listed}</ul>")
    if sources:
        parts.append(f'<h2>Sources</h2><ol class="sources">{sources}</ol>')
    notes = " ".join(escape(note) for note in answer.notes)
    confidence = f"Confidence: {answer.confidence.level} ({escape(answer.confidence.reason)})"
    parts.append(f'<p class="quiet">{notes} {confidence}</p>')
    head = f'<meta charset="utf-8"><title>{escape(answer.question)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def as_docx(answer: Answer) -> bytes:
    """The same for Word and its like."""
    return docx.docx(markdown(answer), markdown_renderer().enable("autolink"))


FORMATS: Mapping[str, Callable[[Answer], str | bytes]] = {"markdown": markdown, "html": html, "docx": as_docx}


def format_of(path: Path) -> str:
    """`report.md` -> `markdown`."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"an answer can be saved as .md, .html or .docx, not as '{path.name}'")
    return SUFFIXES[path.suffix.lower()]


def _content(answer: Answer) -> str:
    """The text as Markdown: what a document says to the letter is no markup."""
    if answer.model != EXTRACTIVE:
        return answer.content
    parts, done = [], 0
    for claim in answer.claims:
        text = answer.content[claim.start : claim.end]
        marker = _LAST_MARKER.search(text)
        words, last = (text[: marker.start()], marker.group()) if marker else (text, "")
        parts += [answer.content[done : claim.start], _SPECIAL.sub(r"\\\1", words), last]
        done = claim.end
    return "".join([*parts, answer.content[done:]])


def _by_marker(answer: Answer) -> dict[int, list[Citation]]:
    found: dict[int, list[Citation]] = {}
    for citation in sorted(answer.citations, key=lambda citation: citation.marker):
        found.setdefault(citation.marker, []).append(citation)
    return found


def _place(citation: Citation) -> str:
    return f"page {citation.page}" + ("" if citation.located else ", lines not located")


def _quotes(cites: list[Citation]) -> list[str]:
    return list(dict.fromkeys(f"“{' '.join(cite.quote.split())}”" for cite in cites if cite.quote.strip()))


def _source(cites: list[Citation]) -> str:
    first = cites[0]
    quotes = " ".join(_plain(quote) for quote in _quotes(cites))
    return f"**{_plain(first.document_name)}**, {_place(first)}: {quotes}" + (f" <{first.url}>" if first.url else "")


def _html_source(cites: list[Citation]) -> str:
    first = cites[0]
    return f"<strong>{escape(first.document_name)}</strong>, {_place(first)}: {escape(' '.join(_quotes(cites)))}"


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
