"""Sends requests to model providers and interprets their failures; used for all models and embeddings.

Every wait and every answer is bounded, redirects are not followed (the key would go along), and every failure is one
sentence without the key.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import orjson

from refdesk.errors import ProviderError, ProviderInterrupted, ProviderRefused, ProviderUnavailable

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0  # a host that is up answers sooner; the rest of the time-out is for the model
LAST_S = 0.25  # for the end of the answer after its last event: a connection read to its end serves again
LONGEST_BODY = 8 << 20  # bytes of an event or of an answer that is not streamed; no honest one comes near
LONGEST_ERROR = 16 << 10
LONGEST_WAIT_S = 10.0  # between two tries
JITTER = 0.25  # so that several callers do not come back at the same moment
BROKEN = "lost the connection in the middle of its answer"
TRY_AGAIN = frozenset({408, 409, 425, 429})  # of the 4xx; every 5xx besides
HINTS: Mapping[int, str] = {
    400: "this model does not accept the request; use another model",
    401: "check the API key in {key}",
    402: "the account behind {key} has no credit left",
    403: "check the permissions of the API key in {key}",
    404: "check the model's name and the base URL",
    422: "this model does not accept the request; use another model",
}
_SECRETS = re.compile(r"\b(sk|pk|gsk|xai|key|Bearer|AIza)[-_ ]?[\w*-]{12,}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one address; says what went wrong there without giving away the key."""

    name: str  # provider:model
    base_url: str
    api_key: str = field(default="", repr=False)
    key_variable: str = ""
    timeout_s: float = 120.0  # from event to event
    total_s: float = 600.0  # of a whole answer
    most_bytes: int = 256_000  # of an answer's text

    @property
    def address(self) -> str:
        """`api.openai.com`, or `127.0.0.1:8080`; never a path or a password."""
        parts = urlsplit(self.base_url)
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.base_url).hostname in ("127.0.0.1", "localhost", "::1")

    def url(self, path: str) -> str:
        return self.base_url.rstrip("/") + path

    def problem(self, what: str) -> str:
        if self.api_key:
            what = what.replace(self.api_key, "…")
        return f"{self.name} {_SECRETS.sub('…', what)}"


# --- requests


@dataclass(frozen=True, slots=True)
class Event:
    """`event: ping` and its data; an answer that is not streamed is one event."""

    kind: str
    data: str


async def events(
    endpoint: Endpoint, path: str, headers: Mapping[str, str], payload: Mapping[str, Any]
) -> AsyncGenerator[Event, None]:
    """Posts and yields the events of the answer; refused and unreachable raise, a break is `ProviderInterrupted`.

    The time-out counts to the first event and from event to event; comments and pings are no sign that it goes on.
    """
    deadline = time.monotonic() + endpoint.timeout_s
    async with aclosing(await _answer(endpoint, path, headers, payload)) as response:
        if "json" in response.headers.get("content-type", ""):  # a server that does not stream
            body = await _body(endpoint, response, deadline - time.monotonic())
            yield Event("whole", body.decode("utf-8", "replace"))
            return
        async with aclosing(_streamed(endpoint, response, deadline)) as streamed:
            async for event in streamed:
                yield event


async def _streamed(endpoint: Endpoint, response: httpx2.Response, deadline: float) -> AsyncGenerator[Event, None]:
    import httpx2

    response.headers["content-type"] = "text/event-stream"  # asked for; some servers call it otherwise
    response.encoding = "utf-8-sig"  # a byte order mark is no part of the first line
    source = cast("AsyncGenerator[httpx2.ServerSentEvent, None]", aiter(httpx2.EventSource(response, LONGEST_BODY)))
    is_last = False
    async with aclosing(source):
        while True:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    event = await anext(source, None)
            except (TimeoutError, httpx2.HTTPError, OSError) as error:
                if is_last:
                    return
                what = BROKEN
                if isinstance(error, TimeoutError):
                    what = f"sent nothing more for {endpoint.timeout_s:g} s"
                elif isinstance(error, httpx2.SSEError):
                    what = "sent an endless event"
                raise ProviderInterrupted(endpoint.problem(what)) from error
            if event is None:
                return
            is_last = is_last or event.data.strip() == "[DONE]" or event.event == "message_stop"
            if event.data.strip():
                if event.event != "ping":
                    deadline = time.monotonic() + (LAST_S if is_last else endpoint.timeout_s)
                yield Event(event.event, event.data)


async def get(endpoint: Endpoint, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """(status, body) within the endpoint's time-out."""
    deadline = time.monotonic() + endpoint.timeout_s
    async with aclosing(await _answer(endpoint, path, headers, None)) as response:
        return response.status_code, await _body(endpoint, response, deadline - time.monotonic())


def post(endpoint: Endpoint, path: str, headers: Mapping[str, str], payload: Mapping[str, Any]) -> bytes:
    """The whole answer inside the time limit, also when it comes drop by drop; for callers without an event loop."""

    async def ask() -> bytes:
        deadline = time.monotonic() + endpoint.timeout_s
        async with aclosing(await _answer(endpoint, path, headers, payload)) as response:
            return await _body(endpoint, response, deadline - time.monotonic())

    return asyncio.run_coroutine_threadsafe(ask(), _own_loop()).result()


async def _answer(
    endpoint: Endpoint, path: str, headers: Mapping[str, str], payload: Mapping[str, Any] | None
) -> httpx2.Response:
    """The answer to a POST, or without a payload to a GET, its body still to be read; a POST that fails raises."""
    import httpx2

    method, content = ("GET", None) if payload is None else ("POST", orjson.dumps(payload))
    try:
        client = _client(endpoint)
        request = client.build_request(method, endpoint.url(path), content=content, headers={**_HEADERS, **headers})
        async with asyncio.timeout(endpoint.timeout_s):
            response = await client.send(request, stream=True)
    except TimeoutError as error:
        raise ProviderUnavailable(endpoint.problem(f"sent nothing for {endpoint.timeout_s:g} s")) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:  # ValueError: a key that is no header
        raise _unreachable(endpoint, error) from error
    if payload is None or response.status_code == 200:
        return response
    async with aclosing(response):
        reason = b""
        with suppress(ProviderError):
            reason = await _body(endpoint, response, CONNECT_S, LONGEST_ERROR)
        raise _status_error(endpoint, response, reason)


async def _body(endpoint: Endpoint, response: httpx2.Response, within_s: float, most: int = LONGEST_BODY) -> bytes:
    import httpx2

    body = b""
    try:
        async with asyncio.timeout(within_s):
            async for part in response.aiter_bytes():
                body += part
                if len(body) > most:
                    break
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        raise ProviderInterrupted(endpoint.problem(BROKEN)) from error
    return body[:most]


def wait_before(attempt: int, asked_s: float = 0.0, chance: float = 0.5) -> float:
    """Seconds before try 2, 3, …: 1, 2, 4 … 10 give or take a quarter, or what the provider asks for, 10 at most.

    >>> [wait_before(attempt) for attempt in (2, 3, 4, 5, 6, 7)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    backoff = min(LONGEST_WAIT_S, 2.0 ** (attempt - 2)) * (1 + JITTER * (2 * chance - 1))
    return max(backoff, min(asked_s, LONGEST_WAIT_S))


# --- errors


def _unreachable(endpoint: Endpoint, error: Exception) -> ProviderUnavailable:
    """`ConnectError("All connection attempts failed")` -> "… could not be reached at 127.0.0.1:8080 (…)"."""
    reason = str(error) or type(error).__name__
    return ProviderUnavailable(
        endpoint.problem(f"could not be reached at {endpoint.address} ({reason})"),
        hint="check the base URL and the network, or that the server is running",
    )


def _status_error(endpoint: Endpoint, response: httpx2.Response, body: bytes) -> ProviderError:
    status = response.status_code
    reason, code = _reason(body)
    message = endpoint.problem(f"answered {status}" + (f": {reason}" if reason else ""))
    has_no_credit = status == 429 and "insufficient_quota" in code
    if (status in TRY_AGAIN or status >= 500) and not has_no_credit:
        wait = _retry_after(response.headers.get("retry-after"))
        return ProviderUnavailable(message, retry_after_s=wait, status=status)
    hint = HINTS.get(402 if has_no_credit else status, "check the base URL")
    return ProviderRefused(message, hint=hint.format(key=endpoint.key_variable or "its variable"), status=status)


def error_in_stream(endpoint: Endpoint, problem: Any) -> ProviderError:
    """An error object inside a stream that began with 200; nothing tells whether another try would succeed."""
    reason, _ = _reason(orjson.dumps({"error": problem}))
    return ProviderInterrupted(endpoint.problem(f"ended its answer with an error: {reason or 'no reason given'}"))


def _reason(body: bytes) -> tuple[str, str]:
    """(message, code) of `{"error": {"message": "…", "code": "…"}}` and its cousins, or the start of the text."""
    code = ""
    try:
        value = orjson.loads(body)
        value = value[0] if isinstance(value, list) and value else value
        problem = value.get("error") or value.get("message") or value.get("detail") or value
        if isinstance(problem, dict):
            code = f"{problem.get('code', '')} {problem.get('type', '')}"
            problem = problem.get("message", problem)
        text = problem if isinstance(problem, str) else orjson.dumps(problem).decode()
    except (ValueError, AttributeError, TypeError):
        text = body.decode("utf-8", "replace")
    return " ".join(text.split())[:300], code


def _retry_after(value: str | None) -> float:
    """Seconds to wait: `"2"` -> 2.0, an HTTP date -> the time until then, nothing or nonsense -> 0.0."""
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError):
            return 0.0
    return max(0.0, seconds) if seconds == seconds else 0.0


# --- the client

_HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
open_clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
_starting = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def _own_loop() -> asyncio.AbstractEventLoop:
    """The loop of the callers that have none, in a thread of its own."""
    with _starting:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            threading.Thread(target=_loops[0].run_forever, name="requests", daemon=True).start()
        return _loops[0]


def _client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """One per event loop: its connections belong to the loop."""
    import httpx2

    loop = asyncio.get_running_loop()
    for other in [known for known in list(open_clients) if known.is_closed()]:
        open_clients.pop(other, None)
    if loop not in open_clients:
        past_any_proxy = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}
        timeout = httpx2.Timeout(None, connect=CONNECT_S)
        try:
            open_clients[loop] = httpx2.AsyncClient(verify=_certificates(), timeout=timeout, mounts=past_any_proxy)
        except (ImportError, ValueError, OSError) as error:  # of what the environment says
            hint = "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
            raise ProviderRefused(endpoint.problem(f"cannot be called: {error}"), hint=hint) from error
    return open_clients[loop]


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than a request on this machine."""
    import httpx2

    return httpx2.create_ssl_context()


async def close_client() -> None:
    """Closes what the running loop has kept open."""
    if client := open_clients.pop(asyncio.get_running_loop(), None):
        await client.aclose()
