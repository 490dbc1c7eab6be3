"""Which models write, and in which role? Names from the settings and the configuration to the adapters.

Settings win over the environment, the environment over refdesk.toml; of addresses and keys too (config.py). None named:
none used. One that cannot work is left out and said, so that questions are answered without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from refdesk.config import SHIPPED_EMBEDDER, Config, Entered
from refdesk.errors import ProviderError, ProviderRefused, ProviderUnavailable, UsageError
from refdesk.models import Provider, model_info, split_name
from refdesk.ports import LLM, Embedder, ModelRole
from refdesk.providers.anthropic import AnthropicLLM
from refdesk.providers.chain import ChainedLLM
from refdesk.providers.credentials import ProviderStore
from refdesk.providers.embed import OnnxEmbedder
from refdesk.providers.embed_http import HttpEmbedder
from refdesk.providers.openai import OpenAILLM
from refdesk.providers.wire import Endpoint, WireLLM, close_client, unreachable
from refdesk.settings import Settings

# Which models does a provider list, and is one of them the model that was named?

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


WIRES: Mapping[str, type[WireLLM]] = {"openai": OpenAILLM, "anthropic": AnthropicLLM}
MODEL_SETTINGS = ("llm.answer", "llm.router", "llm.verifier", "llm.reconciler", "llm.summariser", "llm.fallbacks")
CHECK_S = 30.0
DEFAULTS = Settings()
logger = logging.getLogger("refdesk.models")


@dataclass(frozen=True, slots=True)
class Models:
    """The models by role; a role without one has none, and its stage does without."""

    chains: Mapping[ModelRole, ChainedLLM]
    problems: tuple[str, ...] = ()  # of models that are named and cannot be used, in sentences

    def for_question(self) -> Models:
        """The same models for one question: however often one of them fails it, its breaker counts it once."""
        counted: set[int] = set()
        return Models({role: chain.counting_into(counted) for role, chain in self.chains.items()}, self.problems)

    def role(
        self,
        name: ModelRole,
        on_event: Callable[[str], None] | None = None,
        on_failure: Callable[[ProviderError], None] | None = None,
    ) -> LLM | None:
        """The model for this role; `on_event` hears of tries that fail, `on_failure` of models that were given up."""
        chain = self.chains.get(name)
        is_heard = on_event is not None or on_failure is not None
        return chain.heard_by(on_event, on_failure) if chain is not None and is_heard else chain

    def names(self) -> dict[str, str]:
        """`{"answer": "openai:gpt-4o", …}`, with those that stand in behind " → "."""
        return {role: " → ".join(model.name for model in chain.models) for role, chain in self.chains.items()}

    async def aclose(self) -> None:
        """Closes the connections that the running event loop has kept."""
        await close_client()


def answering(config: Config, settings: Settings) -> str:
    """The name of the model that writes the answers; empty where they are quoted from the documents."""
    return (settings.llm_answer or config.llm) if settings.llm_enabled else ""


def make_models(config: Config, settings: Settings) -> Models:
    """Makes what is named and calls no one; a name or a missing key that cannot work is in `problems`.

    The router may be the answering model where that one is large enough to be trusted with it (over 9 billion, seed
    001), the summariser always. Verifier and reconciler are never anyone who was not named for it.
    """
    if not settings.llm_enabled:
        return Models({})
    made: dict[str, WireLLM] = {}
    problems: dict[str, str] = {}  # name -> why it cannot be used

    def make(name: str) -> bool:
        if name and name not in made and name not in problems:
            try:
                made[name] = make_model(name, config, settings.llm_timeout_s, settings=settings)
            except UsageError as error:
                problems[name] = str(error)
        return name in made

    answer = answering(config, settings)
    router = settings.llm_router or config.llm_router
    if make(answer) and not router and model_info(answer).tier in ("medium", "large"):
        router = answer
    fallbacks = (settings.llm_fallbacks or config.llm_fallbacks).split(",")
    names: dict[ModelRole, list[str]] = {
        "answer": [answer, *fallbacks] if answer else [],
        "router": [router],
        "verifier": [settings.llm_verifier or config.llm_verifier],
        "reconciler": [settings.llm_reconciler or config.llm_reconciler],
        "summariser": [settings.llm_summariser or config.llm_summariser or answer],
    }
    chains: dict[ModelRole, ChainedLLM] = {}
    for role, wanted in names.items():
        listed = [name for name in dict.fromkeys(name.strip() for name in wanted) if make(name)]
        if listed:
            # Rules stand ready where the router fails, and the reader waits: one try.
            tries = 1 if role == "router" else settings.llm_tries
            chains[role] = ChainedLLM(
                [made[name] for name in listed],
                tries=tries,
                breaker_failures=settings.breaker_failures,
                breaker_seconds=settings.breaker_seconds,
            )
    sentences = tuple(f"{name} cannot be used: {why}." for name, why in problems.items())
    for one in sentences:
        logger.warning("%s", one)
    return Models(chains, sentences)


def make_model(
    name: str, config: Config, timeout_s: float, entered: Entered | None = None, settings: Settings = DEFAULTS
) -> WireLLM:
    """One model at its address, not called yet; `entered` instead of what the settings of the library say."""
    provider, model = split_name(name)
    known = ProviderStore(config.library).get(provider.name) if entered is None else entered
    access = config.access(provider, known)
    endpoint = Endpoint(
        f"{provider.name}:{model}",
        access.base_url,
        access.api_key,
        access.key_variable,
        timeout_s,
        settings.llm_total_s,
        settings.llm_max_answer_kb * 1000,
    )
    return WIRES[provider.wire](endpoint)


def entered_for(provider: Provider, config: Config) -> Entered:
    """What somebody entered for this provider in the settings of the library."""
    return ProviderStore(config.library).get(provider.name)


def save_entered(provider: Provider, entered: Entered, config: Config) -> None:
    ProviderStore(config.library).put(provider.name, entered)


async def listed_by(provider: Provider, config: Config, entered: Entered | None = None) -> list[str] | None:
    """The models of a provider; None where it keeps no list. A `UsageError` when it cannot be asked."""
    asked_for = "any"  # a provider is asked in the name of a model; none is chosen yet
    try:
        return await listed_models(make_model(f"{provider.name}:{asked_for}", config, CHECK_S, entered))
    except ProviderError as error:
        raise UsageError(str(error).replace(f":{asked_for}", "", 1), hint=error.hint) from error


async def check_model(name: str, config: Config, entered: Entered | None = None) -> None:
    """A `UsageError` in one sentence when this model cannot be asked: provider, key, address or name are wrong."""
    try:
        await check_listed(make_model(name, config, CHECK_S, entered))
    except ProviderError as error:
        raise UsageError(str(error), hint=error.hint) from error


def all_named(config: Config, settings: Settings) -> list[str]:
    """Every model that some role has, once; none where models are switched off."""
    roles = ("router", "verifier", "reconciler", "summariser", "fallbacks")
    values: dict[str, object] = {"llm.answer": answering(config, settings)}
    for role in roles:
        values[f"llm.{role}"] = getattr(settings, f"llm_{role}") or getattr(config, f"llm_{role}")
    return list(dict.fromkeys(named_models(values))) if settings.llm_enabled else []


def named_models(values: Mapping[str, object]) -> Iterable[str]:
    """The models that these settings name: `{"llm.fallbacks": "ollama:a, ollama:b"}` -> both."""
    for setting in MODEL_SETTINGS:
        for name in str(values.get(setting, "")).split(","):
            if name.strip():
                yield name.strip()


# Which embedder serves this library? Names from the configuration to the adapters.


def make_embedder(config: Config, *, threads: int = 0) -> Embedder:
    """The shipped model, or any OpenAI-compatible endpoint; nothing is loaded before it is used."""
    if config.embedder == SHIPPED_EMBEDDER:
        return OnnxEmbedder(threads=threads)
    return HttpEmbedder(
        config.embedder.removeprefix("openai:"),
        config.embedder_base_url,
        config.embedder_api_key,
        dimensions=config.embedder_dimensions or None,
    )
