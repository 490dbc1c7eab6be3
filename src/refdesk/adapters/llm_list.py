"""Which models does a provider list, and is one of them the model that was named?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import orjson

from refdesk.adapters.llm_http import unreachable
from refdesk.adapters.llm_wire import WireLLM
from refdesk.errors import ProviderRefused, ProviderUnavailable, UsageError

LIST_S = 10.0
LONGEST_LIST = 8 << 20  # bytes; the longest known has half a million
SHOWN = 5
NO_LIST = frozenset({404, 405, 410, 501})  # servers that answer questions and keep no list


async def listed_models(model: WireLLM) -> list[str] | None:
    """The names at this model's address, sorted; None where the server keeps no list.

    A refused key and an address where nobody answers are a `ProviderError`, in one sentence without the key.
    """
    body = await _get(model, "")
    return None if body is None else _names(body)


async def check_listed(model: WireLLM) -> None:
    """Raises in one sentence why this model cannot be asked; says nothing when it can, or when nobody can know."""
    names = await listed_models(model)
    if names is None or is_listed(model.info.model, names):
        return
    if await _get(model, f"/{quote(model.info.model, safe='/:')}") is not None:
        return  # another name of a listed one: "claude-sonnet-4-5" of "claude-sonnet-4-5-20250929"
    offered = f"it has {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}" if names else "it has none"
    raise UsageError(
        f"{model.info.provider} at {model.address} does not list a model '{model.info.model}'; {offered}",
        hint="check the model's name",
    )


def is_listed(name: str, listed: Iterable[str]) -> bool:
    """Also as Ollama ("llama3:latest"), Gemini ("models/gemini-…") and OpenRouter (":free", ":nitro") write it."""
    bare = name.removeprefix("models/")
    known = {one.removeprefix("models/") for one in listed}
    return bool(known & {bare, f"{bare}:latest", bare.removesuffix(":latest")}) or (
        "/" in bare and bare.rpartition(":")[0] in known
    )


def _names(body: bytes) -> list[str] | None:
    """Of `{"data": [{"id": "gpt-4o"}]}`, or of the bare list that Together sends."""
    try:
        value = orjson.loads(body)
        rows: Any = (value["data"] if "data" in value else value["models"]) if isinstance(value, dict) else value
        found = {str(row.get("id") or row.get("name") or "") for row in rows}
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return sorted(found - {""})


async def _get(model: WireLLM, path: str) -> bytes | None:
    """The body of `/models` and what stands below it; None when there is no such thing."""
    import httpx2

    endpoint = model.endpoint
    url = endpoint.base_url.rstrip("/") + model.path.rpartition("/")[0].removesuffix("/chat") + f"/models{path}"
    at_home = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}  # past any proxy
    body = b""
    try:
        async with (
            asyncio.timeout(LIST_S),
            httpx2.AsyncClient(timeout=LIST_S, mounts=at_home) as client,
            client.stream("GET", url, headers=model.headers()) as response,
        ):
            status = response.status_code
            async for part in response.aiter_bytes():
                body += part
                if len(body) > LONGEST_LIST:
                    return None
    except TimeoutError as error:
        raise ProviderUnavailable(endpoint.problem(f"did not answer within {LIST_S:g} s")) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise unreachable(endpoint, error) from error
    if status in NO_LIST or (path and status == 400):
        return None
    if status in (401, 403):
        hint = f"check the API key in {endpoint.key_variable}" if endpoint.key_variable else "check the API key"
        raise ProviderRefused(endpoint.problem(f"refused the API key ({status})"), hint=hint, status=status)
    if status != 200:
        problem = endpoint.problem(f"answered {status} when it was asked for its models")
        raise ProviderUnavailable(problem, status=status, hint="try again later")
    return body
