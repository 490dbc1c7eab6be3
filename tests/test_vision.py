"""Pictures of pages and figures in the mode vision, and attached to a question; both wire formats, every door."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from conftest import run_refdesk
from http_server import serving
from refdesk import Refdesk
from refdesk.ask.vision import LONGEST_SIDE, checked
from refdesk.errors import ModelNotAllowed, UsageError
from refdesk.models import model_info
from wire_server import Recorded, Reply, WireServer

FIGURE = "What does figure 1 of the drift report show about the mean drift of each group?"
ANCHOR = "How heavy is the anchor of the standard wave buoy mooring?"


def png(width: int = 40, height: int = 30, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(buffer, kind)
    return buffer.getvalue()


def pictures(request: Recorded) -> list[tuple[str, str, bytes]]:
    """(the line before it, its type, its bytes) of each picture, in either wire format."""
    content = next(one["content"] for one in reversed(request.json["messages"]) if one["role"] == "user")
    found, label = [], ""
    for part in content if isinstance(content, list) else []:
        if part["type"] == "text":
            label = part["text"]
        elif part["type"] == "image":
            found.append((label, part["source"]["media_type"], base64.b64decode(part["source"]["data"])))
        else:
            head, data = part["image_url"]["url"].split(",")
            found.append((label, head.removeprefix("data:").removesuffix(";base64"), base64.b64decode(data)))
    return found


def opened(folder: Path, server: WireServer, patch: pytest.MonkeyPatch, model: str) -> Refdesk:
    env = server.anthropic_env if model.startswith("claude") else server.openai_env
    for name, value in env(model).items():
        patch.setenv(name, value)
    return Refdesk(folder)


def number_of_figure(request: Recorded) -> str:
    label = next(label for label, _, _ in pictures(request) if label.startswith("The figure"))
    return re.findall(r"\[(\d+)\]", label)[0]


def answering(text: str) -> Any:
    """Describes pictures, decides nothing, and writes the text with the number of the figure's passage."""

    def reply(request: Recorded) -> str:
        if "JSON" in request.system:
            return "{}"
        if "Somebody asks a library" in str(request.json["messages"]):
            return "A cast iron sinker, the anchor of a wave buoy mooring."
        if "{n}" not in text:
            return text
        return text.replace("{n}", number_of_figure(request) if pictures(request) else "1")

    return reply


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5"])
def test_figures_and_pages_are_shown_beside_the_text(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    server.answer_by(answering("Figure 1 shows the mean zero shift of six bare and six guarded TG-4 gauges [{n}]."))
    with opened(own_folder, server, monkeypatch, model) as desk:
        answer = desk.ask_sync(FIGURE, mode="vision", cache=False, settings={"answer.cost_average_usd": 5.0})
    shown = pictures(server.requests[-1])
    assert 1 <= len(shown) <= 4 and shown[0][0].startswith("The figure of passage [")
    assert all(kind == "image/png" and data.startswith(b"\x89PNG") for _, kind, data in shown)
    assert answer.mode == "vision" and answer.claims
    cited = [answer.citations[place] for place in answer.claims[0].citations]
    assert any(box.height > 5 for one in cited for box in one.boxes), "the figure's box, not its caption's line alone"
    assert all(one.located and box.page == one.page for one in cited for box in one.boxes[:1])


def test_what_is_read_from_a_picture_alone_is_called_that(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_by(answering("A red dotted curve lies below a thick purple one [{n}]."))
    with opened(own_folder, server, monkeypatch, "gpt-4o") as desk:
        answer = desk.ask_sync(FIGURE, mode="vision", cache=False)
    assert answer.claims[0].verdict == "partly" and "image" in answer.claims[0].note


@pytest.mark.parametrize("model", ["", "writer-8b"])
def test_without_a_model_that_sees_captions_and_text_are_read(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    server.answer_by(answering("Figure 1 shows the mean of each group over time [1]."))
    desk = opened(own_folder, server, monkeypatch, model) if model else Refdesk(own_folder)
    with desk:
        answer = desk.ask_sync("What does figure 1 show?", mode="vision", cache=False)
    assert ("mean of each group" if model else "Mean zero shift") in answer.content  # without a model, the caption
    assert any("captions and text" in note for note in answer.notes)
    assert not any(pictures(request) for request in server.requests)


def test_the_owner_says_whether_an_unknown_model_sees(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_by(answering("Figure 1 shows the mean of each group over time [1]."))
    with opened(own_folder, server, monkeypatch, "writer-8b") as desk:
        assert not desk.has_sight
        desk.change_settings({"llm.sees": "yes"})
        assert desk.has_sight
        desk.ask_sync(FIGURE, mode="vision", cache=False)
    assert pictures(server.requests[-1])


def test_a_provider_that_refuses_pictures_gets_the_text(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Recorded) -> str | Reply:
        if pictures(request):
            return Reply(status=400, message="this model does not support image input")
        return "Figure 1 shows the mean of each group over time [1]."

    server.answer_by(refuse)
    with opened(own_folder, server, monkeypatch, "gpt-4o") as desk:
        answer = desk.ask_sync("What does figure 1 show?", mode="vision", cache=False)
    assert answer.model == "openai:gpt-4o" and any("refused the images" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("openai:gpt-4o-mini", True),
        ("openai:gpt-5", True),
        ("openai:gpt-3.5-turbo", False),
        ("openai:o1-mini", False),
        ("openai:o3-mini", False),
        ("openai:o3", True),
        ("anthropic:claude-3-haiku", True),
        ("gemini:gemini-2.5-flash", True),
        ("ollama:llama3.2-vision:11b", True),
        ("ollama:llama3.2:3b", False),
        ("ollama:qwen2.5vl:7b", True),
        ("ollama:qwen2.5:7b", False),
        ("ollama:gemma3:4b", True),
        ("ollama:gemma3:1b", False),
    ],
)
def test_who_sees(name: str, sees: bool) -> None:
    assert model_info(name).sees is sees


# --- attached to a question -------------------------------------------------------------------------------------------


def test_a_picture_is_looked_at_before_the_search_and_with_the_passages(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_by(answering("The anchor weighs 350 kg [1]."))
    with opened(own_folder, server, monkeypatch, "gpt-4o") as desk:
        answer = desk.ask_sync("How heavy is this?", images=[png()], cache=False)
        first, *_, last = [one for one in server.requests if pictures(one)]
        assert "Somebody asks a library" in str(first.json["messages"]) and len(pictures(last)) == 1
        assert "350 kg" in answer.content and "cast iron sinker" in answer.citations[0].quote
        other = desk.ask_sync("How heavy is this?", images=[png(50)])
        assert other.cached == "no" and desk.ask_sync("How heavy is this?", images=[png(50)]).cached == "exact"
        assert desk.ask_sync("How heavy is this?", images=[png(60)]).cached == "no"


def test_without_documents_too(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer_by(answering("A red square."))
    with opened(own_folder, server, monkeypatch, "claude-sonnet-4-5") as desk:
        assert desk.ask_sync("What is this?", mode="general", images=[png()]).content == "A red square."
    assert len(pictures(server.requests[-1])) == 1


@pytest.mark.parametrize("model", ["", "writer-8b"])
def test_nobody_who_sees_is_one_sentence(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    desk = opened(own_folder, server, monkeypatch, model) if model else Refdesk(own_folder)
    with desk, pytest.raises(ModelNotAllowed, match="accept"):
        desk.ask_sync(ANCHOR, images=[png()])
    assert server.requests == []


def test_pictures_are_checked_and_made_small(tmp_path: Path) -> None:
    (large,) = checked([png(4000, 1000, "JPEG")])
    with Image.open(io.BytesIO(large.data)) as found:
        assert max(found.size) == LONGEST_SIDE and large.media_type == "image/jpeg"
    (tmp_path / "a.webp").write_bytes(png(kind="WEBP"))
    assert checked([tmp_path / "a.webp", str(tmp_path / "a.webp")])[0].media_type == "image/png"
    for wrong, said in (
        ([b"%PDF-1.7"], "cannot be read"),
        ([b"<svg xmlns='http://www.w3.org/2000/svg'/>"], "cannot be read"),
        ([b"x" * (11 << 20)], "at most 10 MB"),
        ([tmp_path / "nothing.png"], "nothing.png cannot be read"),
        ([3], "bytes or the path"),
        ([png()] * 5, "at most 4 images"),
    ):
        with pytest.raises(UsageError, match=said):
            checked(wrong)


def test_over_http_and_v1(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer_by(answering("The anchor weighs 350 kg [1]."))
    packed = base64.b64encode(png()).decode()
    with opened(own_folder, server, monkeypatch, "gpt-4o") as desk, serving(desk) as http:
        assert http.get("/api/me").json()["sees"] is True
        for data in (packed, f"data:image/png;base64,{packed}"):
            reply = http.post(
                "/api/query", json={"q": "How heavy is this?", "images": [{"data": data}], "cache": False}
            )
            assert reply.status_code == 200 and "350 kg" in reply.json()["content"], reply.text
        content = [
            {"type": "text", "text": "How heavy is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{packed}"}},
        ]
        body = {"model": "refdesk", "messages": [{"role": "user", "content": content}]}
        assert "350 kg" in http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        content[1] = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        assert http.post("/v1/chat/completions", json=body).status_code == 400
        wrong = http.post("/api/query", json={"q": "How heavy is this?", "images": [{"data": "%%%"}]})
        assert wrong.status_code == 400 and "base64" in wrong.json()["message"]
        many = http.post("/api/query", json={"q": "How heavy is this?", "images": [{"data": packed}] * 5})
        assert many.status_code == 400
        desk.change_settings({"llm.sees": "no"})
        refused = http.post("/api/query", json={"q": "How heavy is this?", "images": [{"data": packed}]})
        assert refused.status_code == 422 and "does not accept" in refused.json()["message"]


def test_on_the_command_line(own_folder: Path, server: WireServer, tmp_path: Path) -> None:
    server.answer_by(answering("The anchor weighs 350 kg [1]."))
    (tmp_path / "a.png").write_bytes(png())
    call = ("--library", own_folder, "ask", "How heavy is this?", "--image", tmp_path / "a.png", "--json")
    done = run_refdesk(*call, **server.openai_env("gpt-4o"))
    assert done.returncode == 0 and "350 kg" in json.loads(done.stdout)["content"], done.stderr
    done = run_refdesk(*call, **server.openai_env("writer-8b"))
    assert done.returncode == 2 and "does not accept images" in done.stderr and done.stderr.count("\n") == 1
