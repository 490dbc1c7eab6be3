"""A server with the example documents of its own, and a tab on it: the fixtures of the tests of the page.

server, page = page_samples.server, page_samples.page    # in a test module
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from browser import tab
from http_server import Server, serving
from refdesk import Refdesk


@pytest.fixture(scope="module")
def server(examples_of_file: Refdesk) -> Iterator[Server]:
    with serving(examples_of_file) as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with tab(browser, server.url) as found:
        yield found
