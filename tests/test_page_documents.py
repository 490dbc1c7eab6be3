"""Documents in the browser: many files at once, reasons for failures, folders, names, leafing, renaming, deleting."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from browser import ask, edges, tab
from http_server import Server, serving
from library_samples import open_desk
from refdesk import Refdesk

DOCUMENTS = Path(__file__).parent.parent / "examples" / "documents"
DROP = """([selector, files]) => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([text], name));
    document.querySelector(selector).dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Refdesk(tmp_path_factory.mktemp("page") / "library") as desk, serving(desk) as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with tab(browser, f"{server.url}/#/documents") as found:
        yield found


def test_the_way_of_documents(page: Page, server: Server) -> None:
    """Dropped, read, failed with a reason, found by name, opened, moved, deleted; each step needs the one before."""
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    notes = [[f"note-{number}.md", f"# Note {number}\n\nThe harbour has {number} cranes."] for number in range(1, 5)]
    page.evaluate(DROP, [".drop", [*notes, ["broken.pdf", "%PDF-1.7 and nothing more"]]])
    expect(page.locator(".doc[data-status=ready]")).to_have_count(4)
    failed = page.locator(".upload[data-status=failed]")
    expect(failed).to_contain_text("broken.pdf")
    assert len(failed.locator("p").inner_text()) > 10  # the reason
    expect(failed.get_by_role("button", name="Try broken.pdf again")).to_be_visible()

    page.get_by_label("Search by name").fill("note-3")
    expect(page.locator(".doc")).to_have_count(1)
    page.get_by_role("button", name="note-3.md", exact=True).click()
    expect(page.locator(".leaf.text")).to_contain_text("The harbour has 3 cranes.")
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    page.get_by_role("button", name="note-3.md", exact=True).click()
    expect(page.locator(".leaf.text")).to_be_visible()
    page.get_by_role("link", name="Documents").click()
    expect(page.locator("#viewer")).to_be_hidden()

    page.get_by_role("button", name="Rename or move note-3.md").click()
    page.get_by_label("Name", exact=True).fill("third.md")
    page.get_by_label("Collection", exact=True).fill("harbour/notes")
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Search by name").fill("")
    expect(page.get_by_role("button", name="notes 1")).to_have_count(0)  # inside a folder that is shut
    page.get_by_role("button", name="harbour 1").click()
    page.get_by_role("button", name="notes 1").click()
    expect(page.locator(".drop")).to_contain_text("to add them to harbour/notes")
    expect(page.locator(".doc")).to_have_count(1)
    expect(page.locator(".doc-name")).to_have_text("third.md")

    page.get_by_role("button", name="Delete third.md").click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete “third.md”?")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".doc")).to_have_count(1)
    page.get_by_role("button", name="Delete third.md").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="This collection is empty")).to_be_visible()
    expect(page.get_by_label("Search by name")).to_be_focused()  # its row, and so its button, is gone
    left = {one["name"]: one["status"] for one in server.get("/api/documents").json()["documents"]}
    assert [name for name, status in left.items() if status == "ready"] == ["note-1.md", "note-2.md", "note-4.md"]


def test_several_at_once_and_whole_folders(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        desk.add_texts([(f"note {number}", f"The harbour has {number} cranes.") for number in range(5)])
        with serving(desk) as server, tab(browser, f"{server.url}/#/documents") as page:
            for name in ("note 1", "note 2"):
                page.get_by_label(f"Select {name}").check()
            bar = page.get_by_role("group", name="Selected documents")
            expect(bar).to_contain_text("2 documents selected")
            bar.get_by_role("button", name="Move").click()
            page.get_by_label("Collection", exact=True).fill("harbour/2024")
            page.get_by_role("button", name="Save").click()
            expect(bar).to_contain_text("2 documents selected")  # so that more can be done to them
            page.get_by_label("Search by name").fill("note 1")
            expect(bar).to_contain_text("1 document selected")  # what is out of sight is no longer chosen
            page.get_by_label("Search by name").fill("")
            expect(page.locator(".doc")).to_have_count(5)
            bar.get_by_role("button", name="Select all shown").click()
            bar.get_by_role("button", name="Select none").click()
            expect(bar).to_be_hidden()

            page.get_by_role("button", name="harbour 2").click()
            page.get_by_role("button", name="Rename the collection harbour").click()
            page.get_by_label("Name or path").fill("port")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_role("button", name="port 2")).to_be_focused()
            expect(page.locator(".doc")).to_have_count(2)
            assert {one.collection for one in desk.documents()} == {"default", "port/2024"}
            page.get_by_role("button", name="Delete the collection port").click()
            expect(page.get_by_role("dialog")).to_contain_text("2 documents will no longer be searchable")
            page.get_by_role("button", name="Delete", exact=True).click()
            expect(page.locator(".doc")).to_have_count(3)

            for number in (0, 3):
                page.get_by_label(f"Select note {number}").check()
            bar.get_by_role("button", name="Delete").click()
            page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            expect(page.locator(".doc")).to_have_count(1)
            expect(page.get_by_label("Search by name")).to_be_focused()
            assert [one.name for one in desk.documents()] == ["note 4"]


def test_leafing_through_a_pdf(page: Page) -> None:
    page.get_by_label("Choose files").set_input_files(DOCUMENTS / "tg4-drift-report.pdf")
    name = page.get_by_role("button", name="tg4-drift-report.pdf", exact=True)
    name.click()
    expect(page.locator(".pager")).to_contain_text("of 3")
    page.keyboard.press("PageDown")
    expect(page.locator(".leaf[data-page='2'] img")).to_be_visible()
    page.get_by_role("textbox", name="Page").fill("3")
    page.get_by_role("textbox", name="Page").press("Enter")
    expect(page.locator(".leaf[data-page='3'] img")).to_be_visible()
    expect(page.get_by_role("button", name="Next page")).to_be_disabled()


def test_an_empty_library_begins_with_the_examples(browser: Browser, tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk, serving(desk) as server, tab(browser, server.url) as page:
        expect(page.locator(".offer")).to_have_count(3)
        page.get_by_role("button", name="Add the example documents").click()
        expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
        page.locator(".offer").nth(1).click()
        expect(page.locator("article.turn[data-answer] .chip").first).to_be_visible()
        ask(page, "And what does it weigh?")
        expect(page.locator("article.turn")).to_have_count(2)


def test_a_password_is_asked_for(page: Page, server: Server) -> None:
    page.get_by_label("Choose files").set_input_files([{"name": "locked.pdf", "mimeType": "", "buffer": locked()}])
    row = page.locator(".upload[data-name='locked.pdf']")
    expect(row).to_contain_text("This PDF needs a password.")
    assert "--" not in row.inner_text()  # options of the command line are of no use here
    row.get_by_role("button", name="Enter password").click()
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(row).to_contain_text("The password is wrong.")
    listed = page.locator(".doc", has_text="locked.pdf")
    listed.get_by_role("button", name="Enter password").click()
    page.get_by_label("Password").fill("secret")
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(page.locator(".doc[data-status=ready]", has_text="locked.pdf")).to_be_visible()
    expect(page.locator(".upload[data-status=failed]", has_text="locked.pdf")).to_have_count(0)
    found = server.get("/api/documents?q=locked").json()["documents"][0]
    assert "noon" in server.get(f"/api/documents/{found['id']}/pages/1/text").json()["text"]


def locked() -> bytes:
    data = io.BytesIO()
    canvas = Canvas(data, encrypt=StandardEncryption("secret", "owner"))
    canvas.drawString(100, 700, "The vault opens at noon.")
    canvas.save()
    return data.getvalue()


class Site(BaseHTTPRequestHandler):
    """Any address gives the same page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Tides</title><p>High water at the pier is at nine.</p>")

    def log_message(self, *_: object) -> None:
        pass


def test_from_the_web(page: Page, server: Server) -> None:
    server.request("PATCH", "/api/settings", json={"serve.fetch_networks": "127.0.0.1/32"})
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        page.get_by_role("button", name="Add from the web").click()
        page.get_by_label("Address of a page or a file").fill(f"http://127.0.0.1:{site.server_port}/tides.html")
        page.keyboard.press("Enter")
        expect(page.locator(".doc[data-status=ready]", has_text="tides")).to_be_visible()
        site.shutdown()


def test_an_address_that_may_not_be_fetched(browser: Browser, tmp_path: Path) -> None:
    with (
        Refdesk(tmp_path / "library") as desk,
        serving(desk) as server,
        tab(browser, f"{server.url}/#/documents", allowed=("400",)) as page,
    ):
        page.get_by_role("button", name="Add from the web").click()
        page.get_by_label("Address of a page or a file").fill("http://127.0.0.1:9/secret")
        page.keyboard.press("Enter")
        expect(page.locator(".toast, .upload[data-status=failed]").first).to_contain_text("not on the public internet")
        expect(page.locator(".doc[data-status=ready]")).to_have_count(0)


def test_many_files_stay_in_their_frame(browser: Browser, tmp_path: Path) -> None:
    """Sixty at once, one with a name that does not end: a sum over a list that scrolls, failures first."""
    name = "Jahresbericht \N{SHIP} " + "\N{LATIN SMALL LETTER A WITH DIAERESIS}" * 80 + " report" * 12 + ".md"
    notes = [[f"note-{number}.md", f"# Note {number}\n\nBerth {number} is free."] for number in range(60)]
    with (
        Refdesk(tmp_path / "library") as desk,
        serving(desk) as server,
        tab(browser, f"{server.url}/#/documents") as page,
    ):
        expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
        page.evaluate(DROP, [".drop", [*notes, [name, "# Report\n\nAll is well."], ["empty.txt", ""]]])
        expect(page.locator(".uploads-head")).to_contain_text("to go")
        expect(page.get_by_role("progressbar", name="All files")).to_be_visible()
        (frame,), (whole,) = edges(page, ".uploads"), edges(page, ".view")
        assert frame["bottom"] - frame["top"] < 400 and frame["right"] <= whole["right"]
        assert max(one["right"] for one in edges(page, ".upload")) <= frame["right"]
        expect(page.locator(".upload").first).to_have_attribute("data-name", "empty.txt")
        expect(page.locator(".folders")).to_contain_text("62")
        expect(page.locator(".uploads-head")).to_be_hidden()
        page.get_by_role("button", name="Show more (12)").click()
        expect(page.locator(".doc")).to_have_count(62)
        page.locator(".upload").get_by_role("button", name="Remove empty.txt from the list").click()
        expect(page.locator(".upload[data-status=failed]")).to_have_count(0)


def test_a_question_to_try_adds_the_examples_first(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk, serving(desk) as server, tab(browser, server.url) as page:
        page.get_by_role("button", name="How long does the battery").press("Enter")
        expect(page.locator("article.turn[data-answer] .chip").first).to_be_visible()
        expect(page.get_by_label("Question", exact=True)).to_be_focused()  # what had the focus is gone
