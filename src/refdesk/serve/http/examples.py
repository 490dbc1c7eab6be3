"""The example documents over HTTP: handed in like any other files, so that their progress is seen."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.serve.demo import COLLECTION, example_folder
from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import AddedExamples
from refdesk.serve.http.uploads import UPLOAD, Queue, shown

LONGEST_WAIT_S = 300.0
router = APIRouter(prefix="/api/examples", tags=["documents"])
ADDED: AddedExamples = {"added": 14, "failed": [], "waiting": 0, "collection": COLLECTION, "uploads": [UPLOAD]}
LATER = gives(AddedExamples, {**ADDED, "added": 0, "waiting": 14}, 202, "Accepted; they are added in the background")


@router.post("", summary="Add the example documents", responses=gives(AddedExamples, ADDED) | LATER | failures(507))
def add_examples(
    desk: Library,
    queue: Queue,
    caller: Who,
    wait: Annotated[bool, Query(description="Answer when they are added; `false` answers at once with 202.")] = True,
) -> Response:
    """Adds the documents that come with Refdesk to the collection `examples`; progress is at /api/uploads."""
    caller.require("add", COLLECTION)
    uploads = queue.hand_in(sorted(example_folder().iterdir()), COLLECTION, caller)
    until = time.monotonic() + (LONGEST_WAIT_S if wait else 0.0)
    uploads = queue.settled(uploads, until)
    waiting = sum(one.status not in ("ready", "failed") for one in uploads)
    said = {
        "added": sum(one.status == "ready" for one in uploads),
        "failed": [{"name": one.name, "reason": one.reason} for one in uploads if one.status == "failed"],
        "waiting": waiting,
        "collection": COLLECTION,
        "uploads": [shown(one) for one in uploads],
    }
    return reply(said, 202 if waiting else 200)
