"""Sign-ins in SQL: a random token in a browser's cookie stands for a key until it expires or the key is revoked."""

from __future__ import annotations

import hashlib
import secrets
import time

from sqlalchemy import bindparam, delete, insert, select

from refdesk.adapters.database import changes
from refdesk.adapters.quick import QuickReader
from refdesk.adapters.schema import keys, sessions

TOKEN_BYTES = 32


class SessionStore:
    """Tokens are stored hashed; revoking a key removes its sign-ins with it, in all processes at once."""

    def __init__(self, reader: QuickReader) -> None:
        self._reader = reader
        found = select(sessions.c.key_id).where(sessions.c.digest == bindparam("token_digest"))
        found = found.where(sessions.c.expires_at > bindparam("moment"), keys.c.id == sessions.c.key_id)
        self._find = reader.prepare(found)

    def begin(self, key_id: str, seconds: float) -> str:
        """A token that stands for the key for so long; those that have expired are forgotten on the way."""
        token, moment = secrets.token_urlsafe(TOKEN_BYTES), time.time()
        row = {"digest": _digest(token), "key_id": key_id, "expires_at": moment + seconds}
        with changes(self._reader.engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= moment))
            connection.execute(insert(sessions).values(row))
        return token

    def key_id(self, token: str) -> str | None:
        """Whose key a token stands for; None when it is unknown, has expired, or the key is gone."""
        rows = self._reader.rows(self._find, token_digest=_digest(token), moment=time.time())
        return str(rows[0][0]) if rows else None

    def end(self, token: str) -> None:
        with changes(self._reader.engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.digest == _digest(token)))


def _digest(token: str) -> str:
    """Plain SHA-256, as of keys: 256 random bits cannot be guessed."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
