"""The models a library can use, from settings, environment and refdesk.toml: created, checked, retried.

Settings win over the environment, the environment over refdesk.toml; of addresses and keys too (config.py). None named:
none used. One that cannot work is left out and said, so that questions are answered without it.

One that does not answer is tried again, then skipped for a while, and the next one in the chain is asked:

    tries 3, waits 1, 2, 4 … 10 s (25 % jitter) on 429, 5xx and network errors; none on a refusal
    breaker 5 questions that failed in a row -> skipped for 60 s, then one call may try
    a stream that breaks in the middle starts over on the next model, announced with `Piece(restarted=True)`

DESIGN §5. With a single model, or on the last one, a broken stream starts over once on the same.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import orjson

from refdesk.answer import Turn, Usage
from refdesk.config import Config, Entered, explain, write_new
from refdesk.errors import (
    ExtraMissing,
    ProviderEmpty,
    ProviderError,
    ProviderInterrupted,
    ProviderRefused,
    ProviderUnavailable,
    RefdeskError,
    UsageError,
)
from refdesk.models import PROVIDERS, Provider, estimate, split_name
from refdesk.ports import LLM, ModelRole, Models, Piece, Request, Reranker
from refdesk.prompts import TRIAL, TRIAL_ANSWER, TRIAL_MARKER, answering_system
from refdesk.providers.extras import OnnxReranker
from refdesk.providers.given import GivenLLM, GivenModels
from refdesk.providers.llm import AnthropicLLM, GgufLLM, OpenAILLM, WireLLM, rough_usage
from refdesk.providers.wire import LONGEST_WAIT_S, Endpoint, close_client, get, open_clients, wait_before
from refdesk.settings import Settings

# --- what happens when a model does not answer? Tried again, then skipped, the next one in the chain ------------------


class Breaker:
    """Whether a model may be called: after `most` failures in a row not for `seconds`, then by one caller at a time.

    A failure is that of a whole call, after its last try; those of one question count once (`ChainedLLM.counted`).
    """

    def __init__(self, most: int = 5, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self._clock = most, seconds, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at = 0.0
        self._is_probed = False

    def allows(self) -> bool:
        """Every call that is allowed must be followed by `succeeded`, `failed` or `left`."""
        with self._lock:
            if self._failures < self.most:
                return True
            if self._is_probed or self._clock() < self._opened_at + self.seconds:
                return False
            self._is_probed = True
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._failures, self._is_probed = 0, False

    def failed(self) -> None:
        with self._lock:
            self._failures, self._is_probed = self._failures + 1, False
            if self._failures >= self.most:
                self._opened_at = self._clock()

    def left(self) -> None:
        """The call ended in a way that says nothing of the model's health: refused, or the caller went away."""
        with self._lock:
            self._is_probed = False


_breakers: dict[tuple[str, str], Breaker] = {}  # of this process, by name and address: elsewhere it is another model
_breakers_lock = threading.Lock()


def breaker_of(model: WireLLM, most: int, seconds: float) -> Breaker:
    """The one breaker this process has for a model; it takes on the newest settings."""
    with _breakers_lock:
        breaker = _breakers.setdefault((model.name, model.address), Breaker(most, seconds))
        breaker.most, breaker.seconds = most, seconds
        return breaker


def reset_breaker(model: WireLLM) -> None:
    """Somebody has seen it answer: it need not wait for its time to pass."""
    if breaker := _breakers.get((model.name, model.address)):
        breaker.succeeded()


def _unheard(event: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class ChainedLLM:
    """A model and those that stand in for it, in order. Safe to share between questions and event loops.

    `on_event` hears each try that fails, in words: "openai:gpt-4o answered 429; try 2 of 3 in 1.1 s"; `on_failure` each
    model that was given up. A breaker whose id is in `counted` has heard of the question already.
    """

    models: Sequence[WireLLM]
    tries: int = 3
    breaker_failures: int = 5
    breaker_seconds: float = 60.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    on_event: Callable[[str], None] = _unheard
    on_failure: Callable[[ProviderError], None] = _unheard
    counted: set[int] | None = None

    @property
    def name(self) -> str:
        return self.models[0].name

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        lost = Usage()  # what broken streams have cost
        shown = False  # whether the reader has text that a restart makes void
        failure: ProviderError | None = None
        begins = [*self.models, self.models[-1]]  # the last one may begin anew once, after a break
        for place, model in enumerate(begins):
            if place == len(self.models) and not isinstance(failure, ProviderInterrupted):
                break
            text = ""
            is_last = place >= len(self.models) - 1
            try:
                async with aclosing(self._tried(model, request, is_last)) as pieces:
                    async for piece in pieces:
                        if piece.usage and not text:
                            lost += piece.usage
                            raise ProviderEmpty(f"{model.name} wrote nothing")
                        if shown and piece.text:
                            yield Piece(model=model.name, restarted=True)
                            shown = False
                        text += piece.text
                        yield replace(piece, usage=piece.usage + lost) if piece.usage else piece
                return
            except ProviderError as error:
                failure = error
                error.model = model.name
                self.on_failure(error)
                if text:
                    shown = True
                    usage = rough_usage(request, text)  # a broken stream never got to say it
                    cost = estimate(model.name, usage.prompt_tokens, usage.completion_tokens)
                    lost += replace(usage, cost_usd=cost)
        assert failure is not None
        failure.spent = lost if lost.calls else None
        raise failure

    async def _tried(self, model: WireLLM, request: Request, is_last: bool) -> AsyncGenerator[Piece, None]:
        """One model with its tries; raises when they are used up, at once when it refuses or breaks off."""
        breaker = breaker_of(model, self.breaker_failures, self.breaker_seconds)
        if not breaker.allows():
            problem = f"{model.name} is skipped for a while after {breaker.most} questions in a row that it failed"
            self.on_event(problem)
            raise ProviderUnavailable(problem)
        tell = breaker.left  # also when the caller closes the stream or is cancelled, and when it refuses
        try:
            async with aclosing(self._attempts(model, request, is_last)) as pieces:
                async for piece in pieces:
                    yield piece
            tell = breaker.succeeded
        except (ProviderUnavailable, ProviderInterrupted):
            if self.counted is None or id(breaker) not in self.counted:
                tell = breaker.failed
            if self.counted is not None:
                self.counted.add(id(breaker))
            raise
        finally:
            tell()

    async def _attempts(self, model: WireLLM, request: Request, is_last: bool) -> AsyncGenerator[Piece, None]:
        for attempt in range(1, self.tries + 1):
            try:
                async with aclosing(model.stream(request)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ProviderUnavailable as error:
                asked = error.retry_after_s
                if attempt == self.tries or (asked > LONGEST_WAIT_S and not is_last):
                    self.on_event(f"{error}; gave up after {attempt} of {self.tries} attempts")
                    raise
                wait = wait_before(attempt + 1, asked, random.random())
                self.on_event(f"{error}; attempt {attempt + 1} of {self.tries} in {wait:.1f} s")
            except ProviderError as error:
                self.on_event(str(error))
                raise
            await self.sleep(wait)


# --- which models can this library use? -------------------------------------------------------------------------------

WIRES: Mapping[str, type[WireLLM]] = {"openai": OpenAILLM, "anthropic": AnthropicLLM, "gguf": GgufLLM}
ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
KEPT = 8  # sets of models: one for each that callers choose for their questions
CHECK_S, LIST_S = 30.0, 10.0
LOAD_S = 180.0  # for the first word of a model on this machine, which may have to be loaded
NO_LIST = frozenset({404, 405, 410, 501})  # servers that answer questions and keep no list
SHOWN = 5  # models of a provider
DEFAULTS = Settings()
logger = logging.getLogger("refdesk.models")


class ModelDirectory:
    """`desk.models`; safe to use from several threads."""

    def __init__(self, config: Config, given: GivenLLM | None = None, reranker: Reranker | None = None) -> None:
        """`given` and `reranker` are the program's own, and go before those that are named."""
        self._config, self._given, self._given_reranker = config, given, reranker
        self._entered = ProviderStore(config.library)
        self._making = threading.Lock()
        self._models: dict[str, ChainedModels] = {}
        self._reranker: tuple[str, Reranker] | None = None

    def of(self, settings: Settings) -> Models:
        """Made again when a setting, address or key has changed; their breakers live as long as the process."""
        named = self._named(settings)
        is_chosen = bool(settings.llm_answer) and settings.llm_answer in _split(
            settings.llm_allowed
        )  # for this question
        if self._given is None or is_chosen or not settings.llm_enabled:
            return named
        return GivenModels(self._given, named)

    def _named(self, settings: Settings) -> ChainedModels:
        key = f"{self._entered.revision} {settings.of_models}"
        with self._making:
            if key not in self._models:
                if len(self._models) >= KEPT:
                    self._models.clear()
                self._models[key] = make_models(self._config, settings)
            return self._models[key]

    def reranker(self, settings: Settings) -> Reranker | None:
        """The cross-encoder that is named; None: the sentences' own vectors do."""
        if self._given_reranker is not None or not settings.reranker:
            return self._given_reranker
        with self._making:
            if self._reranker is None or self._reranker[0] != settings.reranker:
                self._reranker = (settings.reranker, OnnxReranker(settings.reranker))
            return self._reranker[1]

    def allowed(self, settings: Settings) -> list[str]:
        """The models that a question may be put to, the one that is named first; none where models are switched off."""
        named = models_by_role(self._config, settings).get("answer", [""])[0]
        chosen = _split(settings.llm_allowed) if settings.llm_enabled else []
        return list(dict.fromkeys(name for name in (named, *chosen) if name))

    def by_role(self, settings: Settings) -> dict[ModelRole, list[str]]:
        """The models that are named, those that stand in behind the answering one; a role without one is left out."""
        named = models_by_role(self._config, settings)
        return {role: found for role, names in named.items() if (found := [name for name in names if name])}

    async def test(self, name: str, settings: Settings, entered: Entered | None = None) -> dict[str, Any]:
        """Asks a model a question about a passage, once, breaker or not; what it says and how long that took.

        `answers`: it says what the passage says. `cites`: it names the passage; where it does not, the marker is put in
        when its answers are checked. `entered` are address and key to try before they are saved. One that answers is no
        longer skipped.
        """
        if not settings.llm_enabled:
            raise UsageError("models are switched off", hint="set llm.enabled=true")
        provider, _ = split_name(name)
        model = make_model(name, self._config, LOAD_S if provider.is_local else CHECK_S, entered)
        reply, began = "", time.perf_counter()
        system = answering_system("factual", quote_first=model.info.tier == "tiny")
        request = Request(system, (Turn("user", TRIAL),), max_tokens=200, role="test")
        async for piece in model.stream(request):
            reply += piece.text
        took = (time.perf_counter() - began) * 1000
        reset_breaker(model)
        found = {"answers": TRIAL_ANSWER in reply, "cites": TRIAL_MARKER in reply}
        return {"model": model.name, "reply": reply.strip()[:400], "ms": round(took, 1)} | found

    async def check_settings(self, values: Mapping[str, Any], settings: Settings, *, online: bool = True) -> None:
        """A `UsageError` in one sentence when a model that these settings name cannot be asked.

        `online` false, or models switched off: its name alone is looked at, and no one is called.
        """
        for name in named_models(values):
            split_name(name)
            if online and settings.llm_enabled:
                await self._check(name)

    async def examine(self, settings: Settings) -> list[tuple[str, RefdeskError | None]]:
        """Each model that is named and what is wrong with it; none where models are switched off."""
        found: dict[str, RefdeskError | None] = {}
        for name in all_named(self._config, settings):
            found[name] = None
            try:
                await self._check(name)
            except RefdeskError as error:
                found[name] = error
        return list(found.items())

    # what somebody entered in the settings: the address and the key of a provider

    def entered(self, provider: Provider) -> Entered:
        return self._entered.get(provider.name)

    def enter(self, provider: Provider, entered: Entered) -> None:
        """Saves it; nothing entered forgets what was known."""
        self._entered.put(provider.name, entered)

    async def listed(self, provider: Provider, entered: Entered | None = None) -> list[str] | None:
        """The models of a provider; None where it keeps no list. A `UsageError` when it cannot be asked."""
        if provider.is_file:
            return None
        placeholder = "any"  # a provider is asked in the name of a model; none is chosen yet
        try:
            return await _listed(make_model(f"{provider.name}:{placeholder}", self._config, LIST_S, entered))
        except ProviderError as error:
            raise UsageError(str(error).replace(f":{placeholder}", "", 1), hint=error.hint) from error

    async def check(self, provider: Provider, model: str, entered: Entered, *, online: bool = True) -> None:
        """A `UsageError` when these cannot be used; without a model, whether the provider answers at all."""
        if provider.is_file and not model:
            return
        name = f"{provider.name}:{model or 'any'}"
        make_model(name, self._config, CHECK_S, entered)  # says what is missing or malformed
        if online and model:
            await self._check(name, entered)
        elif online:
            await self.listed(provider, entered)

    async def _check(self, name: str, entered: Entered | None = None) -> None:
        """A `UsageError` in one sentence when this model cannot be asked: provider, key, address or name are wrong.

        Says nothing when it can be asked, or when nobody can know.
        """
        model = make_model(name, self._config, LIST_S, entered)
        try:
            names = await _listed(model)
            if names is None or is_listed(model.info.model, names):
                return
            if await _get(model, f"/{quote(model.info.model, safe='/:')}") is not None:
                return  # another name of a listed one: "claude-sonnet-4-5" of "claude-sonnet-4-5-20250929"
        except ProviderError as error:
            raise UsageError(str(error), hint=error.hint) from error
        offered = (
            f"it offers {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}" if names else "it offers none"
        )
        raise UsageError(
            f"{model.info.provider} at {model.address} does not list a model '{model.info.model}'; {offered}",
            hint="check the model's name",
        )

    async def aclose(self) -> None:
        """Closes the connections that the running event loop has kept."""
        if open_clients:  # none where no model was asked
            await close_client()


# --- names to models


@dataclass(frozen=True, slots=True)
class ChainedModels:
    """The models by role; a role without one has none, and its stage does without."""

    chains: Mapping[ModelRole, ChainedLLM]
    problems: tuple[str, ...] = ()  # of models that are named and cannot be used, in sentences

    def for_question(self) -> ChainedModels:
        """The same models for one question: however often one of them fails it, its breaker counts it once."""
        counted: set[int] = set()
        return replace(self, chains={role: replace(chain, counted=counted) for role, chain in self.chains.items()})

    def role(
        self,
        name: ModelRole,
        on_event: Callable[[str], None] | None = None,
        on_failure: Callable[[ProviderError], None] | None = None,
    ) -> LLM | None:
        """The model for this role; `on_event` hears of tries that fail, `on_failure` of models that were given up."""
        chain = self.chains.get(name)
        heard: dict[str, Any] = {"on_event": on_event, "on_failure": on_failure}
        return chain and replace(chain, **{name: heard_by for name, heard_by in heard.items() if heard_by})


def make_models(config: Config, settings: Settings) -> ChainedModels:
    """Makes what is named and calls no one; a name or a missing key that cannot work is in `problems`.

    The router may be the answering model where that one is large enough to be trusted with it (over 9 billion, seed
    001), the summariser always. Verifier and reconciler are never anyone who was not named for it.
    """
    made: dict[str, WireLLM] = {}
    problems: dict[str, str] = {}  # name -> why it cannot be used
    names = models_by_role(config, settings)
    for name in all_named(config, settings):
        try:
            made[name] = make_model(name, config, settings.llm_timeout_s, settings=settings)
        except ExtraMissing as error:
            problems[name] = error.sentence
        except UsageError as error:
            problems[name] = str(error)
    answer = names["answer"][0] if names else ""
    if not answer:
        names.pop("answer", None)  # nobody stands in for no one
    elif answer in made:
        names["summariser"] = names["summariser"] or [answer]
        if made[answer].info.tier in ("medium", "large"):
            names["router"] = names["router"] or [answer]
    chains: dict[ModelRole, ChainedLLM] = {}
    for role, wanted in names.items():
        if models := [made[name] for name in wanted if name in made]:
            # Rules stand ready where the router fails, and the reader waits: one try.
            tries = 1 if role == "router" else settings.llm_tries
            chains[role] = ChainedLLM(models, tries, settings.breaker_failures, settings.breaker_seconds)
    sentences = tuple(f"{name} cannot be used: {why}." for name, why in problems.items())
    for sentence in sentences:
        logger.warning("%s", sentence)
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


def models_by_role(config: Config, settings: Settings) -> dict[ModelRole, list[str]]:
    """The models that are named for each role, those that stand in behind the answering one; none when switched off."""
    if not settings.llm_enabled:
        return {}
    names: dict[ModelRole, list[str]] = {"answer": [settings.llm_answer or config.llm]}
    answering = names["answer"][0]
    names["answer"] += [
        fallback for fallback in _split(settings.llm_fallbacks or config.llm_fallbacks) if fallback != answering
    ]
    names["router"] = _split(settings.llm_router or config.llm_router)
    names["verifier"] = _split(settings.llm_verifier or config.llm_verifier)
    names["reconciler"] = _split(settings.llm_reconciler or config.llm_reconciler)
    names["summariser"] = _split(settings.llm_summariser or config.llm_summariser)
    return names


def all_named(config: Config, settings: Settings) -> list[str]:
    """Every model that some role has, once; none where models are switched off."""
    names = [name for listed in models_by_role(config, settings).values() for name in listed if name]
    return list(dict.fromkeys(names))


def named_models(values: Mapping[str, object]) -> list[str]:
    """The models that these settings name: `{"llm.fallbacks": "ollama:a, ollama:b"}` -> both."""
    return [name for role in (*ROLES, "fallbacks", "allowed") for name in _split(str(values.get(f"llm.{role}", "")))]


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


# --- is a model there? Which ones does its provider list?


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
    if PROVIDERS[model.info.provider].is_file:
        return None
    status, body = await get(endpoint, model.models_path + path, model.headers())
    if status == 200:
        return body
    if status in NO_LIST or (path and status == 400):
        return None
    if status in (401, 403):
        hint = f"check the API key in {endpoint.key_variable}" if endpoint.key_variable else "check the API key"
        raise ProviderRefused(endpoint.problem(f"refused the API key ({status})"), hint=hint, status=status)
    problem = endpoint.problem(f"answered {status} when asked for its models")
    raise ProviderUnavailable(problem, status=status, hint="try again later")


# --- addresses and keys that people have entered


class ProviderStore:
    """`{"openai": {"base_url": "", "api_key": "sk-…"}}` in a file of the library that only its owner may read.

    Read anew each time: another process may have changed it. Not in the database: a backup holds the database and is
    carried elsewhere, and keys do not belong into it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "providers.json"

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
        new = write_new(orjson.dumps(rows, option=orjson.OPT_INDENT_2), self._path.parent)
        try:
            new.replace(self._path)
        except OSError as error:
            new.unlink(missing_ok=True)
            raise explain(error, self._path) from error
