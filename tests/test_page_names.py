"""The view of names: what is named most, what stands beside a name, and the sentence that proves it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import page_samples
from browser import tab
from http_server import Server, serving
from refdesk import Refdesk
from refdesk.ingest.graph import proved

server, page = page_samples.server, page_samples.page


def test_an_edge_opens_its_proof_and_a_name_leads_on(page: Page, server: Server) -> None:
    page.get_by_role("link", name="Names").click()
    page.get_by_role("link", name=re.compile("Ines Carrow")).click()
    expect(page.get_by_role("heading", name="Ines Carrow")).to_be_visible()
    edges = server.get("/api/graph", params={"entity": "Ines Carrow"}).json()["edges"]
    rows = page.get_by_role("list", name="Related names").get_by_role("listitem")
    expect(rows).to_have_count(len(edges))
    rows.first.get_by_role("button").click()
    expect(page.locator("#viewer")).to_contain_text(edges[0]["citation"]["document_name"])
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name=edges[0]["name"], exact=True)).to_be_visible()
    assert page.url.endswith(f"#/graph/{edges[0]['key'].replace(' ', '%20')}")


def test_what_a_model_found_says_so(browser: Browser, tmp_path: Path) -> None:
    text = "The hull is painted with seal oil. It is pressed at the boat house."
    names = [{"name": name, "kind": "term", "aliases": []} for name in ("seal oil", "boat house", "hull")]
    relations = [{"subject": "hull", "predicate": "painted with", "object": "seal oil"}]
    relations += [{"subject": "seal oil", "predicate": "pressed at", "object": "boat house"}]
    with Refdesk(tmp_path) as desk:
        document = desk.add_text("oil", text).document
        assert document is not None
        found = [(chunk, proved(chunk, {"entities": names, "relations": relations})[0]) for chunk in desk.chunks("oil")]
        assert desk.background_ports.graph.put_extracted(document, "openai:writer-8b", found)
        with serving(desk) as server, tab(browser, server.url) as page:
            page.goto(f"{server.url}/#/graph/seal%20oil")
            rows = page.get_by_role("list", name="Related names").get_by_role("listitem")
            expect(rows.filter(has_text="pressed at ·").get_by_role("button")).to_contain_text(text)
            row = rows.filter(has_text="painted with ·")
            expect(row).to_contain_text("painted with · found by openai:writer-8b")
            row.get_by_role("button").click()
            expect(page.locator("#viewer")).to_contain_text("painted with seal oil")


def test_a_name_that_nobody_has_is_said_to_be_missing(browser: Browser, server: Server) -> None:
    with tab(browser, server.url, allowed=("404",)) as page:
        page.goto(f"{server.url}/#/graph")
        page.get_by_label("Search names").fill("Zebra")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text("No document mentions this")).to_be_visible()


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}}], ids=str)
def test_it_fits_every_screen(browser: Browser, server: Server, options: dict[str, object]) -> None:
    with tab(browser, server.url, **options) as page:
        page.goto(f"{server.url}/#/graph/tg%204")
        expect(page.locator(".edges li").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
