"""Searching over HTTP: the passages that fit best, each with its text, its place and its true scores; no answer.

What a caller may not read is left out inside the search, so that it neither shows nor takes the place of a hit.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Annotated, Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.errors import UsageError
from refdesk.serve.http.answer_shapes import SearchResult
from refdesk.serve.http.desk import Service, Serving
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.documents import WITH_IMAGES
from refdesk.serve.http.guard import Who
from refdesk.serve.http.observe import log_question
from refdesk.serve.http.pages import LONGEST_BOXES, MOST_BOXES
from refdesk.serve.http.reply import reply
from refdesk.serve.http.shapes import LONGEST_SEARCH, MOST_HITS, Name, SearchRequest
from refdesk.types import Hit, Kind, Method

router = APIRouter(tags=["asking"])
PLACE = "/api/documents/b4f2c6d1a0937e55/pages/2"
HIT: dict[str, Any] = {
    "document_id": "b4f2c6d1a0937e55",
    "document_name": "price-list.pdf",
    "chunk_id": 17,
    "chunk_sequence": 3,
    "kind": "text",
    "heading_path": ["Prices", "Revision"],
    "page": 2,
    "pages": [2],
    "boxes": [{"page": 2, "x": 10.0, "y": 41.5, "width": 63.0, "height": 1.6}],
    "text": "The price list is revised every January.",
    "lexical_score": 7.3,
    "cosine": 0.83,
    "score": 0.91,
    "collection": "finance",
    "title": "Price list 2026",
    "date": "2026-01-31",
    "lines": [
        {"start": 0, "end": 40, "page": 2, "box": {"page": 2, "x": 10.0, "y": 41.5, "width": 63.0, "height": 1.6}}
    ],
    "page_text": f"{PLACE}/text",
    "page_image": f"{PLACE}/image?boxes=%5B%5B10.0%2C41.5%2C63.0%2C1.6%5D%5D",
    "figure": None,
}
HITS = gives(
    SearchResult, {"query": "price list revised", "method": "hybrid", "hits": [HIT]}, description="The best first"
)
Several = Annotated[list[Name] | None, Query(max_length=100)]


@router.post("/api/search", summary="Find passages", responses=HITS | failures(404))
async def search(service: Serving, caller: Who, body: SearchRequest) -> Response:
    """The chunks that fit a question or a few words best; no model writes anything."""
    return reply(await found(service, caller, body))


@router.get("/api/search", summary="Find passages, by address", responses=HITS | failures(404))
async def search_address(
    service: Serving,
    caller: Who,
    q: Annotated[str, Query(max_length=LONGEST_SEARCH, description="What to look for.", examples=["price list"])],
    k: Annotated[int | None, Query(ge=1, le=MOST_HITS, description="How many; `rag.top_k` if not said.")] = None,
    method: Annotated[Method, Query(description="By words, by meaning, or both.")] = "hybrid",
    collection: Annotated[Several, Query(description="Only these and what lies below; may be repeated.")] = None,
    document: Annotated[Several, Query(description="Only these, by id or name; may be repeated.")] = None,
    kind: Annotated[list[Kind] | None, Query(max_length=100, description="Only these kinds; may be repeated.")] = None,
    date_from: Annotated[str, Query(max_length=40, description="Only documents of this day or later.")] = "",
    date_to: Annotated[str, Query(max_length=40, description="Only documents of this day or earlier.")] = "",
) -> Response:
    """The same, for what can be said in an address; pages and metadata need a body."""
    said = {"q": q, "k": k, "method": method, "collection": collection, "document": document, "kind": kind}
    wanted = SearchRequest.model_validate(said | {"date_from": date_from, "date_to": date_to})
    return reply(await found(service, caller, wanted))


async def found(service: Service, caller: Caller, wanted: SearchRequest) -> dict[str, Any]:
    """The hits for this caller. A key's searches take turns: those of the others do not wait for them."""
    caller.require("search")
    if not wanted.text.strip():
        raise UsageError("there is nothing to search for", hint="say it in `q`")
    log_question(wanted.text)

    def work() -> list[Hit]:
        return service.desk.search(
            wanted.text, k=wanted.k, method=wanted.method, access=caller.access, **wanted.scope()
        )

    async with service.limits.turn(caller) if caller.id else nullcontext():
        hits = await asyncio.to_thread(work)
    return {"query": wanted.text, "method": wanted.method, "hits": [hit_shape(one) for one in hits]}


def hit_shape(hit: Hit) -> dict[str, Any]:
    """`Hit`, with where its lines stand and where its page can be looked at."""
    document, chunk = hit.document, hit.chunk
    place = f"/api/documents/{document.id}/pages/{hit.page}"
    return hit.to_dict() | {
        "collection": document.collection,
        "title": document.title,
        "date": document.date,
        "lines": [
            {"start": one.start, "end": one.end, "page": one.page, "box": one.box and one.box.to_dict()}
            for one in chunk.spans
        ],
        "page_text": f"{place}/text",
        "page_image": f"{place}/image{_marked(hit)}" if document.format in WITH_IMAGES else None,
        "figure": f"/api/images/{chunk.image}" if chunk.image else None,
    }


def _marked(hit: Hit) -> str:
    """`?boxes=…` that marks its lines on the page; nothing when they are too many for an address."""
    boxes = [[one.x, one.y, one.width, one.height] for one in hit.boxes if one.page == hit.page]
    said = orjson.dumps(boxes).decode()
    return f"?boxes={quote(said)}" if 0 < len(boxes) <= MOST_BOXES and len(said) <= LONGEST_BOXES else ""
