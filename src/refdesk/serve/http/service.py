"""What does a route work with? The library, the streams, the limits and the figures of one app."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from refdesk.desk import Refdesk
from refdesk.serve.http.limits import Limits
from refdesk.serve.http.observe import Figures, Spans
from refdesk.serve.http.sse import Streams


@dataclass(frozen=True, slots=True)
class Service:
    """What lives as long as the app; routers of others may reach all of it."""

    desk: Refdesk
    limits: Limits = field(default_factory=Limits)
    figures: Figures = field(default_factory=Figures)
    streams: Streams = field(default_factory=Streams)
    spans: Spans | None = None


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _desk(request: Request) -> Refdesk:
    service: Service = request.app.state.service
    return service.desk


Serving = Annotated[Service, Depends(_service)]
Library = Annotated[Refdesk, Depends(_desk)]
