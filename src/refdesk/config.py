"""Deployment: where the library lives and which models serve it. From arguments, the environment, then refdesk.toml."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refdesk.errors import UsageError

SHIPPED_EMBEDDER = "shipped"
DEFAULT_LIBRARY = "~/.refdesk"
_TOML: Mapping[str, type] = {"embedder": str, "embedder_dimensions": int, "settings": dict}
_WORDS: Mapping[type, str] = {str: "a text", int: "a whole number", dict: "a table"}


@dataclass(frozen=True, slots=True)
class Config:
    """`embedder` is "shipped", or "openai:MODEL" for any OpenAI-compatible endpoint; `settings` are refdesk.toml's."""

    library: Path
    embedder: str = SHIPPED_EMBEDDER
    embedder_base_url: str = ""
    embedder_api_key: str = field(default="", repr=False)
    embedder_dimensions: int = 0  # 0: asked of the endpoint
    settings: Mapping[str, Any] = field(default_factory=dict)


def load_config(library: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The library named by the caller, else REFDESK_LIBRARY, else ~/.refdesk, and what its refdesk.toml says.

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
    return Config(
        library=folder,
        embedder=embedder,
        embedder_base_url=env.get("OPENAI_BASE_URL", ""),
        embedder_api_key=env.get("OPENAI_API_KEY", ""),
        embedder_dimensions=table.get("embedder_dimensions", 0),
        settings=table.get("settings", {}),
    )


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
