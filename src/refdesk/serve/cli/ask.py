"""`refdesk ask`, `chat` and `eval`: one question, a conversation, or questions with known answers."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from refdesk.answer import Answer, Citation, Claim, Content, Done, Event, Failed, Figure, Replace, Thinking, Verifying
from refdesk.arguments import LEVELS
from refdesk.ask.draft import EXTRACTIVE
from refdesk.desk import Refdesk
from refdesk.errors import RefdeskError, UsageError
from refdesk.serve import EXAMPLES, example_folder
from refdesk.serve.cli import show
from refdesk.serve.cli.main import DONE, FAILED, NOTHING
from refdesk.serve.cli.show import (
    AddProgress,
    AsJson,
    Collection,
    DocumentNames,
    TopK,
    argument,
    desk_of,
    escape,
    messages,
    option,
    out,
    print_json,
    styled,
)
from refdesk.serve.cli.show import table as plain_table
from refdesk.serve.evaluation import Outcome, evaluate, read_questions, summary
from refdesk.serve.export import FORMATS, ITEM, Row, as_table, format_of, headings, laid_out, rows_of

LevelName = Annotated[
    str | None,
    option("LEVEL", "How thoroughly to search and check: " + ", ".join(LEVELS) + ".", "--level"),
]
ModeName = Annotated[
    str | None,
    option(
        "MODE",
        "agent: several searches; report: a long answer with sections; vision: pages as pictures;"
        " general: the model alone. Or how the answer is checked: quick, standard or thorough.",
        "--mode",
    ),
]
ModelName = Annotated[str, option("MODEL", "Model that writes the answer, one of llm.allowed.", "--model")]
Verbatim = Annotated[
    bool, typer.Option("--verbatim", help="Search for exactly these words: no spelling correction, no rewriting.")
]
ConversationId = Annotated[
    str,
    option("ID", "Continue this conversation, or start one with this id.", "--conversation"),
]
NARROWEST = 8  # characters of a column with its frame; rows of more columns than fit are lines, as in the content
HELP = "/open N shows the page of citation N, /new starts over, /quit or Ctrl-D quits"


def ask(
    context: typer.Context,
    question: Annotated[str, argument("QUESTION", "Your question.")],
    k: TopK = None,
    level: LevelName = None,
    mode: ModeName = None,
    model: ModelName = "",
    collection: Collection = None,
    document: DocumentNames = None,
    verbatim: Verbatim = False,
    conversation: ConversationId = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not use the cache.")] = False,
    image: Annotated[
        list[Path] | None,
        option("FILE", "Image to send with the question, for models that accept images; repeatable.", "--image"),
    ] = None,
    output: Annotated[
        Path | None,
        option("FILE", "Also write the answer and its sources to this file: .md, .html or .docx.", "--out"),
    ] = None,
    open_image: Annotated[
        bool, typer.Option("--open", help="Open the page of the first citation, with its lines highlighted.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show every stage and every passage considered.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question and cite page and lines for every sentence. Exits with 3 if the documents do not say."""
    with desk_of(context) as desk:
        options: dict[str, Any] = {"level": level, "mode": mode, "model": model}
        options |= {"collection": collection, "document": document, "verbatim": verbatim, "images": image or ()}
        form = format_of(output) if output is not None else ""
        answer = ask_once(desk, question, k=k, conversation_id=conversation, cache=not no_cache, **options)
        if output is not None:
            write_out(output, FORMATS[form](answer))
        if as_json:
            print_json(answer.to_dict() | ({"trace": desk.trace(answer.id)} if trace else {}))
        else:
            show_answer(out, desk, answer)
            if not answer.is_answered and not desk.chunk_count:
                messages.print(show.EMPTY)
            if trace:
                show_trace(out, desk.trace(answer.id))
        if open_image and answer.citations:
            open_page(desk, answer, answer.citations[0].marker)
    raise typer.Exit(DONE if answer.is_answered or answer.route != "needs_retrieval" else NOTHING)


def chat(
    context: typer.Context,
    conversation: ConversationId = "",
    level: LevelName = None,
    mode: ModeName = None,
    model: ModelName = "",
    collection: Collection = None,
    document: DocumentNames = None,
    verbatim: Verbatim = False,
) -> None:
    """Ask one question after another. Each may refer to earlier ones. Ctrl-C stops an answer, Ctrl-D quits."""
    options: dict[str, Any] = {"level": level, "mode": mode, "model": model}
    options |= {"collection": collection, "document": document, "verbatim": verbatim}
    with desk_of(context) as desk:
        converse(desk, conversation, options)


def ask_once(desk: Refdesk, question: str, **options: Any) -> Answer:
    """Asks and shows the stages on the terminal; Ctrl-C stops it."""
    return asyncio.run(follow(desk.ask(question, **options), messages, live=messages.is_terminal))


def write_out(path: Path, content: str | bytes) -> None:
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    messages.print(styled(f"Written to {path}"))


def open_page(desk: Refdesk, answer: Answer, marker: int) -> Path | None:
    """Writes the page that a citation stands on as an image, its lines marked, and opens it where there is a screen."""
    cited = next((citation for citation in answer.citations if citation.marker == marker), None)
    if cited is None:
        messages.print(f"There is no citation {marker}.")
        return None
    boxes = [box for box in cited.boxes if box.page == cited.page]
    image = desk.page_image(cited.document_id, cited.page, width=1400, boxes=boxes)
    folder = Path(tempfile.mkdtemp(prefix="refdesk-"))
    file = folder / f"{Path(cited.document_name).stem}-page-{cited.page}.png"
    file.write_bytes(image)
    messages.print(styled(f"Page {cited.page} of {cited.document_name}, lines highlighted: {file}"))
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        typer.launch(str(file))  # without a screen, the path is what there is
    return file


def converse(desk: Refdesk, conversation_id: str, options: Mapping[str, Any]) -> None:
    """A conversation: each question may refer to earlier ones; it can be continued by its id."""
    conversation_id = conversation_id or uuid.uuid4().hex
    messages.print(styled((HELP, "dim")))
    last: Answer | None = None
    while True:
        try:
            line = messages.input(styled("\n", ("›", "bold"), " ", lines=True)).strip()
        except (EOFError, KeyboardInterrupt):
            break
        if line in ("/quit", "/exit"):
            break
        try:
            if line == "/new":
                conversation_id, last = uuid.uuid4().hex, None
                messages.print(styled(("A new conversation.", "dim")))
            elif line.startswith("/open"):
                number = line.removeprefix("/open").strip() or "1"
                if last is None or not number.isdigit():
                    messages.print("Ask something first, then /open 1.")
                else:
                    open_page(desk, last, int(number))
            elif line.startswith("/"):
                messages.print(styled((HELP, "dim")))
            elif line:
                last = ask_once(desk, line, conversation_id=conversation_id, **options)
                show_answer(out, desk, last)
        except KeyboardInterrupt:
            messages.print(styled(("Stopped.", "dim")))
        except RefdeskError as error:
            messages.print(styled((f"{error.sentence}.", "red")), soft_wrap=True)
    messages.print()
    messages.print(styled((f"Continue later: refdesk chat --conversation {conversation_id}", "dim")))


# How an answer looks in a terminal: live stages, the text as it comes, then a table of what proves it

_LEVELS = {"high": "green", "medium": "yellow", "low": "red"}
_VERDICTS = {"partly": "yellow", "unsupported": "red", "contradicted": "red"}
_QUOTE = 160  # characters of a quote in the table; `--json` has it whole
_FRAMES = 12  # a second


async def follow(events: AsyncGenerator[Event, None], messages: Console, *, live: bool) -> Answer:
    """Shows the stages and the text as they come; returns the answer or raises the error."""
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
    """What is on the screen until the answer is complete."""

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


def show_answer(out: Console, desk: Refdesk, answer: Answer) -> None:
    """The whole answer: what was searched for, the text with doubtful sentences marked, what proves it."""
    if answer.corrected_question:
        note = f"Searched for “{answer.corrected_question}” instead of “{answer.question}” (--verbatim prevents this)."
        out.print(styled((f"{note}\n", "dim"), lines=True))
    elif answer.standalone_question and answer.standalone_question != answer.question:
        out.print(styled((f"Searched for “{answer.standalone_question}”.\n", "dim"), lines=True))
    if answer.short:
        out.print(styled((answer.short, "bold")))
        out.print()
    _print_content(out, desk, answer)
    for figure in answer.figures:
        out.print()
        out.print(_drawn(figure))
    if answer.citations:
        out.print()
        out.print(_sources(answer.citations, out.is_terminal))
    out.print()
    for line in _remarks(answer):
        out.print(line)


def _print_content(out: Console, desk: Refdesk, answer: Answer) -> None:
    """The text; what is quoted from lists and tables of documents as lists and tables."""
    content, claims = answer.content, answer.claims
    if answer.model != EXTRACTIVE:
        out.print(_marked(content, claims, 0, len(content)))
        return
    chunks = (answer.citations[claim.citations[0]].chunk_id if claim.citations else 0 for claim in claims)
    rows = rows_of(desk, [(claim.text, chunk_id) for claim, chunk_id in zip(claims, chunks, strict=True)])
    end = 0
    for part in laid_out(content, [(claim.start, claim.end) for claim in claims], rows):
        if content.count("\n", end, part.start) > 1:
            out.print()
        end = part.end
        part_claims = [claims[number] for number in part.claims]
        columns = len(rows[part.claims[0]].cells) + 1 if part.kind == "rows" else 0
        if 0 < columns * NARROWEST <= out.width:
            out.print(_quoted_rows(part_claims, [rows[number] for number in part.claims]))
        elif part.kind == "heading":
            for text in headings(content, part):
                out.print(styled((text, "bold")))
        elif part.kind != "text":
            items = Table.grid(padding=(0, 1, 0, 0))
            for line in part.lines:
                line_claims = [claims[number] for number in line.claims]
                items.add_row("•", _marked(content, line_claims, line.start + len(ITEM), line.end))
            out.print(items)
        else:
            out.print(_marked(content, part_claims, part.start, part.end))


def _marked(content: str, claims: Sequence[Claim], start: int, end: int) -> Text:
    """The content, its markers bold, sentences that are not proved in colour and with the reason after them."""
    text, position = Text(), start
    for claim in claims:
        text.append(escape(content[position : claim.start], lines=True))
        text.append(escape(content[claim.start : claim.end], lines=True), style=_VERDICTS.get(claim.verdict, ""))
        text.append_text(_doubt(claim))
        position = claim.end
    text.append(escape(content[position:end], lines=True))
    text.highlight_regex(r"\[\d+\]", "bold cyan")
    return text


def _doubt(claim: Claim) -> Text:
    """Why a claim is not proved; nothing where it is."""
    if claim.verdict not in _VERDICTS:
        return Text()
    return styled((f" ⟨{claim.verdict}{f': {claim.note}' if claim.note else ''}⟩", "dim"))


def _quoted_rows(claims: Sequence[Claim], rows: Sequence[Row]) -> Table:
    """Rows that are quoted, below what names their columns; behind each its marker."""
    shown, numbers = as_table(rows)
    table = Table(show_header=False, pad_edge=False)
    for is_number in numbers:
        table.add_column(justify="right" if is_number else "left", overflow="fold")
    table.add_column(overflow="fold")
    for claim, row, following in zip(claims, shown, [*shown[1:], None], strict=True):
        style = "bold" if row.is_head else _VERDICTS.get(claim.verdict, "")
        markers = styled((" ".join(f"[{marker}]" for marker in claim.markers), "bold cyan"))
        is_last_head = row.is_head and following is not None and not following.is_head
        cells = [styled((cell, style)) for cell in row.cells]
        table.add_row(*cells, markers.append_text(_doubt(claim)), end_section=is_last_head)
    return table


def _drawn(figure: Figure) -> Table:
    """The head and the rows that a figure was read from, its cells marked."""
    table = Table(show_header=False, pad_edge=False)
    for number in range(len(figure.table[0]) if figure.table else 0):
        table.add_column(justify="right" if number else "left", overflow="fold")
    for at, row in enumerate(figure.table):
        is_head = at < figure.head_rows
        cells = [
            styled((text, "bold reverse" if (at, column) in figure.marked else "bold" if is_head else ""))
            for column, text in enumerate(row)
        ]
        table.add_row(*cells, end_section=at == figure.head_rows - 1)
    return table


def _sources(citations: Sequence[Citation], is_terminal: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=40 if is_terminal else None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for cited in _same_quotes(citations):
        first = cited[0]
        quote = " ".join(first.quote.split())
        shown = quote if len(quote) <= _QUOTE or not is_terminal else quote[: _QUOTE - 1] + "…"
        place = f"page {first.page}" + ("" if any(other.located for other in cited) else ", lines not located")
        markers = " ".join(f"[{marker}]" for marker in sorted({other.marker for other in cited}))
        table.add_row(styled((markers, "bold cyan")), styled(first.document_name), place, styled(f"“{shown}”"))
    return table


def _same_quotes(citations: Sequence[Citation]) -> list[list[Citation]]:
    """Citations of the same words of the same page, together.

    The cells of a row are cited one by one; their row is shown once.
    """
    found: dict[tuple[str, int, str], list[Citation]] = {}
    for citation in citations:
        found.setdefault((citation.document_id, citation.page, citation.quote), []).append(citation)
    return list(found.values())


def _remarks(answer: Answer) -> list[RenderableType]:
    level = answer.confidence.level
    reason = f": {answer.confidence.reason}" if answer.confidence.reason else ""
    lines: list[RenderableType] = [styled((note, "yellow")) for note in answer.notes]
    if answer.route == "needs_retrieval":
        score = f" ({answer.confidence.score:.2f}){reason}"
        lines.append(styled((f"{level} confidence", _LEVELS[level]), (score, "dim")))
    lines += [
        styled(("the sources differ:", "yellow"), f" {conflict.text}") for conflict in answer.sufficiency.conflicts
    ]
    if answer.is_answered and answer.sufficiency.missing_aspects:
        lines.append(styled(("not covered:", "yellow"), f" {', '.join(answer.sufficiency.missing_aspects)}"))
    if answer.verification.status in ("disputed", "failed", "reconciled"):
        lines.append(styled((f"verification: {answer.verification.status}", "yellow")))
        notes = [styled((note, "dim")) for note in answer.verification.notes]
        lines += [Padding(note, (0, 0, 0, 2), expand=False) for note in notes]
    if answer.suggested_questions:
        lines.append(styled((f"Ask next: {' · '.join(answer.suggested_questions)}", "dim")))
    took = answer.metrics.get("total_ms", 0.0)
    cost = f", ${answer.usage.cost_usd:.4f}" if answer.usage.cost_usd else ""
    cached = f", {answer.cached} cache" if answer.cached != "no" else ""
    lines.append(styled((f"{answer.model}, {took / 1000:.2f} s{cost}{cached}", "dim")))
    return lines


def show_trace(out: Console, trace: Mapping[str, Any]) -> None:
    """The stages of an answer, those within another one indented, with what each took, gave or skipped.

    Then what was looked at, the best first.
    """
    table = show.table("stage", "ms", "in", "out", right=("ms",))
    for stage in trace["stages"]:
        name = f"{'  ' * stage['depth']}{stage['name']}"
        if stage["skipped"] and not stage["error"]:
            table.add_row(styled((name, "dim")), "", styled((f"skipped: {stage['skipped']}", "dim")), "")
        else:
            result = styled((stage["error"], "red")) if stage["error"] else _pairs(stage["output"])
            table.add_row(styled(name), f"{stage['took_ms']:.1f}", _pairs(stage["input"]), result)
    out.print(table)
    if trace["passages"]:
        out.print()
        out.print(_looked_at(trace["passages"]))


def _looked_at(passages: Sequence[Mapping[str, Any]]) -> Table:
    numbers = ("page", "words", "meaning", "score")
    table = show.table("passage", *numbers, "use", right=numbers)
    for passage in passages:
        place = " › ".join([passage["document_name"], *passage["heading_path"][-1:]])
        scores = (f"{passage['lexical_score']:.1f}", f"{passage['cosine']:.2f}", f"{passage['score']:.2f}")
        style = "dim" if passage["use"] in ("kept", "dropped") else None
        table.add_row(styled(place), str(passage["page"]), *scores, passage["use"], style=style)
    return table


def _pairs(sizes: Mapping[str, Any]) -> Text:
    return styled(", ".join(f"{name} {value}" for name, value in sizes.items()))


# `refdesk demo`: the example documents, three questions, and answers in which every sentence is proved.

QUESTIONS = (
    "What caused the drift of the pressure sensors?",
    "How long does the battery of the WB-7 buoy last?",
    "What does Skerry pay each year for the use of the seabed?",  # stands in a scan
)


def run_demo(desk: Refdesk, out: Console, messages: Console, documents: Path | None) -> int:
    """Adds and asks; returns the exit code."""
    folder = documents or example_folder()
    messages.print(f"Adding {escape(str(folder))} to {escape(str(desk.folder))} …")
    with AddProgress(messages, quiet=False) as progress:
        results = desk.add(folder, collection=EXAMPLES, on_progress=progress.update, on_added=progress.added)
    show.added(out, results)
    for question in QUESTIONS:
        out.print(styled("\n", (question, "bold"), "\n", lines=True))
        show_answer(out, desk, desk.ask_sync(question, collection=EXAMPLES, cache=False))
    # As it was called: after `make demo` the program is .venv/bin/refdesk.
    out.print(f'\nNow ask your own:  {escape(sys.argv[0])} --library {escape(str(desk.folder))} ask "…"')
    return 1 if any(result.outcome == "failed" for result in results) else 0


# --- questions with known answers -------------------------------------------------------------------------------------

# `refdesk eval`: measures accuracy on questions with known answers.

LABELS = {
    "questions": "questions",
    "right": "correct, including refusals",
    "answer_given": "correct where there is an answer",
    "f1": "word overlap with the expected answer (F1)",
    "refused_although_known": "refused although there is an answer",
    "refused_rightly": "refused where there is none",
    "document_found": "document found",
    "place_cited": "expected document and page cited",
    "right_of_high_confidence": "correct among high-confidence answers",
    "median_ms": "median time in ms",
    "cost_usd": "cost in US dollars",
}
SHOWN = 120  # characters of an answer


def eval_command(
    context: typer.Context,
    file: Annotated[
        Path, argument("FILE", "JSONL with question, answer (null: not in the documents), document and page.")
    ],
    k: TopK = None,
    level: LevelName = None,
    mode: ModeName = None,
    model: ModelName = "",
    collection: Collection = None,
    at_least: Annotated[
        float, option("SHARE", "Exit with status 1 if a smaller share is correct; 0 to 1.", "--at-least")
    ] = 0.0,
    wrong: Annotated[int, option("N", "Number of wrong answers to show.", "--wrong")] = 10,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy on questions whose answers you know."""
    if not 0.0 <= at_least <= 1.0:
        raise UsageError(f"--at-least must be between 0 and 1, not {at_least}")
    questions = read_questions(file)
    options: dict[str, Any] = {"k": k, "level": level, "mode": mode, "model": model, "collection": collection}
    outcomes: list[Outcome] = []
    with desk_of(context) as desk:
        for outcome in evaluate(questions, lambda question: desk.ask_sync(question, cache=False, **options)):
            outcomes.append(outcome)
            if messages.is_terminal:
                messages.print(f"{len(outcomes)} of {len(questions)}", end="\r")
    figures = summary(outcomes)
    if as_json:
        print_json({"figures": figures, "questions": [outcome.to_dict() for outcome in outcomes]})
    else:
        _show(figures, [outcome for outcome in outcomes if not outcome.is_right][: max(wrong, 0)])
    raise typer.Exit(DONE if (figures["right"] or 0.0) >= at_least else FAILED)


def _show(figures: dict[str, Any], wrong: list[Outcome]) -> None:
    table = plain_table("what", "figure", right=("figure",))
    for name, label in LABELS.items():
        table.add_row(label, "–" if figures[name] is None else f"{figures[name]:g}")
    out.print(table)
    for outcome in wrong:
        expected = " or ".join(outcome.expected.texts) or "not in the documents"
        out.print(styled(("wrong", "red"), f"  {outcome.expected.question}"))
        out.print(styled(f"       expected {expected}; got {(outcome.short or outcome.content)[:SHOWN]}"))
