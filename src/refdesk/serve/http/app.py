"""What is the HTTP service made of? A list of routers, and three layers before them.

    Observe (id, log, figures, the last word)  →  Guard (who asks, how much)  →  the routes

`create_app` takes an open library; worker.py opens one for `refdesk serve`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from refdesk import __version__
from refdesk.engine import Refdesk
from refdesk.serve.http import (
    asking,
    changing,
    collections,
    conversations,
    documents,
    examples,
    health,
    images,
    keys,
    models,
    openai,
    page,
    pages,
    searching,
    settings,
    traces,
    uploads,
)
from refdesk.serve.http.desk import Service
from refdesk.serve.http.documented import describe
from refdesk.serve.http.errors import add_handlers
from refdesk.serve.http.guard import Guard
from refdesk.serve.http.limits import Limits
from refdesk.serve.http.observe import Observe
from refdesk.serve.http.spans import make_spans

# Stages that compute take turns at one interpreter lock: more threads finish no sooner and hold up those who stream.
THREADS = 4
ROUTERS = (
    asking.router,
    searching.router,
    documents.router,
    changing.router,
    pages.router,
    images.router,
    uploads.router,
    examples.router,
    collections.router,
    conversations.router,
    traces.router,
    settings.router,
    models.router,
    keys.router,
    openai.router,
    health.router,
    page.router,
)


def create_app(desk: Refdesk, *, insecure: bool = False, is_local: bool = True, shared: Path | None = None) -> FastAPI:
    """The service over an open library; whoever opened it closes it.

    `is_local`: bound to this machine alone, and then only called by its names. `insecure`: open to everyone without a
    key. `shared`: a folder of all processes that serve the same library, for the limits of a key.
    """
    desk = desk.for_callers()
    service = Service(desk, limits=Limits(shared), spans=make_spans())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        put_back = _on_signals(service)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "refdesk-stage"))
        try:
            yield
        finally:
            put_back()
            service.streams.stop()
            await desk.asking.aclose()
            if service.spans is not None:
                await asyncio.to_thread(service.spans.close)

    app = FastAPI(
        title="Refdesk",
        version=__version__,
        description="Answers in which every sentence points at the page and the lines that prove it.",
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        # `asking_query`: what generated clients call their functions.
        generate_unique_id_function=lambda route: "_".join((*map(str, route.tags[:1]), route.name)),
    )
    app.state.service = service
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    # The last one added is the first to see a request.
    app.add_middleware(
        Guard,
        desk=desk,
        limits=service.limits,
        is_local=is_local and not insecure,
        needs_key=not is_local and not insecure,
    )
    app.add_middleware(Observe, figures=service.figures, spans=service.spans)
    return app


def _on_signals(service: Service) -> Callable[[], None]:
    """Ends running streams when the server is told to end, before it waits for its connections to close."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {}

    def heard(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(service.streams.stop)
        if callable(before[number]):
            before[number](number, frame)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, heard)

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return put_back
