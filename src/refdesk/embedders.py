"""Which embedder serves this library? Names from the configuration to the adapters."""

from __future__ import annotations

from refdesk.adapters.embed_http import HttpEmbedder
from refdesk.adapters.embed_onnx import OnnxEmbedder
from refdesk.config import SHIPPED_EMBEDDER, Config
from refdesk.ports import Embedder


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
