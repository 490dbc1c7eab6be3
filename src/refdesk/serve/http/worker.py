"""One process of `refdesk serve`: opens the library that the environment names, makes the app, closes it at the end."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI

from refdesk.engine import Refdesk
from refdesk.serve.http.app import create_app
from refdesk.serve.http.observe import set_up_logging

# Seconds a thread that computes may hold up the one that writes events; Python's 0.005 adds up with several of them.
SWITCH_S = 0.001
VARIABLE = "REFDESK_SERVE"  # JSON, handed from the command to its workers


def app() -> FastAPI:
    """What uvicorn calls; in each worker once."""
    sys.setswitchinterval(SWITCH_S)
    set_up_logging(os.environ.get("REFDESK_LOG_LEVEL", "INFO").upper())
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # what is wrong with a form, its sender is told
    options: dict[str, Any] = orjson.loads(os.environ[VARIABLE])
    desk = Refdesk(options["library"], settings=options["settings"])
    shared = Path(options["shared"]) if options["shared"] else None
    made = create_app(desk, insecure=options["insecure"], is_local=options["is_local"], shared=shared)
    inner = made.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: FastAPI) -> AsyncIterator[Any]:
        async with inner(running) as state:
            yield state
        desk.close()

    made.router.lifespan_context = lifespan
    # What is loaded now stays: looking through it for garbage would hold up every stream for 70 ms now and then.
    gc.freeze()
    gc.enable()
    return made
