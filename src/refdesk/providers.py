"""Which models write, and in which role? Names from the settings and the configuration to the adapters.

Settings win over the environment, the environment over refdesk.toml. None named: none used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from refdesk.adapters.llm_anthropic import AnthropicLLM
from refdesk.adapters.llm_chain import ChainedLLM
from refdesk.adapters.llm_http import Endpoint, close_client
from refdesk.adapters.llm_openai import OpenAILLM
from refdesk.adapters.llm_wire import WireLLM
from refdesk.config import Config
from refdesk.errors import ProviderError
from refdesk.models import model_info, split_name
from refdesk.ports import LLM, ModelRole
from refdesk.settings import Settings

WIRES: Mapping[str, type[WireLLM]] = {"openai": OpenAILLM, "anthropic": AnthropicLLM}


@dataclass(frozen=True, slots=True)
class Models:
    """The models by role; a role without one has none, and its stage does without."""

    chains: Mapping[ModelRole, ChainedLLM]

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
    """Makes what is named and calls no one; a name or a missing key that cannot work is a `UsageError`.

    The router may be the answering model where that one is large enough to be trusted with it (over 9 billion, seed
    001), the summariser always. Verifier and reconciler are never anyone who was not named for it.
    """
    if not settings.llm_enabled:
        return Models({})
    answer = answering(config, settings)
    router = settings.llm_router or config.llm_router
    if answer and not router and model_info(answer).tier in ("medium", "large"):
        router = answer
    fallbacks = (settings.llm_fallbacks or config.llm_fallbacks).split(",")
    names: dict[ModelRole, list[str]] = {
        "answer": [answer, *fallbacks] if answer else [],
        "router": [router],
        "verifier": [settings.llm_verifier or config.llm_verifier],
        "reconciler": [settings.llm_reconciler or config.llm_reconciler],
        "summariser": [settings.llm_summariser or config.llm_summariser or answer],
    }
    made: dict[str, WireLLM] = {}
    chains: dict[ModelRole, ChainedLLM] = {}
    for role, wanted in names.items():
        listed = [name for name in dict.fromkeys(name.strip() for name in wanted) if name]
        for name in listed:
            if name not in made:
                made[name] = _make(name, config, settings)
        if listed:
            # Rules stand ready where the router fails, and the reader waits: one try.
            tries = 1 if role == "router" else settings.llm_tries
            chains[role] = ChainedLLM(
                [made[name] for name in listed],
                tries=tries,
                breaker_failures=settings.breaker_failures,
                breaker_seconds=settings.breaker_seconds,
            )
    return Models(chains)


def _make(name: str, config: Config, settings: Settings) -> WireLLM:
    provider, model = split_name(name)
    access = config.access(provider)
    endpoint = Endpoint(
        f"{provider.name}:{model}",
        access.base_url,
        access.api_key,
        access.key_variable,
        settings.llm_timeout_s,
        settings.llm_total_s,
        settings.llm_max_answer_kb * 1000,
    )
    return WIRES[provider.wire](endpoint)
