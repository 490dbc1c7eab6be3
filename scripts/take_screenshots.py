"""Takes the pictures of the page that the README and the docs show: `python scripts/take_screenshots.py`.

A library with the example documents is made in a temporary folder and served; the Chromium of this machine looks at it.
"""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
REFDESK = str(Path(sys.executable).with_name("refdesk"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
QUESTIONS = (
    "What does a five-point calibration of a TG-4 cost in 2026?",
    "How long is parental leave?",
    "What does error code E23 of the TG-4 mean?",
    "Who won the chess championship in 1972?",
    "How many people worked for Skerry at the end of the third quarter?",
    "Until when may the wave buoy stay moored off Lodin Point?",
    "How long does the battery of the WB-7 buoy last?",
)
LAST = "What caused the drift of the pressure sensors?"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([REFDESK, "--library", str(folder), "serve", "--port", str(port)])
    try:
        while not _answers(url):
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{url}/healthz", timeout=2).status == 200)
    except (urllib.error.URLError, OSError):
        return False


def shoot(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(700)  # until what fades in has faded in
    taken = Image.open(io.BytesIO(page.screenshot()))
    taken.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


def ask(page: Page, url: str, question: str) -> None:
    page.goto(f"{url}/#/ask")
    page.reload()
    page.fill("#question", question)
    page.keyboard.press("Enter")
    page.wait_for_selector("article.turn[data-answer]")


def views(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector(".offer")
    shoot(page, "start")
    for number, question in enumerate((*QUESTIONS, LAST)):
        ask(page, url, question)
        page.click("[aria-label='This is wrong']" if number == 3 else "[aria-label='This is correct']")
    page.wait_for_selector(".toast")
    page.locator(".toast").last.wait_for(state="detached")
    page.evaluate("document.activeElement.blur()")
    shoot(page, "answer")
    page.click(".source:has-text('.pdf')")
    page.wait_for_selector(".mark")
    shoot(page, "ask")
    page.click("#theme")
    shoot(page, "ask-dark")
    page.click("#theme")
    answer = page.get_attribute("article.turn", "data-answer")
    for view in ("documents", "settings", "analytics"):
        page.goto(f"{url}/#/{view}")
        page.wait_for_selector({"documents": ".doc", "settings": ".setting", "analytics": ".chart"}[view])
        shoot(page, view)
    page.goto(f"{url}/#/traces/{answer}")
    page.locator(".fall summary", has_text="retrieve").click()
    shoot(page, "trace")


def phone(page: Page, url: str) -> None:
    ask(page, url, LAST)
    shoot(page, "phone")
    page.click(".source:has-text('.pdf')")
    page.wait_for_selector(".mark")
    shoot(page, "phone-viewer")


def main() -> None:
    browser_path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser_path is None:
        sys.exit("no browser: install chromium")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        library = Path(folder) / "library"
        documents = str(ROOT / "examples" / "documents")
        subprocess.run([REFDESK, "--library", str(library), "add", documents, "--collection", "examples"], check=True)
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        with served(library) as url:
            views(browser.new_page(viewport={"width": 1360, "height": 850}), url)
            phone(browser.new_page(viewport={"width": 375, "height": 760}, device_scale_factor=2), url)
        browser.close()


if __name__ == "__main__":
    main()
