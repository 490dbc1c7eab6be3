"""Where the library lives and which models serve it: arguments, then the environment, then refdesk.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk import Refdesk, UsageError
from refdesk.config import Config, load_config


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
        pytest.param('embedder = "magic"', "the embedder 'magic' is not known", id="unknown_embedder"),
        pytest.param("embedder = 5", "embedder must be a text, not 5", id="embedder_a_number"),
        pytest.param('embedder_dimensions = "many"', "embedder_dimensions must be a whole number", id="dimensions"),
        pytest.param("settings = 5", "settings must be a table", id="settings_a_number"),
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
    with pytest.raises(UsageError, match="the embedder 'cohere:x' is not known"):
        load_config(tmp_path, {"REFDESK_EMBEDDER": "cohere:x"})


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    assert "secret" not in repr(load_config(tmp_path, {"OPENAI_API_KEY": "secret"}))
