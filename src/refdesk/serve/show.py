"""How documents, hits and results look in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from refdesk.terms import query_terms, terms
from refdesk.types import Added, Chunk, Document, Hit

_QUOTED = 2  # sentences of a hit that are shown
_COLOURS = {"ready": "green", "failed": "red", "pending": "yellow", "processing": "yellow"}


def added(out: Console, results: Sequence[Added]) -> None:
    """One line that sums up; the failures, with reasons, have been shown as they happened."""
    counts = Counter(one.outcome for one in results)
    words = [
        f"{counts[name]} {name}" for name in ("added", "replaced", "unchanged", "removed", "failed") if counts[name]
    ]
    out.print(", ".join(words) or "nothing to add")


def hits(out: Console, text: str, found: Sequence[Hit]) -> None:
    for number, hit in enumerate(found, 1):
        place = f"page {hit.page}" if len(hit.chunk.pages) == 1 else f"pages {hit.chunk.pages[0]}–{hit.chunk.pages[-1]}"
        path = f" · {escape(' › '.join(hit.heading_path))}" if hit.heading_path else ""
        out.print(f"[bold]{number}[/]  [cyan]{escape(hit.document.name)}[/], {place}{path}")
        for quote in best_sentences(text, hit.chunk):
            out.print(f"   “{escape(quote)}”", soft_wrap=False)
        out.print(f"   [dim]score {hit.score:.3f} · BM25 {hit.lexical_score:.2f} · cosine {hit.cosine:.2f}[/]")


def best_sentences(text: str, chunk: Chunk, most: int = _QUOTED) -> list[str]:
    """The sentences of a chunk that share most with a text, in the order they stand."""
    wanted = set(query_terms(text))
    scored = []
    for place, sentence in enumerate(chunk.sentences):
        quote = " ".join(chunk.text[sentence.start : sentence.end].split())
        shared = len(wanted.intersection(terms(quote)))
        scored.append((-shared, place, quote))
    best = sorted(scored)[:most]
    best = [one for one in best if one[0] < 0] or best[:1]
    return [quote for _, _, quote in sorted(best, key=lambda one: one[1])]


def documents(out: Console, found: Sequence[Document]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "name", "collection", "format", "pages", "chunks", "status"):
        table.add_column(name, justify="right" if name in ("pages", "chunks") else "left", overflow="fold")
    for one in found:
        status = f"[{_COLOURS[one.status]}]{one.status}[/]"
        if one.error:
            status += f" {escape(one.error)}"
        table.add_row(
            one.id[:8],
            escape(one.name),
            escape(one.collection),
            one.format,
            str(one.page_count),
            str(one.chunk_count),
            status,
        )
    out.print(table)


def document(out: Console, one: Document) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in one.to_dict().items():
        if value not in ("", None, (), {}, []):
            shown = "; ".join(value) if isinstance(value, (tuple, list)) else str(value)
            if isinstance(value, dict):
                shown = "\n".join(f"{key}: {content}" for key, content in value.items())
            table.add_row(f"[bold]{name}[/]", escape(shown))
    out.print(table)


def chunks(out: Console, found: Sequence[Chunk]) -> None:
    for one in found:
        pages = ", ".join(map(str, one.pages))
        out.print(
            f"[bold]{one.sequence}[/] {one.kind} · page {pages} · {one.token_count} tokens"
            f" · [dim]{escape(one.context)}[/]"
        )
        out.print(escape(one.text))
        out.print()
