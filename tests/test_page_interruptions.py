"""What comes between a question and its answer: another view, a reload, a stop, an ended sign-in, a stopped server."""

from __future__ import annotations

import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser import ask, tab
from http_server import Server, free_port, served, serving
from refdesk import Refdesk
from timing import PATIENCE_S
from wire_server import Recorded, Reply, WireServer

QUOTE = "The anchor is a cast iron sinker of 350 kg."
LONG = f"{QUOTE} [1] " + "Look at the chain of the mooring often. " * 12 + "That is all."
BOX = "Question"


@pytest.fixture(scope="module")
def library(examples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "library"
    shutil.copytree(examples_folder, folder)
    return folder


@pytest.fixture(scope="module")
def server(library: Path, model: WireServer) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in model.openai_env().items():
            patch.setenv(name, value)
        with Refdesk(library) as desk, serving(desk) as found:
            yield found


def writes(model: WireServer, text: str = LONG, delay: float = 0.0) -> None:
    """Whatever the model is asked from now on, it writes this, a word every `delay` seconds."""
    pieces = re.findall(r"\S+\s*", text)
    model.answer_by(lambda request: Reply(pieces=pieces, delay=delay))


def holds(model: WireServer) -> threading.Event:
    """From now on the model writes its first words, and the rest once the event is set."""
    go_on = threading.Event()
    pieces = re.findall(r"\S+\s*", LONG)

    def reply(request: Recorded) -> Reply:
        if "response_format" in request.json:  # what comes before the answer is not held
            return Reply(pieces=["{}"])
        return Reply(pieces=pieces, delay=0.01, when=lambda: request.pieces_sent < 4 or go_on.is_set())

    model.answer_by(reply)
    return go_on


def put(page: Page, question: str) -> None:
    """Asks and waits until the first words stand there."""
    page.get_by_label(BOX, exact=True).fill(question)
    page.keyboard.press("Enter")
    expect(page.locator(".answer").last).to_contain_text("The anchor")


def test_an_answer_goes_on_while_one_looks_elsewhere(browser: Browser, server: Server, model: WireServer) -> None:
    writes(model, delay=0.03)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor while I look elsewhere")
        address = page.url
        assert re.search("#/ask/[0-9a-f]{32}$", address)  # from the first word on, so that Back finds it
        page.get_by_role("link", name="Documents").click()
        expect(page.locator(".doc").first).to_be_visible()
        waiting = page.locator(".talk", has_text="while I look elsewhere")
        expect(waiting.get_by_role("img", name="Answering")).to_be_visible()
        waiting.get_by_role("link").click()
        expect(page.locator(".answer")).to_contain_text("The anchor")
        assert page.url == address
        expect(page.locator("article.turn[data-answer]")).to_have_count(1)
        expect(page.locator(".answer")).to_contain_text("That is all.")
        assert not model.requests[-1].disconnected


def test_it_says_when_an_answer_is_ready_elsewhere(browser: Browser, server: Server, model: WireServer) -> None:
    writes(model, delay=0.01)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor and let me know")
        page.get_by_role("link", name="Documents").click()
        expect(page.locator(".toast")).to_contain_text("Answered: Tell me about the anchor and let me know")
        page.go_back()
        expect(page.locator("article.turn[data-answer] .answer")).to_contain_text("That is all.")


def test_a_reload_in_the_middle_goes_on(browser: Browser, server: Server, model: WireServer) -> None:
    """The page comes back to the same stream: the model is not asked twice, and no word is missing."""
    writes(model, delay=0.03)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor while I reload")
        before = len(model.requests)
        page.reload()
        expect(page.locator(".asked")).to_have_text("Tell me about the anchor while I reload")
        expect(page.locator("article.turn[data-answer]")).to_have_count(1)
        expect(page.locator(".answer")).to_contain_text(QUOTE)
        expect(page.locator(".answer")).to_contain_text("That is all.")
        assert len(model.requests) == before and not model.requests[-1].disconnected
        writes(model, delay=0.03)
        put(page, "And a follow-up about the anchor, reloaded as well?")
        page.reload()
        expect(page.locator("article.turn[data-answer]")).to_have_count(2)
        page.reload()
        expect(page.locator("article.turn[data-answer]")).to_have_count(2)


def test_a_reload_that_comes_too_late_finds_what_was_written(
    browser: Browser, server: Server, model: WireServer
) -> None:
    writes(model, delay=0.2)
    with tab(browser, server.url, allowed=("404",)) as page:
        put(page, "Tell me about the anchor, I am leaving")
        address = page.url
        page.goto("about:blank")
        until = time.monotonic() + PATIENCE_S
        while not model.requests[-1].disconnected and time.monotonic() < until:
            page.wait_for_timeout(100)
        page.goto(address)
        expect(page.locator(".turn .stopped")).to_contain_text("Stopped early.")
        expect(page.locator(".answer")).to_contain_text("The anchor")
        writes(model, f"{QUOTE} [1]")
        page.get_by_role("button", name="Ask again").click()
        expect(page.locator("article.turn[data-answer] .answer").last).to_contain_text("350 kg")


def test_a_stopped_answer_is_kept_and_marked(browser: Browser, server: Server, model: WireServer) -> None:
    writes(model, delay=0.1)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor and stop")
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator(".turn .stopped")).to_contain_text("The text so far is kept but was not checked.")
        expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
        page.reload()
        expect(page.locator(".asked")).to_have_text("Tell me about the anchor and stop")
        expect(page.locator(".answer")).to_contain_text("The anchor")
        expect(page.locator(".turn .stopped")).to_be_visible()
        expect(page.locator(".talk", has_text="Tell me about the anchor and stop")).to_have_count(1)
        writes(model, f"{QUOTE} [1]")
        page.get_by_role("button", name="Ask again").click()
        expect(page.locator("article.turn[data-answer]")).to_have_count(2)
        expect(page.locator(".answer").last).to_contain_text("350 kg")


def test_enter_while_an_answer_streams_puts_the_next_question_in_line(
    browser: Browser, server: Server, model: WireServer
) -> None:
    writes(model, delay=0.08)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor before the others")
        line = page.get_by_role("list", name="Queued questions")
        for question in ("And the second about the anchor?", "And one too many?", "And the third about the anchor?"):
            page.get_by_label(BOX, exact=True).fill(question)
            page.keyboard.press("Enter")
        expect(line.get_by_role("listitem")).to_have_count(3)
        expect(page.locator(".asked")).to_have_count(1)
        expect(page.locator(".answer")).not_to_contain_text("That is all.")  # still being written
        page.get_by_role("button", name="Remove “And one too many?”").click()
        expect(line.get_by_role("listitem")).to_have_count(2)
        expect(page.locator("article.turn[data-answer] .asked")).to_have_text(
            [
                "Tell me about the anchor before the others",
                "And the second about the anchor?",
                "And the third about the anchor?",
            ],
        )
        expect(line).to_have_count(0)
        assert not any(one.disconnected for one in model.requests[-3:])
        expect(page.locator(".turn .stopped")).to_have_count(0)


def test_what_is_in_line_survives_a_reload_and_a_stop(browser: Browser, server: Server, model: WireServer) -> None:
    holds(model)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor, with one in line")
        page.get_by_label(BOX, exact=True).fill("And its chain, next in line?")
        page.keyboard.press("Enter")
        page.reload()
        expect(page.get_by_role("list", name="Queued questions")).to_contain_text("And its chain, next in line?")
        expect(page.locator(".answer")).to_contain_text("The anchor")
        writes(model)
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator(".asked")).to_have_count(2)
        expect(page.locator(".turn .stopped")).to_have_count(1)
        expect(page.locator("article.turn[data-answer]")).to_have_count(2)


def test_a_second_tab_follows_the_stream(browser: Browser, server: Server, model: WireServer) -> None:
    go_on = holds(model)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor in two tabs")
        before = len(model.requests)
        with tab(browser, page.url) as second:
            expect(second.locator(".asked")).to_have_text("Tell me about the anchor in two tabs")
            expect(second.locator(".answer")).to_contain_text("The anchor")
            expect(second.locator("article.turn[data-answer]")).to_have_count(0)  # it is being written there too
            go_on.set()
            expect(second.locator("article.turn[data-answer] .answer")).to_contain_text("That is all.")
        expect(page.locator("article.turn[data-answer] .answer")).to_contain_text("That is all.")
        assert len(model.requests) == before


def test_a_stop_in_one_tab_is_a_stop_in_the_other(browser: Browser, server: Server, model: WireServer) -> None:
    holds(model)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor and stop it twice")
        with tab(browser, page.url) as second:
            expect(second.locator(".answer")).to_contain_text("The anchor")
            second.get_by_role("button", name="Stop", exact=True).click()
            for one in (second, page):
                expect(one.locator(".turn .stopped")).to_contain_text("Stopped early.")


def test_a_conversation_is_not_deleted_under_its_answer(browser: Browser, server: Server, model: WireServer) -> None:
    writes(model, f"{QUOTE} [1]")
    with tab(browser, server.url) as page:
        ask(page, "Tell me about the anchor, this one will go")
        talk = page.locator(".talk[data-current]")
        expect(talk.get_by_role("button", name="Delete")).to_have_count(1)
        writes(model, delay=0.05)
        put(page, "And once more about the anchor?")
        expect(talk.get_by_role("img", name="Answering")).to_be_visible()
        expect(talk.get_by_role("button")).to_have_count(0)  # it would come back with its answer
        expect(page.locator("article.turn[data-answer]")).to_have_count(2)
        expect(talk.get_by_role("button", name="Delete")).to_have_count(1)


def test_two_conversations_at_once(browser: Browser, server: Server, model: WireServer) -> None:
    with tab(browser, server.url) as page:
        for name, delay in (("first", 0.15), ("second", 0.05)):
            writes(model, f"{QUOTE} [1] This is the {name} one. " + "Look at it often. " * 5, delay=delay)
            page.get_by_role("link", name="New conversation").last.click()
            expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
            put(page, f"Tell me about the anchor in the {name} conversation")
        expect(page.get_by_role("img", name="Answering")).to_have_count(2)
        expect(page.locator("article.turn[data-answer] .answer")).to_contain_text("the second one")
        page.locator(".talk", has_text="in the first conversation").get_by_role("link").click()
        expect(page.locator("article.turn[data-answer] .answer")).to_contain_text("the first one")
        expect(page.get_by_role("img", name="Answering")).to_have_count(0)


def test_what_is_typed_survives_a_reload(browser: Browser, server: Server) -> None:
    with tab(browser, server.url) as page:
        page.get_by_label(BOX, exact=True).fill("How heavy is the")
        page.reload()
        expect(page.get_by_label(BOX, exact=True)).to_have_value("How heavy is the")
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()


def test_a_sign_in_that_has_ended_loses_nothing(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        desk.add_text("note.md", "The harbour has four cranes.", format="markdown")
        _, secret = desk.keys.add("Rita", "reader")
        with serving(desk) as server, tab(browser, server.url, allowed=("401", "404")) as page:
            page.get_by_label("Key").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("#who")).to_have_text("Rita · reader")
            page.context.clear_cookies()
            page.get_by_label(BOX, exact=True).fill("How many cranes has the harbour?")
            page.keyboard.press("Enter")
            expect(page.get_by_text("Your session has expired.")).to_be_visible()
            page.get_by_label("Key").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("#who")).to_have_text("Rita · reader")  # or the button belongs to a page that goes
            expect(page.get_by_text("Your session has expired.")).to_be_hidden()
            expect(page.get_by_label(BOX, exact=True)).to_have_value("How many cranes has the harbour?")
            page.get_by_role("button", name="Ask", exact=True).click()
            expect(page.locator("article.turn[data-answer]")).to_have_count(1)


def test_signing_out_leaves_nothing_for_the_next_one(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        _, secret = desk.keys.add("Rita", "reader")
        with serving(desk) as server, tab(browser, server.url, allowed=("401",)) as page:
            for typed in ("", "What does my colleague earn?"):
                page.get_by_label("Key").fill(secret)
                page.get_by_role("button", name="Sign in").click()
                expect(page.get_by_label(BOX, exact=True)).to_have_value("")
                page.get_by_label(BOX, exact=True).fill(typed or "What does my colleague earn?")
                page.get_by_role("button", name="Sign out").click()
                # A browser that is closed while it goes to another page may never be.
                expect(page.get_by_label("Key")).to_be_visible()


def test_a_server_that_stops_and_comes_back(browser: Browser, examples_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(examples_folder, tmp_path / "library")
    port = free_port()
    with WireServer() as model, tab(browser, "about:blank", allowed=("ERR_", "502", "503")) as page:
        writes(model, delay=0.2)
        with served(tmp_path / "library", port=port, **model.openai_env()) as server:
            page.goto(server.url)
            put(page, "Tell me about the anchor until you stop")
            server.process.send_signal(signal.SIGINT)  # type: ignore[union-attr]
            server.process.wait(PATIENCE_S)  # type: ignore[union-attr]
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.locator(".answer")).to_contain_text("The anchor")  # what had come stays there
        with served(tmp_path / "library", port=port, **model.openai_env()):
            writes(model, f"{QUOTE} [1]")
            page.get_by_role("button", name="Try again").click()
            expect(page.locator("article.turn[data-answer] .answer")).to_contain_text("350 kg")


def test_those_who_listen_hear_the_answer_once(browser: Browser, server: Server, model: WireServer) -> None:
    """Stages and the whole answer go to one live region; the words as they come are in none."""
    writes(model, delay=0.02)
    with tab(browser, server.url) as page:
        page.evaluate("""() => { window.heard = [];
            new MutationObserver(() => window.heard.push(document.getElementById("said").textContent))
                .observe(document.getElementById("said"), {childList: true, characterData: true, subtree: true}); }""")
        put(page, "Tell me about the anchor, I am listening")
        assert page.locator("[aria-live] .answer, [role=log] .answer, [role=status] .answer").count() == 0
        assert page.locator(".answer[aria-live]").count() == 0
        expect(page.locator(".answer")).to_have_attribute("aria-busy", "true")
        expect(page.locator("article.turn[data-answer]")).to_have_count(1)
        expect(page.locator("#said")).to_contain_text("Answer: The anchor is a cast iron sinker")
        heard = page.evaluate("window.heard")
        assert 3 <= len(heard) <= 10 and sum(text.startswith("Answer:") for text in heard) == 1


def test_markers_are_chips_before_the_answer_is_whole(browser: Browser, server: Server, model: WireServer) -> None:
    writes(model, delay=0.05)
    with tab(browser, server.url) as page:
        put(page, "Tell me about the anchor with its citations")
        chip = page.locator(".answer.streaming .chip").first
        expect(chip).to_have_attribute("aria-label", re.compile("Citation 1: .+, page"))
        page.get_by_role("button", name="Stop", exact=True).click()


def test_a_follow_up_is_seen(browser: Browser, server: Server, model: WireServer) -> None:
    """The new question stands at the top, with its answer in sight, however long the answer before it is."""
    writes(model, "\n\n".join([f"{QUOTE} [1]"] * 20))
    with tab(browser, server.url, reduced_motion="reduce", viewport={"width": 375, "height": 700}) as page:
        ask(page, "Tell me about the anchor at length")
        writes(model, f"{QUOTE} [1]")
        ask(page, "And once more, in one sentence about the anchor?")
        expect(page.locator(".asked").nth(1)).to_be_in_viewport(ratio=1)
        expect(page.locator(".answer").nth(1)).to_be_in_viewport(ratio=1)
