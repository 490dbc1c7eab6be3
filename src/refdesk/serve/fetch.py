"""Fetches a document from the web without giving access to the private network.

Only http and https. A name is resolved once, every address it has is checked, and the connection is made to the
address that was checked, so a name that points elsewhere a moment later changes nothing. Each redirect goes through the
same checks. No proxy is used: it would resolve the name for itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import IO
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import httpx2

from refdesk.errors import RefdeskError, TooLarge, UnreadableFile, UsageError

TIME_LIMIT_S = 60.0  # for the whole of it, redirects included
QUIET_S = 15.0  # for a connection, and between two pieces
MOST_REDIRECTS = 5
LONGEST_URL = 2000
REDIRECTS = (301, 302, 303, 307, 308)
NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))

PIECE = 1 << 16  # bytes
_NAMES = ThreadPoolExecutor(8, "refdesk-names")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came: where from in the end, what to call it, how many bytes."""

    url: str
    name: str
    size: int


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order to try them."""
    # In threads of its own: a name server that never answers must not hold those in which questions are worked on.
    found = await asyncio.get_running_loop().run_in_executor(
        _NAMES, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    )
    return list(dict.fromkeys(str(address[4][0]) for address in found))


async def fetch(
    url: str,
    into: IO[bytes],
    *,
    most_bytes: int,
    networks: Sequence[Network] = (),
    resolve: Resolve = resolve,
    time_limit_s: float = TIME_LIMIT_S,
) -> Fetched:
    """Writes what lies at an address into a file; `networks` are private ones that are allowed all the same."""
    try:
        async with asyncio.timeout(time_limit_s):
            return await _followed(url, into, most_bytes, networks, resolve)
    except TimeoutError:
        raise _unreachable(url, f"it took longer than {time_limit_s:.0f} seconds") from None
    except httpx2.TimeoutException:
        raise _unreachable(url, f"it sent nothing for {QUIET_S:.0f} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError) as error:
        raise _unreachable(url, _first_line(error)) from error


async def _followed(
    url: str, into: IO[bytes], most_bytes: int, networks: Sequence[Network], resolve: Resolve
) -> Fetched:
    for _ in range(MOST_REDIRECTS + 1):
        parts = checked_url(url)
        addresses = await _addresses(parts, networks, resolve)
        async with AsyncExitStack() as stack:
            response = await _request(stack, parts, addresses)
            if response.status_code in REDIRECTS and "location" in response.headers:
                url = urljoin(url, response.headers["location"])
                continue
            if response.status_code != 200:
                raise _unreachable(url, f"it answered {response.status_code}")
            size = await _write(response, into, most_bytes)
            return Fetched(url, _name(parts, response.headers.get("content-disposition", "")), size)
    raise _unreachable(url, f"it redirects more than {MOST_REDIRECTS} times")


def checked_url(url: str) -> SplitResult:
    """The parts of an address that may be fetched, before its name is resolved."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port  # raise for a port that is none
    except ValueError as error:
        raise UsageError(f"this is not an address: {error}", hint="write https://example.org/report.pdf") from None
    if parts.scheme not in ("http", "https") or not host or len(url) > LONGEST_URL or port == 0:
        raise UsageError("only http and https addresses can be fetched", hint="write https://example.org/report.pdf")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "addresses that contain a user name or password are not fetched", hint="download and upload it"
        )
    return parts._replace(netloc=_netloc(host, port), fragment="")


def _netloc(host: str, port: int | None) -> str:
    """`("bücher.example", 8080)` -> `xn--bcher-kva.example:8080`, as machines are told it."""
    try:
        name = host if ":" in host else host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    if not name or any(not (letter.isalnum() or letter in "-._:") for letter in name):
        raise UsageError(f"'{host[:100]}' is not a host name", hint="write https://example.org/report.pdf")
    shown = f"[{name}]" if ":" in name else name
    return shown if port is None else f"{shown}:{port}"


def checked_networks(text: str) -> tuple[Network, ...]:
    """`"10.1.0.0/16, fd00::/8"` -> the two networks."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UsageError(f"serve.fetch_networks: {error}", hint="write 10.1.0.0/16, separated by commas") from None


async def _addresses(parts: SplitResult, networks: Sequence[Network], resolve: Resolve) -> list[str]:
    host = parts.hostname or ""
    try:
        found = await resolve(host, parts.port or (443 if parts.scheme == "https" else 80))
    except (OSError, UnicodeError):
        raise _unreachable(parts.geturl(), f"the host {host} does not exist") from None
    # All of them: a name with a public and a private address would be a way in.
    if not found or not all(may_reach(address, networks) for address in found):
        raise UsageError(
            f"{host} is not on the public internet, so it was not fetched",
            hint="download and upload it, or allow its network in serve.fetch_networks",
        )
    return found


def may_reach(address: str, networks: Sequence[Network] = ()) -> bool:
    """Whether an address is on the public web, or in a private network that is allowed.

    >>> may_reach("169.254.169.254"), may_reach("::ffff:10.0.0.1"), may_reach("93.184.215.14")
    (False, False, True)
    """
    try:
        parsed: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    parsed = _inner(parsed)
    if (
        parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified
    ):  # where clouds keep a machine's own keys, too
        return False
    if any(parsed.version == network.version and parsed in network for network in networks):
        return True
    site_local = isinstance(parsed, ipaddress.IPv6Address) and parsed.is_site_local
    return parsed.is_global and not parsed.is_reserved and not site_local


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in NAT64) or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


async def _request(stack: AsyncExitStack, parts: SplitResult, addresses: Sequence[str]) -> httpx2.Response:
    """Asks the first address that answers; the certificate must be that of the name."""
    client = await stack.enter_async_context(
        httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=QUIET_S, verify=True)
    )
    headers = {
        "Host": parts.netloc,
        "User-Agent": "Refdesk",
        "Accept": "*/*",
        "Accept-Encoding": "identity",  # what is packed could unpack to any size
    }
    failed: Exception | None = None
    for address in addresses:
        host = f"[{address}]" if ":" in address else address
        port = f":{parts.port}" if parts.port else ""
        query = f"?{parts.query}" if parts.query else ""
        request = client.build_request(
            "GET",
            f"{parts.scheme}://{host}{port}{parts.path or '/'}{query}",
            headers=headers,
            extensions={"sni_hostname": parts.hostname},
        )
        try:
            response = await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failed = error
            continue
        stack.push_async_callback(response.aclose)
        return response
    assert failed is not None
    raise failed


async def _write(response: httpx2.Response, into: IO[bytes], most_bytes: int) -> int:
    size = 0
    declared = response.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        raise TooLarge(f"it is larger than {most_bytes >> 20} MB")
    async for piece in _unpacked(response):
        size += len(piece)
        if size > most_bytes:
            raise TooLarge(f"it is larger than {most_bytes >> 20} MB")
        await asyncio.to_thread(into.write, piece)
    return size


async def _unpacked(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body in small pieces. It was to come as it is; some servers pack it all the same, and one may mean harm:
    a few kilobytes, packed twice, unpack to more than a machine's memory at once."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", "gzip", "x-gzip"):
        raise UnreadableFile(f"it uses the unknown encoding '{packing[:50]}'", hint="download and upload it")
    if not packing.endswith("gzip"):
        async for piece in response.aiter_raw(PIECE):
            yield piece
        return
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)  # of gzip's own form
    async for packed in response.aiter_raw(PIECE):
        while packed:
            try:
                yield unpacker.decompress(packed, PIECE)
            except zlib.error:
                raise UnreadableFile("its compressed content is damaged", hint="download and upload it") from None
            packed = unpacker.unconsumed_tail
    if not unpacker.eof:
        raise UnreadableFile("the connection ended early", hint="try again, or download and upload it")


def _name(parts: SplitResult, disposition: str) -> str:
    """What the server calls it, else the end of the path, else the machine: a label, never a path."""
    found = re.search(r"filename\*=(?:UTF-8|utf-8)''([^;]+)", disposition)
    if found is not None:
        return unquote(found[1])
    found = re.search(r'filename="([^"]+)"|filename=([^;\s]+)', disposition)
    if found is not None:
        return found[1] or found[2]
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or (parts.hostname or "page")


def _unreachable(url: str, why: str) -> RefdeskError:
    return UnreadableFile(f"{url[:200]} cannot be fetched: {why}", hint="check the address, or download and upload it")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
