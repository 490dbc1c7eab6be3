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
from refdesk.serve.uploads import ACTIVE, Uploads
from refdesk.types import Document

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
        found = desk.move(found.id, body.collection, name=body.name)
    elif body.name is not None:
        found = desk.rename(found.id, body.name)
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
    return _moved(desk.move_all([one.id for one in found], body.collection))


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
    """With the collections inside it: all its documents go, or none. Keys are not changed by it.

    The new name may be that of another collection, which then holds both.
    """
    found = _held(desk, caller, name)
    for place in (checked_collection(name), checked_collection(body.name)):
        caller.require("move", place)
    _settled(queue, found)
    return _moved(desk.rename_collection(name, body.name))


@router.delete("/collections/{name:path}", summary="Delete a collection", responses=DELETED)
def delete_collection(desk: Library, queue: Queue, caller: Who, name: CollectionName) -> Response:
    """Every document in it and in the collections inside it, at once and for everyone."""
    found = _held(desk, caller, name)
    caller.require("delete", checked_collection(name))
    return _deleted(desk, queue, found)


def _held(desk: Refdesk, caller: Caller, name: str) -> list[Document]:
    """What lies in a collection, for those who may read all of it; for the others it is not there."""
    place = checked_collection(name)
    if caller.may("read", place):
        found = [one for one in desk.documents(collection=place) if one.parent_id is None]
        if found:
            return found
    raise NotFound(f"there is no collection '{place}'")


def _settled(queue: Uploads, documents: Sequence[Document]) -> None:
    """What is being added this moment would come back under its old name and place."""
    for one in documents:
        upload = queue.of_document(one.source)
        if upload is not None and upload.status in ACTIVE:
            raise UsageError(f"{one.name} is being added this moment", hint="wait until it is ready")


def _deleted(desk: Refdesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    put_down = [one.id for one in documents if queue.take_back(one)]
    rest = [one for one in documents if one.id not in put_down]
    _settled(queue, rest)
    gone = desk.remove(*(one.id for one in rest)) if rest else []
    for one in gone:
        queue.document_removed(one.source)
    return reply({"deleted": put_down + [one.id for one in gone]})


def _moved(documents: Sequence[Document]) -> Response:
    return reply({"documents": [document_shown(one) for one in documents]})
