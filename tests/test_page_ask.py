"""Asking in the browser: stages, words as they come, chips, the page with the lines marked, doubts, conversations."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser import ask, edges, tab
from http_server import Server, serving
from refdesk import Refdesk
from timing import PATIENCE_S
from wire_server import WireServer

ANCHOR = "How heavy is the anchor of the standard wave buoy mooring?"
QUOTE = "The anchor is a cast iron sinker of 350 kg."
DOCUMENTS = Path(__file__).parent.parent / "examples" / "documents"
DUTIES = """# Lifeboat

The coxswain of the lifeboat has these duties:

- check the [b]oil[/b] every week
- train the `<b>crew</b>` :smile: once a month
"""
HOSTILE = "<img src=x onerror=alert(1)> <b>bright</b> & wide"


@pytest.fixture(scope="module")
def server(examples_folder: Path, model: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The examples; a model is reachable, but named only by `with_model`."""
    folder = tmp_path_factory.mktemp("page") / "library"
    shutil.copytree(examples_folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in model.openai_env().items():
            if name != "REFDESK_LLM":
                patch.setenv(name, value)
        with Refdesk(folder) as desk, serving(desk) as found:
            yield found


@pytest.fixture
def with_model(server: Server, model: WireServer) -> Iterator[WireServer]:
    assert server.request("PATCH", "/api/settings", json={"llm.answer": "openai:test-model"}).status_code == 200
    yield model
    server.request("DELETE", "/api/settings/llm.answer")


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with tab(browser, server.url) as found:
        yield found


# the lines that prove it


def test_upload_ask_and_see_the_lines(browser: Browser, tmp_path: Path) -> None:
    """The whole way: a PDF is chosen, read, asked about, and the marked boxes cover the quoted words on its page."""
    with Refdesk(tmp_path / "library") as desk, serving(desk) as server, tab(browser, server.url) as page:
        expect(page.get_by_role("heading", name="The library is empty")).to_be_visible()
        page.get_by_role("link", name="Documents").click()
        page.get_by_label("Choose files").set_input_files(DOCUMENTS / "wb7-mooring-sheet.pdf")
        expect(page.locator(".doc[data-status=ready]")).to_have_count(1)
        page.get_by_role("link", name="Ask").click()
        ask(page, ANCHOR)
        page.locator(".answer .chip").first.click()
        expect(page.locator(".viewer blockquote")).to_have_text(QUOTE)
        expect(page.locator(".viewer .mark")).to_have_count(1)
        covers_the_quote(page, server, desk.documents()[0].id, 1, QUOTE)


def covers_the_quote(page: Page, server: Server, document_id: str, number: int, quote: str) -> None:
    """Every word of the quote, as the service says where it stands, lies within a marked box on the screen."""
    text = server.get(f"/api/documents/{document_id}/pages/{number}/text").json()
    start = text["text"].index(quote)
    words = [one for one in text["words"] if start <= one["start"] and one["end"] <= start + len(quote)]
    assert len(words) >= len(quote.split())
    (image,) = edges(page, f".leaf[data-page='{number}'] img")
    marks = edges(page, f".leaf[data-page='{number}'] .mark")
    width, height = image["right"] - image["left"], image["bottom"] - image["top"]
    assert width > 300 and height > 300
    for word in words:
        left, top = image["left"] + word["x"] / 100 * width, image["top"] + word["y"] / 100 * height
        right, bottom = left + word["width"] / 100 * width, top + word["height"] / 100 * height
        assert any(
            mark["left"] <= left + 1
            and mark["top"] <= top + 1
            and right <= mark["right"] + 1
            and bottom <= mark["bottom"] + 1
            for mark in marks
        ), word
    marked = sum((mark["right"] - mark["left"]) * (mark["bottom"] - mark["top"]) for mark in marks)
    assert marked < 0.05 * width * height  # the lines, not the page


def test_from_citation_to_citation_by_keyboard(page: Page) -> None:
    ask(page, "How long does the battery of the WB-7 buoy last?")
    chips = page.locator(".answer .chip")
    chips.first.focus()
    expect(page.get_by_role("tooltip")).to_contain_text("“")
    page.keyboard.press("Enter")
    expect(page.locator("#viewer")).to_be_visible()
    count = page.locator(".sources .source").count()
    assert count > 1
    expect(page.locator(".viewer-cite")).to_contain_text(f"Citation 1 of {count}")
    page.locator(".viewer-pages").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".viewer-cite")).to_contain_text(f"Citation 2 of {count}")
    expect(page.locator(".source.open")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    expect(chips.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(chips.nth(1)).to_be_focused()


def test_keys_scroll_before_they_turn(page: Page) -> None:
    """With the focus on the page, keys move within what is shown; at its edge they go on to the next."""
    ask(page, ANCHOR)
    page.locator(".source").first.click()
    expect(page.locator(".viewer .mark").first).to_be_visible()
    sheet = page.locator(".viewer-pages")
    for _ in range(3):
        page.get_by_role("button", name="Larger").click()
    sheet.evaluate("one => one.scrollTo({left: 0, top: 0, behavior: 'instant'})")
    sheet.focus()
    page.keyboard.press("ArrowRight")
    expect(sheet).not_to_have_js_property("scrollLeft", 0)
    page.keyboard.press("PageDown")
    expect(sheet).not_to_have_js_property("scrollTop", 0)
    expect(page.locator(".leaf[data-page='1'] .mark").first).to_be_attached()
    sheet.evaluate("one => one.scrollTo({left: 9999, top: 9999, behavior: 'instant'})")
    page.keyboard.press("Shift+PageDown")  # not a key of the viewer
    expect(page.locator(".leaf[data-page='1'] .mark").first).to_be_attached()
    page.keyboard.press("PageDown")
    expect(page.locator(".leaf[data-page='2'] img")).to_be_visible()


def test_zoom_and_leafing(page: Page) -> None:
    ask(page, ANCHOR)
    page.locator(".source").first.click()
    expect(page.locator(".viewer .mark").first).to_be_visible()
    before = edges(page, ".leaf")[0]
    page.get_by_role("button", name="Larger").click()
    after = edges(page, ".leaf")[0]
    assert after["right"] - after["left"] > 1.2 * (before["right"] - before["left"])
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".leaf[data-page='2'] img")).to_be_visible()
    expect(page.locator(".viewer .mark")).to_have_count(0)
    page.get_by_role("button", name="Show the text").click()
    expect(page.locator(".leaf.text")).to_contain_text("Buoy shackle")


def test_what_grows_stays_sharp(page: Page) -> None:
    ask(page, ANCHOR)
    page.locator(".source").first.click()
    expect(page.locator(".viewer .mark").first).to_be_visible()
    marks = page.locator(".viewer .mark").count()
    pixels = "document.querySelector('.leaf img').naturalWidth"
    before = page.evaluate(pixels)
    for _ in range(3):
        page.keyboard.press("+")
    until = time.monotonic() + PATIENCE_S
    while page.evaluate(pixels) <= 1.5 * before and time.monotonic() < until:
        page.wait_for_timeout(100)
    assert page.evaluate(pixels) > 1.5 * before
    expect(page.locator(".viewer .mark")).to_have_count(marks)  # the lines are not marked twice


def test_the_focus_stays_where_one_works(page: Page) -> None:
    """Next citation, next page, a renamed conversation: what was drawn anew has the focus again."""
    ask(page, "How long does the battery of the WB-7 buoy last?")
    page.locator(".source").first.click()
    previous, following = (page.get_by_role("button", name=f"{which} citation") for which in ("Previous", "Next"))
    expect(previous).to_be_disabled()
    expect(previous).to_have_css("opacity", "0.35")  # and it looks so
    expect(following).to_have_css("opacity", "1")
    following.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".viewer-cite")).to_contain_text("Citation 2 of")
    assert page.evaluate("document.getElementById('viewer').contains(document.activeElement)")
    page.keyboard.press("Escape")
    talk = page.locator(".talk[data-current]")
    expect(talk.get_by_role("link")).to_have_attribute("aria-current", "true")
    talk.get_by_role("button", name="Rename").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Title").fill("Batteries")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Batteries")).to_be_focused()


def test_a_quote_stays_under_the_pointer(page: Page) -> None:
    """So that it can be read with a magnifier, or marked."""
    ask(page, ANCHOR)
    page.clock.install()
    page.locator(".answer .chip").first.hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_be_visible()
    tip.hover()
    page.clock.run_for(2000)  # longer than it waits for the pointer to arrive
    expect(tip).to_be_visible()
    page.get_by_label("Question", exact=True).hover()
    expect(tip).to_be_hidden()


def test_sources_stand_in_the_order_of_their_numbers(page: Page) -> None:
    ask(page, "How long does the battery of the WB-7 buoy last?")
    numbers = page.locator(".source b").all_inner_texts()
    assert len(numbers) > 1 and numbers == sorted(numbers, key=int)


def test_a_row_is_one_source_however_many_of_its_cells_are_cited(page: Page) -> None:
    ask(page, "Compare the TG-4 and the WB-7.")
    sources = page.locator(".source")
    quotes = page.locator(".source em").all_inner_texts()
    assert len(quotes) == 2 and {quote.split(" | ")[0] for quote in quotes} == {"TG-4 tide gauges", "WB-7 wave buoys"}
    page.locator(".answer .chip").first.focus()
    expect(page.locator(".tip-quote")).to_have_count(2)
    sources.first.click()
    expect(page.locator(".viewer-cite")).to_contain_text("Citation 1 of 6")
    for cell in range(2, 7):  # every cell has its place, and the card of its row is the open one
        page.get_by_role("button", name="Next citation").click()
        expect(page.locator(".viewer-cite")).to_contain_text(f"Citation {cell} of 6")
        quote = page.locator(".viewer blockquote").inner_text()
        expect(page.locator(".source.open em")).to_have_text([quote])


def test_a_source_has_the_markers_of_all_that_cite_it(page: Page) -> None:
    ask(page, "Compare the TG-4 and the WB-7.")
    script = """async ([module, id]) => {
        const answer = await (await fetch(`/api/answers/${id}`)).json();
        answer.citations.forEach((cite, at) => { cite.marker = 3 - (at >> 1); });
        const {around, withCitations} = await import(module);
        const sources = around(answer, () => {}).find((one) => one.matches(".sources"));
        document.querySelector(".sources").replaceWith(sources);
        return withCitations(answer);
    }"""
    identity = page.locator("article.turn").get_attribute("data-answer")
    copied = page.evaluate(script, [module(page, "answer.js"), identity])
    expect(page.locator(".source b")).to_have_text(["1 2 3", "1 2 3"])
    assert copied.count("[1] [2] [3] quarterly-review-q3-2025.pptx, page 3: “") == 2


# what is quoted from tables and lists


def test_rows_that_are_quoted_are_a_table_below_its_head(page: Page) -> None:
    ask(page, "Which parts of the mooring are made of titanium?")
    answer = page.locator(".answer")
    heads = ["Item", "Part", "Order number", "Material", "Size", "Quantity", "Mass (kg)", "Replace after"]
    expect(answer.locator("thead th")).to_have_text(heads)
    rows = answer.locator("tbody tr")
    expect(rows).to_have_count(9)
    shackle = ["8", "Buoy shackle", "M-707", "titanium", "13 mm", "1", "0.2", "60 months"]
    expect(rows.nth(7).locator("td")).to_have_text([*shackle, "1"])
    assert "|" not in answer.inner_text() and "- " not in answer.inner_text()
    drawn = answer.inner_html()
    page.reload()
    expect(rows.nth(7).locator("td")).to_have_text([*shackle, "1"])
    expect(answer.locator(".wide")).to_have_count(1)
    assert answer.inner_html() == drawn, "a stored answer is drawn as it was"
    rows.nth(7).locator(".chip").click()
    expect(page.locator(".viewer blockquote")).to_have_text(" | ".join(shackle))


def test_what_is_quoted_is_text_whatever_it_holds(browser: Browser, own_folder: Path, tmp_path: Path) -> None:
    """What a document says in cells and items is no markup."""
    (tmp_path / "lamps.csv").write_text(
        f"Lamp,Range,Remark\nNorth,12,{HOSTILE}\nSouth,14,*dim* [1](javascript:x)\n", "utf-8"
    )
    (tmp_path / "boat.md").write_text(DUTIES, "utf-8")
    with Refdesk(own_folder) as desk:
        desk.add(tmp_path / "lamps.csv")
        desk.add(tmp_path / "boat.md")
        with serving(desk) as server, tab(browser, server.url) as page:
            ask(page, "List the lamps with their range and remark.")
            cells = page.locator(".answer tbody td:not(:last-child)")
            expect(cells).to_have_text(["North", "12", HOSTILE, "South", "14", "*dim* [1](javascript:x)"])
            expect(page.locator(".answer :is(img, a, em, b)")).to_have_count(0)
            expect(page.locator(".answer td.number")).to_have_text(["12", "14"])
            ask(page, "What are the duties of the coxswain?")
            answer = page.locator(".answer").last
            expect(answer.locator("ul > li .claim")).to_have_text(
                ["check the [b]oil[/b] every week", "train the <b>crew</b> :smile: once a month"]
            )
            assert "- " not in answer.inner_text()


def test_the_thing_itself_stands_first(page: Page) -> None:
    ask(page, ANCHOR)
    expect(page.locator(".answer > :first-child strong").first).to_have_text("350 kg")
    expect(page.locator(".answer").first).to_contain_text(QUOTE)


def test_a_cited_document_that_was_deleted(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        desk.add_text("note.md", "The harbour has four cranes.", format="markdown")
        with serving(desk) as server, tab(browser, server.url, allowed=("404",)) as page:
            ask(page, "How many cranes has the harbour?")
            desk.remove("note.md")
            page.locator(".answer .chip").first.click()
            expect(page.get_by_role("alert")).to_contain_text("This document no longer exists")


def test_an_address_written_by_hand(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/ask/%", allowed=("404",)) as page:
        expect(page.get_by_role("heading", name="This conversation does not exist")).to_be_visible()


def test_formats_without_pages_show_their_text(page: Page) -> None:
    ask(page, "How long is parental leave?")
    page.locator(".answer .chip").first.click()
    quote = page.locator(".viewer blockquote").inner_text()
    assert "20 weeks" in quote
    expect(page.locator(".leaf.text mark")).to_have_text(re.compile(re.escape(" ".join(quote.split()[:5]))))


def test_tables_are_drawn_in_the_text_and_the_cell_is_marked(page: Page) -> None:
    ask(page, "What does error code E23 of the TG-4 mean?")
    page.locator("article.turn .source").first.click()
    expect(page.locator(".leaf.text mark")).to_have_text(["Water in the housing"])
    row = page.locator(".leaf-table tr", has=page.locator("mark"))
    expect(row.locator("td")).to_have_text(["E23", "Water in the housing", "Lift the gauge at once and send it in"])
    table = page.locator(".leaf-table", has=page.locator("mark"))
    expect(table.locator("th")).to_have_text(["Code", "Meaning", "What to do"])
    assert " | " not in page.locator(".leaf.text").inner_text()


def test_a_citation_over_two_pages_shows_both(page: Page, server: Server) -> None:
    listed = server.get("/api/documents?q=wb7-mooring-sheet").json()["documents"]
    boxes = [{"page": number, "x": 10, "y": 40, "width": 30, "height": 2} for number in (1, 1, 2)]
    cite = {"marker": 1, "document_id": listed[0]["id"], "document_name": "", "page": 1, "boxes": boxes, "quote": "a"}
    page.evaluate(f"async cite => (await import('{module(page, 'viewer.js')}')).openCitation([cite], 0)", cite)
    expect(page.locator(".leaf[data-page='1'] .mark")).to_have_count(2)
    expect(page.locator(".leaf[data-page='2'] .mark")).to_have_count(1)


def test_conflicts_missing_aspects_and_suggestions(page: Page) -> None:
    """What stands below a text, from a literal answer."""
    cite = {"document_name": "list.pdf", "page": 2, "quote": "It costs 310.", "heading_path": [], "boxes": []}
    answer = {
        "id": "a",
        "content": "It costs 310. [1]",
        "notes": [],
        "claims": [{"text": "It floats.", "verdict": "contradicted", "note": "the source says it sinks"}],
        "citations": [cite | {"marker": 1, "document_id": "x"}, cite | {"marker": 2, "document_id": "y"}],
        "sufficiency": {"conflicts": [{"text": "310 or 320", "markers": [1, 2]}], "missing_aspects": ["delivery"]},
        "confidence": {"level": "low", "reason": "the sources disagree"},
        "suggested_questions": ["What does delivery cost?"],
        "model": "test:model",
        "cached": "exact",
        "metrics": {"total_ms": 1234},
        "usage": {"cost_usd": 0.002},
    }
    page.evaluate(
        f"async answer => document.getElementById('main').replaceChildren("
        f"...(await import('{module(page, 'answer.js')}')).around(answer, (text) => {{ document.title = text; }}))",
        answer,
    )
    expect(page.locator(".notice.bad")).to_contain_text("Contradicted by the documents: the source says it sinks.")
    disagreeing = page.locator(".notice", has_text="The sources disagree")
    expect(disagreeing.locator(".chip")).to_have_text(["1", "2"])
    expect(page.locator(".notice", has_text="Not found in the documents")).to_contain_text("delivery")
    expect(page.locator(".sure")).to_have_attribute("data-level", "low")
    expect(page.locator(".tools .meta")).to_have_text("test:model · from the cache · 1.2 s · $0.0020")
    page.get_by_role("button", name="What does delivery cost?").click()
    expect(page).to_have_title("What does delivery cost?")


def module(page: Page, name: str) -> str:
    """The address of a module as the page itself has loaded it."""
    return page.locator("script[type=module]").get_attribute("src").replace("app.js", name)  # type: ignore[union-attr]


# as it is written


def test_words_appear_as_they_come_and_can_be_stopped(page: Page, with_model: WireServer) -> None:
    text = (
        f"{QUOTE} [1] A chain of 15 metres leads from the sinker to the rubber cord. [1] " + "Look at it often. " * 20
    )
    with_model.say(text, delay=0.06)
    page.get_by_label("Question", exact=True).fill("Tell me more about the anchor of the wave buoy mooring")
    page.keyboard.press("Enter")
    expect(page.locator(".stages li").first).to_be_visible()
    lengths: set[int] = set()
    until = time.monotonic() + PATIENCE_S
    while len(lengths) < 5 and time.monotonic() < until:
        lengths.add(len(page.locator(".answer").inner_text()))
    assert len(lengths) >= 5 and max(lengths) < len(text)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".turn")).to_contain_text("Stopped early.")
    while not with_model.requests[-1].disconnected and time.monotonic() < until:
        page.wait_for_timeout(100)
    assert with_model.requests[-1].disconnected  # the model was told, too


def test_a_model_that_failed_is_told_and_counted(page: Page, with_model: WireServer) -> None:
    with_model.fail(401)
    ask(page, "What does the anchor of the standard wave buoy mooring weigh?")
    why = "openai:test-model did not answer (the API key was refused), so this answer is quoted from the documents."
    expect(page.locator(".turn .notice.warn").first).to_have_text(why)
    page.goto(page.url.partition("#")[0] + "#/analytics")
    expect(page.locator(".figure", has_text="whose model failed")).to_contain_text("1")


def test_markdown_and_doubts(page: Page, with_model: WireServer) -> None:
    with_model.say(
        f"**Weight.** {QUOTE} [1]\n\n- The anchor weighs 900 kg. [1]\n- It was painted by monks in Norway.\n"
    )
    ask(page, "Tell me about the weight of the anchor")
    expect(page.locator(".answer strong")).to_have_text("Weight.")
    expect(page.locator(".answer li")).to_have_count(2)
    doubtful = page.locator(".answer li .claim[data-verdict]")
    expect(doubtful.first).to_contain_text("900 kg")
    page.locator(".answer .flag").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("350 kg")
    expect(page.locator(".checks").first).to_contain_text("not fully supported")
    assert page.locator(".answer p .claim[data-verdict]").count() == 0


def test_an_error_says_what_to_do(browser: Browser, server: Server) -> None:
    with tab(browser, server.url, allowed=("400", "Bad Request")) as page:
        page.route("**/api/chat/stream", lambda route: route.continue_(post_data='{"message": ""}'))
        page.get_by_label("Question", exact=True).fill("Anything?")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("The question is empty")
        expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_a_broken_stream_is_taken_up_again(browser: Browser, server: Server) -> None:
    """The first connection ends in the middle; the page comes back once with Last-Event-ID and loses nothing."""
    seen: list[str] = []
    question = "How deep is the water at the test station's pier?"
    with tab(browser, server.url) as page:

        def break_once(route: object) -> None:
            seen.append(route.request.headers.get("last-event-id", ""))  # type: ignore[attr-defined]
            if len(seen) > 1:
                route.continue_()  # type: ignore[attr-defined]
                return
            whole = route.fetch()  # type: ignore[attr-defined]
            first = "\n\n".join(whole.text().split("\n\n")[:3]) + "\n\n"
            route.fulfill(response=whole, body=first)  # type: ignore[attr-defined]

        page.route("**/api/chat/stream", break_once)
        ask(page, question)
        assert len(seen) == 2 and seen[1].endswith("-2")
        expect(page.locator(".answer")).to_contain_text("nine metres")


# around the answer


def test_spelling_is_said_and_taken_back(page: Page) -> None:
    ask(page, "How heavy is the ancor of the standard wave buoy mooring?")
    expect(page.locator(".read-as")).to_contain_text("anchor")
    page.get_by_role("button", name="Search for exactly what I wrote").click()
    expect(page.locator("article.turn[data-answer]")).to_have_count(2)
    expect(page.locator(".turn").nth(1).locator(".read-as")).to_have_count(0)


def test_confidence_sources_and_copy(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, ANCHOR)
    expect(page.locator(".sure")).to_contain_text("confidence")
    page.get_by_role("button", name="Copy with citations").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f"[1] wb7-mooring-sheet.pdf, page 1: “{QUOTE}”" in copied.replace("[2]", "[1]")
    assert copied.startswith(page.locator(".answer").inner_text().split(".")[0])


def test_what_the_documents_do_not_say(page: Page) -> None:
    ask(page, "Who won the chess championship in 1972?")
    expect(page.locator(".answer")).to_contain_text("do not say")
    assert page.locator(".answer .chip").count() == 0


def test_thumbs_and_a_correction(page: Page, server: Server) -> None:
    ask(page, "What is the buoy shackle made of?")
    page.get_by_role("button", name="This is wrong").click()
    page.get_by_label("What is the correct answer?").fill("Titanium, grade 5.")
    page.get_by_role("button", name="Send correction").click()
    expect(page.locator(".toast").last).to_contain_text("Thank you")
    expect(page.get_by_role("button", name="This is wrong")).to_be_focused()  # the form is gone
    answer_id = page.locator("article.turn").get_attribute("data-answer")
    kept = server.get(f"/api/answers/{answer_id}").json()["feedback"][0]
    assert (kept["verdict"], kept["correction"]) == ("wrong", "Titanium, grade 5.")


def test_only_where_one_wants_to_look(page: Page) -> None:
    page.get_by_role("button", name="All documents").click()
    page.get_by_label("Find a collection or document").fill("handbook")
    page.get_by_label("staff-handbook.docx").check()
    page.get_by_role("button", name="Use these").click()
    expect(page.get_by_role("button", name="staff-handbook.docx")).to_be_visible()
    ask(page, "What is the meal allowance on the research vessel?")
    names = set(page.locator(".source strong").all_inner_texts())
    assert names and all(name.startswith("staff-handbook.docx") for name in names)


def test_conversations_are_kept_renamed_and_deleted(page: Page) -> None:
    ask(page, "What does error code E23 of the TG-4 mean?")
    page.wait_for_url(re.compile("#/ask/[0-9a-f]{32}$"))
    content = page.locator(".answer").inner_text()
    page.reload()
    expect(page.locator(".answer")).to_have_text(content, use_inner_text=True)
    page.locator(".answer .chip").first.click()
    expect(page.locator(".leaf")).to_be_visible()
    page.keyboard.press("Escape")
    talk = page.locator(".talk[data-current]")
    talk.hover()
    talk.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("Error codes")
    page.get_by_role("button", name="Rename", exact=True).last.click()
    expect(page.get_by_role("link", name="Error codes")).to_be_visible()
    page.locator(".talk", has_text="Error codes").hover()
    page.get_by_role("button", name="Delete “Error codes”").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("link", name="Error codes")).to_have_count(0)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()


def test_keys_that_reach_the_box(page: Page) -> None:
    page.get_by_role("link", name="Traces").click()
    expect(page.get_by_role("heading", name="Traces")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    page.locator("#main").focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()


def test_the_list_of_documents_leads_to_them(page: Page) -> None:
    ask(page, "Which documents do you have?")
    name = page.locator(".answer li a", has_text="wb7-mooring-sheet.pdf")
    expect(name).to_have_attribute("href", re.compile(r"^#/documents/\w+$"))
    assert page.locator(".answer li a").count() == page.locator(".answer li").count() > 5
