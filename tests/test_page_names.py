"""The view of names: what is named most, what stands beside a name, and the sentence that proves it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

import page_samples
from browser import tab
from http_server import Server

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
