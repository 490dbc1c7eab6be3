"""What a model's name tells, and which models a configuration makes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from refdesk.answer import Turn
from refdesk.config import Config, load_config
from refdesk.errors import ProviderUnavailable, UsageError
from refdesk.models import PROVIDERS, estimate, model_info, size_in_billions, split_name
from refdesk.ports import Request
from refdesk.providers.directory import ChainedModels, make_models
from refdesk.settings import Settings
from wire_server import WireServer


@pytest.mark.parametrize(
    "name, window, temperature, top_p",
    [  # seed 001 step 9
        ("ollama:llama3.2:latest", 8_000, 0.3, 0.7),
        ("ollama:llama3.1:latest", 8_000, 0.5, 0.8),
        ("ollama:mistral:latest", 8_000, 0.5, 0.8),
        ("ollama:qwen2.5:latest", 32_000, 0.7, 0.95),
        ("openai:gpt-4", 128_000, 0.7, 0.9),
        ("anthropic:claude-3-opus-20240229", 200_000, 0.7, 0.9),
    ],
)
def test_families_of_the_seed(name: str, window: int, temperature: float, top_p: float) -> None:
    info = model_info(name)
    assert (info.context_window, info.temperature, info.top_p) == (window, temperature, top_p)


@pytest.mark.parametrize(
    "name, family, tier",
    [
        ("openai:gpt-4o-mini", "gpt-4o", "large"),
        ("openai:gpt-4.1-nano", "gpt-4.1", "large"),
        ("openai:gpt-5-mini", "gpt-5", "large"),
        ("openai:o3-mini", "o-series", "large"),
        ("groq:openai/gpt-oss-20b", "gpt-oss", "medium"),
        ("anthropic:claude-sonnet-4-5", "claude-4", "large"),
        ("anthropic:claude-opus-4-8", "claude", "large"),
        ("openrouter:anthropic/claude-sonnet-4.5", "claude-4", "large"),
        ("gemini:gemini-2.5-flash", "gemini", "large"),
        ("groq:llama-3.1-8b-instant", "llama-3.1", "small"),
        ("groq:llama-3.3-70b-versatile", "llama-3.3", "large"),
        ("ollama:llama3.2", "llama-3.2", "tiny"),
        ("ollama:qwen2.5:14b", "qwen-2.5", "medium"),
        ("ollama:qwen3:4b", "qwen-3", "small"),
        ("mistral:mistral-large-latest", "mistral", "large"),
        ("mistral:ministral-8b-latest", "mistral", "small"),
        ("deepseek:deepseek-chat", "deepseek", "large"),
        ("ollama:deepseek-r1:8b", "deepseek-r1", "small"),
        ("ollama:gemma3:27b", "gemma", "medium"),
        ("ollama:phi4", "phi", "medium"),
        ("llamacpp:SmolLM2-135M-Instruct.Q4_1.gguf", "smollm", "tiny"),
        ("llamacpp:something-of-mine", "unknown", "small"),
        ("openai:something-of-theirs", "unknown", "medium"),
    ],
)
def test_family_and_tier(name: str, family: str, tier: str) -> None:
    assert (model_info(name).family, model_info(name).tier) == (family, tier)


@pytest.mark.parametrize(
    "model, billions",
    [
        ("llama-3.1-8b-instant", 8),
        ("qwen2.5:14b", 14),
        ("qwen2.5:0.5b", 0.5),
        ("mixtral-8x7b-32768", 56),
        ("SmolLM2-135M-Instruct", 0.135),
        ("gemma3n:e4b", 4),
        ("Meta-Llama-3.1-405B-Instruct", 405),
        ("qwen3-235b-a22b", 235),
        ("gpt-4o", None),
        ("gemini-2.5-flash", None),
        ("claude-3-5-sonnet-20241022", None),
        ("mistral-7b-instruct-v0.3", 7),
        ("llama3.1:8b-instruct-q4_K_M", 8),
        ("model-4bit", None),
    ],
)
def test_size_in_the_name(model: str, billions: float | None) -> None:
    assert size_in_billions(model) == billions


@pytest.mark.parametrize(
    "billions, tier", [("3", "tiny"), ("3.1", "small"), ("9", "small"), ("34", "medium"), ("35", "large")]
)
def test_tiers_at_their_edges(billions: str, tier: str) -> None:
    assert model_info(f"ollama:x:{billions}b").tier == tier


def test_a_local_runner_reads_less_than_the_same_model_hosted() -> None:
    assert model_info("ollama:llama3.1:8b").context_window == 8_000
    assert model_info("groq:llama-3.1-8b-instant").context_window == 131_072
    assert model_info("ollama:gpt-oss:120b-cloud").context_window == 131_072


@pytest.mark.parametrize("name", ["gpt-4o", "", "nobody:gpt", "openai:", ":x", "openai: "])
def test_a_name_that_cannot_work_gets_one_sentence(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_name(name)
    assert "openai, anthropic, gemini, groq" in str(caught.value)
    assert "openai:MODEL" in caught.value.hint and "OPENAI_BASE_URL" in caught.value.hint
    assert "\n" not in caught.value.sentence


def test_the_docs_list_every_provider_with_its_variables() -> None:
    text = (Path(__file__).parent.parent / "docs" / "models.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert set(rows) == set(PROVIDERS)
    for one in PROVIDERS.values():
        variables = filter(None, (*one.key_variables, one.base_url_variable))
        assert all(f"`{name}`" in rows[one.name] for name in variables)


# --- prices


@pytest.mark.parametrize(
    "name, dollars",
    [
        ("openai:gpt-4o-mini", 0.15 + 0.60),
        ("anthropic:claude-3-opus-20240229", 15 + 75),
        ("groq:llama-3.1-8b-instant", 0.05 + 0.08),
        ("ollama:llama3.2", 0.0),
        ("openai:something-of-theirs", None),
    ],
)
def test_price_of_a_million_tokens_each_way(name: str, dollars: float | None) -> None:
    expected = None if dollars is None else pytest.approx(dollars)
    assert estimate(name, 1_000_000, 1_000_000) == expected


def test_every_hosted_provider_has_prices() -> None:
    from genai_prices.data import providers

    known = {provider.id for provider in providers}
    assert {one.price_name for one in PROVIDERS.values() if not one.is_local} <= known


def test_prices_ask_no_one() -> None:
    """In a process of its own, which ends at the first look at the network."""
    program = """
import os, sys
sys.addaudithook(lambda event, _: os._exit(3) if event in ("socket.connect", "socket.getaddrinfo") else None)
from refdesk.models import estimate
print(estimate("openai:gpt-4o", 1000, 100))
if "look" in sys.argv:
    import socket
    socket.getaddrinfo("localhost", 80)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and float(done.stdout) == pytest.approx(0.0035), done.stderr
    assert subprocess.run([sys.executable, "-c", program, "look"], capture_output=True, check=False).returncode == 3


# --- which models are made

OPENAI = {"OPENAI_API_KEY": "sk-one", "REFDESK_LLM": "openai:gpt-4o"}


def config(tmp_path: Path, **environment: str) -> Config:
    return load_config(tmp_path, environment)


def names_of(models: ChainedModels) -> dict[str, str]:
    """`{"answer": "openai:gpt-4o", …}`, with those that stand in behind " → "."""
    return {role: " → ".join(model.name for model in chain.models) for role, chain in models.chains.items()}


def test_none_named_none_made(tmp_path: Path) -> None:
    keys = {key: "sk-lying-about" for one in PROVIDERS.values() for key in one.key_variables}
    models = make_models(config(tmp_path, **keys), Settings())
    assert names_of(models) == {}
    assert models.role("answer") is None


def test_switched_off_none_made(tmp_path: Path) -> None:
    settings = Settings().changed({"llm.enabled": False, "llm.verifier": "nobody:x"})
    assert names_of(make_models(config(tmp_path, **OPENAI), settings)) == {}


def test_the_answering_model_also_routes_and_summarises_but_never_judges_itself(tmp_path: Path) -> None:
    names = names_of(make_models(config(tmp_path, **OPENAI), Settings()))
    assert names == {"answer": "openai:gpt-4o", "router": "openai:gpt-4o", "summariser": "openai:gpt-4o"}


def test_a_small_model_is_not_trusted_with_routing(tmp_path: Path) -> None:
    names = names_of(make_models(config(tmp_path, REFDESK_LLM="ollama:llama3.2:3b"), Settings()))
    assert set(names) == {"answer", "summariser"}


def test_each_role_has_its_own(tmp_path: Path) -> None:
    environment = OPENAI | {
        "REFDESK_LLM_ROUTER": "ollama:llama3.2",
        "REFDESK_LLM_VERIFIER": "openai:gpt-4o",
        "REFDESK_LLM_RECONCILER": "openai:o3",
        "REFDESK_LLM_SUMMARISER": "ollama:qwen2.5",
        "REFDESK_LLM_FALLBACKS": "ollama:qwen2.5, openai:gpt-4o-mini,",
    }
    assert names_of(make_models(config(tmp_path, **environment), Settings())) == {
        "answer": "openai:gpt-4o → ollama:qwen2.5 → openai:gpt-4o-mini",
        "router": "ollama:llama3.2",
        "verifier": "openai:gpt-4o",
        "reconciler": "openai:o3",
        "summariser": "ollama:qwen2.5",
    }


def test_settings_win_over_the_environment(tmp_path: Path) -> None:
    settings = Settings().changed({"llm.answer": "ollama:qwen2.5:14b", "llm.fallbacks": "vllm:x"})
    names = names_of(make_models(config(tmp_path, **OPENAI), settings))
    assert names["answer"] == "ollama:qwen2.5:14b → vllm:x"


def test_fallbacks_alone_name_no_answering_model(tmp_path: Path) -> None:
    assert names_of(make_models(config(tmp_path, REFDESK_LLM_FALLBACKS="ollama:x"), Settings())) == {}


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    made = make_models(
        config(tmp_path, REFDESK_LLM="anthropic:claude-sonnet-4-5", OPENAI_API_KEY="x", REFDESK_LLM_VERIFIER="vllm:x"),
        Settings(),
    )
    assert made.problems == (
        "anthropic:claude-sonnet-4-5 cannot be used: anthropic needs an API key, and ANTHROPIC_API_KEY is not set.",
    )
    assert names_of(made) == {"verifier": "vllm:x"}, "the others are made all the same"


def test_an_unknown_provider_in_the_settings(tmp_path: Path) -> None:
    made = make_models(config(tmp_path), Settings().changed({"llm.answer": "nobody:x", "llm.fallbacks": "vllm:y"}))
    assert names_of(made) == {"answer": "vllm:y"}
    assert "nobody:x cannot be used: unknown provider 'nobody'" in made.problems[0]


def test_the_reader_does_not_wait_for_a_router_that_fails(tmp_path: Path) -> None:
    with WireServer() as server:
        server.fail(500, times=3)
        router = make_models(config(tmp_path, **server.openai_env(router="small")), Settings()).role("router")
        assert router is not None and router.name == "openai:small"

        async def run() -> None:
            async for _ in router.stream(Request("", (Turn("user", "?"),), 5)):
                pass

        with pytest.raises(ProviderUnavailable):
            asyncio.run(run())
        assert len(server.requests) == 1
