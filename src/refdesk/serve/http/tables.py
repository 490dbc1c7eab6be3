"""The tables of a document over HTTP: what was understood of each, and its cells with their numbers and places."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.caller_desk import CallerDesk
from refdesk.cells import StoredTable
from refdesk.serve.http import responses as shapes
from refdesk.serve.http.errors import reply
from refdesk.serve.http.guard import Desk
from refdesk.serve.http.openapi import about
from refdesk.serve.http.requests import DocumentId

router = APIRouter(prefix="/api", tags=["documents"])


@router.get("/documents/{document_id}/tables", **about("List a document's tables", shapes.TablePage))
def tables(
    desk: Desk,
    document_id: DocumentId,
    page: Annotated[int | None, Query(ge=1, le=10_000_000, description="Only those that begin on this page.")] = None,
    number: Annotated[int | None, Query(ge=1, le=10_000_000, description="Only this one, from 1.")] = None,
    cells: Annotated[bool, Query(description="`false`: only what was understood of each.")] = True,
    row: Annotated[int, Query(ge=0, le=100_000_000, description="Cells from this row on; see `next_row`.")] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Response:
    """With their cells: text as displayed, number, unit, scale, period, page and boxes.

    Of a large table some 5,000 cells at a time; `next_row` is where to go on, `null` at its end.
    """
    document = desk.find_document(document_id, is_read=True)
    found = [
        table for table in desk.tables(document.id) if page in (None, table.page) and number in (None, table.number)
    ]
    some = [_table(desk, table, row, is_whole=cells) for table in found[offset : offset + limit]]
    return reply({"document_id": document.id, "tables": some, "total": len(found), "limit": limit, "offset": offset})


def _table(desk: CallerDesk, table: StoredTable, row: int, *, is_whole: bool) -> dict[str, Any]:
    cells, following = desk.cells(table, row) if is_whole else ([], None)
    own = table.to_dict()
    del own["document_id"]
    return own | {"cells": [cell.to_dict() for cell in cells], "next_row": following}
