"""What the test server's model answers: always the same to the same prompt, some of it true and some of it not."""

from __future__ import annotations

import json
import re
from typing import Any

from wire_server import Recorded

MADE_UP = "Its colour is purple and it weighs 999 kg."


def answer(request: Recorded) -> str:
    """The fitting sentence of the first two passages, for every other question a false one; or JSON when asked for."""
    found = re.search(r"^(?:Question|Last question): (.+)$", request.question, re.M)
    asked = found[1] if found else request.question
    wanted = request.json.get("response_format", {}).get("json_schema")
    if wanted:
        return json.dumps(_filled(wanted["schema"], asked, request.question), ensure_ascii=False)
    passages = dict(re.findall(r"^\[(\d+)\] [^\n]*\n(.*?)(?=^\[\d+\] |^=====END)", request.question, re.M | re.S))
    if not passages:
        return f"There are no passages. You asked: {asked}"
    said = [f"{_fitting(passages[number], asked)} [{number}]" for number in ("1", "2") if number in passages]
    if len(asked) % 2 and request.model != "reconciler":
        said.append(f"{MADE_UP} [1]")
    return " ".join(said) + "\nSUGGESTED_QUESTIONS: What is page 1 about?|What is page 2 about?"


def _fitting(passage: str, asked: str) -> str:
    """The sentence that shares most words with the question, the first of those that share as many."""
    sentences = [one.strip() for one in re.split(r"(?<=[.!?。])\s+|\n+", passage) if one.strip()]
    words = set(re.findall(r"\w{3,}", asked.lower()))
    best = max(sentences, key=lambda one: len(words & set(re.findall(r"\w{3,}", one.lower()))))
    return best if best[-1] in ".!?。" else f"{best}."


def _filled(schema: dict[str, Any], asked: str, prompt: str) -> Any:
    """A value that the schema allows; a verdict for each claim where verdicts are wanted."""
    if "verdicts" in schema.get("properties", {}):
        claims = re.findall(r'"claim":(\d+),"text":"(.*?)"\}', prompt)
        judged = {number: "contradicted" if text == MADE_UP else "supported" for number, text in claims}
        return {"verdicts": [{"claim": int(one), "verdict": judged[one], "reason": "read"} for one in judged]}
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {name: _filled(one, asked, prompt) for name, one in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_filled(schema["items"], asked, prompt)]
    return {"string": asked, "boolean": True, "integer": 1, "number": 0.5}[schema["type"]]
