"""Reads records from Airtable's HTTP API, a hundred at a time, within its rate limit.

    GET {endpoint}/v0/{base}/{table}?pageSize=100&filterByFormula=…&offset=…
    {"records": [{"id": "rec…", "createdTime": "…", "fields": {…}}], "offset": "…"}

The key comes from AIRTABLE_API_KEY, the address, where it is another one, from AIRTABLE_ENDPOINT_URL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from refdesk.errors import ProviderRefused, ProviderUnavailable, UsageError

ENDPOINT = "https://api.airtable.com"
PAGE = 100  # the most that the API gives at once
TRIES = 4
WAIT_S = 30.0  # as its documentation asks for after 429
TIMEOUT_S = 60.0
MOST_PAGES = 10_000


@dataclass(frozen=True, slots=True)
class Airtable:
    """One account; `wait_s` is how long it waits after it was told to."""

    key: str
    endpoint: str = ENDPOINT
    wait_s: float = WAIT_S

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Airtable:
        given = os.environ if environment is None else environment
        key = given.get("AIRTABLE_API_KEY", "").strip()
        if not key:
            raise UsageError(
                "AIRTABLE_API_KEY is not set", hint="create a personal access token that can read the base"
            )
        return cls(key, given.get("AIRTABLE_ENDPOINT_URL", "").strip().rstrip("/") or ENDPOINT)

    def records(self, base: str, table: str, *, formula: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """(id, fields) of every record that Airtable's filter `formula` lets through."""
        import httpx2  # half of the time to start a command, and needed here only

        address = f"{self.endpoint}/v0/{quote(base, safe='')}/{quote(table, safe='')}"
        asked = [("pageSize", str(PAGE)), *([("filterByFormula", formula)] if formula else [])]
        offset = ""
        with httpx2.Client(timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {self.key}"}) as client:
            for _ in range(MOST_PAGES):
                page = self._page(client, address, [*asked, *([("offset", offset)] if offset else [])])
                for record in page.get("records", []):
                    if isinstance(record, dict) and isinstance(record.get("fields"), dict):
                        yield str(record.get("id", "")), record["fields"]
                offset = str(page.get("offset") or "")
                if not offset:
                    return

    def changed_since(self, moment: str, formula: str = "") -> str:
        """The formula for records that were changed after a moment, and for which another formula holds too."""
        changed = f"IS_AFTER(LAST_MODIFIED_TIME(), {quoted(moment)})"
        return f"AND({changed}, {formula})" if formula else changed

    def one_of(self, name: str, values: Sequence[str], formula: str = "") -> str:
        """The formula for records whose field has one of these values."""
        same = ", ".join(f"{{{name}}} = {quoted(value)}" for value in values)
        wanted = f"OR({same})" if len(values) > 1 else same
        return f"AND({wanted}, {formula})" if formula else wanted

    def _page(self, client: Any, address: str, asked: Sequence[tuple[str, str]]) -> dict[str, Any]:
        import httpx2

        for attempt in range(1, TRIES + 1):
            try:
                response = client.get(address, params=list(asked))
            except httpx2.HTTPError as error:
                if attempt == TRIES:
                    raise ProviderUnavailable(f"Airtable cannot be reached: {type(error).__name__}") from error
                time.sleep(min(self.wait_s, 2.0**attempt))
                continue
            if response.status_code == 429 or response.status_code >= 500:
                if attempt == TRIES:
                    raise ProviderUnavailable(f"Airtable answered {response.status_code}", status=response.status_code)
                time.sleep(self.wait_s if response.status_code == 429 else min(self.wait_s, 2.0**attempt))
                continue
            return _read(response)
        raise AssertionError("the last try returns or raises")


def _read(response: Any) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code == 200 and isinstance(body, dict):
        return body
    error = body.get("error") if isinstance(body, dict) else None
    reason = error.get("message") or error.get("type") if isinstance(error, dict) else error
    hints = {
        401: "check AIRTABLE_API_KEY",
        403: "the token needs the scope data.records:read and access to the base",
        404: "check the ids of the base and the table",
        422: "check the names of the fields and the formula",
    }
    raise ProviderRefused(
        f"Airtable answered {response.status_code}: {reason or 'no readable JSON'}",
        status=response.status_code,
        hint=hints.get(response.status_code, ""),
    )


def quoted(value: str) -> str:
    r"""A text within a formula: `it's` -> `'it\'s'`."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
