"""Access keys in SQL. A secret is shown once; only its hash is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from refdesk.errors import NotFound, UsageError
from refdesk.records import Key, KeyRole
from refdesk.store.database import BackgroundWriter, PreparedReader, SqlStatement, changes, storable
from refdesk.store.rows import bump, now
from refdesk.store.schema import keys, sessions, state

PREFIX = "rd_"  # so that people, and programs that look for secrets in files, know one when they see it
SECRET_BYTES = 32
LONGEST_NAME = 80
NOTED_EVERY_S = 60.0  # how often "last used" is written down
_PREFIX = 8  # characters of a digest


Known = Mapping[str, Sequence[tuple[str, Key]]]  # by how the digest begins: whole digests and their keys
_EVERY = select(keys.c.digest, *(keys.c[name] for name in Key.__slots__)).order_by(keys.c.name)
Held = dict[str, tuple[str, Key]]  # by id: the digest of the secret, and the key


class StoredKeys(ABC):
    """The `KeyStore` port over keys and digests, wherever they are kept."""

    @abstractmethod
    def _changing(self) -> AbstractContextManager[Held]:
        """All keys, to be changed; what they are at the end of the block is written, unless it raises."""

    @abstractmethod
    def _with_digest(self, digest: str) -> Iterable[tuple[str, Key]]:
        """The keys as they are now whose digests begin as this one does; with "", all of them."""

    @abstractmethod
    def _note(self, key_id: str) -> None:
        """Writes down that a key was used."""

    def add(self, name: str, role: KeyRole, collections: Sequence[str] | None) -> tuple[Key, str]:
        name, secret = checked_name(name), new_secret()
        key = Key(uuid.uuid4().hex[:16], name, role, _sorted(collections), now())
        with self._changing() as keys_by_id:
            _check_free(keys_by_id, name)
            keys_by_id[key.id] = (digest_of(secret), key)
        return key, secret

    def list(self) -> list[Key]:
        return sorted((key for _, key in self._with_digest("")), key=lambda key: key.name)

    def change(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        role: KeyRole | None = None,
        collections: Sequence[str] | None = None,
        every_collection: bool = False,
        keep_owner: bool = False,
    ) -> Key:
        with self._changing() as keys_by_id:
            digest, before = _found(keys_by_id, name_or_id)
            after = replace(before, name=before.name if name is None else checked_name(name), role=role or before.role)
            if every_collection or collections is not None:
                after = replace(after, collections=None if every_collection else _sorted(collections))
            if after.name != before.name:
                _check_free(keys_by_id, after.name)
            keys_by_id[before.id] = (digest, after)
            if keep_owner and before.is_owner:
                _check_owner_left(keys_by_id, before)
        return after

    def revoke(self, name_or_id: str, *, keep_owner: bool = False) -> Key:
        with self._changing() as keys_by_id:
            _, gone = _found(keys_by_id, name_or_id)
            del keys_by_id[gone.id]
            if keep_owner and gone.is_owner:
                _check_owner_left(keys_by_id, gone)
        return gone

    def exist(self) -> bool:
        return any(True for _ in self._with_digest(""))

    def verify(self, secret: str) -> Key | None:
        digest = digest_of(secret)
        for known, key in self._with_digest(digest):
            if hmac.compare_digest(known, digest):
                self._note(key.id)
                return key
        return None

    def of(self, key_id: str) -> Key | None:
        key = next((key for _, key in self._with_digest("") if key.id == key_id), None)
        if key is not None:
            self._note(key.id)
        return key


class SqlKeys(StoredKeys):
    def __init__(self, reader: PreparedReader, background: BackgroundWriter) -> None:
        self._reader = reader
        self._background = background
        self._find_revision = SqlStatement(select(state.c.value).where(state.c.name == "keys"))
        self._find = SqlStatement(_EVERY)
        self._lock = threading.Lock()
        self._read: tuple[int, Known] = (-1, {})  # a revision, and the keys as they were then or later
        self.noted_every_s = NOTED_EVERY_S
        self._noted: dict[str, float] = {}  # key id -> when its use was last written down, monotonic

    def list(self) -> list[Key]:
        self._background.flush()
        return [_key(row) for row in self._reader.rows(self._find)]

    @contextmanager
    def _changing(self) -> Iterator[Held]:
        with changes(self._reader.engine) as connection:
            before = {key.id: (row[0], key) for row in connection.execute(_EVERY) for key in [_key(row)]}
            after = dict(before)
            yield after
            for key_id in before.keys() - after.keys():
                connection.execute(delete(keys).where(keys.c.id == key_id))
            for key_id, (digest, key) in after.items():
                row = key.to_dict() | {"digest": digest}
                row["collections"] = None if key.collections is None else orjson.dumps(key.collections).decode()
                if key_id not in before:
                    connection.execute(insert(keys).values(row))
                elif before[key_id] != (digest, key):
                    connection.execute(update(keys).where(keys.c.id == key_id).values(row))
            if after != before:
                bump(connection, "keys")

    def _with_digest(self, digest: str) -> Iterable[tuple[str, Key]]:
        # Looked up by its first characters, which say nothing of use: nobody can choose a guess by its digest. All of
        # it is compared in constant time.
        known = self._current()
        return known.get(digest[:_PREFIX], ()) if digest else (found for bucket in known.values() for found in bucket)

    def _current(self) -> Known:
        """The keys as they are now, or became after this was called."""
        rows = self._reader.rows(self._find_revision)
        revision = int(rows[0][0]) if rows else 0
        seen, known = self._read
        if revision == seen:
            return known
        # Read after its revision, so never older than it says.
        found: dict[str, Sequence[tuple[str, Key]]] = {}
        for row in self._reader.rows(self._find):
            found[row[0][:_PREFIX]] = (*found.get(row[0][:_PREFIX], ()), (row[0], _key(row)))
        with self._lock:
            if revision > self._read[0]:  # or a thread that was held up would bring back a key revoked meanwhile
                self._read = (revision, found)
        return found

    def _note(self, key_id: str) -> None:
        """In the background; at most once a minute, all processes together."""
        moment = time.monotonic()
        if moment - self._noted.get(key_id, -self.noted_every_s) < self.noted_every_s:
            return
        self._noted[key_id] = moment
        self._background.submit(lambda connection: _write_use(connection, key_id, self.noted_every_s))


class MemoryKeys(StoredKeys):
    def __init__(self) -> None:
        self._held: Held = {}

    @contextmanager
    def _changing(self) -> Iterator[Held]:
        keys_by_id = dict(self._held)
        yield keys_by_id
        self._held = keys_by_id

    def _with_digest(self, digest: str) -> Iterable[tuple[str, Key]]:
        return list(self._held.values())

    def _note(self, key_id: str) -> None:
        digest, key = self._held[key_id]
        self._held[key_id] = (digest, replace(key, last_used=now()))


def _sorted(collections: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if collections is None else tuple(sorted(set(collections)))


def _found(keys_by_id: Held, name_or_id: str) -> tuple[str, Key]:
    for digest, key in keys_by_id.values():
        if storable(name_or_id) in (key.name, key.id):
            return digest, key
    raise NotFound(f"there is no key '{name_or_id}'", hint="`refdesk keys list` shows what there is")


def _check_free(keys_by_id: Held, name: str) -> None:
    """No other key may be called so, nor have it as its id: either names a key."""
    if any(name in (key.name, key.id) for _, key in keys_by_id.values()):
        raise UsageError(f"there is already a key '{name}'", hint="revoke it first, or choose another name")


def _check_owner_left(keys_by_id: Held, changed: Key) -> None:
    """There are no keys, or one of them may change keys."""
    if keys_by_id and not any(key.is_owner for _, key in keys_by_id.values()):
        raise UsageError(
            f"'{changed.name}' is the last key that can change keys and settings",
            hint="create another admin key for all collections first, or use the command line on the server",
        )


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def _write_use(connection: Connection, key_id: str, every_s: float) -> None:
    moment = datetime.now(UTC)
    before = (moment - timedelta(seconds=every_s)).isoformat(timespec="milliseconds")
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
        raise UsageError(f"a key name must have 1 to {LONGEST_NAME} visible characters")
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
