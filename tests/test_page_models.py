"""Connecting a model in the page: what is wrong is told before it is saved, and the key is not shown again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser import ask, edges, tab
from http_server import Server, serving
from refdesk import Refdesk
from refdesk.models import PROVIDERS
from wire_server import WireServer

KEY = "sk-entered-in-the-page-4f2a"


@pytest.fixture
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        found.models, found.key = ["tiny-model", "test-model"], KEY
        found.answer_by(lambda request: "The anchor weighs 350 kg. [1]")
        yield found


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for one in PROVIDERS.values():
        for name in (*one.key_variables, one.base_url_variable):
            monkeypatch.delenv(name, raising=False)
    with Refdesk(tmp_path / "library") as desk, serving(desk) as found:
        desk.add_text("anchor.txt", "The anchor is a cast iron sinker of 350 kg.")
        yield found


def fill(page: Page, model: WireServer, key: str, name: str) -> None:
    page.get_by_label("Provider", exact=True).select_option("openai")
    page.get_by_label("Address", exact=True).fill(f"{model.url}/v1")
    page.get_by_label("API key", exact=True).fill(key)
    page.get_by_label("Model", exact=True).fill(name)


def test_a_model_is_connected_at_the_top_of_the_settings(browser: Browser, server: Server, model: WireServer) -> None:
    with tab(browser, f"{server.url}/#/settings", allowed=("400", "502")) as page:
        panel = page.locator("#g-model")
        expect(panel).to_contain_text("No model is connected")
        assert edges(page, "#g-model")[0]["top"] < edges(page, ".presets")[0]["top"]
        fill(page, model, "sk-wrong", "test-model")
        panel.get_by_role("button", name="Save").click()
        expect(panel.get_by_role("status")).to_contain_text("refused the API key (401)")
        expect(panel.get_by_role("status")).to_contain_text("Nothing was saved.")
        page.get_by_label("API key", exact=True).fill(KEY)
        page.get_by_label("Model", exact=True).fill("tset-model")
        panel.get_by_role("button", name="Save", exact=True).click()
        expect(panel.get_by_role("status")).to_contain_text("does not list a model 'tset-model'")
        panel.get_by_role("button", name="List models").click()
        expect(panel.get_by_role("status")).to_contain_text("2 models: test-model, tiny-model")
        page.get_by_label("Model", exact=True).fill("test-model")
        panel.get_by_role("button", name="Test").click()
        expect(panel.get_by_role("status")).to_have_text(re.compile(r"It answered in .+ m?s\."))
        panel.get_by_role("button", name="Save", exact=True).click()
        expect(panel).to_contain_text("Answers are written by openai:test-model")
        expect(page.locator(".toast")).to_contain_text("Saved. Applies to the next question.")
        expect(page.get_by_label("API key", exact=True)).to_have_value("")
        expect(page.get_by_label("API key", exact=True)).to_have_attribute("placeholder", "saved (…4f2a)")
        assert KEY not in page.content()
        expect(page.locator(".setting[data-name='llm.answer'] input")).to_have_value("openai:test-model")
        page.get_by_role("link", name="Ask").click()
        ask(page, "How heavy is the anchor?")
        expect(page.locator(".answer")).to_contain_text("The anchor weighs 350 kg.")
        page.goto(f"{server.url}/#/settings")
        panel.get_by_role("button", name="Delete address and key").click()
        expect(panel.get_by_role("alert")).to_contain_text("openai needs an API key")
        page.get_by_role("link", name="Ask").click()
        ask(page, "What is the anchor made of?")
        expect(page.locator(".turn .notice.warn").last).to_contain_text("openai:test-model cannot be used")
        expect(page.locator(".answer").last).to_contain_text("cast iron")
