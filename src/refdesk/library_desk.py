"""Imports, summaries, the tree, and the graph by a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refdesk.arguments import checked_collection, checked_metadata
from refdesk.caller_desk import DEFAULT_COLLECTION, CallerDesk
from refdesk.errors import LibraryBusy, LibraryError, NotFound, UsageError
from refdesk.ingest.imported import (
    Airtable,
    AirtableSource,
    ImportedDocument,
    Importer,
    by_document,
    checked_chunk,
    read_lines,
)
from refdesk.ingest.runs import Background, BackgroundPorts, Run, at_work, cost_of, graph_cost_of, new_job, tree_cost_of
from refdesk.ingest.summarise import SummaryCost
from refdesk.store_ports import Files, Jobs
from refdesk.types import BACKGROUND, UNFINISHED, Added, Job, JobKind, Scope


class LibraryDesk(CallerDesk):
    """A library for who opened it; what it is made of is put together in desk.py."""

    jobs: Jobs
    files: Files
    background_ports: BackgroundPorts
    open_airtable: Callable[[], Airtable]

    # chunks that were made elsewhere

    def import_chunks(
        self,
        source: str | Path | Iterable[Mapping[str, Any]],
        *,
        collection: str = DEFAULT_COLLECTION,
        metadata: Mapping[str, str] | None = None,
    ) -> list[Added]:
        """Adds chunks as another program made them: a JSONL file, or mappings with the same names (docs/import.md).

        >>> desk.import_chunks([{"doc_id": "d1", "sequence_number": 1, "content_raw": "The anchor weighs 350 kg."}])
        """
        if isinstance(source, str | Path):
            path = Path(source).expanduser()
            try:
                chunks = read_lines(path.read_text(encoding="utf-8-sig").splitlines())
            except OSError as error:
                raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
            except UnicodeDecodeError:
                raise UsageError(f"{path} is not UTF-8", hint="write it as UTF-8") from None
        else:
            chunks = [checked_chunk(row, f"chunk {number}", number) for number, row in enumerate(source, 1)]
        return self._imported(by_document(chunks, checked_metadata(metadata)), checked_collection(collection))

    def add_airtable(
        self,
        base: str,
        table: str,
        *,
        fields: Mapping[str, str] | None = None,
        collection: str = DEFAULT_COLLECTION,
        formula: str = "",
        full: bool = False,
    ) -> list[Added]:
        """Adds the records of an Airtable table, each a chunk; `fields` maps our names to those of the table.

        After the first time only documents with changed records are read; `full` reads all, and removes documents of
        which the table has none any more. The key is AIRTABLE_API_KEY.
        """
        place = checked_collection(collection)
        source = AirtableSource(self.open_airtable(), base, table, dict(fields or {}), formula)
        before = self.parts.documents.documents(Scope(collections=(place,), metadata=(source.mark,)))
        found = source.documents("" if full else source.read_until(before))
        results = self._imported(found, place)
        if full:
            kept = {imported.id for imported in found}
            results += Importer(self.parts.documents, self.parts.writer, self.parts.embedder).remove_missing(
                source.mark, place, kept
            )
        return results

    def _imported(self, found: Sequence[ImportedDocument], collection: str) -> list[Added]:
        self.parts.reader.heal()
        results: list[Added] = []
        Importer(self.parts.documents, self.parts.writer, self.parts.embedder).store(found, collection, results.append)
        self.parts.compact()
        return results

    # in the background: summaries by a model, the tree above the chunks, and the graph by a model

    def summary_cost(self, collection: str = "") -> SummaryCost:
        """How many chunks have no summary by a model yet, and what one for each would take and cost."""
        place = checked_collection(collection) if collection else ""
        return cost_of(self.background_ports, self.scope(place or None))

    def tree_summary_cost(self, collection: str = "") -> SummaryCost:
        """How many sections and documents a model has not summed up yet, and what that would take and cost."""
        place = checked_collection(collection) if collection else ""
        return tree_cost_of(self.background_ports, self.scope(place or None))

    def graph_cost(self, collection: str = "") -> SummaryCost:
        """How many chunks no model has read for the graph yet, and what that would take and cost."""
        place = checked_collection(collection) if collection else ""
        return graph_cost_of(self.background_ports, self.scope(place or None))

    def submit_background(self, kind: JobKind, collection: str = "") -> Job:
        """A job that a server takes up, or `work_in_background`: `summaries`, `tree`, `tree_summaries` or `graph`."""
        place = checked_collection(collection) if collection else ""
        running = list(self.jobs.all(BACKGROUND).values())
        return self.jobs.submit([new_job(kind, place, self.caller.id, running)])[0]

    def background_jobs(self) -> list[Job]:
        """Those that wait, run, or have ended."""
        return list(self.jobs.all(BACKGROUND).values())

    def cancel_background(self, job_id: str) -> None:
        """Ends a job, or takes an ended one off the list; what it has made stays."""
        found = self.jobs.all(BACKGROUND).get(job_id)
        if found is None:
            raise NotFound(f"there is no job '{job_id}'")
        if found.status in UNFINISHED and found.worker:
            self.jobs.cancel([job_id])
        else:
            self.jobs.remove([job_id])

    def work_in_background(
        self,
        run: Run,
        *,
        job_id: str = "",
        on_progress: Callable[[Job], None] = lambda job: None,
        check: Callable[[], None] = lambda: None,
    ) -> Job | None:
        """Does one job that waits; gives it as it ended, None where none does. `check` may raise to put it down."""
        return Background(self.background_ports, run.worker, on_progress, check).work(job_id)

    def summarise(self, collection: str = "", *, on_progress: Callable[[Job], None] = lambda job: None) -> Job:
        """Lets the model of the role `summariser` sum up every chunk that it has not yet; see `summary_cost` first."""
        return self._at_once("summaries", collection, on_progress)

    def build_tree(self, collection: str = "", *, on_progress: Callable[[Job], None] = lambda job: None) -> Job:
        """Sums up sections, documents and groups of documents; what has not changed is left as it is."""
        return self._at_once("tree", collection, on_progress)

    def summarise_tree(self, collection: str = "", *, on_progress: Callable[[Job], None] = lambda job: None) -> Job:
        """The tree, its sections and documents summed up by the summariser; see `tree_summary_cost` first."""
        return self._at_once("tree_summaries", collection, on_progress)

    def extract_graph(self, collection: str = "", *, on_progress: Callable[[Job], None] = lambda job: None) -> Job:
        """Lets the summariser find names and relations in every chunk that it has not read yet; see `graph_cost`."""
        return self._at_once("graph", collection, on_progress)

    def _at_once(self, kind: JobKind, collection: str, on_progress: Callable[[Job], None]) -> Job:
        self.jobs.alive()  # what a killed process had taken is free from now on, and taken over here
        left = [job for job in self.background_jobs() if job.status in UNFINISHED and not job.worker]
        same = [job for job in left if (job.kind, job.collection) == (kind, collection)]
        job = same[0] if same else self.submit_background(kind, collection)
        try:
            with at_work(self.jobs, self.files) as run:
                done = self.work_in_background(run, job_id=job.id, on_progress=on_progress)
        finally:  # also after Ctrl-C: nobody goes on with it, and pays for it, unseen
            self.jobs.remove([job.id])
        if done is None:
            raise LibraryBusy("another process is doing this job")
        if done.status == "failed":
            raise LibraryError(done.reason)
        return done
