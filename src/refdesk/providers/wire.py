"""What is the same for every wire format: one request, its stream read piece by piece, lessons learned from refusals.

Servers differ in what they take. What one refuses by name (`temperature`, `stream_options`, a JSON schema …) is left
out or put otherwise, the request sent again, and the lesson kept for the next one.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import orjson

from refdesk.answer import Usage
from refdesk.errors import ProviderError, ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.models import ModelInfo, model_info, price, rough_tokens
from refdesk.ports import Piece, Request

# How is a request sent to a model and its stream read back? Client, events, time-out and errors of all providers.

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0  # a host that is up answers sooner; the rest of the time-out is for the model
LAST_S = 0.25  # for the end of the answer after its last event: a connection read to its end serves again
LONGEST_EVENT = 8 << 20  # bytes; no honest event comes near
LONGEST_ERROR = 16 << 10
BROKEN = "broke off in the middle of its answer"
TRY_AGAIN = frozenset({408, 409, 425, 429})  # of the 4xx; every 5xx besides
HINTS: Mapping[int, str] = {
    400: "the request does not suit this model; name another one",
    401: "check the API key in {key}",
    402: "the account behind {key} has no credit left",
    403: "check what the API key in {key} may do",
    404: "check the model's name and the base URL",
    422: "the request does not suit this model; name another one",
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

    def redacted(self, text: str) -> str:
        if self.api_key:
            text = text.replace(self.api_key, "…")
        return _SECRETS.sub("…", text)

    def problem(self, what: str) -> str:
        return f"{self.name} {self.redacted(what)}"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """`event: ping` and the lines of `data:` joined; a stream of plain JSON gives one event of kind `whole`."""

    kind: str
    data: str


class EventDecoder:
    """Server-sent events from bytes cut anywhere; comments and fields without data give nothing.

    >>> decoder = EventDecoder()
    >>> decoder.feed(b"data: {1")
    []
    >>> decoder.feed(b"}\\n\\n")
    [ServerEvent(kind='message', data='{1}')]
    """

    def __init__(self) -> None:
        self._rest = b""
        self._kind = ""
        self._data: list[str] = []
        self._begun = False

    def feed(self, part: bytes) -> list[ServerEvent]:
        if not self._begun and (self._rest + part):
            self._rest, part = self._rest + part, b""
            if b"\xef\xbb\xbf".startswith(self._rest):
                return []  # may become a byte order mark
            self._rest, self._begun = self._rest.removeprefix(b"\xef\xbb\xbf"), True
        self._rest += part
        lines = self._rest.splitlines(keepends=True)
        # The last line may go on; after "\r" a "\n" may come, which is no line of its own.
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        return [event for line in lines if (event := self._line(line.rstrip(b"\r\n").decode("utf-8", "replace")))]

    def finish(self) -> list[ServerEvent]:
        """What stands in the buffer when the connection ends without the empty line."""
        lines = [self._rest.rstrip(b"\r\n").decode("utf-8", "replace"), ""]
        self._rest = b""
        return [event for line in lines if (event := self._line(line))]

    @property
    def size(self) -> int:
        return len(self._rest) + sum(map(len, self._data))

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._kind or "message", "\n".join(self._data))
            self._kind, self._data = "", []
            return event if event.data.strip() else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        return None


async def events(
    endpoint: Endpoint, path: str, headers: Mapping[str, str], payload: Mapping[str, Any]
) -> AsyncGenerator[ServerEvent, None]:
    """Posts and yields the events of the answer; refused and unreachable raise, a break is `ProviderInterrupted`.

    The time-out counts to the first event and from event to event; comments and pings are no sign that it goes on.
    """
    import httpx2

    client = _client(endpoint)
    url = endpoint.base_url.rstrip("/") + path
    request = client.build_request("POST", url, content=orjson.dumps(payload), headers={**_HEADERS, **headers})
    deadline = time.monotonic() + endpoint.timeout_s
    try:
        async with asyncio.timeout(endpoint.timeout_s):
            response = await client.send(request, stream=True)
    except TimeoutError as error:
        raise ProviderUnavailable(endpoint.problem(f"said nothing for {endpoint.timeout_s:g} s")) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise unreachable(endpoint, error) from error
    try:
        if response.status_code != 200:
            raise await _status_error(endpoint, response)
        async with aclosing(_decoded(endpoint, response, deadline)) as decoded:
            async for event in decoded:
                yield event
    finally:
        await response.aclose()


async def _decoded(endpoint: Endpoint, response: httpx2.Response, deadline: float) -> AsyncGenerator[ServerEvent, None]:
    import httpx2

    if "json" in response.headers.get("content-type", ""):  # a server that does not stream
        yield ServerEvent("whole", (await _body(endpoint, response, deadline)).decode("utf-8", "replace"))
        return
    decoder = EventDecoder()
    parts = response.aiter_bytes()
    is_last = False
    while True:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                part = await anext(parts, None)
        except (TimeoutError, httpx2.HTTPError, OSError) as error:
            if is_last:
                return
            how = f"said nothing more for {endpoint.timeout_s:g} s" if isinstance(error, TimeoutError) else BROKEN
            raise ProviderInterrupted(endpoint.problem(how)) from error
        found = decoder.finish() if part is None else decoder.feed(part)
        is_last = is_last or any(event.data.strip() == "[DONE]" or event.kind == "message_stop" for event in found)
        if any(event.kind != "ping" for event in found):
            deadline = time.monotonic() + (LAST_S if is_last else endpoint.timeout_s)
        for event in found:
            yield event
        if part is None:
            return
        if decoder.size > LONGEST_EVENT:
            raise ProviderInterrupted(endpoint.problem("sent an event without end"))


async def _body(endpoint: Endpoint, response: httpx2.Response, deadline: float, most: int = LONGEST_EVENT) -> bytes:
    import httpx2

    body = b""
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            async for part in response.aiter_bytes():
                body += part
                if len(body) > most:
                    break
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        raise ProviderInterrupted(endpoint.problem(BROKEN)) from error
    return body[:most]


# --- errors


def unreachable(endpoint: Endpoint, error: Exception) -> ProviderUnavailable:
    """`ConnectError("All connection attempts failed")` -> "… could not be reached at 127.0.0.1:8080 (…)"."""
    reason = str(error) or type(error).__name__
    return ProviderUnavailable(
        endpoint.problem(f"could not be reached at {endpoint.address} ({reason})"),
        hint="check the base URL and the network, or that the server is running",
    )


async def _status_error(endpoint: Endpoint, response: httpx2.Response) -> ProviderError:
    status = response.status_code
    try:
        body = await _body(endpoint, response, time.monotonic() + CONNECT_S, LONGEST_ERROR)
    except ProviderError:
        body = b""
    said, code = _said(body)
    message = endpoint.problem(f"answered {status}" + (f": {said}" if said else ""))
    has_no_credit = status == 429 and "insufficient_quota" in code
    if (status in TRY_AGAIN or status >= 500) and not has_no_credit:
        wait = _retry_after(response.headers.get("retry-after"))
        return ProviderUnavailable(message, retry_after_s=wait, status=status)
    hint = HINTS.get(402 if has_no_credit else status, "check the base URL")
    return ProviderRefused(message, hint=hint.format(key=endpoint.key_variable or "its variable"), status=status)


def error_in_stream(endpoint: Endpoint, problem: Any) -> ProviderError:
    """An error object inside a stream that began with 200; nothing tells whether another try would succeed."""
    said, _ = _said(orjson.dumps({"error": problem}))
    return ProviderInterrupted(endpoint.problem(f"ended its answer with an error: {said or 'no reason given'}"))


def _said(body: bytes) -> tuple[str, str]:
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
_clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}


def _client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """One per event loop: its connections belong to the loop. Redirects are not followed: the key would go along."""
    import httpx2

    loop = asyncio.get_running_loop()
    for other in [one for one in list(_clients) if one.is_closed()]:
        _clients.pop(other, None)
    if loop not in _clients:
        at_home = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}  # past any proxy
        timeout = httpx2.Timeout(None, connect=CONNECT_S)
        try:
            _clients[loop] = httpx2.AsyncClient(verify=_certificates(), timeout=timeout, mounts=at_home)
        except (ImportError, ValueError, OSError) as error:  # of what the environment says
            hint = "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
            raise ProviderRefused(endpoint.problem(f"cannot be asked: {error}"), hint=hint) from error
    return _clients[loop]


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than a request on this machine."""
    import httpx2

    return httpx2.create_ssl_context()


async def close_client() -> None:
    """Closes what the running loop has kept open."""
    if client := _clients.pop(asyncio.get_running_loop(), None):
        await client.aclose()


THINKING_TOKENS = 4096  # on top of what is asked for: hidden thoughts count as written
TOO_LONG, TOO_SLOW = "too_long", "too_slow"  # why we have ended an answer; a provider's own limit is "length"
ENVELOPE = 200  # bytes of a stream for each byte of an answer: most servers wrap every token in a line of JSON
MOST_LESSONS = 5  # per request; each is another refusal

Lessons = frozenset[str]


@dataclass(frozen=True, slots=True)
class Delta:
    """What one event adds; `usage` is of the whole request so far."""

    text: str = ""
    finish: str = ""  # stop, length, too_long, too_slow, or the provider's own word
    usage: Usage | None = None
    is_end: bool = False  # nothing follows


class WireLLM(ABC):
    """One model at one endpoint. Safe to share between questions and event loops."""

    path: ClassVar[str]

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.info: ModelInfo = model_info(endpoint.name)
        self._lessons: Lessons = frozenset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self.address})"

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def address(self) -> str:
        return self.endpoint.address

    @abstractmethod
    def headers(self) -> Mapping[str, str]: ...

    @abstractmethod
    def payload(self, request: Request, lessons: Lessons) -> Mapping[str, Any]:
        """The body of a request, less what this server was found to refuse."""

    @abstractmethod
    def lesson_of(self, refusal: ProviderRefused, body: Mapping[str, Any], lessons: Lessons) -> str:
        """What to leave out next time; "" when the refusal is about something else."""

    @abstractmethod
    def read(self, value: Mapping[str, Any]) -> Delta:
        """One event of the stream, or a whole answer; KeyError, TypeError and the like when it is neither."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        lessons = self._lessons
        while True:
            body = self.payload(request, lessons)
            try:
                async with aclosing(self._pieces(request, body)) as pieces:
                    async for piece in pieces:
                        self._lessons |= lessons  # they were right: it answers
                        yield piece
                return
            except ProviderRefused as refusal:
                lesson = self.lesson_of(refusal, body, lessons) if refusal.status in (400, 422) else ""
                if not lesson or lesson in lessons or len(lessons - self._lessons) >= MOST_LESSONS:
                    raise
                lessons |= {lesson}

    async def _pieces(self, request: Request, body: Mapping[str, Any]) -> AsyncGenerator[Piece, None]:
        """The stream as far as its bounds in bytes and time; the connection is closed there."""
        parts: list[str] = []
        so_far, room, raw_room = Delta(), self.endpoint.most_bytes, self.endpoint.most_bytes * ENVELOPE
        ends_at = time.monotonic() + self.endpoint.total_s
        try:
            async with aclosing(events(self.endpoint, self.path, self.headers(), body)) as stream:
                async for event in stream:
                    delta = self._read(event)
                    so_far = _joined(so_far, delta)
                    raw_room -= len(event.data)
                    if delta.text:
                        kept = _within(delta.text, room)
                        room -= len(delta.text.encode("utf-8", "replace"))
                        parts.append(kept)
                        yield Piece(kept, model=self.name)
                    if room < 0 or raw_room < 0:
                        so_far = replace(so_far, finish=TOO_LONG)
                        break
                    if time.monotonic() > ends_at and not (so_far.is_end or so_far.finish):
                        so_far = replace(so_far, finish=TOO_SLOW)
                        break
            text = "".join(parts)
            if not (so_far.is_end or so_far.finish):
                raise ProviderInterrupted(self.endpoint.problem("ended its answer in the middle"))
        except ProviderInterrupted as error:
            if any(parts):
                raise
            raise ProviderUnavailable(str(error)) from error  # never begun: the same model may be tried again
        usage = self._counted(request, text, so_far.usage)
        yield Piece(usage=usage, finish=so_far.finish or "stop", model=self.name)

    def _read(self, event: ServerEvent) -> Delta:
        if event.data.strip() == "[DONE]":
            return Delta(is_end=True)
        try:
            value = orjson.loads(event.data)
            if problem := value.get("error"):
                raise error_in_stream(self.endpoint, problem)
            return self.read(value)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ProviderInterrupted(self.endpoint.problem("sent a line that is not what it should be")) from error

    def _counted(self, request: Request, text: str, usage: Usage | None) -> Usage:
        """As the server says it, else counted roughly, with its price; an unknown model of this machine is free."""
        if usage is None:
            prompt = request.system + "".join(turn.content for turn in request.messages)
            usage = Usage(rough_tokens(prompt), rough_tokens(text))
        cost = price(self.name, usage)
        return replace(usage, calls=1, cost_usd=0.0 if cost is None and self.endpoint.is_loopback else cost)


def _within(text: str, room: int) -> str:
    """The text, or as much of it as finds room, in bytes."""
    packed = text.encode("utf-8", "replace")
    return text if len(packed) <= room else packed[:room].decode("utf-8", "ignore")


def _joined(so_far: Delta, delta: Delta) -> Delta:
    """Of several counts the higher ones hold: some servers say them again, some in two parts."""
    usage = delta.usage or so_far.usage
    if delta.usage and so_far.usage:
        prompt = max(delta.usage.prompt_tokens, so_far.usage.prompt_tokens)
        usage = Usage(prompt, max(delta.usage.completion_tokens, so_far.usage.completion_tokens))
    return Delta("", delta.finish or so_far.finish, usage, delta.is_end or so_far.is_end)


# The shape of JSON as the providers want it described: every object closed, every property required.

# What Anthropic's structured outputs refuse; the caller checks values anyway.
LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) | frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
)
INSTRUCTION = "Answer with one JSON object of this JSON schema and with nothing else:"


def closed(schema: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """The schema with `additionalProperties: false` and all properties required in each object, as strict modes demand.

    {"type": "object", "properties": {"a": {"type": "string"}}}
    -> {"type": "object", "properties": {…}, "required": ["a"], "additionalProperties": False}
    """
    new: dict[str, Any] = {}
    for name, value in schema.items():
        if name in without:
            continue
        if name in ("properties", "$defs", "definitions"):
            new[name] = {own: closed(one, without) for own, one in value.items()}
        elif isinstance(value, Mapping):
            new[name] = closed(value, without)
        elif isinstance(value, list | tuple):
            new[name] = [closed(one, without) if isinstance(one, Mapping) else one for one in value]
        else:
            new[name] = value
    if "properties" in new:
        new |= {"required": list(new["properties"]), "additionalProperties": False}
    return new
