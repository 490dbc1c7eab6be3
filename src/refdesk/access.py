"""Who may do what? Roles, the collections of a key, and the caller that both make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from refdesk.arguments import checked_collection, names, one_of
from refdesk.errors import AccessDenied, UsageError
from refdesk.records import Key, lies_within
from refdesk.settings import Settings
from refdesk.store_ports import KeyStore, SessionStore
from refdesk.types import EVERYTHING, Seen

Role = Literal["reader", "editor", "admin"]
Reading = Literal["search", "ask", "read", "feedback"]
Editing = Literal["add", "rename", "move", "delete", "retry"]
Managing = Literal["traces", "analytics", "settings", "keys", "clear_cache"]
Action = Reading | Editing | Managing
ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may

SAYING: dict[Action, str] = {
    "search": "search",
    "ask": "ask questions",
    "read": "read documents",
    "feedback": "judge answers",
    "add": "add documents",
    "rename": "rename documents",
    "move": "move documents",
    "delete": "delete documents",
    "retry": "try documents again",
    "traces": "see everyone's questions",
    "analytics": "see everyone's figures",
    "settings": "change settings",
    "keys": "see or change keys",
    "clear_cache": "clear the cache",
}
# They reach every collection (a key for another one, a setting that sends passages elsewhere), so whoever does them
# must be allowed every collection.
WHOLE: frozenset[Action] = frozenset(("settings", "keys", "clear_cache"))


def needed(action: Action) -> Role:
    """The least of the roles that may do it."""
    if action in get_args(Reading):
        return "reader"
    return "editor" if action in get_args(Editing) else "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key, or whoever sits at the machine (id ""). `collections` None is every one.

    >>> Caller("k1", "Anna", "editor", ("finance",)).may("add", "finance/2024")
    True
    """

    id: str
    name: str
    role: Role
    collections: tuple[str, ...] | None = None

    @property
    def access(self) -> Seen:
        """The collections that are read for this caller."""
        return EVERYTHING if self.collections is None else self.collections

    @property
    def owner(self) -> str | None:
        """Whose answers, traces and figures are seen: the caller's own; None is everyone's."""
        return None if self.may("traces") else self.id

    def may(self, action: Action, collection: str | None = None) -> bool:
        """Whether the role allows it, and the collections do where it is about one."""
        if ROLES.index(self.role) < ROLES.index(needed(action)):
            return False
        if self.collections is None:
            return True
        return action not in WHOLE and (collection is None or lies_within(collection, self.collections))

    def require(self, action: Action, collection: str | None = None) -> None:
        if self.may(action, collection):
            return
        if not self.may(action):
            limited = self.role == "admin"  # so it is the collections that forbid it
            kind = "an admin of some collections" if limited else f"a{'n' * (self.role == 'editor')} {self.role}"
            raise AccessDenied(f"{kind} may not {SAYING[action]}")
        raise AccessDenied(f"this key may not {SAYING[action]} in '{collection}'")


LOCAL = Caller("", "local", "admin")


class Keys:
    """`desk.keys`: adds, lists, changes and revokes keys, and knows the caller by a secret."""

    def __init__(self, store: KeyStore, *, keep_owner: bool = False) -> None:
        """`keep_owner` refuses to leave keys of which none may change keys: for callers who could not undo it."""
        self._store, self._keep_owner = store, keep_owner

    def add(self, name: str, role: str = "reader", collections: Sequence[str] | None = None) -> tuple[Key, str]:
        """A key and its secret, shown this once; no collection named is all of them.

        >>> key, secret = desk.keys.add("Anna", "reader", ["finance"])
        """
        return self._store.add(name, one_of("role", role, ROLES), _granted(collections) or None)

    def change(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        role: str | None = None,
        collections: Sequence[str] | None = None,
        every_collection: bool = False,
    ) -> Key:
        """Gives a key another name, role or other collections; what is not named stays. Gives it as it is now.

        Its secret, sign-ins, conversations and answers stay.

        >>> desk.keys.change("Anna", role="editor", collections=["finance", "hr"])
        """
        if name is None and role is None and collections is None and not every_collection:
            raise UsageError("there is nothing to change", hint="name a new name, a role or collections")
        if collections is not None and every_collection:
            raise UsageError("a key is for some collections or for every one, not both", hint="say one of the two")
        if collections is not None and not collections:
            raise UsageError("a key without any collection opens nothing", hint="revoke it instead")
        return self._store.change(
            name_or_id,
            name=name,
            role=None if role is None else one_of("role", role, ROLES),
            collections=None if collections is None else _granted(collections),
            every_collection=every_collection,
            keep_owner=self._keep_owner,
        )

    def list(self) -> list[Key]:
        return self._store.list()

    def revoke(self, name_or_id: str) -> Key:
        return self._store.revoke(name_or_id, keep_owner=self._keep_owner)

    def exist(self) -> bool:
        """Whether there is any key; without one, a library on one's own machine is open."""
        return self._store.exist()

    def verify(self, secret: str) -> Caller | None:
        """The caller who holds this secret; None for an unknown or revoked one."""
        key = self._store.verify(secret)
        return None if key is None else _caller(key)

    def of(self, key_id: str) -> Caller | None:
        """The caller whose key has this id; None when there is no such key (any more)."""
        key = self._store.of(key_id)
        return None if key is None else _caller(key)


class Sessions:
    """`desk.sessions`: a browser signs in with a key once and then sends a token that stands for it."""

    def __init__(self, store: SessionStore, keys: Keys, settings: Callable[[], Settings]) -> None:
        self._store, self._keys, self._settings = store, keys, settings

    def begin(self, caller: Caller) -> tuple[str, int]:
        """The token and for how many seconds it holds (`serve.session_days`)."""
        seconds = self._settings().session_days * 86_400
        return self._store.begin(caller.id, seconds), seconds

    def caller(self, token: str) -> Caller | None:
        """None for a token that is unknown or has expired, and when its key was revoked."""
        key_id = self._store.key_id(token)
        return None if key_id is None else self._keys.of(key_id)

    def end(self, token: str) -> None:
        self._store.end(token)


def _granted(collections: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(checked_collection(path) for path in names(collections))


def _caller(key: Key) -> Caller:
    return Caller(key.id, key.name, one_of("role", key.role, ROLES), key.collections)
