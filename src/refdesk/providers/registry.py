"""Which models are used? Names and keys from the settings, the environment and refdesk.toml to the adapters.

Settings win over the environment, the environment over refdesk.toml; of addresses and keys too (config.py). None named:
none used. One that cannot work is left out and said, so that questions are answered without it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from refdesk.config import SHIPPED_EMBEDDER, Config, Entered
from refdesk.disk import explain
from refdesk.errors import ProviderError, ProviderRefused, ProviderUnavailable, UsageError
from refdesk.models import Provider, model_info, split_name
from refdesk.ports import LLM, Embedder, ModelRole
from refdesk.providers.chain import ChainedLLM
from refdesk.providers.embed import HttpEmbedder, OnnxEmbedder
from refdesk.providers.llm import AnthropicLLM, OpenAILLM, WireLLM
from refdesk.providers.wire import Endpoint, close_client, get
from refdesk.settings import Settings

WIRES: Mapping[str, type[WireLLM]] = {"openai": OpenAILLM, "anthropic": AnthropicLLM}
ROLES = ("answer", "router", "verifier", "reconciler", "summariser", "fallbacks")  # the settings that name models
CHECK_S = 30.0
DEFAULTS = Settings()
logger = logging.getLogger("refdesk.models")


@dataclass(frozen=True, slots=True)
class ChainedModels:
    """The models by role; a role without one has none, and its stage does without."""

    chains: Mapping[ModelRole, ChainedLLM]
    problems: tuple[str, ...] = ()  # of models that are named and cannot be used, in sentences

    def for_question(self) -> ChainedModels:
        """The same models for one question: however often one of them fails it, its breaker counts it once."""
        counted: set[int] = set()
        return ChainedModels({role: chain.counting_into(counted) for role, chain in self.chains.items()}, self.problems)

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


def make_models(config: Config, settings: Settings) -> ChainedModels:
    """Makes what is named and calls no one; a name or a missing key that cannot work is in `problems`.

    The router may be the answering model where that one is large enough to be trusted with it (over 9 billion, seed
    001), the summariser always. Verifier and reconciler are never anyone who was not named for it.
    """
    if not settings.llm_enabled:
        return ChainedModels({})
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
    return ChainedModels(chains, sentences)


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


def answering(config: Config, settings: Settings) -> str:
    """The name of the model that writes the answers; empty where they are quoted from the documents."""
    return (settings.llm_answer or config.llm) if settings.llm_enabled else ""


def all_named(config: Config, settings: Settings) -> list[str]:
    """Every model that some role has, once; none where models are switched off."""
    if not settings.llm_enabled:
        return []
    values: dict[str, object] = {"llm.answer": answering(config, settings)}
    for role in ROLES[1:]:
        values[f"llm.{role}"] = getattr(settings, f"llm_{role}") or getattr(config, f"llm_{role}")
    return list(dict.fromkeys(named_models(values)))


def named_models(values: Mapping[str, object]) -> list[str]:
    """The models that these settings name: `{"llm.fallbacks": "ollama:a, ollama:b"}` -> both."""
    names = (name.strip() for role in ROLES for name in str(values.get(f"llm.{role}", "")).split(","))
    return [name for name in names if name]


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


# --- is a model there? Which ones does its provider list?

LIST_S = 10.0
NO_LIST = frozenset({404, 405, 410, 501})  # servers that answer questions and keep no list
SHOWN = 5


async def check_model(name: str, config: Config, entered: Entered | None = None) -> None:
    """A `UsageError` in one sentence when this model cannot be asked: provider, key, address or name are wrong.

    Says nothing when it can be asked, or when nobody can know.
    """
    model = make_model(name, config, LIST_S, entered)
    try:
        names = await _listed(model)
        if names is None or is_listed(model.info.model, names):
            return
        if await _get(model, f"/{quote(model.info.model, safe='/:')}") is not None:
            return  # another name of a listed one: "claude-sonnet-4-5" of "claude-sonnet-4-5-20250929"
    except ProviderError as error:
        raise UsageError(str(error), hint=error.hint) from error
    offered = f"it has {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}" if names else "it has none"
    raise UsageError(
        f"{model.info.provider} at {model.address} does not list a model '{model.info.model}'; {offered}",
        hint="check the model's name",
    )


async def listed_by(provider: Provider, config: Config, entered: Entered | None = None) -> list[str] | None:
    """The models of a provider; None where it keeps no list. A `UsageError` when it cannot be asked."""
    placeholder = "any"  # a provider is asked in the name of a model; none is chosen yet
    try:
        return await _listed(make_model(f"{provider.name}:{placeholder}", config, LIST_S, entered))
    except ProviderError as error:
        raise UsageError(str(error).replace(f":{placeholder}", "", 1), hint=error.hint) from error


def is_listed(name: str, listed: Iterable[str]) -> bool:
    """Also as Ollama ("llama3:latest"), Gemini ("models/gemini-…") and OpenRouter (":free", ":nitro") write it."""
    bare = name.removeprefix("models/")
    known = {other.removeprefix("models/") for other in listed}
    return bool(known & {bare, f"{bare}:latest", bare.removesuffix(":latest")}) or (
        "/" in bare and bare.rpartition(":")[0] in known
    )


async def _listed(model: WireLLM) -> list[str] | None:
    """Sorted, of `{"data": [{"id": "gpt-4o"}]}`, or of the bare list that Together sends; None: there is no list."""
    body = await _get(model)
    if body is None:
        return None
    try:
        value = orjson.loads(body)
        rows: Any = (value["data"] if "data" in value else value["models"]) if isinstance(value, dict) else value
        return sorted({str(row.get("id") or row.get("name") or "") for row in rows} - {""})
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


async def _get(model: WireLLM, path: str = "") -> bytes | None:
    """The list of models, or what stands below it; None when there is no such thing."""
    endpoint = model.endpoint
    status, body = await get(endpoint, model.models_path + path, model.headers())
    if status == 200:
        return body
    if status in NO_LIST or (path and status == 400):
        return None
    if status in (401, 403):
        hint = f"check the API key in {endpoint.key_variable}" if endpoint.key_variable else "check the API key"
        raise ProviderRefused(endpoint.problem(f"refused the API key ({status})"), hint=hint, status=status)
    problem = endpoint.problem(f"answered {status} when it was asked for its models")
    raise ProviderUnavailable(problem, status=status, hint="try again later")


# --- addresses and keys that people have entered


class ProviderStore:
    """`{"openai": {"base_url": "", "api_key": "sk-…"}}` in a file of the library that only its owner may read.

    Read anew each time: another process may have changed it. Not in the database: a backup holds the database and is
    carried elsewhere, and keys do not belong into it.
    """

    FILE = "providers.json"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.FILE

    @property
    def revision(self) -> str:
        """Another text whenever the file is another one."""
        try:
            found = self._path.stat()
        except OSError:
            return ""
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def entered(self) -> dict[str, Entered]:
        """What was entered, by the provider's name."""
        try:
            rows = orjson.loads(self._path.read_bytes())
            return {name: Entered(str(row["base_url"]), str(row["api_key"])) for name, row in rows.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "remove it, then enter the keys again"
            raise UsageError(f"{self._path} cannot be read: {type(error).__name__}", hint=hint) from error

    def get(self, provider: str) -> Entered:
        return self.entered().get(provider, Entered())

    def put(self, provider: str, entered: Entered) -> None:
        """Replaces what is known of this provider; nothing entered removes it."""
        known = self.entered() | {provider: entered}
        rows = {name: asdict(value) for name, value in sorted(known.items()) if value != Entered()}
        try:
            self._write(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise explain(error, self._path) from error

    def _write(self, text: bytes) -> None:
        """In one step, and 0600 from its first byte on, as `mkstemp` makes it."""
        number, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self.FILE}-")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


def entered_for(provider: Provider, config: Config) -> Entered:
    """What somebody entered for this provider in the settings of the library."""
    return ProviderStore(config.library).get(provider.name)


def save_entered(provider: Provider, entered: Entered, config: Config) -> None:
    ProviderStore(config.library).put(provider.name, entered)
