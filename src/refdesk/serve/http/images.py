"""Figures over HTTP: the pictures that were cut out of documents, at the address that passages give a model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import FileResponse, Response

from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import bytes_of, failures
from refdesk.serve.http.documents import is_known
from refdesk.serve.http.guard import Who
from refdesk.serve.http.pages import UNCHANGED

router = APIRouter(prefix="/api/images", tags=["documents"])
Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The hash of its content.", examples=["9f" * 32])]


@router.head("/{image}", include_in_schema=False)
@router.get(
    "/{image}",
    summary="A figure of a document",
    responses=bytes_of("image/png", description="The figure") | UNCHANGED | failures(404),
)
def figure(request: Request, desk: Library, caller: Who, image: Hash) -> Response:
    """As PNG, for those who may read a document that holds it; for the others it is not there."""
    path = desk.figure(image, access=caller.access)
    headers = {
        "ETag": f'"{image}"',
        "Cache-Control": "private, no-cache",  # the content never changes, who may see it does
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if is_known(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
    return FileResponse(path, headers=headers, media_type="image/png")
