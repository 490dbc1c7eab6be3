"""A real browser for tests: the Chromium of this machine, driven by Playwright.

    with browsing() as browser, tab(browser, server.url) as page:
        page.get_by_role("link", name="Documents").click()

What a page says on its console as an error, or throws, fails the test that opened it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from timing import PATIENCE_S

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
expect.set_options(timeout=PATIENCE_S * 1000)


def chromium() -> str:
    """Where the browser is; without one the test fails and says what to install."""
    if os.environ.get("REFDESK_NO_BROWSER") == "1":
        pytest.skip("REFDESK_NO_BROWSER=1: the page is not tested")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            "no browser: install chromium (apt install chromium), or leave these tests out: REFDESK_NO_BROWSER=1"
        )
    return found


@contextmanager
def browsing() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS), headless=True)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Browser, url: str, *, allowed: tuple[str, ...] = (), **options: Any) -> Iterator[Page]:
    """A fresh profile at `url`; `allowed` are parts of console errors that the test means to cause."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        page.goto(url)
        yield page
        wrong = [line for line in said if not any(part in line for part in allowed)]
        assert not wrong, wrong
    finally:
        context.close()


def ask(page: Page, question: str) -> None:
    """Asks and waits until the whole answer stands there."""
    before = page.locator("article.turn[data-answer]").count()
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    expect(page.locator("article.turn[data-answer]")).to_have_count(before + 1)


def edges(page: Page, selector: str) -> list[dict[str, float]]:
    """Where elements stand in the window: left, top, right, bottom."""
    script = """all => all.map(one => {
        const {left, top, right, bottom} = one.getBoundingClientRect();
        return {left, top, right, bottom};
    })"""
    found: list[dict[str, float]] = page.eval_on_selector_all(selector, script)
    return found
