"""Work on jobs: the lease of a run, what becomes of a job, when it is tried again, and jobs over existing documents."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from refdesk.entities import GraphStore
from refdesk.errors import DiskFull, LibraryError, ModelError, RefdeskError, UsageError
from refdesk.ingest.graph import Extractor, graph_cost
from refdesk.ingest.summarise import (
    Summariser,
    SummaryCost,
    TreeSummariser,
    clusters_of,
    summary_cost,
    tree_cost,
    tree_of,
)
from refdesk.ports import LLM, Embedder, Models
from refdesk.store_ports import ChunkStore, DocumentStore, Files, Jobs
from refdesk.summaries import CLUSTER, DOCUMENT, SECTION, SummaryStore, TreeNode
from refdesk.types import BACKGROUND, UNFINISHED, Added, Chunk, Document, Job, JobKind, Scope

MOST_TAKEN = 5  # times that a job is taken; what has ended its worker, or met nobody, so often waits for a person
FIRST_WAIT_S = 5.0  # before the second try
PARKED = "it is saved; try again with more memory, or split it"
BEAT_S = 15.0  # a quarter of the lease
COUNTS = ("pages_done", "pages_total", "chunks_done", "chunks_total")


class _Closable(Protocol):
    def close(self) -> None: ...


_Pool = TypeVar("_Pool", bound=_Closable)


class KeptPool:
    """The processes that parse, kept from one batch to the next: to start them takes as long as to read ten files."""

    def __init__(self) -> None:
        self._of: Any = None
        self._pool: Any = None

    def take(self, of: object, make: Callable[[], _Pool]) -> _Pool:
        """The pool that was kept, where it was made of the same; whoever takes it gives it back or closes it."""
        pool, self._pool = self._pool, None
        if pool is not None and self._of != of:
            pool.close()
            pool = None
        self._of = of
        found: _Pool = make() if pool is None else pool
        return found

    def keep(self, pool: _Closable) -> None:
        self.close()
        self._pool = pool

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


@dataclass(frozen=True, slots=True)
class Run:
    worker: str
    folder: Path
    pool: KeptPool = field(default_factory=KeptPool)


@contextmanager
def at_work(jobs: Jobs, files: Files) -> Iterator[Run]:
    """A run of this process; what it has taken and not finished at the end of the block is free for others."""
    worker = jobs.start()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with suppress(Exception):  # a full disk, a database that restarts; the lease lasts for some more beats
                jobs.beat(worker)

    thread = threading.Thread(target=beat, name="refdesk-lease", daemon=True)
    thread.start()
    try:
        with files.workspace(worker) as folder:
            run = Run(worker, folder)
            try:
                yield run
            finally:
                run.pool.close()
    finally:
        ended.set()
        thread.join()
        with suppress(RefdeskError):  # the lease ends by itself
            jobs.end(worker)


def is_tried_again(job: Job, error: BaseException) -> bool:
    """Whether somebody else failed, who may be there again soon: a model behind an address, the database, the files."""
    is_of_others = isinstance(error, ModelError | LibraryError) and error.retryable and not isinstance(error, DiskFull)
    return is_of_others and job.attempts < MOST_TAKEN


def later(job: Job, error: BaseException) -> Job:
    """The same job for another try, after a while that doubles from one to the next; a defect of ours says nothing."""
    wait = FIRST_WAIT_S * 2 ** (job.attempts - 1) * random.uniform(0.75, 1.25)
    reason = error.sentence if isinstance(error, RefdeskError) else ""
    return replace(job, status="pending", worker="", seconds_left=None, lease_until=time.time() + wait, reason=reason)


def without_worker(job: Job) -> Job:
    return replace(job, worker="", password=None, seconds_left=None)


def finished_job(job: Job, added: Added) -> Job:
    """A job as it is when its documents are finished."""
    document = added.document
    ended = replace(without_worker(job), reason=added.reason, document_id=document.id if document else "")
    if added.outcome == "failed":
        return replace(ended, status="failed", outcome="")
    pages = document.page_count if document else job.pages_total
    chunks = document.chunk_count if document else job.chunks_total
    counts: Any = dict(zip(COUNTS, (pages, pages, chunks, chunks), strict=True))
    return replace(ended, status="ready", outcome=added.outcome, **counts)


# --- jobs over existing documents: summaries by a model, the tree, and the graph --------------------------------------

# Background jobs over existing documents: summaries by a model, the tree, and what a model finds for the graph.
#
#     submit → pending → taken by a run → processing → ready, failed with the reason, or cancelled
#
# A job goes from document to document and writes each of them down when it is done: what is killed or cancelled is
# resumed where it stood, and what has not changed is not made again.

TELL_S = 0.25  # how often progress is written down, and a cancellation looked for
Tell = Callable[[Job], None]

NAMES: dict[JobKind, str] = {
    "summaries": "Summaries",
    "tree": "Tree",
    "tree_summaries": "Summaries of the tree",
    "graph": "Names and relations",
}
NO_MODEL, NAME_ONE = "no model is set to {}", "set one: REFDESK_LLM_SUMMARISER"
# A program of the schema before takes a kind of job that it does not know for a file, once the job is due.
NEVER_DUE: frozenset[JobKind] = frozenset({"graph"})
NEVER = 32_503_680_000.0  # the year 3000


class Cancelled(Exception):
    """Somebody does not want the job any more."""


@dataclass(frozen=True, slots=True)
class BackgroundPorts:
    """What the jobs are done with."""

    documents: DocumentStore
    chunks: ChunkStore
    summaries: SummaryStore
    graph: GraphStore
    jobs: Jobs
    embedder: Embedder
    models: Callable[[], Models]
    close: Callable[[], Any]  # what the event loop of a job has kept open


def _summariser(ports: BackgroundPorts, to: str = "write summaries") -> LLM:
    model = ports.models().role("summariser")
    if model is None:
        raise UsageError(NO_MODEL.format(to), hint=NAME_ONE)
    return model


def _extractor(ports: BackgroundPorts) -> LLM:
    return _summariser(ports, "find names and relations")


def cost_of(ports: BackgroundPorts, scope: Scope) -> SummaryCost:
    """How many chunks have no summary by a model yet, and what one for each would cost."""
    model = _summariser(ports)
    return summary_cost(model.name, [chunk for _, chunks in _unwritten(ports, scope) for chunk in chunks])


def _unwritten(ports: BackgroundPorts, scope: Scope) -> list[tuple[Document, list[Chunk]]]:
    known = ports.summaries.written(ports.embedder.name)
    found = []
    for document in ports.documents.documents(scope, "ready"):
        have = known.get(document.id, {})
        left = [chunk for chunk in ports.chunks.chunks_of(document.id) if chunk.sequence not in have]
        if left:
            found.append((document, left))
    return found


def tree_cost_of(ports: BackgroundPorts, scope: Scope) -> SummaryCost:
    """How many sections and documents have no summary by a model yet, and what one for each would cost."""
    model, nodes, chunks = _summariser(ports), list[TreeNode](), list[Chunk]()
    for document in ports.documents.documents(scope, "ready"):
        own_chunks = ports.chunks.chunks_of(document.id)
        have = _nodes(ports, document) or tree_of(document, own_chunks, _vectors(ports, own_chunks))
        if left := [node for node in have if not node.model]:
            nodes, chunks = [*nodes, *left], [*chunks, *own_chunks]
    return tree_cost(model.name, nodes, chunks)


def graph_cost_of(ports: BackgroundPorts, scope: Scope) -> SummaryCost:
    """How many chunks no model has read for the graph yet, and what that would cost."""
    model = _extractor(ports)
    return graph_cost(model.name, [chunk for _, chunks in _unread(ports, scope) for chunk in chunks])


def _unread(ports: BackgroundPorts, scope: Scope) -> list[tuple[Document, list[Chunk]]]:
    found = []
    for document in ports.documents.documents(scope, "ready"):
        chunks = ports.chunks.chunks_of(document.id)
        have = ports.graph.extracted([chunk.id for chunk in chunks])
        if left := [chunk for chunk in chunks if chunk.id not in have]:
            found.append((document, left))
    return found


def _nodes(ports: BackgroundPorts, document: Document) -> list[TreeNode]:
    """The sections of a document, then the document; none where no tree was built."""
    embedder = ports.embedder.name
    return [node for level in (SECTION, DOCUMENT) for node in ports.summaries.nodes(embedder, level, [document.id])]


def _vectors(ports: BackgroundPorts, chunks: Sequence[Chunk]) -> Mapping[int, Any]:
    embedder = ports.embedder
    return ports.chunks.sentence_vectors(embedder.name, [chunk.id for chunk in chunks], embedder.dimensions)


class Background:
    """The jobs of one run."""

    def __init__(
        self,
        ports: BackgroundPorts,
        worker: str,
        on_progress: Tell,
        check: Callable[[], None],
        tell_s: float = TELL_S,
    ) -> None:
        self._ports, self._worker, self._tell_s = ports, worker, tell_s
        self._on_progress, self._check = on_progress, check
        self._told = 0.0

    def work(self, job_id: str = "") -> Job | None:
        """Does one job that waits, or this very one; gives it as it ended, None where there was none to do.

        Two processes do not work on jobs of one kind at a time: the second finds nothing free.
        """

        def choose(free: list[Job]) -> Sequence[Job]:
            return [job for job in free if job.kind in BACKGROUND and job_id in ("", job.id)][:1]

        taken = self._ports.jobs.take(self._worker, choose)
        if not taken:
            return None
        (job,) = taken
        try:
            return self._end(replace(self._done(job), status="ready", outcome="added"))
        except Cancelled:
            self._ports.jobs.remove([job.id])
            return replace(job, status="cancelled")
        except RefdeskError as error:
            return self._end(replace(job, status="failed", reason=error.sentence))
        except BaseException:
            self._ports.jobs.change([replace(job, worker="")], self._worker)  # the next run goes on with it
            raise

    def _done(self, job: Job) -> Job:
        if job.kind == "summaries":
            return asyncio.run(self._summaries(job))
        if job.kind == "graph":
            return asyncio.run(self._graph(job))
        done = self._tree(job)
        return asyncio.run(self._tree_summaries(done)) if job.kind == "tree_summaries" else done

    def _end(self, job: Job) -> Job:
        ended = replace(job, worker="", seconds_left=None)
        self._ports.jobs.change([ended], self._worker)
        self._on_progress(ended)
        return ended

    def _progress(self, job: Job, *, is_last: bool = False) -> Job:
        """Written down a few times a second; looks whether the job is still wanted."""
        if not is_last and time.monotonic() - self._told < self._tell_s:
            return job
        self._told = time.monotonic()
        self._check()
        if any(cancelled.id == job.id for cancelled in self._ports.jobs.cancelled(self._worker)):
            raise Cancelled
        self._ports.jobs.change([job], self._worker)
        self._on_progress(job)
        return job

    # the tree

    def _tree(self, job: Job) -> Job:
        """The nodes of documents that have none, then the clusters of collections in which something is new."""
        ports, embedder = self._ports, self._ports.embedder.name
        documents = ports.documents.documents(_scope(job), "ready")
        have = {node.document_id for node in ports.summaries.nodes(embedder, DOCUMENT)}
        missing = [document for document in documents if document.id not in have]
        job = self._progress(_begun(job, sum(document.chunk_count for document in missing)), is_last=True)
        for document in missing:
            chunks = ports.chunks.chunks_of(document.id)
            ports.summaries.put_nodes(document, embedder, tree_of(document, chunks, _vectors(ports, chunks)))
            job = self._progress(replace(job, chunks_done=job.chunks_done + document.chunk_count))
        self._clusters(documents)
        return replace(job, chunks_done=job.chunks_total)

    def _clusters(self, documents: Sequence[Document], *, is_new: bool = False) -> None:
        """Of each collection whose clusters do not hold just the documents that are there; `is_new`: of all."""
        ports, embedder = self._ports, self._ports.embedder.name
        nodes = {node.document_id: node for node in ports.summaries.nodes(embedder, DOCUMENT)}
        members: dict[str, set[str]] = {}
        for cluster in ports.summaries.nodes(embedder, CLUSTER):
            members.setdefault(cluster.collection, set()).update(cluster.members)
        by_collection: dict[str, list[str]] = {}
        for document in documents:
            if document.id in nodes:
                by_collection.setdefault(document.collection, []).append(document.id)
        for collection, ids in by_collection.items():
            if len(ids) > 1 and (is_new or members.get(collection, set()) != set(ids)):
                self._check()
                ports.summaries.put_clusters(
                    collection, embedder, clusters_of(collection, [nodes[node_id] for node_id in ids])
                )

    # summaries by a model

    async def _summaries(self, job: Job) -> Job:
        ports = self._ports
        summariser = Summariser(_summariser(ports), ports.embedder)

        async def write(document: Document, batch: Sequence[Chunk]) -> None:
            if written := await summariser.write(document, batch):
                ports.summaries.put_written(document, ports.embedder.name, written)

        return await self._by_batches(job, _unwritten(ports, _scope(job)), summariser, write)

    async def _graph(self, job: Job) -> Job:
        """Has a model name what chunks speak of, and what they say of two names."""
        ports, model = self._ports, _extractor(self._ports)
        extractor = Extractor(model)

        async def write(document: Document, batch: Sequence[Chunk]) -> None:
            if found := await extractor.write(document, batch):
                ports.graph.put_extracted(document, model.name, found)

        return await self._by_batches(job, _unread(ports, _scope(job)), extractor, write)

    async def _by_batches(
        self,
        job: Job,
        left: Sequence[tuple[Document, Sequence[Chunk]]],
        model: Summariser | Extractor,
        write: Callable[[Document, Sequence[Chunk]], Awaitable[None]],
    ) -> Job:
        """Has a model read the chunks that are left, and writes down each batch when it is done."""
        job = self._progress(_begun(job, sum(len(chunks) for _, chunks in left)), is_last=True)
        try:
            for document, chunks in left:
                for batch in model.batches(chunks):
                    await write(document, batch)
                    job = self._progress(replace(job, chunks_done=job.chunks_done + len(batch)))
        finally:
            await self._ports.close()
        return replace(job, reason=model.note)

    async def _tree_summaries(self, job: Job) -> Job:
        """Has a model sum up what the tree quotes, document by document, then groups the documents anew."""
        ports, summariser = self._ports, TreeSummariser(_summariser(self._ports), self._ports.embedder)
        documents = ports.documents.documents(_scope(job), "ready")
        every = {document.id: _nodes(ports, document) for document in documents}
        left = [document for document in documents if any(not node.model for node in every[document.id])]
        job = self._progress(_begun(job, sum(len(every[document.id]) for document in left)), is_last=True)
        try:
            for document in left:
                written = await summariser.write(document, every[document.id], ports.chunks.chunks_of(document.id))
                ports.summaries.put_nodes(document, ports.embedder.name, written)
                job = self._progress(replace(job, chunks_done=job.chunks_done + len(written)))
        finally:
            await ports.close()
        if left:
            self._clusters(documents, is_new=True)
        return replace(job, reason=summariser.note)


def _scope(job: Job) -> Scope:
    return Scope(collections=(job.collection,)) if job.collection else Scope()


def _begun(job: Job, total: int) -> Job:
    return replace(job, status="processing", chunks_total=total, chunks_done=0)


def new_job(kind: JobKind, collection: str, owner: str, running: Sequence[Job]) -> Job:
    """A job of this kind; one that waits already is enough."""
    for job in running:
        if job.kind == kind and job.collection == collection and job.status in UNFINISHED:
            raise UsageError(f"{NAMES[kind].lower()} are being made already", hint="wait until they are ready")
    due = NEVER if kind in NEVER_DUE else 0.0
    return Job("", NAMES[kind], collection, owner=owner, kind=kind, source=f"background:{kind}", lease_until=due)
