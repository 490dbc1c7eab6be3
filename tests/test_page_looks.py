"""How the page stands there: light and dark, narrow, for everyone (axe), at once, small, and nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from browser import ask, tab
from http_server import Server, serving
from refdesk import Refdesk
from refdesk.serve.http.page import FOLDER

VIEWS = ("ask", "documents", "settings", "traces", "analytics")
TALKS = {
    "pier": "How deep is the water at the test station's pier?",
    "rows": "Which parts of the mooring are made of titanium?",
    "figure": "Compare the TG-4 and the WB-7.",
}
STORED = tuple(f"ask/{name}" for name in TALKS)
MOST_BYTES = 200_000  # uncompressed, all of it: what a page with a picture has several times over


@pytest.fixture(scope="module")
def server(examples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page") / "library"
    shutil.copytree(examples_folder, folder)
    with Refdesk(folder) as desk, serving(desk) as found:
        for name, question in TALKS.items():
            found.post("/api/chat", json={"message": question, "session_id": name})
        yield found


def settled(page: Page) -> None:
    """Everything that was asked for has come."""
    page.wait_for_selector("html[data-ready]")
    expect(page.locator(".main .bones")).to_have_count(0)


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:120]} {node['any'][0]['message'] if node['any'] else ''}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, server: Server, scheme: str) -> None:
    wrong: dict[str, list[str]] = {}
    with tab(browser, server.url, color_scheme=scheme, reduced_motion="reduce") as page:
        for view in (*VIEWS, *STORED):
            page.goto(f"{server.url}/#/{view}")
            page.reload()
            settled(page)
            wrong[view] = violations(page)
        page.goto(f"{server.url}/#/ask/pier")
        settled(page)
        page.locator(".answer .chip").first.click()
        expect(page.locator(".leaf").first).to_be_visible()
        expect(page.locator(".leaf.waiting")).to_have_count(0)
        wrong["viewer"] = violations(page)
        answer = page.locator("article.turn").get_attribute("data-answer")
        page.goto(f"{server.url}/#/traces/{answer}")
        page.locator(".fall summary").first.click()
        wrong["trace"] = violations(page)
        page.goto(f"{server.url}/sign-in")
        wrong["sign-in"] = violations(page)
    assert not {view: found for view, found in wrong.items() if found}


def test_no_sideways_scrolling_on_a_phone(browser: Browser, server: Server) -> None:
    with tab(browser, server.url, viewport={"width": 375, "height": 700}) as page:
        for view in (*VIEWS, *STORED):
            page.goto(f"{server.url}/#/{view}")
            page.reload()
            settled(page)
            wide = "[document.documentElement, document.getElementById('main')].map(one => one.scrollWidth)"
            assert max(page.evaluate(wide)) <= 375, view
        page.get_by_role("button", name="Open the menu").click()
        page.get_by_role("link", name="Documents").click()
        expect(page.get_by_role("heading", name="Documents")).to_be_visible()
        page.goto(f"{server.url}/#/ask")
        ask(page, "How heavy is the anchor of the standard wave buoy mooring?")
        page.locator(".answer .chip").first.click()
        expect(page.locator(".mark").first).to_be_in_viewport()
        expect(page.get_by_role("button", name="Close the viewer")).to_be_in_viewport()
        page.get_by_role("button", name="Close the viewer").click()
        expect(page.get_by_label("Question", exact=True)).to_be_in_viewport()


def test_the_marker_of_a_row_stays_in_sight(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/ask/rows", viewport={"width": 375, "height": 700}) as page:
        settled(page)
        table = page.locator(".answer .wide")
        assert table.evaluate("one => one.scrollWidth > one.clientWidth"), "or this test proves nothing"
        expect(table.locator(".chip").nth(1)).to_be_in_viewport(ratio=1)
        table.evaluate("one => one.scrollTo(one.scrollWidth, 0)")
        expect(table.locator(".chip").nth(1)).to_be_in_viewport(ratio=1)


def test_large_letters(browser: Browser, server: Server) -> None:
    """Twice the size of letters in a window of a laptop: nothing is cut off sideways, and the box can be reached."""
    with tab(browser, server.url, viewport={"width": 1280, "height": 800}) as page:
        for view in (*VIEWS, *STORED):
            page.goto(f"{server.url}/#/{view}")
            page.reload()
            settled(page)
            page.evaluate("document.documentElement.style.fontSize = '200%'")
            over = "[document.documentElement, document.getElementById('main')].map(e => e.scrollWidth - e.clientWidth)"
            assert max(page.evaluate(over)) <= 0, view
        expect(page.get_by_label("Question", exact=True)).to_be_in_viewport()


def test_every_button_has_a_name(browser: Browser, server: Server) -> None:
    nameless = """all => all.filter(one => !(one.getAttribute("aria-label") || one.textContent.trim())).length"""
    with tab(browser, server.url) as page:
        for view in (*VIEWS, *STORED):
            page.goto(f"{server.url}/#/{view}")
            page.reload()
            settled(page)
            assert page.title() != "Refdesk" and page.title().endswith(" · Refdesk")
            assert page.eval_on_selector_all("button, a", nameless) == 0, view


def test_beside_the_viewer_the_list_can_be_read(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/documents") as page:
        page.locator(".doc-name").first.click()
        expect(page.locator(".leaf").first).to_be_visible()
        widths = page.eval_on_selector_all(".doc-name", "all => all.map(one => one.parentElement.clientWidth)")
        assert min(widths) > 220


def test_the_menu_of_a_phone(browser: Browser, server: Server) -> None:
    with tab(browser, server.url, viewport={"width": 375, "height": 700}) as page:
        settled(page)
        page.get_by_role("button", name="Open the menu").click()
        expect(page.locator("#main")).to_have_attribute("inert", "")
        expect(page.locator("#nav a").first).to_be_focused()
        page.keyboard.press("Shift+Tab")
        expect(
            page.get_by_role("link", name="Refdesk").last
        ).to_be_focused()  # within it; what is below cannot be reached
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Open the menu")).to_be_focused()
        page.get_by_role("button", name="Open the menu").click()
        page.mouse.click(360, 400)  # beside it
        expect(page.locator("#side")).to_be_hidden()


@pytest.mark.parametrize("width", [375, 1000])
def test_where_the_viewer_lies_over_the_page(browser: Browser, server: Server, width: int) -> None:
    """What is below cannot be reached; Escape, and Back, shut it and leave the conversation open."""
    with tab(browser, server.url, viewport={"width": width, "height": 700}) as page:
        ask(page, "How heavy is the anchor of the standard wave buoy mooring?")
        address = page.url
        for shut in (lambda: page.keyboard.press("Escape"), lambda: page.evaluate("history.back()")):
            page.locator(".answer .chip").first.click()
            expect(page.locator(".leaf").first).to_be_visible()
            expect(page.locator("#main")).to_have_attribute("inert", "")
            shut()
            expect(page.locator("#viewer")).to_be_hidden()
            expect(page.locator("article.turn")).to_have_count(1)
            assert page.url == address


def test_a_document_that_is_shut_leaves_the_address(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/documents") as page:
        for _ in range(2):
            page.locator(".doc-name").first.click()
            expect(page.locator(".leaf").first).to_be_visible()
            page.keyboard.press("Escape")
            expect(page.locator("#viewer")).to_be_hidden()
            assert page.url.endswith("#/documents")


def test_long_words_stay_in_their_frame(browser: Browser, tmp_path: Path) -> None:
    """A question and a collection of one word each, without a place to break."""
    word = "W" * 180
    with Refdesk(tmp_path / "library") as desk:
        desk.add_text("note.md", f"The harbour of {word} has four cranes.", collection=word)
        with serving(desk) as server, tab(browser, server.url, viewport={"width": 375, "height": 700}) as page:
            ask(page, f"How many cranes has the harbour of {word}, and what is {word}{word}?")
            page.get_by_title("Where to look").click()
            page.get_by_role("button", name="Use these").click()
            wide = "[document.documentElement, document.getElementById('main')].map(one => one.scrollWidth)"
            assert max(page.evaluate(wide)) <= 375
            assert max(page.eval_on_selector_all(".sure span", RIGHTS)) <= 375
            page.goto(f"{server.url}/#/documents")
            page.locator(".folder").nth(1).click()
            assert max(page.evaluate(wide)) <= 375
            page.set_viewport_size({"width": 1440, "height": 800})
            page.get_by_role("button", name="Rename the collection").click()
            page.get_by_role("button", name="Cancel").click()
            (list_left,) = page.eval_on_selector_all(".docs", "all => all.map(one => one.getBoundingClientRect().left)")
            assert max(page.eval_on_selector_all(".folders *", RIGHTS)) <= list_left
            page.evaluate("async ([url, text]) => (await import(url)).toast(text)", [module(page, "dom.js"), word * 2])
            assert max(page.eval_on_selector_all(".toast", "all => all.map(one => one.scrollWidth)")) <= 416


RIGHTS = "all => all.map(one => one.getBoundingClientRect().right)"


def module(page: Page, name: str) -> str:
    return page.locator("script[type=module]").get_attribute("src").replace("app.js", name)  # type: ignore[union-attr]


def test_right_to_left_text(browser: Browser, tmp_path: Path) -> None:
    """Hebrew begins at the right, in the question and on the page; English beside it at the left."""
    hebrew = "בנמל יש ארבעה מנופים"
    with Refdesk(tmp_path / "library") as desk:
        desk.add_text("note.txt", f"{hebrew}.\n\nThe harbour has four cranes.")
        with serving(desk) as server, tab(browser, server.url) as page:
            ask(page, f"{hebrew}?")
            assert page.eval_on_selector_all(".asked", SIDES) == [["right"]]
            page.goto(f"{server.url}/#/documents/{desk.documents()[0].id}")
            expect(page.locator(".leaf.text")).to_contain_text("cranes")
            (sides,) = page.eval_on_selector_all(".leaf.text", SIDES)
            assert sides[0] == "right" and sides[-1] == "left"


SIDES = """all => all.map(one => {
    const text = document.createRange(), box = one.getBoundingClientRect();
    text.selectNodeContents(one);
    return [...text.getClientRects()].map(line => line.left - box.left < box.right - line.right ? "left" : "right");
})"""  # to which side of its element each line is nearer


def test_light_and_dark(browser: Browser, server: Server) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with tab(browser, server.url, color_scheme="dark") as page:
        settled(page)
        dark = page.evaluate(colour)
        page.get_by_role("button", name="Dark colours").click()
        light = page.evaluate(colour)
        assert sum(map(int, dark[4:-1].split(", "))) < 150 < 650 < sum(map(int, light[4:-1].split(", ")))
        page.reload()
        assert page.evaluate(colour) == light  # the choice goes before the system's
        expect(page.get_by_role("button", name="Dark colours")).to_have_attribute("aria-pressed", "false")


def test_the_box_waits_for_nothing_of_the_library(browser: Browser, server: Server) -> None:
    """A question can be typed before it is known what the library holds; `make bench-page` has the milliseconds."""
    held: list[Route] = []
    with tab(browser, "about:blank") as page:
        page.route(re.compile(r"/api/(documents|collections|conversations)"), lambda route: held.append(route))
        page.goto(server.url)
        page.get_by_label("Question", exact=True).fill("What does the anchor weigh?")
        assert held, "the library was asked"
        for route in held:
            route.continue_()
        page.unroute_all()
        settled(page)
        expect(page.get_by_label("Question", exact=True)).to_have_value("What does the anchor weigh?")


def test_it_is_small_and_needs_nobody_else(browser: Browser, server: Server) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MOST_BYTES
    hosts = set()
    with tab(browser, "about:blank") as page:
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        for view in VIEWS:
            page.goto(f"{server.url}/#/{view}")
            page.reload()
            settled(page)
    assert hosts == {server.url.removeprefix("http://")}


def test_files_are_kept_by_their_hash(server: Server) -> None:
    first = server.get("/")
    assert first.headers["cache-control"] == "no-cache"
    assert server.get("/", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    script = first.text.split('type="module" src="')[1].split('"')[0]
    found = server.get(script)
    assert found.status_code == 200 and "immutable" in found.headers["cache-control"]
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in first.headers["content-security-policy"]
    assert "unsafe" not in first.headers["content-security-policy"]
    assert server.get(script.replace("app.js", "../page.py")).status_code == 404
    assert server.get("/static/old/app.js").status_code == 404
