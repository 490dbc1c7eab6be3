"""Documents changed over HTTP: renamed, moved and deleted; one of them, several, or a whole collection."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.arguments import checked_collection
from refdesk.engine import Refdesk
from refdesk.errors import NotFound, UsageError
from refdesk.serve.http.desk import Library
from refdesk.serve.http.document_shapes import ChangeIn, CollectionName, DocumentId, DocumentsIn, MoveIn, RenameIn
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.documents import DOCUMENT, document_shown, seen
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import DeletedDocuments, MovedDocuments
from refdesk.serve.http.response_shapes import Document as ShownDocument
from refdesk.serve.http.uploads import Queue
from refdesk.serve.uploads import Uploads
from refdesk.types import EVERYTHING, Document

router = APIRouter(prefix="/api", tags=["documents"])
CHANGED = gives(ShownDocument, DOCUMENT) | failures(404)
DELETED = gives(DeletedDocuments, {"deleted": ["b4f2c6d1a0937e55"]}) | failures(404)
MOVED = gives(MovedDocuments, {"documents": [DOCUMENT]}) | failures(404)


# one


@router.patch("/documents/{document_id}", summary="Rename or move", responses=CHANGED)
def change(desk: Library, queue: Queue, caller: Who, document_id: DocumentId, body: ChangeIn) -> Response:
    found = seen(desk, caller, document_id)
    if body.name is not None:
        caller.require("rename", found.collection)
    if body.collection is not None:
        caller.require("move", found.collection)
        caller.require("move", checked_collection(body.collection))
    _settled(queue, [found])
    if body.collection is not None:
        found = desk.move(found.id, body.collection, name=body.name, access=caller.access)
    elif body.name is not None:
        found = desk.rename(found.id, body.name, access=caller.access)
    return reply(document_shown(found))


@router.delete("/documents/{document_id}", summary="Delete", responses=DELETED)
def delete(desk: Library, queue: Queue, caller: Who, document_id: DocumentId) -> Response:
    """With what is attached to it, at once and for everyone. One that is being added is put down."""
    found = seen(desk, caller, document_id)
    caller.require("delete", found.collection)
    return _deleted(desk, queue, [found])


# several


@router.post("/documents/move", summary="Move several", responses=MOVED)
def move(desk: Library, queue: Queue, caller: Who, body: MoveIn) -> Response:
    """All of them, or none when one cannot go."""
    found = [seen(desk, caller, one) for one in body.documents]
    for place in {checked_collection(body.collection), *(one.collection for one in found)}:
        caller.require("move", place)
    _settled(queue, found)
    return _moved(desk.move_all([one.id for one in found], body.collection, access=caller.access))


@router.post("/documents/delete", summary="Delete several", responses=DELETED)
def delete_several(desk: Library, queue: Queue, caller: Who, body: DocumentsIn) -> Response:
    """With what is attached to them. When the caller may not delete one of them, none goes."""
    found = [seen(desk, caller, one) for one in dict.fromkeys(body.documents)]
    for place in {one.collection for one in found}:
        caller.require("delete", place)
    return _deleted(desk, queue, found)


# a collection


@router.patch("/collections/{name:path}", summary="Rename a collection", responses=MOVED)
def rename_collection(desk: Library, queue: Queue, caller: Who, name: CollectionName, body: RenameIn) -> Response:
    """With the collections inside it. When one of its documents cannot go, none does. Keys are not changed by it.

    The new name may be that of another collection, which then holds both.
    """
    place = _held(desk, caller, name)
    for one in (place, checked_collection(body.name)):
        caller.require("move", one)
    if waiting := queue.waiting_in(place):
        files = "a file is" if len(waiting) == 1 else f"{len(waiting):,} files are"
        raise UsageError(f"{files} being added to {place} this moment", hint="wait until they are ready")
    return _moved(desk.rename_collection(place, body.name, access=caller.access))


@router.delete("/collections/{name:path}", summary="Delete a collection", responses=DELETED)
def delete_collection(desk: Library, queue: Queue, caller: Who, name: CollectionName) -> Response:
    """Every document in it and in the collections inside it, at once and for everyone; what waits is put down."""
    place = _held(desk, caller, name)
    caller.require("delete", place)
    found = {one.id: one for one in desk.documents(collection=place, access=caller.access)}
    queue.put_down(queue.waiting_in(place))
    found |= {one.id: one for one in desk.documents(collection=place, access=caller.access)}  # begun in between
    return _gone(desk, queue, [one for one in found.values() if one.parent_id is None])


def _held(desk: Refdesk, caller: Caller, name: str) -> str:
    """A collection that holds documents, for those who may read all of it; for the others it is not there."""
    place = checked_collection(name)
    counts = dict(desk.collections(caller.access)) if caller.may("read", place) else {}
    if not any(f"{one}/".startswith(f"{place}/") for one in counts):
        raise NotFound(f"there is no collection '{place}'")
    return place


def _settled(queue: Uploads, documents: Sequence[Document]) -> None:
    """What is being added this moment would come back under its old name."""
    if waiting := queue.waiting_for(documents):
        raise UsageError(f"{waiting[0].name} is being added this moment", hint="wait until it is ready")


def _deleted(desk: Refdesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    queue.put_down(queue.waiting_for(documents))  # or it would bring them back
    return _gone(desk, queue, documents)


def _gone(desk: Refdesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    gone = desk.remove_found(documents)
    went = {one.id for one in gone}
    # One that was being added goes by itself once it is put down, perhaps before it is removed here.
    gone += [one for one in documents if one.id not in went and desk.shelves.visible(one.id, EVERYTHING) is None]
    queue.documents_removed(one.source for one in gone)
    return reply({"deleted": [one.id for one in gone]})


def _moved(documents: Sequence[Document]) -> Response:
    return reply({"documents": [document_shown(one) for one in documents]})
