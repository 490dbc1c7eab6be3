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


@dataclass(frozen=True, slots=True)
class Config:
    """`embedder` is "shipped" or "openai:MODEL" for any OpenAI-compatible endpoint; `settings` come from refdesk.toml."""

    library: Path
    embedder: str = SHIPPED_EMBEDDER
    embedder_base_url: str = ""
    embedder_api_key: str = field(default="", repr=False)
    embedder_dimensions: int = 0  # 0: asked of the endpoint
    settings: Mapping[str, Any] = field(default_factory=dict)


def load_config(library: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The library named by the caller, else REFDESK_LIBRARY, else ~/.refdesk; its refdesk.toml may name models and settings."""
    env = os.environ if environment is None else environment
    folder = Path(library or env.get("REFDESK_LIBRARY") or DEFAULT_LIBRARY).expanduser().absolute()
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
        embedder_dimensions=int(table.get("embedder_dimensions", 0)),
        settings=table.get("settings", {}),
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="correct it or remove it") from error
