"""Collections over HTTP: the folders that documents live in."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import CollectionList

router = APIRouter(prefix="/api/collections", tags=["documents"])
EXAMPLE: CollectionList = {"collections": [{"name": "finance/2024", "documents": 3, "may_edit": False}]}


@router.get("", summary="The collections that the caller may read", responses=gives(CollectionList, EXAMPLE))
def collections(desk: Library, caller: Who) -> Response:
    """With how many documents lie in each itself; those of the caller's key also when they are empty."""
    counts = dict(desk.collections(caller.access))
    names = sorted(counts.keys() | set(caller.collections or ()))
    return reply(
        {
            "collections": [
                {"name": name, "documents": counts.get(name, 0), "may_edit": caller.may("add", name)} for name in names
            ]
        }
    )
