"""How an answer looks in a terminal: live stages, the text as it comes, then a table of what proves it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from refdesk.answer import Answer, Citation, Claim
from refdesk.events import Content, Done, Event, Failed, Replace, Thinking, Verifying
from refdesk.serve.cli.show import escape, styled

_LEVELS = {"high": "green", "medium": "yellow", "low": "red"}
_VERDICTS = {"partly": "yellow", "unsupported": "red", "contradicted": "red"}
_QUOTE = 160  # characters of a quote in the table; `--json` has it whole
_FRAMES = 12  # a second


async def follow(events: AsyncGenerator[Event, None], messages: Console, *, live: bool) -> Answer:
    """Shows the stages and the text while they come; gives the answer, or raises what ended the stream."""
    view = _View()
    async with aclosing(events) as stream:
        if not live:
            async for event in stream:
                view.take(event)
        else:
            with Live(view, console=messages, refresh_per_second=_FRAMES, transient=True):
                async for event in stream:
                    view.take(event)
    assert view.answer is not None, "a stream ends with an answer or an error"
    return view.answer


class _View:
    """What is on the screen while an answer is being made; it goes away when the answer stands."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self._content = ""
        self._step = Spinner("dots", "…", style="dim")

    def take(self, event: Event) -> None:
        match event:
            case Thinking(step, text):
                self._step.update(text=Text(f"{text or step} …", style="dim"))
            case Content(token):
                self._content += token
            case Replace(content, reason):
                self._content = content
                self._step.update(text=Text(f"{reason} …", style="dim"))
            case Verifying(status):
                self._step.update(text=Text(f"{status} …", style="dim"))
            case Done(answer):
                self.answer = answer
            case Failed(error):
                raise error

    def __rich__(self) -> RenderableType:
        return Group(styled(self._content, lines=True), self._step) if self._content else self._step


def show(out: Console, answer: Answer) -> None:
    """The whole answer: what was searched for, the text with doubtful sentences marked, what proves it."""
    if answer.corrected_question:
        note = f"Searched for “{answer.corrected_question}” instead of “{answer.question}” (--verbatim takes it back)."
        out.print(styled((f"{note}\n", "dim"), lines=True))
    elif answer.standalone_question and answer.standalone_question != answer.question:
        out.print(styled((f"Searched for “{answer.standalone_question}”.\n", "dim"), lines=True))
    out.print(_marked(answer.content, answer.claims))
    if answer.citations:
        out.print()
        out.print(_sources(answer.citations, out.is_terminal))
    out.print()
    for line in _remarks(answer):
        out.print(line)


def _marked(content: str, claims: Sequence[Claim]) -> Text:
    """The content, its markers bold, sentences that are not proved in colour and with the reason after them."""
    text, position = Text(), 0
    for claim in claims:
        text.append(escape(content[position : claim.start], lines=True))
        style = _VERDICTS.get(claim.verdict, "")
        text.append(escape(content[claim.start : claim.end], lines=True), style=style)
        if style:
            text.append(f" ⟨{claim.verdict}{': ' + escape(claim.note) if claim.note else ''}⟩", style="dim")
        position = claim.end
    text.append(escape(content[position:], lines=True))
    text.highlight_regex(r"\[\d+\]", "bold cyan")
    return text


def _sources(citations: Sequence[Citation], is_terminal: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=40 if is_terminal else None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in citations:
        quote = " ".join(one.quote.split())
        shown = quote if len(quote) <= _QUOTE or not is_terminal else quote[: _QUOTE - 1] + "…"
        place = f"page {one.page}" + ("" if one.located else ", lines not located")
        marker = styled((f"[{one.marker}]", "bold cyan"))
        table.add_row(marker, styled(one.document_name), place, styled(f"“{shown}”"))
    return table


def _remarks(answer: Answer) -> list[RenderableType]:
    level = answer.confidence.level
    reason = f": {answer.confidence.reason}" if answer.confidence.reason else ""
    lines: list[RenderableType] = [styled((note, "yellow")) for note in answer.notes]
    if answer.route == "needs_retrieval":
        score = f" ({answer.confidence.score:.2f}){reason}"
        lines.append(styled((f"{level} confidence", _LEVELS[level]), (score, "dim")))
    lines += [styled(("the sources differ:", "yellow"), f" {one.text}") for one in answer.sufficiency.conflicts]
    if answer.is_answered and answer.sufficiency.missing_aspects:
        lines.append(styled(("not covered:", "yellow"), f" {', '.join(answer.sufficiency.missing_aspects)}"))
    if answer.verification.status in ("disputed", "failed", "reconciled"):
        lines.append(styled((f"verification: {answer.verification.status}", "yellow")))
        notes = [styled((note, "dim")) for note in answer.verification.notes]
        lines += [Padding(note, (0, 0, 0, 2), expand=False) for note in notes]
    if answer.suggested_questions:
        lines.append(styled((f"Go on with: {' · '.join(answer.suggested_questions)}", "dim")))
    took = answer.metrics.get("total_ms", 0.0)
    cost = f", ${answer.usage.cost_usd:.4f}" if answer.usage.cost_usd else ""
    cached = f", {answer.cached} cache" if answer.cached != "no" else ""
    lines.append(styled((f"{answer.model}, {took / 1000:.2f} s{cost}{cached}", "dim")))
    return lines


def show_trace(out: Console, trace: Mapping[str, Any]) -> None:
    """The stages of an answer, those within another one indented, with what each took, gave or skipped.

    Then what was looked at, the best first.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("stage", "ms", "in", "out"):
        table.add_column(name, justify="right" if name == "ms" else "left", overflow="fold")
    for one in trace["stages"]:
        name = f"{'  ' * one['depth']}{one['name']}"
        if one["skipped"] and not one["error"]:
            table.add_row(styled((name, "dim")), "", styled((f"skipped: {one['skipped']}", "dim")), "")
        else:
            gave = styled((one["error"], "red")) if one["error"] else _pairs(one["output"])
            table.add_row(styled(name), f"{one['took_ms']:.1f}", _pairs(one["input"]), gave)
    out.print(table)
    if trace["passages"]:
        out.print()
        out.print(_looked_at(trace["passages"]))


def _looked_at(passages: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("passage", "page", "words", "meaning", "score", "use"):
        table.add_column(name, justify="left" if name in ("passage", "use") else "right", overflow="fold")
    for one in passages:
        place = " › ".join([one["document_name"], *one["heading_path"][-1:]])
        scores = (f"{one['lexical_score']:.1f}", f"{one['cosine']:.2f}", f"{one['score']:.2f}")
        style = "dim" if one["use"] in ("kept", "dropped") else None
        table.add_row(styled(place), str(one["page"]), *scores, one["use"], style=style)
    return table


def _pairs(sizes: Mapping[str, Any]) -> Text:
    return styled(", ".join(f"{name} {value}" for name, value in sizes.items()))
