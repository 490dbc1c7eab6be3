"""Documents from the web: what is fetched, and the doors into a private network that stay shut."""

from __future__ import annotations

import asyncio
import gzip
import io
import ipaddress
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from refdesk.errors import RefdeskError, TooLarge, UnreadableFile, UsageError
from refdesk.serve import fetch as fetching
from refdesk.serve.fetch import checked_networks, checked_url, fetch, may_reach

HERE = (ipaddress.ip_network("127.0.0.1/32"),)  # the one machine of these tests that counts as allowed

PACKED = {
    "/packed": ("gzip", gzip.compress(b"The weir is open.")),
    "/bomb": ("gzip", gzip.compress(bytes(64 << 20))),
    "/twice": ("gzip, gzip", gzip.compress(gzip.compress(bytes(64 << 20)))),
    "/torn": ("gzip", gzip.compress(b"The weir is open.")[:20]),
    "/odd": ("br", b"x"),
}


class Site(BaseHTTPRequestHandler):
    """A small site: pages, redirects of all kinds, and files that are too large, too slow or cut off."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Host"], self.client_address[0]))  # type: ignore[attr-defined]
        port = self.server.server_address[1]
        redirects = {
            "/moved": "/report.txt",
            "/inside": f"http://127.0.0.2:{port}/report.txt",
            "/inside6": f"http://[::1]:{port}/report.txt",
            "/mapped": f"http://[::ffff:127.0.0.2]:{port}/report.txt",
            "/metadata": "http://169.254.169.254/latest/meta-data/",
            "/number": f"http://2130706434:{port}/report.txt",  # 127.0.0.2
            "/file": "file:///etc/passwd",
            "/loop": "/loop",
            "/secret": f"http://user:word@127.0.0.1:{port}/report.txt",
        }
        if self.path in redirects:
            self.send_response(302)
            self.send_header("Location", redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/endless":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            for _ in range(200):
                self.wfile.write(b"x" * 65536)
        elif self.path == "/drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.1)
        elif self.path in PACKED:
            packing, body = PACKED[self.path]
            self.send_response(200)
            self.send_header("Content-Encoding", packing)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/gone":
            self.send_error(404)
        else:
            body = b"The weir is open."
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if self.path == "/named":
                self.send_header(
                    "Content-Disposition", "attachment; filename=\"a.txt\"; filename*=UTF-8''w%C3%A9ir.txt"
                )
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Not on the terminal."""


class Quiet(ThreadingHTTPServer):
    """Says nothing of clients that leave in the middle, as they are meant to here."""

    daemon_threads = True
    seen: list[tuple[str, str, str]]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """They left."""


@pytest.fixture(scope="module")
def site() -> Iterator[Quiet]:
    server = Quiet(("0.0.0.0", 0), Site)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def fetched(site: Quiet, path: str, **options: Any) -> tuple[str, bytes, str]:
    """(name, bytes, address in the end)"""
    buffer = io.BytesIO()
    url = path if "://" in path else f"http://127.0.0.1:{site.server_address[1]}{path}"
    said = asyncio.run(fetch(url, buffer, **({"most_bytes": 1 << 20, "networks": HERE} | options)))
    assert said.size == len(buffer.getvalue())
    return said.name, buffer.getvalue(), said.url


def test_a_file_is_fetched_also_when_it_has_moved(site: Quiet) -> None:
    assert fetched(site, "/report.txt")[:2] == ("report.txt", b"The weir is open.")
    name, data, url = fetched(site, "/moved")
    assert (name, data) == ("report.txt", b"The weir is open.") and url.endswith("/report.txt")
    assert fetched(site, "/named")[0] == "wéir.txt"
    assert fetched(site, "/")[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/inside", "/inside6", "/mapped", "/metadata", "/number"])
def test_a_redirect_into_the_private_network_is_not_followed(site: Quiet, path: str) -> None:
    before = len(site.seen)
    with pytest.raises(UsageError, match="not on the public internet"):
        fetched(site, path)
    assert [one[0] for one in site.seen[before:]] == [path], "nothing else was asked for"


@pytest.mark.parametrize(
    ("path", "said"), [("/file", "only http"), ("/secret", "name or password"), ("/loop", "redirects more than 5")]
)
def test_other_redirects_that_are_not_followed(site: Quiet, path: str, said: str) -> None:
    with pytest.raises(RefdeskError, match=said):
        fetched(site, path)


def test_a_name_that_changes_its_address_is_connected_to_the_one_that_was_checked(site: Quiet) -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    url = f"http://tide.example:{site.server_address[1]}/report.txt"
    assert fetched(site, url, resolve=rebinding)[1] == b"The weir is open."
    assert site.seen[-1][1].startswith("tide.example:"), "the site is told its own name"
    assert next(answers) == ["127.0.0.2"], "resolved once"


def test_a_name_in_other_letters_is_told_as_machines_know_it(site: Quiet) -> None:
    async def here(host: str, port: int) -> list[str]:
        assert host == "xn--bcher-kva.example"
        return ["127.0.0.1"]

    url = f"http://bücher.example:{site.server_address[1]}/größe.txt#part"
    assert fetched(site, url, resolve=here)[0] == "größe.txt"
    assert site.seen[-1][:2] == ("/gr%C3%B6%C3%9Fe.txt", f"xn--bcher-kva.example:{site.server_address[1]}")


def test_a_name_with_one_private_address_is_refused(site: Quiet) -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "10.0.0.8"]

    with pytest.raises(UsageError, match="not on the public internet"):
        fetched(site, f"http://tide.example:{site.server_address[1]}/report.txt", resolve=both)


def test_nothing_private_is_reached_unless_it_is_allowed(site: Quiet) -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1 is not on the public internet"):
        fetched(site, "/report.txt", networks=())
    with pytest.raises(UsageError, match="localhost is not on the public internet"):
        fetched(site, f"http://localhost:{site.server_address[1]}/", networks=())


def test_limits_of_size_and_time(site: Quiet) -> None:
    with pytest.raises(TooLarge, match="larger than 1 MB"):
        fetched(site, "/endless")
    with pytest.raises(TooLarge):
        fetched(site, "/report.txt", most_bytes=3)
    with pytest.raises(UnreadableFile, match="longer than"):
        fetched(site, "/drip", time_limit_s=0.5)


def test_what_comes_packed_is_unpacked_piece_by_piece(site: Quiet) -> None:
    assert fetched(site, "/packed")[1] == b"The weir is open."
    tracemalloc.start()
    with pytest.raises(TooLarge, match="larger than 1 MB"):
        fetched(site, "/bomb")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 << 20  # 66 MB at once when a piece was unpacked whole
    for path, said in (
        ("/twice", "unknown encoding 'gzip, gzip'"),
        ("/odd", "unknown encoding 'br'"),
        ("/torn", "ended early"),
    ):
        with pytest.raises(UnreadableFile, match=said):
            fetched(site, path)


def test_a_name_server_that_is_silent_holds_up_no_one_else() -> None:
    """Names are looked up in threads of their own, not in those that work on questions."""

    async def look() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        loop.run_in_executor(None, waiting.wait)
        return await asyncio.wait_for(fetching.resolve("127.0.0.1", 80), 5)

    waiting = threading.Event()
    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(look()) == ["127.0.0.1"]
    finally:
        waiting.set()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_what_is_not_there_says_so(site: Quiet) -> None:
    with pytest.raises(UnreadableFile, match="answered 404"):
        fetched(site, "/gone")
    with pytest.raises(UnreadableFile, match="cannot be fetched"):
        fetched(site, "http://127.0.0.1:1/")
    with pytest.raises(UnreadableFile, match="does not exist"):
        fetched(site, "http://no-such-machine.invalid/")


PRIVATE = """
    127.0.0.1 127.9.9.9 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1
    240.0.0.1 255.255.255.255 192.0.0.170 198.18.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 fec0::1
    ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a00:1
    2002:7f00:1:: 2002:a00:1:: ::7f00:1 2001:0:0:0:0:0:80ff:fffe not-an-address
"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_addresses_that_are_never_reached(address: str) -> None:
    assert not may_reach(address)


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_of_the_public_web(address: str) -> None:
    assert may_reach(address)


def test_an_allowed_network_does_not_open_the_machine_s_own_keys() -> None:
    networks = checked_networks("10.1.0.0/16, 169.254.0.0/16, fd00::/8")
    assert may_reach("10.1.2.3", networks) and may_reach("fd00::1", networks)
    assert not may_reach("10.2.2.3", networks) and not may_reach("169.254.169.254", networks)
    with pytest.raises(UsageError, match=r"serve\.fetch_networks"):
        checked_networks("10.1.0.0/16 or so")


NO_ADDRESSES = [
    *("ftp://example.org/a", "file:///etc/passwd", "gopher://x", "//example.org/a", "http://", "http://a:99999/", ""),
    *("javascript:alert(1)", "https://user@example.org/", "http://[::1/", "http://x/" + "a" * 2001, "http://a b/"),
    *("http://a\x00b/", "http://é..x/", "http://a%00/", "http://a\\@127.0.0.1/", "http://[fe80::1%25eth0]/"),
]


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        checked_url(url)
