"""Keys in SQL: who may come in. A secret is shown once; what is stored cannot be turned back into it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from refdesk.errors import NotFound, UsageError
from refdesk.records import Key
from refdesk.store.background import BackgroundWriter
from refdesk.store.database import PreparedReader, SqlStatement, changes, storable
from refdesk.store.rows import bump, now
from refdesk.store.schema import keys, sessions, state

PREFIX = "rd_"  # so that people, and programs that look for secrets in files, know one when they see it
SECRET_BYTES = 32
LONGEST_NAME = 80
NOTED_EVERY_S = 60.0  # how often "last used" is written down
_SHELF = 8  # characters of a digest


Known = Mapping[str, Sequence[tuple[str, Key]]]  # by how the digest begins: whole digests and their keys


class SqlKeys:
    """The `KeyStore` port."""

    def __init__(self, reader: PreparedReader, background: BackgroundWriter) -> None:
        self._reader = reader
        self._background = background
        columns = [keys.c[name] for name in Key.__slots__]
        self._find_revision = SqlStatement(select(state.c.value).where(state.c.name == "keys"))
        self._find = SqlStatement(select(keys.c.digest, *columns).order_by(keys.c.name))
        self._lock = threading.Lock()
        self._read: tuple[int, Known] = (-1, {})  # a revision, and the keys as they were then or later
        self._noted: dict[str, float] = {}  # key id -> when its use was last written down, monotonic

    def add(self, name: str, role: str, collections: Sequence[str] | None) -> tuple[Key, str]:
        name, secret = checked_name(name), new_secret()
        allowed = None if collections is None else tuple(sorted(set(collections)))
        key = Key(uuid.uuid4().hex[:16], name, role, allowed, now())
        row = key.to_dict() | {
            "collections": None if allowed is None else orjson.dumps(allowed).decode(),
            "digest": digest_of(secret),
        }
        with changes(self._reader.engine) as connection:
            _check_free(connection, name)
            connection.execute(insert(keys).values(row))
            bump(connection, "keys")
        return key, secret

    def list(self) -> list[Key]:
        self._background.flush()
        return [_key(row) for row in self._reader.rows(self._find)]

    def change(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        role: str | None = None,
        collections: Sequence[str] | None = None,
        every_collection: bool = False,
        keep_owner: bool = False,
    ) -> Key:
        with changes(self._reader.engine) as connection:
            before = _found(connection, name_or_id)
            after = changed_key(before, name, role, collections, every_collection)
            if after.name != before.name:
                _check_free(connection, after.name)
            if after != before:
                allowed = None if after.collections is None else orjson.dumps(after.collections).decode()
                values = {"name": after.name, "role": after.role, "collections": allowed}
                connection.execute(update(keys).where(keys.c.id == before.id).values(values))
                bump(connection, "keys")
            if keep_owner and before.is_owner:
                _check_owner(connection, before)
        return after

    def revoke(self, name_or_id: str, *, keep_owner: bool = False) -> Key:
        with changes(self._reader.engine) as connection:
            found = _found(connection, name_or_id)
            connection.execute(delete(keys).where(keys.c.id == found.id))
            bump(connection, "keys")
            if keep_owner and found.is_owner:
                _check_owner(connection, found)
        return found

    def exist(self) -> bool:
        return bool(self._current())

    def verify(self, secret: str) -> Key | None:
        digest = digest_of(secret)
        # Looked up by its first characters, which say nothing of use: nobody can choose a guess by its digest. All of
        # it is compared in constant time.
        for held, key in self._current().get(digest[:_SHELF], ()):
            if hmac.compare_digest(held, digest):
                self._note(key.id)
                return key
        return None

    def of(self, key_id: str) -> Key | None:
        key = next((one for held in self._current().values() for _, one in held if one.id == key_id), None)
        if key is not None:
            self._note(key.id)
        return key

    def _current(self) -> Known:
        """The keys as they are now, or became after this was called."""
        rows = self._reader.rows(self._find_revision)
        revision = int(rows[0][0]) if rows else 0
        held, known = self._read
        if revision == held:
            return known
        # Read after its revision, so never older than it says.
        found: dict[str, Sequence[tuple[str, Key]]] = {}
        for row in self._reader.rows(self._find):
            found[row[0][:_SHELF]] = (*found.get(row[0][:_SHELF], ()), (row[0], _key(row)))
        with self._lock:
            if revision > self._read[0]:  # or a thread that was held up would bring back a key revoked meanwhile
                self._read = (revision, found)
        return found

    def _note(self, key_id: str) -> None:
        """Writes down, in the background, that a key was used; at most once a minute, all processes together."""
        moment = time.monotonic()
        if moment - self._noted.get(key_id, -NOTED_EVERY_S) < NOTED_EVERY_S:
            return
        self._noted[key_id] = moment
        self._background.submit(lambda connection: _write_use(connection, key_id))


def _found(connection: Connection, name_or_id: str) -> Key:
    wanted = storable(name_or_id)
    columns = [keys.c[name] for name in Key.__slots__]
    query = select(keys.c.digest, *columns).where(or_(keys.c.name == wanted, keys.c.id == wanted))
    found = connection.execute(query).first()
    if found is None:
        raise unknown_key(name_or_id)
    return _key(found)


def _check_free(connection: Connection, name: str) -> None:
    """No other key may be called so, nor have it as its id: either names a key."""
    if connection.execute(select(keys.c.id).where(or_(keys.c.name == name, keys.c.id == name))).first():
        raise is_taken(name)


def _check_owner(connection: Connection, changed: Key) -> None:
    columns = [keys.c[name] for name in Key.__slots__]
    check_owner_left([_key(row) for row in connection.execute(select(keys.c.digest, *columns))], changed)


# What any store of keys goes by.


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def changed_key(
    key: Key, name: str | None, role: str | None, collections: Sequence[str] | None, every_collection: bool
) -> Key:
    after = replace(key, name=key.name if name is None else checked_name(name), role=role or key.role)
    if every_collection:
        return replace(after, collections=None)
    return after if collections is None else replace(after, collections=tuple(sorted(set(collections))))


def check_owner_left(left: Sequence[Key], changed: Key) -> None:
    """There are no keys, or one of them may change keys."""
    if left and not any(key.is_owner for key in left):
        raise UsageError(
            f"'{changed.name}' is the last key that may change keys and settings",
            hint="make another admin of every collection first, or use the command line of the server",
        )


def unknown_key(name_or_id: str) -> NotFound:
    return NotFound(f"there is no key '{name_or_id}'", hint="`refdesk keys list` shows what there is")


def is_taken(name: str) -> UsageError:
    return UsageError(f"there is a key '{name}' already", hint="revoke it first, or take another name")


def _write_use(connection: Connection, key_id: str) -> None:
    moment = datetime.now(UTC)
    before = (moment - timedelta(seconds=NOTED_EVERY_S)).isoformat(timespec="milliseconds")
    used = update(keys).where(keys.c.id == key_id, keys.c.last_used < before)
    connection.execute(used.values(last_used=moment.isoformat(timespec="milliseconds")))


def digest_of(secret: str) -> str:
    """Plain SHA-256: a slow hash protects words that people choose; of 256 random bits none can be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _key(row: Any) -> Key:
    _, id, name, role, collections, created_at, last_used = row
    allowed = None if collections is None else tuple(orjson.loads(collections))
    return Key(id, name, role, allowed, created_at, last_used)


def checked_name(name: str) -> str:
    wanted = storable(name).strip() if isinstance(name, str) else ""
    if not wanted or len(wanted) > LONGEST_NAME or not wanted.isprintable():
        raise UsageError(f"a key's name has 1 to {LONGEST_NAME} characters, none of them invisible")
    return wanted


# Sign-ins in SQL: a random token in a browser's cookie stands for a key until it expires or the key is revoked.

TOKEN_BYTES = 32


class SqlSessions:
    """The `SessionStore` port. Tokens are stored hashed; a revoked key takes its sign-ins with it, in all processes."""

    def __init__(self, reader: PreparedReader) -> None:
        self._reader = reader
        found = select(sessions.c.key_id).where(sessions.c.digest == bindparam("token_digest"))
        found = found.where(sessions.c.expires_at > bindparam("moment"), keys.c.id == sessions.c.key_id)
        self._find = SqlStatement(found)

    def begin(self, key_id: str, seconds: float) -> str:
        token, moment = secrets.token_urlsafe(TOKEN_BYTES), time.time()
        row = {"digest": digest_of(token), "key_id": key_id, "expires_at": moment + seconds}
        with changes(self._reader.engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= moment))
            connection.execute(insert(sessions).values(row))
        return token

    def key_id(self, token: str) -> str | None:
        rows = self._reader.rows(self._find, token_digest=digest_of(token), moment=time.time())
        return str(rows[0][0]) if rows else None

    def end(self, token: str) -> None:
        with changes(self._reader.engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.digest == digest_of(token)))
