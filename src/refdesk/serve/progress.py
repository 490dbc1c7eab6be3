"""Progress in the terminal: documents, pages, chunks a second, time left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from refdesk.serve.show import escape, styled
from refdesk.types import Added
from refdesk.types import Progress as State


class AddProgress:
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
        self._documents = self._bars.add_task("documents", total=None, more="")
        self._pages = self._bars.add_task("pages", total=None, more="")
        self._chunks = self._bars.add_task("chunks", total=None, more="")

    def __enter__(self) -> AddProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def stop(self) -> None:
        self._bars.stop()

    def update(self, state: State) -> None:
        left = "" if state.seconds_left is None else f"about {_duration(state.seconds_left)} left"
        names = ", ".join(state.working_on)
        self._bars.update(self._documents, completed=state.documents_done, total=state.documents_total, more=left)
        self._bars.update(self._pages, completed=state.pages_done, total=state.pages_total, more=escape(names[:60]))
        self._bars.update(
            self._chunks,
            completed=state.chunks_done,
            total=state.chunks_total,
            more=f"{state.chunks_per_second:.0f} a second",
        )

    def added(self, one: Added) -> None:
        if self._quiet:
            return
        if one.outcome == "failed":
            self._console.print(styled(("failed", "red"), f"    {one.name}: {one.reason}"), soft_wrap=True)
        elif one.reason:
            self._console.print(styled((one.outcome, "dim"), f" {one.name}: {one.reason}"), soft_wrap=True)
        for note in one.document.notes if one.document and one.outcome in ("added", "replaced") else ():
            self._console.print(styled(("note", "yellow"), f"      {one.name}: {note}"), soft_wrap=True)

    def round_done(self, results: Sequence[Added]) -> None:
        counts = Counter(one.outcome for one in results)
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        if said and not self._quiet:
            self._console.print(f"{time.strftime('%H:%M:%S')}  {said}")


class CountProgress:
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

    def __enter__(self) -> CountProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update(self, done: int, total: int) -> None:
        self._bars.update(self._task, completed=done, total=total)


def _duration(seconds: float) -> str:
    """`125` -> `2 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
