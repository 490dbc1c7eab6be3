"""How documents, hits and results are displayed in a terminal; in a pipe, one line each, however long."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

import orjson
import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from refdesk.desk import Refdesk
from refdesk.records import StoredTable
from refdesk.serve.cli.main import DONE, FAILED, NOTHING, USAGE
from refdesk.text import query_terms, terms
from refdesk.types import Added, Chunk, Document, Hit, Outcome
from refdesk.types import Progress as State

_QUOTED = 2  # sentences of a hit that are shown
_COLOURS = {"ready": "green", "failed": "red", "pending": "yellow", "processing": "yellow"}
_UNBROKEN = 100_000  # columns of a pipe: nothing is folded, so that grep and cut work
_MARKERS = "-*•·– "  # what a list puts before an item
# What would steer the terminal or show letters in another order than they stand: control characters, line separators,
# what turns text about, and halves of surrogate pairs, which no terminal can be sent (bytes of file names become them).
_STEERING = (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_STEERING += tuple(range(0xD800, 0xE000))
_CONTROLS = {code: "\ufffd" for code in _STEERING if chr(code) not in "\n\t"}
_ONE_LINE = _CONTROLS | {10: "\ufffd"}
CONTROL = re.compile("[" + "".join(f"\\u{code:04x}" for code in _STEERING if 126 < code < 0xD800) + "]")
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal, or as COLUMNS says; colours on a terminal only.

    No text is read as markup: ":x:" and "[red]" are what a document says. What has a style is a `styled` text.
    """
    found = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = _UNBROKEN
    return found


def escape(text: str, *, lines: bool = False) -> str:
    """A text to the letter, but for control characters, which would steer the terminal: they are shown as "�".

    >>> escape("[red]a:x:\\x1b[31m")
    '[red]a:x:�[31m'
    """
    return text.translate(_CONTROLS if lines else _ONE_LINE)


def styled(*parts: str | tuple[str, str], lines: bool = False) -> Text:
    """One text of several, each alone or with its style: `styled(("failed", "red"), "  ", name)`."""
    made = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        made.append(escape(text, lines=lines), style=style or None)
    return made


def table(*names: str, right: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Without lines; columns in `right` are numbers, those in `whole` are never folded. No names: no header."""
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(names))
    for name in names:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    return made


def added(out: Console, results: Sequence[Added]) -> None:
    """One line that sums up; the failures, with reasons, have been shown as they happened."""
    counts = Counter(result.outcome for result in results)
    out.print(", ".join(f"{counts[name]} {name}" for name in _OUTCOMES if counts[name]) or "nothing to add")


def hits(out: Console, text: str, found: Sequence[Hit]) -> None:
    for number, hit in enumerate(found, 1):
        out.print(styled((str(number), "bold"), "  ", (hit.document.name, "cyan"), f", {pages(hit.chunk.pages)}"))
        if hit.heading_path:
            _indented(out, styled((" › ".join(hit.heading_path), "dim")))
        for quote in quotes(text, hit):
            _indented(out, styled(quote))
        scores = f"score {hit.score:.3f} · BM25 {hit.lexical_score:.2f} · cosine {hit.cosine:.2f}"
        _indented(out, styled((scores, "dim")))


def pages(numbers: Sequence[int]) -> str:
    """`(3,)` -> `page 3`, `(3, 4, 5)` -> `pages 3–5`."""
    return f"page {numbers[0]}" if len(numbers) == 1 else f"pages {numbers[0]}–{numbers[-1]}"


def quotes(text: str, hit: Hit, most: int = _QUOTED) -> list[str]:
    """The best sentences in quotation marks; rows of a table and lines of code as they are."""
    found = best_sentences(text, hit.chunk, hit.document.language or "en", most)
    if hit.chunk.kind in ("table", "code"):
        return found
    return [f"“{quote.lstrip(_MARKERS) or quote}”" for quote in found]


def best_sentences(text: str, chunk: Chunk, language: str = "en", most: int = _QUOTED) -> list[str]:
    """The sentences of a chunk that share most with a text, in the order they stand; headings only if nothing else."""
    wanted = set(query_terms(text, (language,)))
    headings = {" ".join(heading.split()) for heading in chunk.heading_path}
    scored = []
    for place, sentence in enumerate(chunk.sentences):
        quote = " ".join(chunk.text[sentence.start : sentence.end].split())
        shared = len(wanted.intersection(terms(quote, language)))
        scored.append((quote in headings, -shared, place, quote))
    scored.sort()
    best = [row for row in scored[:most] if row[1] < 0 and not row[0]] or scored[:1]
    return [quote for _, _, _, quote in sorted(best, key=lambda sentence: sentence[2])]


def documents(out: Console, found: Sequence[Document]) -> None:
    """A table, then the reasons of those that failed; the collection is named where there are several."""
    several = len({stored_table.collection for stored_table in found}) > 1
    facts = ("format", "pages", "chunks", "status")
    columns = ("id", "name", *(["collection"] if several else []), *facts)
    rows = table(*columns, right=("pages", "chunks"), whole=("id", *facts))
    for document in found:
        row = [document.id[:8], document.name, *([document.collection] if several else [])]
        row += [document.format, str(document.page_count), str(document.chunk_count)]
        rows.add_row(*map(styled, row), styled((document.status, _COLOURS[document.status])))
    out.print(rows)
    for document in found:
        if document.error:
            label = "failed" if document.status == "failed" else "kept as it was"  # the new version cannot be read
            out.print(styled((label, "red"), f"  {document.name}: {document.error}"))


def document(out: Console, document: Document) -> None:
    rows = table()
    for name, value in document.to_dict().items():
        if value not in ("", None, (), {}, []):
            shown = "; ".join(value) if isinstance(value, (tuple, list)) else str(value)
            if isinstance(value, dict):
                shown = "\n".join(f"{key}: {content}" for key, content in value.items())
            rows.add_row(styled((name, "bold")), styled(shown, lines=True))
    out.print(rows)


def chunks(out: Console, found: Sequence[Chunk]) -> None:
    for stored_table in found:
        head = f"  {stored_table.kind}, {pages(stored_table.pages)}, {stored_table.token_count} tokens"
        path = (("  " + " › ".join(stored_table.heading_path), "dim"),) if stored_table.heading_path else ()
        out.print(styled((str(stored_table.sequence), "bold"), head, *path))
        out.print(styled(stored_table.text, "\n", lines=True))


def tables(out: Console, found: Sequence[StoredTable]) -> None:
    """Of each its place, size, caption, and what the head of each column says; nothing of its cells."""
    for stored_table in found:
        rows, columns = stored_table.row_count - stored_table.head_rows, stored_table.column_count
        facts = [f"page {stored_table.page}", f"{rows:,} {'row' if rows == 1 else 'rows'}", f"{columns} columns"]
        facts += [f"in {stored_table.scale}s"] if stored_table.scale else []
        out.print(
            styled(
                (str(stored_table.number), "bold"),
                f"  {', '.join(facts)}",
                (f"  {stored_table.caption}", "dim"),
                lines=True,
            )
        )
        for head in stored_table.heads:
            heading = " › ".join(head.path) or "(no name)"
            more = ", ".join(filter(None, (head.measure.unit, head.measure.scale, head.measure.period)))
            _indented(out, styled(heading, (f"  {more}" if more else "", "dim")))
        out.print()
    if not found:
        out.print("This document has no tables.")


def _indented(out: Console, text: Text) -> None:
    out.print(Padding(text, (0, 0, 0, 3), expand=False))


# Progress in the terminal: documents, pages, chunks a second, time left.


class _Progress:
    """Bars on the screen while a block runs."""

    _bars: Bars

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._bars.stop()


class AddProgress(_Progress):
    """Bars while an add runs, failures as they happen; silent when nobody looks or JSON is wanted."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._bars = Bars(
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}", markup=False),  # names of files are no markup
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._tasks = [self._bars.add_task(name, total=None, more="") for name in ("documents", "pages", "chunks")]

    def update(self, state: State) -> None:
        left = "" if state.seconds_left is None else f"about {_duration(state.seconds_left)} left"
        names = ", ".join(state.working_on)
        rows = (
            (state.documents_done, state.documents_total, left),
            (state.pages_done, state.pages_total, escape(names[:60])),
            (state.chunks_done, state.chunks_total, f"{state.chunks_per_second:.0f} a second"),
        )
        for task, (done, total, more) in zip(self._tasks, rows, strict=True):
            self._bars.update(task, completed=done, total=total, more=more)

    def added(self, added: Added) -> None:
        if self._quiet:
            return
        if added.outcome == "failed":
            self._console.print(styled(("failed", "red"), f"    {added.name}: {added.reason}"), soft_wrap=True)
        elif added.reason:
            self._console.print(styled((added.outcome, "dim"), f" {added.name}: {added.reason}"), soft_wrap=True)
        for note in added.document.notes if added.document and added.outcome in ("added", "replaced") else ():
            self._console.print(styled(("note", "yellow"), f"      {added.name}: {note}"), soft_wrap=True)

    def round_done(self, results: Sequence[Added]) -> None:
        counts = Counter(result.outcome for result in results)
        summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        if summary and not self._quiet:
            self._console.print(f"{time.strftime('%H:%M:%S')}  {summary}")


class CountProgress(_Progress):
    """One bar for work that knows how much there is."""

    def __init__(self, console: Console, title: str, unit: str) -> None:
        self._bars = Bars(
            TextColumn(title, markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn(unit, markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task(title, total=None)

    def update(self, done: int, total: int) -> None:
        self._bars.update(self._task, completed=done, total=total)


def _duration(seconds: float) -> str:
    """`125` -> `2 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# What every command shares: the library it works on, one JSON value on standard output, the two consoles.

__all__ = ["DONE", "FAILED", "NOTHING", "USAGE", "escape", "styled"]

out = console()
messages = console(stderr=True)
EMPTY = "The library is empty: refdesk add FILE …"


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, **more)


def argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text, show_default=False)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Collection = Annotated[str | None, option("PATH", "Only this collection and its subcollections.", "--collection", "-c")]
DocumentNames = Annotated[list[str] | None, option("DOCUMENT", "Only this document; repeatable.", "--document", "-d")]
TopK = Annotated[int | None, option("K", "Number of passages; default: the setting rag.top_k.", "-k")]


def desk_of(context: typer.Context) -> Refdesk:
    """The library and the settings that the options before the command name."""
    return Refdesk(context.obj["library"], settings=context.obj["settings"])


def tell(as_json: bool, value: Any, sentence: str, console: Console = out) -> None:
    """What was done: the value as JSON, or a sentence for people."""
    if as_json:
        print_json(value)
    else:
        console.print(sentence)


def print_json(value: Any) -> None:
    """Control characters are written as `\\u009b`: no document can steer the terminal; the value is the same."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    sys.stdout.write(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
