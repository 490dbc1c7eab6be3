"""Deployment: where the library lives and which models serve it. From arguments, the environment, then refdesk.toml."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from refdesk.errors import UsageError
from refdesk.models import Provider, split_name

SHIPPED_EMBEDDER = "shipped"
DEFAULT_LIBRARY = "~/.refdesk"
# Entry of refdesk.toml and field of Config -> variable of the environment
_MODELS: Mapping[str, str] = {
    "llm": "REFDESK_LLM",
    "llm_router": "REFDESK_LLM_ROUTER",
    "llm_verifier": "REFDESK_LLM_VERIFIER",
    "llm_reconciler": "REFDESK_LLM_RECONCILER",
    "llm_summariser": "REFDESK_LLM_SUMMARISER",
    "llm_fallbacks": "REFDESK_LLM_FALLBACKS",
}
_TOML: Mapping[str, type] = {
    "embedder": str,
    "embedder_dimensions": int,
    **dict.fromkeys(_MODELS, str),
    "settings": dict,
}
_WORDS: Mapping[type, str] = {str: "a text", int: "a whole number", dict: "a table"}


@dataclass(frozen=True, slots=True)
class Entered:
    """Address and key of a provider that somebody entered in the settings; empty: not entered."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)


NOTHING_ENTERED = Entered()
IN_SETTINGS = "the settings"


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """Where a provider is reached, and with which key; `key_variable` is the one it was or would be read from.

    It is `IN_SETTINGS` for a key that was entered there.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    key_variable: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """`embedder` is "shipped", or "openai:MODEL" for any OpenAI-compatible endpoint; `settings` are refdesk.toml's.

    `llm` and its roles are "provider:model" or empty; `llm_fallbacks` has commas between several.
    """

    library: Path
    embedder: str = SHIPPED_EMBEDDER
    embedder_base_url: str = ""
    embedder_api_key: str = field(default="", repr=False)
    embedder_dimensions: int = 0  # 0: asked of the endpoint
    llm: str = ""
    llm_router: str = ""
    llm_verifier: str = ""
    llm_reconciler: str = ""
    llm_summariser: str = ""
    llm_fallbacks: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    # None: the process's own, looked at when a provider is used and never kept, so that keys do not travel to workers
    environment: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    def access(self, provider: Provider, entered: Entered = NOTHING_ENTERED) -> ProviderAccess:
        """Address and key of a provider: what was entered, else from the variables its own SDK reads.

        A key of the environment never goes to an address that was entered: who may change settings could have it sent
        to a machine of his own.
        """
        env = os.environ if self.environment is None else self.environment
        named = entered.base_url or env.get(provider.base_url_variable, "").strip()
        variable = next((one for one in provider.key_variables if env.get(one, "").strip()), "")
        key = env.get(variable, "").strip()
        if entered.api_key or entered.base_url:
            variable, key = IN_SETTINGS, entered.api_key
        if not variable and provider.key_variables:
            variable = provider.key_variables[0]
        if not key and provider.needs_key and not named:
            raise UsageError(
                f"{provider.name} needs an API key, and {variable} is not set",
                hint=f"enter the key in the settings of the page, or set {variable}",
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"{variable} holds characters that no API key has", hint="copy the key once more")
        return ProviderAccess(_base_url(provider, named, is_entered=bool(entered.base_url)), key, variable)


def load_config(library: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The library named by the caller, else REFDESK_LIBRARY, else ~/.refdesk, and what its refdesk.toml says.

    llm = "ollama:qwen2.5:14b"
    llm_verifier = "openai:gpt-4o-mini"
    embedder = "openai:bge-m3"
    embedder_dimensions = 1024
    [settings]
    "rag.top_k" = 5
    """
    env = os.environ if environment is None else environment
    folder = Path(library or env.get("REFDESK_LIBRARY") or DEFAULT_LIBRARY).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a library's folder", hint="name a folder with --library")
    table = _read_toml(folder / "refdesk.toml")
    embedder = env.get("REFDESK_EMBEDDER") or str(table.get("embedder", SHIPPED_EMBEDDER))
    if embedder != SHIPPED_EMBEDDER and not embedder.startswith("openai:"):
        raise UsageError(
            f"the embedder '{embedder}' is not known",
            hint="use 'shipped', or 'openai:MODEL' for an OpenAI-compatible endpoint",
        )
    is_remote = embedder != SHIPPED_EMBEDDER  # keys are read only for what is named
    return Config(
        library=folder,
        embedder=embedder,
        embedder_base_url=env.get("OPENAI_BASE_URL", "") if is_remote else "",
        embedder_api_key=env.get("OPENAI_API_KEY", "") if is_remote else "",
        embedder_dimensions=table.get("embedder_dimensions", 0),
        settings=table.get("settings", {}),
        environment=environment,
        **{name: _model_names(name, env.get(variable) or table.get(name, "")) for name, variable in _MODELS.items()},
    )


def _model_names(entry: str, value: str) -> str:
    """Checked to be provider:model, or several with commas between where they are fallbacks."""
    for name in value.split(",") if entry == "llm_fallbacks" else [value]:
        try:
            if name.strip():
                split_name(name)
        except UsageError as error:
            raise UsageError(f"{_MODELS[entry]}: {error}", hint=error.hint) from None
    return value.strip()


def _base_url(provider: Provider, named: str, *, is_entered: bool = False) -> str:
    """The provider's own address, or the user's: `localhost:11434` -> `http://localhost:11434/v1` for Ollama."""
    if not named:
        return provider.base_url
    url = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        port, host, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        what = f"the address of {provider.name}" if is_entered else provider.base_url_variable
        raise UsageError(f"{what} is not an http or https address", hint="give it as http://host:port/path")
    if provider.name == "ollama" and port is None and parts.scheme == "http":
        url = url.replace(parts.netloc, f"{parts.netloc}:11434", 1)
    if host == "0.0.0.0":  # what a server listens on, and Ollama's variable serves both sides
        url = url.replace("0.0.0.0", "127.0.0.1", 1)
    return url.rstrip("/") + (provider.path if parts.path in ("", "/") else "")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="correct it or remove it") from error
    for name, value in table.items():
        if name not in _TOML:
            raise UsageError(f"{path} has an unknown entry '{name}'", hint=f"it may hold {', '.join(_TOML)}")
        if type(value) is not _TOML[name]:
            raise UsageError(f"{path}: {name} must be {_WORDS[_TOML[name]]}, not {value!r}")
    return table
