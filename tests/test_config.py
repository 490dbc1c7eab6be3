"""Where the library lives and which models serve it: arguments, then the environment, then refdesk.toml."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from refdesk import Refdesk, UsageError
from refdesk.config import Config, load_config
from refdesk.models import PROVIDERS


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "refdesk.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_library_is_the_argument_then_the_environment_then_home(tmp_path: Path) -> None:
    environment = {"REFDESK_LIBRARY": str(tmp_path / "b")}
    assert load_config(tmp_path / "a", environment).library == tmp_path / "a"
    assert load_config(None, environment).library == tmp_path / "b"
    assert load_config(None, {}).library == Path("~/.refdesk").expanduser()
    assert load_config("~/x", {}).library == Path("~/x").expanduser()
    assert load_config("relative", {}).library.is_absolute()


def test_nothing_said_is_the_shipped_model(tmp_path: Path) -> None:
    assert load_config(tmp_path, {}) == Config(tmp_path)
    lying_about = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": "http://localhost:1"}
    assert load_config(tmp_path, lying_about).embedder == "shipped", "a key in the environment switches nothing on"


def test_toml_names_models_and_settings(tmp_path: Path) -> None:
    text = 'embedder = "openai:bge-m3"\nembedder_dimensions = 1024\n[settings]\n"rag.top_k" = 3\n'
    config = load_config(write(tmp_path, text), {})
    assert (config.embedder, config.embedder_dimensions, config.settings) == ("openai:bge-m3", 1024, {"rag.top_k": 3})
    assert load_config(tmp_path, {"REFDESK_EMBEDDER": "shipped"}).embedder == "shipped", "the environment goes first"


def test_settings_of_the_library_then_of_the_caller(tmp_path: Path) -> None:
    write(tmp_path, '[settings]\n"rag.top_k" = 3\n"rag.rrf_k" = 7\n')
    with Refdesk(tmp_path, settings={"rag.top_k": 4}) as desk:
        assert (desk.settings.top_k, desk.settings.rrf_k) == (4, 7)


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("embedder = ", "refdesk.toml cannot be read", id="not_toml"),
        pytest.param('embedder = "magic"', "unknown embedder 'magic'", id="unknown_embedder"),
        pytest.param("embedder = 5", "embedder must be a text, not 5", id="embedder_a_number"),
        pytest.param('embedder_dimensions = "many"', "embedder_dimensions must be a whole number", id="dimensions"),
        pytest.param("settings = 5", "settings must be a table", id="settings_a_number"),
        pytest.param("llm = 5", "llm must be a text, not 5", id="llm_a_number"),
        pytest.param('llm = "magic"', "REFDESK_LLM: 'magic' is not provider:model", id="llm_without_provider"),
        pytest.param('llm_fallbacks = "ollama:x,foo:y"', "unknown provider 'foo'", id="unknown_fallback"),
        pytest.param('embeder = "shipped"', "unknown entry 'embeder'", id="a_misspelt_name"),
        pytest.param("[settings]\nrag = 5", "there is no setting 'rag'", id="unknown_setting"),
        pytest.param('[settings]\n"rag.top_k" = "x"', "rag.top_k must be a whole number", id="wrong_setting"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Refdesk(write(tmp_path, text))


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "refdesk.toml").write_bytes(b'embedder = "\xff"')
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path, {})


def test_an_unknown_embedder_in_the_environment(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown embedder 'cohere:x'"):
        load_config(tmp_path, {"REFDESK_EMBEDDER": "cohere:x"})


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    assert "secret" not in repr(load_config(tmp_path, {"OPENAI_API_KEY": "secret"}))


# --- models that write


def test_models_from_the_environment_then_from_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'llm = "ollama:qwen2.5:14b"\nllm_verifier = "openai:gpt-4o-mini"\n')
    config = load_config(tmp_path, {"REFDESK_LLM_VERIFIER": "anthropic:claude-haiku-4-5"})
    assert (config.llm, config.llm_verifier, config.llm_router) == (
        "ollama:qwen2.5:14b",
        "anthropic:claude-haiku-4-5",
        "",
    )


@pytest.mark.parametrize(
    "provider, environment, url",
    [
        ("openai", {"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1"),
        ("openai", {"OPENAI_BASE_URL": "http://localhost:8080/v1/"}, "http://localhost:8080/v1"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "http://proxy.local"}, "http://proxy.local"),
        ("groq", {"GROQ_BASE_URL": "https://groq.local"}, "https://groq.local/openai/v1"),
        ("gemini", {"GOOGLE_API_KEY": "k"}, "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("ollama", {}, "http://127.0.0.1:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "gpu-box:9000"}, "http://gpu-box:9000/v1"),
        ("ollama", {"OLLAMA_HOST": "https://ollama.local"}, "https://ollama.local/v1"),
        ("ollama", {"OLLAMA_HOST": "http://[::1]"}, "http://[::1]:11434/v1"),
        ("vllm", {"VLLM_BASE_URL": "http://gpu-box:8000/v1"}, "http://gpu-box:8000/v1"),
    ],
)
def test_where_a_provider_is_reached(tmp_path: Path, provider: str, environment: dict[str, str], url: str) -> None:
    assert load_config(tmp_path, environment).access(PROVIDERS[provider]).base_url == url


def test_keys_are_those_the_own_sdk_reads_and_only_of_the_provider_named(tmp_path: Path) -> None:
    environment = {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "g", "OPENAI_API_KEY": " o\n"}
    config = load_config(tmp_path, environment)
    gemini, openai = config.access(PROVIDERS["gemini"]), config.access(PROVIDERS["openai"])
    assert (gemini.api_key, gemini.key_variable) == ("g", "GOOGLE_API_KEY")
    assert openai.api_key == "o", "a line break from a file does no harm"


class Watched(dict[str, str]):
    """An environment that remembers what was looked at."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.read.add(name)
        return super().get(name, default)


def test_a_key_is_not_even_looked_at_unless_its_provider_is_named(tmp_path: Path) -> None:
    environment = Watched({"OPENAI_API_KEY": "k", "REFDESK_LLM": "ollama:x"})
    load_config(tmp_path, environment).access(PROVIDERS["ollama"])
    assert {name for name in environment.read if name.endswith("_KEY")} == {"OLLAMA_API_KEY"}


@pytest.mark.parametrize(
    "environment, message",
    [
        ({}, "openai needs an API key, and OPENAI_API_KEY is not set"),
        ({"OPENAI_API_KEY": "schlüssel"}, "OPENAI_API_KEY holds characters that no API key has"),
        ({"OPENAI_BASE_URL": "ftp://x"}, "OPENAI_BASE_URL is not an http or https address"),
        ({"OPENAI_BASE_URL": "http://[half"}, "OPENAI_BASE_URL is not an http or https address"),
    ],
)
def test_access_that_cannot_work(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_config(tmp_path, environment).access(PROVIDERS["openai"])
    assert "schlüssel" not in caught.value.sentence


def test_a_key_does_not_travel_to_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("REFDESK_LLM", "openai:gpt-4o")
    config = load_config(tmp_path)
    assert config.access(PROVIDERS["openai"]).api_key == "sk-secret"
    assert b"sk-secret" not in pickle.dumps(config)
    assert "sk-secret" not in repr(config.access(PROVIDERS["openai"]))
