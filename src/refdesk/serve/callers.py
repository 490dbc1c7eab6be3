"""Whose key does a request carry? Read once for every door that takes HTTP headers."""

from __future__ import annotations

from collections.abc import Mapping

from refdesk.access import Caller
from refdesk.engine import Refdesk
from refdesk.errors import NotSignedIn


def caller_by_key(desk: Refdesk, headers: Mapping[str, str]) -> Caller | None:
    """The holder of the key that is sent, None where none is; a key that is not known is refused.

    `Authorization: Bearer KEY`, or `X-API-Key: KEY`; the names of the headers are in lower case.
    """
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        secret = headers.get("x-api-key", "")
    if not secret.strip():
        return None
    caller = desk.keys.verify(secret.strip())
    if caller is None:
        raise NotSignedIn("this key is not known")
    return caller
