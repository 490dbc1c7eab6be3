"""The page: modes with their steps, a picker of models, pictures with a question, and answers as files; in Chromium."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from browser import ask, edges, tab
from http_server import Server, serving
from refdesk import Refdesk
from wire_server import Recorded, WireServer

BOTH = "What does Skerry pay each year for the use of the seabed, and how heavy is the anchor of the wave buoy?"
PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture
def quoting(own_folder: Path) -> Iterator[Server]:
    with Refdesk(own_folder) as desk, serving(desk) as found:
        yield found


@pytest.fixture
def seeing(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Models that see, three of them to choose from."""

    def reply(request: Recorded) -> str:
        return "{}" if "JSON" in request.system else "The anchor weighs 350 kg [1]."

    server.answer_by(reply)
    for name, value in server.openai_env("gpt-4o").items():
        monkeypatch.setenv(name, value)
    with Refdesk(own_folder, settings={"llm.allowed": "openai:gpt-4o-mini, openai:o3"}) as desk, serving(desk) as found:
        yield found


def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3000, 2000), (200, 30, 30)).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_report_has_headings_and_can_be_taken_away(browser: Browser, quoting: Server) -> None:
    with tab(browser, quoting.url) as page:
        expect(page.get_by_label("Model", exact=True)).to_have_count(0)
        expect(page.get_by_role("button", name="Attach an image")).to_be_hidden()
        page.get_by_label("Mode", exact=True).select_option("report")
        ask(page, BOTH)
        headings = page.locator(".answer h4")
        expect(headings).to_have_text(
            ["What does Skerry pay each year for the use of the seabed", "How heavy is the anchor of the wave buoy"]
        )
        assert page.locator(".answer .chip").count() >= 2 and "##" not in page.locator(".answer").inner_text()
        with page.expect_download() as loaded:
            page.get_by_role("link", name="Download as Markdown").click()
        text = Path(loaded.value.path()).read_text()
        assert text.startswith(f"# {BOTH}") and "## Sources" in text and "640 euros" in text
        with page.expect_download() as loaded:
            page.get_by_role("link", name="Download as a web page").click()
        assert loaded.value.suggested_filename.endswith(".html")


def test_the_steps_of_an_agent_are_shown_while_it_works(browser: Browser, quoting: Server) -> None:
    with tab(browser, quoting.url) as page:
        page.evaluate(
            """() => { window.steps = []; new MutationObserver(() => {
                for (const one of document.querySelectorAll('.stages li')) window.steps.push(one.textContent);
            }).observe(document.body, {childList: true, subtree: true}); }"""
        )
        page.get_by_label("Mode", exact=True).select_option("agent")
        ask(page, BOTH)
        seen = page.evaluate("() => [...new Set(window.steps)]")
        assert any(one.startswith("Step 1: What does Skerry pay") for one in seen), seen
        assert any(one.startswith("Step 2: How heavy") for one in seen)


def test_a_model_is_picked_and_a_picture_goes_with_the_question(
    browser: Browser, seeing: Server, server: WireServer
) -> None:
    with tab(browser, seeing.url) as page:
        expect(page.get_by_label("Model", exact=True).locator("option")).to_have_text(
            ["Model", "openai:gpt-4o", "openai:gpt-4o-mini", "openai:o3"]
        )
        page.get_by_label("Model", exact=True).select_option("openai:gpt-4o-mini")
        expect(page.get_by_label("Mode", exact=True).locator("option").last).to_have_text("Without documents")
        given = {"name": "a.png", "mimeType": "image/png", "buffer": png()}
        page.locator("input[type=file]").set_input_files([given, given])
        expect(page.get_by_role("img", name="Image 2")).to_be_visible()
        page.get_by_role("button", name="Remove image 2").click()
        ask(page, "How heavy is this?")
        expect(page.locator(".turn .pictures img")).to_have_count(1)
        expect(page.locator(".composer .pictures")).to_have_count(0)
        assert "350 kg" in page.locator(".answer").inner_text()
    last = server.requests[-1]
    assert last.model == "gpt-4o-mini"
    (picture,) = [part for part in last.json["messages"][-1]["content"] if part["type"] == "image_url"]
    assert len(json.dumps(picture)) < 400_000, "made small before it was sent"


def test_everything_has_room_on_a_phone(browser: Browser, seeing: Server) -> None:
    with tab(browser, seeing.url, **PHONE) as page:
        expect(page.get_by_label("Model", exact=True)).to_be_visible()
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= 390
        assert all(
            one["left"] >= 0 and one["right"] <= 390 for one in edges(page, ".composer select, .composer button")
        )


def test_a_house_rule_is_written_in_the_settings(browser: Browser, quoting: Server) -> None:
    with tab(browser, f"{quoting.url}/#/settings", allowed=("400",)) as page:
        row = page.locator(".setting[data-name='prompt.rules']")
        row.get_by_role("textbox").fill("Give amounts in euros.\nNo adjectives.")
        row.get_by_role("textbox").blur()
        expect(row.get_by_text("Changed")).to_be_visible()
        row = page.locator(".setting[data-name='prompt.collection_rules']")
        row.get_by_role("textbox").fill("finance: no")
        row.get_by_role("textbox").blur()
        expect(row.get_by_role("alert")).to_contain_text("JSON")
    values = {one["name"]: one["value"] for one in quoting.get("/api/settings").json()["settings"]}
    assert values["prompt.rules"] == "Give amounts in euros.\nNo adjectives."
