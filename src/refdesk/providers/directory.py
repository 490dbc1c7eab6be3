"""Which models can this library use? Made when they are needed, checked and tried by name, connected and forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from refdesk.answer import Turn
from refdesk.config import Config, Entered
from refdesk.errors import RefdeskError, UsageError
from refdesk.models import Provider, split_name
from refdesk.ports import Request, Reranker
from refdesk.prompts import ONE_WORD
from refdesk.providers.chain import reset_breaker
from refdesk.providers.registry import (
    CHECK_S,
    ChainedModels,
    ProviderStore,
    all_named,
    answering,
    check_model,
    listed_by,
    make_model,
    make_models,
    named_models,
)
from refdesk.providers.rerank import OnnxReranker
from refdesk.settings import Settings


class ModelDirectory:
    """`desk.models`; safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._entered = ProviderStore(config.library)
        self._making = threading.Lock()
        self._models: tuple[str, ChainedModels] | None = None
        self._reranker: tuple[str, Reranker] | None = None

    def of(self, settings: Settings) -> ChainedModels:
        """Made again when a setting, address or key has changed; their breakers live as long as the process."""
        key = f"{self._entered.revision} {_llm_key(settings)}"
        with self._making:
            if self._models is None or self._models[0] != key:
                self._models = (key, make_models(self._config, settings))
            return self._models[1]

    def reranker(self, settings: Settings) -> Reranker | None:
        """The cross-encoder that is named; None: the sentences' own vectors do."""
        if not settings.reranker:
            return None
        with self._making:
            if self._reranker is None or self._reranker[0] != settings.reranker:
                self._reranker = (settings.reranker, OnnxReranker(settings.reranker))
            return self._reranker[1]

    def answering(self, settings: Settings) -> str:
        """The name of the model that writes the answers; empty where they are quoted from the documents."""
        return answering(self._config, settings)

    def is_answering(self, settings: Settings) -> bool:
        """Whether a model writes the answers, or they are quoted from the documents."""
        return self.of(settings).role("answer") is not None

    def problems(self, settings: Settings) -> tuple[str, ...]:
        """Of models that are named and cannot be used, in sentences; no one is called."""
        return self.of(settings).problems

    async def test(self, name: str, settings: Settings, entered: Entered | None = None) -> dict[str, Any]:
        """Asks a model for one word, once, breaker or not; what it says and how long that took.

        `entered` are address and key to try before they are saved. One that answers is no longer skipped.
        """
        if not settings.llm_enabled:
            raise UsageError("models are switched off", hint="set llm.enabled=true")
        model = make_model(name, self._config, CHECK_S, entered)
        reply, began = "", time.perf_counter()
        request = Request(ONE_WORD, (Turn("user", ONE_WORD),), max_tokens=64, role="test")
        async for piece in model.stream(request):
            reply += piece.text
        took = (time.perf_counter() - began) * 1000
        reset_breaker(model)
        return {"model": model.name, "reply": reply.strip()[:200], "ms": round(took, 1)}

    async def check_settings(self, values: Mapping[str, Any], settings: Settings, *, online: bool = True) -> None:
        """A `UsageError` in one sentence when a model that these settings name cannot be asked.

        `online` false, or models switched off: its name alone is looked at, and no one is called.
        """
        for name in named_models(values):
            split_name(name)
            if online and settings.llm_enabled:
                await check_model(name, self._config)

    async def examine(self, settings: Settings) -> list[tuple[str, RefdeskError | None]]:
        """Each model that is named and what is wrong with it; none where models are switched off."""
        found: list[tuple[str, RefdeskError | None]] = []
        for name in all_named(self._config, settings):
            try:
                await check_model(name, self._config)
            except RefdeskError as error:
                found.append((name, error))
            else:
                found.append((name, None))
        return found

    # what somebody entered in the settings: the address and the key of a provider

    def entered(self, provider: Provider) -> Entered:
        return self._entered.get(provider.name)

    def enter(self, provider: Provider, entered: Entered) -> None:
        """Saves it; nothing entered forgets what was known."""
        self._entered.put(provider.name, entered)

    async def listed(self, provider: Provider, entered: Entered | None = None) -> list[str] | None:
        """The models of a provider; None where it keeps no list. A `UsageError` when it cannot be asked."""
        return await listed_by(provider, self._config, entered)

    async def check(self, provider: Provider, model: str, entered: Entered, *, online: bool = True) -> None:
        """A `UsageError` when these cannot be used; without a model, whether the provider answers at all."""
        name = f"{provider.name}:{model or 'any'}"
        make_model(name, self._config, CHECK_S, entered)  # says what is missing or malformed
        if online and model:
            await check_model(name, self._config, entered)
        elif online:
            await listed_by(provider, self._config, entered)

    async def aclose(self) -> None:
        """Closes the connections that the running event loop has kept."""
        if self._models is not None:
            await self._models[1].aclose()


@lru_cache(maxsize=64)
def _llm_key(settings: Settings) -> str:
    return str([(name, value) for name, value, _ in settings.items() if name.startswith("llm.")])
