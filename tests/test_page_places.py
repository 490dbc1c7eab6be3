"""Where things go in the library: files into their collection, scopes and the viewer along with what was renamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from browser import ask, tab
from http_server import Server, serving
from refdesk import Refdesk

FILES = [{"name": f"note-{number}.txt", "mimeType": "", "buffer": b"Crane %d." % number} for number in range(3)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    """Two collections with a text each."""
    with Refdesk(tmp_path / "library") as found:
        found.add_text("crane.txt", "The harbour has four cranes.", collection="harbour")
        found.add_text("ferry.txt", "The ferry leaves at nine.", collection="ferries")
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with tab(browser, f"{server.url}/#/documents") as found:
        yield found


def folder(page: Page, name: str) -> None:
    page.locator(".folder", has=page.locator(f"span:text-is('{name}')")).click()


def places(desk: Refdesk) -> dict[str, str]:
    return {one.name: one.collection for one in desk.documents()}


def test_files_go_where_they_were_dropped(page: Page, desk: Refdesk) -> None:
    """Also those that are sent when another folder is open already."""
    held: list[Route] = []
    folder(page, "ferries")
    expect(page.locator(".drop")).to_contain_text("to add them to ferries")
    page.route("**/api/documents", lambda route: route.continue_() if held else held.append(route))
    page.get_by_label("Choose files").set_input_files(FILES)  # type: ignore[arg-type]
    expect(page.locator(".upload")).to_have_count(3)
    folder(page, "harbour")
    expect(page.locator(".drop")).to_contain_text("to add them to harbour")
    held[0].continue_()
    folder(page, "Everything")
    expect(page.locator(".doc[data-status=ready]")).to_have_count(5)
    assert {place for name, place in places(desk).items() if name.startswith("note")} == {"ferries"}


def test_a_new_collection_begins_with_its_first_file(page: Page, desk: Refdesk) -> None:
    expect(page.locator(".drop")).to_contain_text("to add them to default")
    page.get_by_role("button", name="New collection").click()
    page.get_by_label("Name or path").fill("harbour/2025")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".folder[aria-pressed=true]")).to_contain_text("2025")
    expect(page.get_by_role("heading", name="This collection is empty")).to_be_visible()
    page.get_by_label("Choose files").set_input_files(FILES[:1])  # type: ignore[arg-type]
    expect(page.locator(".doc[data-status=ready]")).to_have_count(1)
    assert places(desk)["note-0.txt"] == "harbour/2025"


def test_an_editor_begins_in_a_collection_of_his_own(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        _, secret = desk.keys.add("Edda", "editor", ["berths"])
        with serving(desk) as server, tab(browser, server.url, allowed=("401",)) as page:
            page.get_by_label("Key").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="The library is empty")).to_be_visible()
            expect(page.get_by_role("button", name="Add the example documents")).to_have_count(0)
            expect(page.locator(".offer")).to_have_count(0)  # they would be refused, too
            page.get_by_role("link", name="Add your own").click()
            expect(page.locator(".drop")).to_contain_text("to add them to berths")
            page.get_by_label("Choose files").set_input_files(FILES[:1])  # type: ignore[arg-type]
            expect(page.locator(".doc[data-status=ready]")).to_have_count(1)
            assert places(desk) == {"note-0.txt": "berths"}


def test_a_scope_that_is_gone_is_given_up(page: Page, desk: Refdesk, server: Server) -> None:
    """Renamed on this page, or by somebody else while the question is being typed."""
    scope = page.get_by_title("Where to look")
    for name, rename in (("harbour", lambda: by_hand(page)), ("port", lambda: by_another(server))):
        page.get_by_role("link", name="Ask", exact=True).click()
        scope.click()
        page.get_by_label(name, exact=True).check()
        page.get_by_role("button", name="Use these").click()
        expect(scope).to_have_text(name)
        rename()
        page.get_by_role("link", name="Ask", exact=True).click()
        ask(page, "How many cranes has the harbour?")
        expect(scope).to_have_text("All documents")
        expect(page.locator(".toast").last).to_contain_text(f"“{name}”")
        expect(page.locator(".answer").last).to_contain_text("four cranes")
    assert places(desk)["crane.txt"] == "quay"


def by_hand(page: Page) -> None:
    page.get_by_role("link", name="Documents").click()
    folder(page, "harbour")
    page.get_by_role("button", name="Rename the collection harbour").click()
    page.get_by_label("Name or path").fill("port")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".folder[aria-pressed=true]")).to_contain_text("port")


def by_another(server: Server) -> None:
    assert server.request("PATCH", "/api/collections/port", json={"name": "quay"}).status_code == 200


def test_two_collections_do_not_become_one_by_mistake(page: Page, desk: Refdesk) -> None:
    folder(page, "harbour")
    for answer, after in (("Cancel", "harbour"), ("Merge", "ferries")):
        page.get_by_role("button", name="Rename the collection harbour").click()
        page.get_by_label("Name or path").fill("ferries")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("dialog")).to_contain_text("The two collections will be merged.")
        page.get_by_role("button", name=answer).click()
        expect(page.locator(".folder[aria-pressed=true]")).to_contain_text(after)
        assert places(desk)["crane.txt"] == after


def test_what_is_chosen_and_shown_stays_when_a_file_is_ready(page: Page, desk: Refdesk) -> None:
    desk.add_texts([(f"text {number:02}", f"Berth {number} is free.") for number in range(60)])
    page.reload()
    page.get_by_role("button", name="Show more (12)").click()
    page.get_by_label("Select text 58").check()
    page.get_by_label("Select text 03").check()
    page.get_by_label("Choose files").set_input_files(FILES[:1])  # type: ignore[arg-type]
    expect(page.get_by_role("button", name="note-0.txt", exact=True)).to_be_visible()
    expect(page.locator(".doc")).to_have_count(63)
    expect(page.get_by_role("group", name="Selected documents")).to_contain_text("2 documents selected")
    expect(page.get_by_label("Select text 58")).to_be_checked()


def test_the_viewer_goes_along(page: Page, desk: Refdesk) -> None:
    """A document that is moved is shown where it is now, one that is deleted no longer."""
    for name in ("crane.txt", "ferry.txt"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="crane.txt", exact=True).click()
    expect(page.locator(".viewer-bar")).to_contain_text("harbour")
    bar = page.get_by_role("group", name="Selected documents")
    bar.get_by_role("button", name="Move").click()
    page.get_by_label("Collection", exact=True).fill("quay")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".viewer-bar")).to_contain_text("quay")
    bar.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#viewer")).to_be_hidden()
    assert page.url.endswith("#/documents") and not desk.documents()


def test_after_an_outage_everything_is_there_again(browser: Browser, server: Server) -> None:
    with tab(browser, "about:blank", allowed=("ERR_FAILED",)) as page:
        for path in ("**/api/collections", "**/api/documents?*"):
            page.route(path, lambda route: route.abort())
        page.goto(f"{server.url}/#/documents")
        expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
        page.unroute_all()
        page.get_by_role("button", name="Try again").click()
        expect(page.locator(".doc")).to_have_count(2)
        expect(page.locator(".folder")).to_have_count(3)


def test_folders_cannot_be_dropped_but_files_can_beside_the_zone(page: Page, desk: Refdesk, tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "tide.txt").write_text("High water is at nine.")
    client = page.context.new_cdp_session(page)
    expect(page.locator(".doc")).to_have_count(2)
    at = page.locator(".docs").bounding_box()
    assert at is not None
    dropped = {"items": [], "files": [str(tmp_path / "papers"), str(tmp_path / "tide.txt")], "dragOperationsMask": 1}
    for step in ("dragEnter", "dragOver", "drop"):
        event = {"type": step, "x": at["x"] + 50, "y": at["y"] + 20, "data": dropped}
        client.send("Input.dispatchDragEvent", event)
    expect(page.locator(".toast")).to_contain_text("Folders cannot be dropped here")
    expect(page.locator(".doc[data-status=ready]")).to_have_count(3)
    assert "tide.txt" in places(desk) and not page.locator(".upload[data-status=failed]").count()
