"""How soon can one type, how heavy is the page, and can everyone use it? A real Chromium, a real `refdesk serve`.

python -m benchmarks.page [--rounds 10]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.common import Figure, write
from benchmarks.http_speed import DOCUMENTS, served
from refdesk import Refdesk
from refdesk.serve.http.page import FOLDER

USABLE_MS, MOST_BYTES = 300, 150_000  # the bars of the page
VIEWS = ("ask", "documents", "settings", "traces", "analytics")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
QUESTION = "What caused the drift of the pressure sensors?"
# The moment at which the box can be typed into, in milliseconds since the page was asked for.
WATCH = """new MutationObserver(() => {
    if (!window.usable && document.getElementById("question")) window.usable = performance.now();
}).observe(document, {childList: true, subtree: true})"""
SENT = "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"


def figures(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        with Refdesk(library) as desk:
            desk.add(DOCUMENTS, collection="examples")
            desk.ask_sync(QUESTION, conversation_id="drift")
        with served(library) as port, browsing() as browser:
            url = f"http://127.0.0.1:{port}"
            return [*_first_load(browser, url, rounds), _weight(), *_axe(browser, url), _hosts(browser, url)]


@contextmanager
def browsing() -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        sys.exit("no browser: install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def _tab(browser: Browser, **options: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
    yield context.new_page()
    context.close()


def _open(page: Page, url: str, view: str) -> None:
    page.goto(f"{url}/#/{view}")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".main .bones", state="detached")


def _first_load(browser: Browser, url: str, rounds: int) -> list[Figure]:
    """In a fresh profile each time, so that nothing is kept; after one round that warms the server."""
    took, sent = [], 0
    for _ in range(rounds + 1):
        with _tab(browser) as page:
            page.add_init_script(WATCH)
            page.goto(url)
            page.wait_for_selector("html[data-ready]")
            took.append(page.evaluate("window.usable"))
            sent = page.evaluate(SENT)
    took = took[1:]
    middle = statistics.median(took)
    return [
        Figure(
            "first load to a box that can be typed into, fresh profile",
            f"p50 {middle:.0f} ms, best {min(took):.0f} ms",
            f"≤ {USABLE_MS} ms",
            middle <= USABLE_MS,
        ),
        Figure("sent for the first load, without the HTML", f"{sent / 1000:.0f} kB"),
    ]


def _weight() -> Figure:
    size = sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file())
    return Figure("all files of the page", f"{size / 1000:.0f} kB", f"≤ {MOST_BYTES // 1000} kB", size <= MOST_BYTES)


def _axe(browser: Browser, url: str) -> Iterator[Figure]:
    """Every view, the viewer beside an answer, one trace and the sign-in, on a desk and on a phone."""
    for scheme in ("light", "dark"):
        serious, minor, seen = [], 0, 0
        for width, height in ((1440, 900), (375, 760)):
            with _tab(browser, color_scheme=scheme, reduced_motion="reduce") as page:
                page.set_viewport_size({"width": width, "height": height})
                for name in _visits(page, url):
                    seen += 1
                    for found in Axe().run(page).response["violations"]:
                        if found["impact"] in ("serious", "critical"):
                            serious.append(f"{name} {width} px: {found['id']}")
                        else:
                            minor += 1
        text = f"{len(serious)} serious, {minor} minor, in {seen} views"
        yield Figure(
            f"axe-core, {scheme}", text + (f" ({'; '.join(serious)})" if serious else ""), "none serious", not serious
        )


def _visits(page: Page, url: str) -> Iterator[str]:
    for view in (*VIEWS, "ask/drift"):
        _open(page, url, view)
        yield view
    page.locator(".source").first.click()
    page.wait_for_selector(".leaf:not(.waiting)")
    yield "viewer"
    answer = page.locator("article.turn").get_attribute("data-answer")
    _open(page, url, f"traces/{answer}")
    page.locator(".fall summary").first.click()
    yield "trace"
    page.goto(f"{url}/sign-in")
    yield "sign-in"


def _hosts(browser: Browser, url: str) -> Figure:
    """What every view asks for, and what it says against its own policy."""
    hosts: set[str] = set()
    said: list[str] = []
    with _tab(browser) as page:
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        for _ in _visits(page, url):
            pass
    others = hosts - {url.removeprefix("http://")}
    return Figure(
        "requests to other hosts; errors on the console, its policy included",
        f"{len(others)}; {len(said)}",
        "0; 0",
        not others and not said,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=10)
    chosen = options.parse_args()
    write("page", "The page", figures(chosen.rounds))


if __name__ == "__main__":
    main()
