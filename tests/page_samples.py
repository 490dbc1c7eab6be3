"""A server with the example documents of its own, and a tab on it: the fixtures of the tests of the page.

server, page = page_samples.server, page_samples.page    # in a test module
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser import tab
from http_server import Server, serving
from refdesk import Refdesk


@pytest.fixture(scope="module")
def server(examples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page") / "library"
    shutil.copytree(examples_folder, folder)
    with Refdesk(folder) as desk, serving(desk) as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with tab(browser, server.url) as found:
        yield found
