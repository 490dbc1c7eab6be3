"""Zooming in the viewer: the marked lines stay in view, and the text begins at its usual size."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

import page_samples
from browser import ask, edges, tab
from http_server import Server

server = page_samples.server


def is_in_view(page: Page) -> bool:
    mark, sheet = edges(page, ".viewer .mark")[0], edges(page, ".viewer-pages")[0]
    return (
        mark["top"] >= sheet["top"] - 1
        and mark["bottom"] <= sheet["bottom"] + 1
        and mark["left"] < sheet["right"] - 20
        and mark["right"] > sheet["left"] + 20
    )


@pytest.mark.parametrize("width", [1440, 375])
def test_the_mark_stays_in_view(browser: Browser, server: Server, width: int) -> None:
    with tab(browser, server.url, viewport={"width": width, "height": 800}) as page:
        ask(page, "What caused the drift of the pressure sensors?")
        page.locator("article.turn .source").first.click()
        expect(page.locator(".viewer .mark").first).to_be_visible()
        page.wait_for_timeout(600)
        for _ in range(4):
            page.get_by_role("button", name="Larger").click()
            assert is_in_view(page)
        for _ in range(6):
            page.get_by_role("button", name="Smaller").click()
            assert is_in_view(page)
        for _ in range(5):
            page.get_by_role("button", name="Larger").click()
        page.get_by_role("button", name="Show the text").click()
        text = page.locator(".viewer .leaf.text")
        expect(text).to_be_visible()
        expect(text.locator("mark")).to_be_in_viewport()
        assert text.evaluate("one => parseFloat(getComputedStyle(one).fontSize)") < 18
        page.get_by_role("button", name="Show the page").click()
        expect(page.locator(".viewer .mark").first).to_be_visible()
        leaf, sheet = edges(page, ".viewer .leaf")[0], edges(page, ".viewer-pages")[0]
        assert leaf["right"] - leaf["left"] <= sheet["right"] - sheet["left"]
