"""A model's provider, address, key and name are checked when they are saved; a wrong one never stops answering."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from http_server import Server, free_port, serving
from refdesk import Refdesk
from refdesk.config import Entered, load_config
from refdesk.models import PROVIDERS
from refdesk.providers.directory import ProviderStore, is_listed
from refdesk.serve.cli.admin import examine
from wire_server import WireServer

NOTE = "The anchor is a cast iron sinker of 350 kg."
QUESTION = "How heavy is the anchor?"
KEY = "sk-entered-in-the-page-4f2a"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in PROVIDERS.values():
        for name in (*one.key_variables, one.base_url_variable):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with Refdesk(tmp_path / "library") as found:
        found.add_text("anchor.txt", NOTE)
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


@pytest.fixture
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        found.models = ["test-model", "other-model"]
        yield found


def saved(server: Server, value: str, query: str = "") -> tuple[int, str]:
    response = server.request("PATCH", f"/api/settings{query}", json={"llm.answer": value})
    return response.status_code, "" if response.status_code == 200 else response.json()["message"]


def test_what_cannot_work_is_told_at_saving(server: Server, desk: Refdesk) -> None:
    port = free_port()
    assert saved(server, "nobody:x")[0] == 400 and "unknown provider 'nobody'" in saved(server, "nobody:x")[1]
    assert saved(server, "gpt-4o")[1].startswith("'gpt-4o' is not provider:model")
    assert saved(server, "openai:gpt-4o") == (400, "openai needs an API key, and OPENAI_API_KEY is not set")
    ProviderStore(desk.folder).put("ollama", Entered(f"http://127.0.0.1:{port}"))
    status, said = saved(server, "ollama:llama3")
    assert status == 400 and f"could not be reached at 127.0.0.1:{port}" in said
    assert desk.settings.llm_answer == "", "nothing was saved"
    assert saved(server, "ollama:llama3", "?check=false")[0] == 200
    assert saved(server, "nobody:x", "?check=false")[0] == 400, "that can never work"


def test_a_name_that_the_provider_does_not_list(server: Server, desk: Refdesk, model: WireServer) -> None:
    ProviderStore(desk.folder).put("openai", Entered(f"{model.url}/v1", KEY))
    status, said = saved(server, "openai:tset-model")
    assert status == 400 and "does not list a model 'tset-model'; it offers other-model, test-model" in said
    assert saved(server, "openai:test-model")[0] == 200
    model.key = "another"
    status, said = saved(server, "openai:test-model")
    assert status == 400 and "refused the API key (401)" in said and KEY not in said
    model.key, model.models = None, None
    assert saved(server, "openai:anything")[0] == 200, "a server without a list cannot be asked"


@pytest.mark.parametrize(
    ("name", "listed", "expected"),
    [
        ("llama3", ["llama3:latest"], True),
        ("gemini-2.5-flash", ["models/gemini-2.5-flash"], True),
        ("meta-llama/llama-3.3-70b:nitro", ["meta-llama/llama-3.3-70b"], True),
        ("qwen2.5:14b", ["qwen2.5:7b", "qwen2.5:latest"], False),
        ("gpt-4o", ["gpt-4o-mini"], False),
    ],
)
def test_names_as_providers_write_them(name: str, listed: list[str], expected: bool) -> None:
    assert is_listed(name, listed) is expected


def test_a_wrong_model_never_stops_answering(server: Server, desk: Refdesk) -> None:
    desk.parts.settings_store.change({"llm.answer": "openai:gpt-4o", "llm.verifier": "nobody:x"})
    response = server.post("/api/query", json={"q": QUESTION})
    answer = response.json()
    assert response.status_code == 200 and "350 kg" in answer["content"] and answer["model"] == "extractive"
    assert answer["notes"] == [
        "openai:gpt-4o cannot be used: openai needs an API key, and OPENAI_API_KEY is not set.",
        next(note for note in answer["notes"] if note.startswith("nobody:x cannot be used: unknown provider")),
    ]
    assert server.get("/api/me").json()["model"] is False
    assert {one.name for one in examine(desk) if not one.well} == {"model"}


def test_doctor_asks_the_provider(desk: Refdesk, model: WireServer) -> None:
    ProviderStore(desk.folder).put("openai", Entered(f"{model.url}/v1", KEY))
    desk.parts.settings_store.change({"llm.answer": "openai:test-model"})
    assert [one.text for one in examine(desk) if one.name == "model"] == ["openai:test-model is available"]
    model.models = ["other-model"]
    found = next(one for one in examine(desk) if one.name == "model")
    assert not found.well and "does not list a model 'test-model'" in found.text


# connecting in one step


def test_a_model_is_connected(server: Server, desk: Refdesk, model: WireServer) -> None:
    model.key = KEY
    body = {"provider": "openai", "base_url": f"{model.url}/v1", "api_key": KEY}
    assert server.post("/api/models/list", json=body).json() == {
        "models": ["other-model", "test-model"],
        "is_listed": True,
    }
    wrong = server.post("/api/models/connect", json=body | {"api_key": "sk-wrong", "model": "test-model"})
    assert wrong.status_code == 400 and "refused the API key" in wrong.json()["message"]
    assert not (desk.folder / "providers.json").exists() and desk.settings.llm_answer == ""
    model.say("I am a helpful assistant.")
    idle = server.post("/api/models/connect", json=body | {"model": "test-model"})
    assert idle.status_code == 400 and "did not answer from the given passage" in idle.json()["message"]
    assert desk.settings.llm_answer == "", "saved only if it works"
    model.say("The anchor weighs 350 kg. [1]")
    made = server.post("/api/models/connect", json=body | {"model": "test-model"})
    assert made.status_code == 200 and made.json()["answer"] == "openai:test-model"
    shown = next(one for one in made.json()["providers"] if one["name"] == "openai")
    assert shown["key"] == "…4f2a" and shown["key_from"] == "settings" and KEY not in made.text
    model.answer_by(lambda request: "The anchor weighs 350 kg. [1]")
    assert server.post("/api/query", json={"q": QUESTION}).json()["model"] == "openai:test-model"
    assert server.request("DELETE", "/api/models/providers/openai").status_code == 200
    assert server.post("/api/query", json={"q": QUESTION, "cache": False}).json()["model"] == "extractive"


def test_a_saved_key_stays_on_the_server_and_out_of_backups(server: Server, desk: Refdesk, tmp_path: Path) -> None:
    body = {"provider": "openai", "base_url": "http://127.0.0.1:9", "api_key": KEY, "check": False}
    assert server.post("/api/models/connect", json=body).status_code == 200
    assert stat.S_IMODE((desk.folder / "providers.json").stat().st_mode) == 0o600
    assert KEY not in server.get("/api/models").text and KEY not in server.get("/api/settings").text
    assert KEY.encode() not in desk.backup(tmp_path / "backup.tar").read_bytes()


def test_a_key_goes_to_its_own_address_only(
    server: Server, desk: Refdesk, model: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may change settings cannot have the keys of the environment, or of another address, sent to his own."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    body = {"provider": "openai", "base_url": f"{model.url}/v1"}
    server.post("/api/models/list", json=body)
    assert model.listings[-1].key == ""
    ProviderStore(desk.folder).put("openai", Entered("http://127.0.0.1:9", KEY))
    server.post("/api/models/list", json=body)
    assert model.listings[-1].key == ""
    server.post("/api/models/list", json=body | {"api_key": "sk-typed"})
    assert model.listings[-1].key == "sk-typed"


def test_what_was_entered_goes_before_the_environment(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"OPENAI_API_KEY": "sk-env", "OPENAI_BASE_URL": "http://proxy/v1"})
    openai = PROVIDERS["openai"]
    assert config.access(openai).api_key == "sk-env"
    entered = config.access(openai, Entered(api_key=KEY))
    assert (entered.base_url, entered.api_key) == ("http://proxy/v1", KEY)
    own = config.access(openai, Entered("https://mine/v1"))
    assert (own.base_url, own.api_key) == ("https://mine/v1", "")


def test_testing_a_model_passes_the_breaker_and_resets_it(server: Server, desk: Refdesk, model: WireServer) -> None:
    ProviderStore(desk.folder).put("openai", Entered(f"{model.url}/v1", KEY))
    desk.parts.settings_store.change({"llm.answer": "openai:test-model", "llm.breaker_failures": 1, "llm.tries": 1})
    model.fail(500)

    def asked() -> str:
        return str(server.post("/api/query", json={"q": QUESTION, "cache": False}).json()["model"])

    assert asked() == "extractive"
    before = len(model.requests)
    assert asked() == "extractive" and len(model.requests) == before, "it is skipped"
    model.answer_by(lambda request: "The anchor weighs 350 kg. [1]")
    assert server.post("/api/models/test", json={"model": "openai:test-model"}).status_code == 200
    assert asked() == "openai:test-model"


def test_models_are_not_looked_for_while_they_are_switched_off(server: Server, desk: Refdesk) -> None:
    desk.parts.settings_store.change({"llm.enabled": False})
    assert saved(server, "ollama:llama3")[0] == 200
    assert server.post("/api/models/list", json={"provider": "ollama"}).status_code == 400
