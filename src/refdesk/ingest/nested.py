"""Files in files: how deep they may lie, and how much one file may hold in all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from refdesk.ingest.pipeline import Finished

MAX_DEPTH = 5  # a report in an archive attached to a mail that was forwarded in another one
PER_FILE = 16 << 10  # bytes that a file counts for beside its own: adding one costs time and space however small it is


class NestedFiles:
    """What was unpacked from each file that was added: a small archive can hold archives without end."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._unpacked: Counter[str] = Counter()

    def bounded(self, work: Finished) -> Finished:
        """The same without the files in it, and with a note that says so, where that is too much."""
        children = work.extra.children
        if not children:
            return work
        job = work.source.job
        self._unpacked[job] += sum(child.path.stat().st_size + PER_FILE for child in children)
        if work.source.task.depth >= MAX_DEPTH:
            reason = f"they lie in more than {MAX_DEPTH} files, one inside the other"
        elif self._unpacked[job] > self._max_bytes:
            reason = f"with them, more than {self._max_bytes >> 20:,} MB would be unpacked from one file"
        else:
            return work
        document = work.prepared.document
        note = f"the files in it ({len(children):,}) were left out: {reason}"
        prepared = replace(work.prepared, document=replace(document, notes=(*document.notes, note)))
        return replace(work, prepared=prepared, extra=replace(work.extra, children=()))
