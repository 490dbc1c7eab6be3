"""How does a model answer in JSON? One call outside the answer itself, with its cost in the trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from refdesk.answer import Turn, Usage
from refdesk.models import model_info
from refdesk.ports import LLM, Request
from refdesk.trace import Stage


def is_able(model: LLM) -> bool:
    """Whether it rewrites better than the rules: from 9B on (seed 001 step 8)."""
    return model_info(model.name).tier not in ("tiny", "small")


async def json_reply(
    model: LLM, system: str, text: str, schema: Mapping[str, Any], most: int, stage: Stage
) -> Mapping[str, Any]:
    """The JSON that a model answers; empty when it is none."""
    request = Request(system, (Turn("user", text),), max_tokens=most, schema=schema, role="router")
    pieces: list[str] = []
    usage = Usage()
    async with aclosing(model.stream(request)) as stream:  # type: ignore[type-var]  # every adapter's is a generator
        async for piece in stream:
            if piece.restarted:
                pieces.clear()
            pieces.append(piece.text)
            usage += piece.usage or Usage()
    stage.usage = usage
    stage.gave(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)
    said = "".join(pieces)
    try:
        found = json.loads(said[said.find("{") : said.rfind("}") + 1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
