"""Addresses and API keys that people have entered, in a file of the library that only its owner may read.

Not in the database: a backup holds the database and is carried elsewhere, and keys do not belong into it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import orjson

from refdesk.config import Entered
from refdesk.disk import explain
from refdesk.errors import UsageError

FILE = "providers.json"


class ProviderStore:
    """`{"openai": {"base_url": "", "api_key": "sk-…"}}`, read anew each time: another process may have changed it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    @property
    def revision(self) -> str:
        """Another text whenever the file is another one."""
        try:
            found = self._path.stat()
        except OSError:
            return ""
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def entered(self) -> Mapping[str, Entered]:
        """What was entered, by the provider's name."""
        try:
            found = orjson.loads(self._path.read_bytes())
            return {name: Entered(str(one["base_url"]), str(one["api_key"])) for name, one in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "remove it, then enter the keys again"
            raise UsageError(f"{self._path} cannot be read: {type(error).__name__}", hint=hint) from error

    def get(self, provider: str) -> Entered:
        return self.entered().get(provider, Entered())

    def put(self, provider: str, entered: Entered) -> None:
        """Replaces what is known of this provider; nothing entered removes it."""
        known = dict(self.entered())
        known.pop(provider, None)
        if entered != Entered():
            known[provider] = entered
        rows = {name: {"base_url": one.base_url, "api_key": one.api_key} for name, one in sorted(known.items())}
        try:
            self._write(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise explain(error, self._path) from error

    def _write(self, text: bytes) -> None:
        """In one step, and 0600 from its first byte on, as `mkstemp` makes it."""
        number, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{FILE}-")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
