"""Documents in the browser: many files at once, reasons for failures, folders, names, leafing, renaming, deleting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser import ask, browsing, tab
from http_server import Server, serving
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
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
    expect(page.locator(".doc[data-status=ready]")).to_have_count(4, timeout=60_000)
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
    page.get_by_role("button", name="harbour/notes 1").click()
    expect(page.locator(".doc")).to_have_count(1)
    expect(page.locator(".doc-name")).to_have_text("third.md")

    page.get_by_role("button", name="Delete third.md").click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete “third.md”?")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".doc")).to_have_count(1)
    page.get_by_role("button", name="Delete third.md").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="Nothing fits")).to_be_visible()
    left = {one["name"]: one["status"] for one in server.get("/api/documents").json()["documents"]}
    assert [name for name, status in left.items() if status == "ready"] == ["note-1.md", "note-2.md", "note-4.md"]


def test_leafing_through_a_pdf(page: Page) -> None:
    page.get_by_label("Choose files").set_input_files(DOCUMENTS / "tg4-drift-report.pdf")
    name = page.get_by_role("button", name="tg4-drift-report.pdf", exact=True)
    name.click(timeout=60_000)
    expect(page.locator(".pager")).to_contain_text("of 3")
    page.keyboard.press("PageDown")
    expect(page.locator(".leaf[data-page='2'] img")).to_be_visible()
    page.get_by_role("textbox", name="Page").fill("3")
    page.get_by_role("textbox", name="Page").press("Enter")
    expect(page.locator(".leaf[data-page='3'] img")).to_be_visible()
    expect(page.get_by_role("button", name="Next page")).to_be_disabled()


def test_an_empty_library_begins_with_the_examples(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk, serving(desk) as server, tab(browser, server.url) as page:
        expect(page.locator(".offer")).to_have_count(3)
        page.get_by_role("button", name="Add the example documents").click()
        expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible(timeout=60_000)
        page.locator(".offer").nth(1).click()
        expect(page.locator("article.turn[data-answer] .chip").first).to_be_visible()
        ask(page, "And what does it weigh?")
        expect(page.locator("article.turn")).to_have_count(2)
