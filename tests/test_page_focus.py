"""Who works by keyboard is not thrown back: the focus stays, or goes to what took the place of its element."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from browser import ask, tab
from http_server import Server, serving
from refdesk import Refdesk
from wire_server import Reply, WireServer

QUOTE = "The anchor is a cast iron sinker of 350 kg."
LONG = f"{QUOTE} [1] " + "Look at the chain of the mooring often. " * 12 + "That is all."


@pytest.fixture(scope="module")
def server(examples_folder: Path, model: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page") / "library"
    shutil.copytree(examples_folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in model.openai_env().items():
            patch.setenv(name, value)
        with Refdesk(folder) as desk, serving(desk) as found:
            yield found


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with tab(browser, server.url) as found:
        yield found


def writes(model: WireServer, text: str, delay: float = 0.0) -> None:
    model.answer_by(lambda request: Reply(pieces=re.findall(r"\S+\s*", text), delay=delay))


# asking


def test_asking_and_stopping(page: Page, model: WireServer) -> None:
    """The box keeps the focus through the first question, and has it after a stop by the button."""
    writes(model, LONG, delay=0.1)
    box = page.get_by_label("Question", exact=True)
    box.fill("Tell me about the anchor and let me type on")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("The anchor")
    expect(box).to_be_focused()
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_contain_text("Stopped early.")
    expect(box).to_be_focused()


def test_a_marker_while_the_answer_is_written(page: Page, model: WireServer) -> None:
    """The text is drawn anew several times a second: the marker keeps the focus, and the viewer finds it again."""
    writes(model, LONG, delay=0.05)
    page.get_by_label("Question", exact=True).fill("Tell me about the anchor, with a marker in focus")
    page.keyboard.press("Enter")
    page.locator(".answer.streaming .chip[aria-label]").first.focus()
    expect(page.locator(".answer")).to_contain_text("That is all.")
    expect(page.locator("article.turn[data-answer]")).to_have_count(1)
    expect(page.locator(".answer .chip").first).to_be_focused()


def test_the_viewer_is_shut_while_the_answer_is_written(page: Page, model: WireServer) -> None:
    writes(model, LONG, delay=0.05)
    page.get_by_label("Question", exact=True).fill("Tell me about the anchor, with the viewer open")
    page.keyboard.press("Enter")
    page.locator(".answer.streaming .chip[aria-label]").first.press("Enter")
    page.get_by_role("button", name="Close the viewer").focus()
    expect(page.locator("article.turn[data-answer]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".chip:focus, .source:focus")).to_have_count(1)


# documents


def test_folders_and_more_rows(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        desk.add_texts([(f"text {number:02}", f"Berth {number} is free.") for number in range(60)])
        with serving(desk) as server, tab(browser, f"{server.url}/#/documents") as page:
            page.get_by_role("button", name="default 60").press("Enter")
            expect(page.locator(".folder[aria-pressed=true]")).to_contain_text("default")
            expect(page.get_by_role("button", name="default 60")).to_be_focused()
            page.get_by_role("button", name="Show more (10)").press("Enter")
            expect(page.get_by_role("button", name="text 50", exact=True)).to_be_focused()


def test_a_wrong_password(browser: Browser, tmp_path: Path) -> None:
    data = io.BytesIO()
    canvas = Canvas(data, encrypt=StandardEncryption("secret", "owner"))
    canvas.drawString(100, 700, "The vault opens at noon.")
    canvas.save()
    with (
        Refdesk(tmp_path / "library") as desk,
        serving(desk) as server,
        tab(browser, f"{server.url}/#/documents") as page,
    ):
        file = {"name": "locked.pdf", "mimeType": "", "buffer": data.getvalue()}
        page.get_by_label("Choose files").set_input_files([file])  # type: ignore[list-item]
        row = page.locator(".doc", has_text="locked.pdf")
        row.get_by_role("button", name="Enter password").press("Enter")
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")
        expect(row).to_contain_text("The password is wrong.")
        expect(page.locator(".doc button:focus, .doc input:focus")).to_have_count(1)


# settings, traces


def test_who_goes_on_to_another_setting_stays_there(page: Page) -> None:
    """Saving takes a moment; what is typed meanwhile goes where it was meant to go."""
    page.get_by_role("link", name="Settings").click()
    expect(page.locator(".setting").first).to_be_visible()
    held: list[Route] = []
    page.route(
        "**/api/settings", lambda one: one.continue_() if one.request.method != "GET" or held else held.append(one)
    )
    first = page.locator(".setting[data-name='rag.top_k']")
    first.get_by_role("textbox").fill("7")
    with page.expect_request(lambda request: request.method == "GET" and request.url.endswith("/api/settings")):
        page.keyboard.press("Tab")
    name = page.locator(".setting:has(:focus)").get_attribute("data-name")
    assert name != "rag.top_k"
    held[0].continue_()
    expect(first.get_by_text("Changed")).to_be_visible()
    expect(page.locator(f".setting[data-name='{name}'] :focus")).to_have_count(1)
    first.get_by_role("button", name="Reset to default").press("Enter")
    expect(first.get_by_text("Changed")).to_have_count(0)
    expect(first.get_by_role("textbox")).to_be_focused()


def test_a_preset(page: Page) -> None:
    page.get_by_role("link", name="Settings").click()
    for name, text in (("Speed", "settings are changed"), ("Balanced", "Every setting is at its default.")):
        page.get_by_role("button", name=name).press("Enter")
        expect(page.get_by_text(text)).to_be_visible()
        expect(page.get_by_role("button", name=name)).to_be_focused()


def test_a_trace_that_is_opened(page: Page, model: WireServer) -> None:
    writes(model, f"{QUOTE} [1]")
    ask(page, "How heavy is the anchor that leaves a trace?")
    page.get_by_role("link", name="Traces").click()
    page.locator(".answers a").first.press("Enter")
    expect(page.locator(".fall")).to_be_visible()
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="All traces")).to_be_focused()
