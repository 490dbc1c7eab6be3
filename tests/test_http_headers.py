"""The head of a request is bounded in bytes, lines and time, before anything of it is parsed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from urllib.parse import quote

import pytest

from http_server import Server, served, serving
from refdesk import Refdesk
from refdesk.serve.http.guard import MOST_BYTES, MOST_HEADERS, BoundedProtocol
from timing import PATIENCE_S

PIECE = b"a" * 65536
BUFFERS = 16 << 20  # what both kernels may hold of what was sent and never read
BEGUN = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class Hasty(BoundedProtocol):
    head_seconds = 0.3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("headers")
    Refdesk(folder).close()
    with served(folder) as running:
        yield running


def sent_until_closed(server: Server, *pieces: bytes, then: bytes, others: bool = False) -> tuple[int, bytes]:
    """Sends the pieces and then one more again and again; how many bytes were taken, and what was answered."""
    count, said = 0, b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        try:
            for piece in (*pieces, *repeat(then, 2 * BUFFERS // len(then))):
                connection.sendall(piece)
                count += len(piece)
                if others and count % (1 << 20) == 0:
                    assert server.get("/healthz").status_code == 200
        except OSError:
            pass
        try:
            while part := connection.recv(65536):
                said += part
        except OSError:  # what was not read resets the connection
            pass
    return count, said


def test_an_endless_header_is_cut_off_while_others_are_answered(server: Server) -> None:
    taken, _ = sent_until_closed(server, BEGUN + b"X-Endless: ", then=PIECE, others=True)
    assert taken < BUFFERS
    assert server.get("/healthz").status_code == 200


def test_an_endless_address_is_cut_off(server: Server) -> None:
    taken, _ = sent_until_closed(server, b"GET /", then=PIECE)
    assert taken < BUFFERS


def test_endless_trailers_are_cut_off(server: Server) -> None:
    head = b"POST /api/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
    assert sent_until_closed(server, head + b"X-Endless: ", then=PIECE)[0] < BUFFERS
    assert sent_until_closed(server, head, then=b"a: b\r\n" * 10_000)[0] < BUFFERS


def test_what_is_too_long_or_too_many_is_said(server: Server) -> None:
    for head in (b"X: " + b"a" * MOST_BYTES, b"".join(b"x%d: a\r\n" % one for one in range(MOST_HEADERS + 1))):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            connection.sendall(BEGUN + head[: MOST_BYTES - len(BEGUN)])
            said = connection.recv(65536)
        assert said.startswith(b"HTTP/1.1 431 ") and b'"code":"headers_too_large"' in said


def test_what_a_client_may_need_is_taken(server: Server) -> None:
    long = "船" * 7000  # 9 bytes each in an address; more of them this client does not send
    assert server.get(f"/api/search?q={quote(long)}").status_code == 200
    assert server.get("/healthz", headers={f"x-{one}": "a" for one in range(80)}).status_code == 200
    body = {"question": "What is it?", "settings": {}, "history": [{"role": "user", "content": "a" * 99_000}] * 5}
    assert server.post("/api/query", json=body).status_code == 200  # bodies have bounds of their own


def test_requests_one_after_the_other_count_each_for_itself(server: Server) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * (MOST_BYTES // 2) + b"\r\n\r\n"
    last = one.replace(b"X-Long", b"Connection: close\r\nX-Long")
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        connection.sendall(one * 4 + last)
        said = b""
        while part := connection.recv(65536):
            said += part
    assert said.count(b"HTTP/1.1 200 ") == 5


def test_a_head_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk, serving(desk, protocol=Hasty) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            connection.sendall(BEGUN)
            assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            assert connection.recv(65536) == b""  # nothing was asked: closed without a word
        assert server.get("/healthz").status_code == 200
