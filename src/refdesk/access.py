"""Keys and sign-ins, and what admins manage: keys, settings, models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from refdesk.arguments import checked_collection, names, one_of
from refdesk.ask.flow import Asking
from refdesk.config import IN_SETTINGS, Config, Entered
from refdesk.errors import ModelNotAllowed, NotFound, ProviderError, RefdeskError, UsageError
from refdesk.library import LibraryReader
from refdesk.models import PROVIDERS, Provider
from refdesk.ports import Embedder, ModelRole, Models
from refdesk.records import LOCAL, ROLES, Action, Caller, Key
from refdesk.settings import PRESETS, Settings, specs
from refdesk.store_ports import (
    ChunkStore,
    DocumentStore,
    FeedbackStore,
    Files,
    IndexWriter,
    KeyStore,
    LibraryWriter,
    SessionStore,
    SettingsStore,
    TableStore,
)
from refdesk.types import Box, Document

__all__ = ["LOCAL", "AdminDesk", "Caller", "Keys", "Parts", "Sessions"]


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
            raise UsageError("there is nothing to change", hint="give a new name, a role or collections")
        if collections is not None and every_collection:
            raise UsageError("a key is for some collections or for all of them, not both", hint="choose one of the two")
        if collections is not None and not collections:
            raise UsageError("a key without any collection gives no access", hint="revoke it instead")
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


# What a desk is made of, and what an admin of the whole library may do with it

SHOWN_OF_KEY = 4
SHOWN_OF_REPLY = 120
LONG_KEY = 16  # characters; of a shorter one, four are too many to show
SPEC = ("name", "section", "default", "help", "allowed", "minimum", "maximum", "per_request")


class ModelCatalogue(Protocol):
    """The models of a library: named in its settings, connected and forgotten."""

    def by_role(self, settings: Settings) -> dict[ModelRole, list[str]]: ...

    def allowed(self, settings: Settings) -> list[str]: ...

    def of(self, settings: Settings) -> Models: ...

    async def test(self, name: str, settings: Settings, entered: Entered | None = None) -> dict[str, Any]: ...

    async def check_settings(self, values: Mapping[str, Any], settings: Settings, *, online: bool = True) -> None: ...

    async def examine(self, settings: Settings) -> list[tuple[str, RefdeskError | None]]: ...

    def entered(self, provider: Provider) -> Entered: ...

    def enter(self, provider: Provider, entered: Entered) -> None: ...

    async def listed(self, provider: Provider, entered: Entered | None = None) -> list[str] | None: ...

    async def check(self, provider: Provider, model: str, entered: Entered, *, online: bool = True) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a desk is made of, wired in desk.py. Interfaces use the methods of a desk, never its parts."""

    config: Config
    documents: DocumentStore
    chunks: ChunkStore
    tables: TableStore
    writer: LibraryWriter
    index: IndexWriter
    files: Files
    render: Callable[[Document, int, int, Sequence[Box], str], bytes]
    embedder: Embedder
    reader: LibraryReader
    asking: Asking
    feedback: FeedbackStore
    keys: KeyStore
    settings_store: SettingsStore
    settings: Callable[[], Settings]
    models: ModelCatalogue
    compact: Callable[[], object]


class Connection(NamedTuple):
    """A model that may be connected; `trial` is what it said to the question, None where it was not asked."""

    name: str
    trial: dict[str, Any] | None
    save: Callable[[], None]  # writes to the disk


class AdminDesk:
    """What an admin of the whole library may do; for anybody else it is `AccessDenied`."""

    def __init__(self, parts: Parts, caller: Caller) -> None:
        self.parts, self.caller = parts, caller

    def require(self, action: Action, *collections: str) -> None:
        self.caller.require(action, *collections)

    @property
    def keys(self) -> Keys:
        """Whoever came in with a key cannot leave the library without one that may change keys."""
        self.require("keys")
        return Keys(self.parts.keys, keep_owner=bool(self.caller.id))

    def clear_cache(self) -> None:
        """Forgets every cached answer, in the other processes of this library too; of this one hits and contexts."""
        self.require("clear_cache")
        self.parts.asking.cache.clear()
        self.parts.asking.recent_hits.clear()
        self.parts.asking.recent_contexts.clear()

    # settings

    @property
    def settings(self) -> Settings:
        """As they are now: defaults, refdesk.toml, the environment, the library's own in SQL, those of this program."""
        return self.parts.settings()

    @property
    def settings_notes(self) -> tuple[str, ...]:
        """What is stored or in refdesk.toml and not used, and why."""
        return self.parts.settings_store.notes

    def stored_settings(self) -> dict[str, Any]:
        """Those that were set for this library."""
        return self.parts.settings_store.load()

    def list_settings(self) -> list[dict[str, Any]]:
        """Each setting as it is now, where that comes from, and what it may be."""
        self.require("settings")
        values = self.settings.by_name
        config = self.parts.config
        places = dict.fromkeys(config.common_settings, "environment") | dict.fromkeys(config.settings, "refdesk.toml")
        places |= dict.fromkeys(config.environment_settings, "environment")
        places |= dict.fromkeys(self.stored_settings(), "library") | dict.fromkeys(
            self.parts.settings_store.own, "program"
        )
        return [
            {name: getattr(spec, name) for name in SPEC}
            | {
                "value": values[spec.name],
                "changed": values[spec.name] != spec.default,
                "from": places.get(spec.name, "default"),
                "choices": list(spec.choices),
                "kind": type(spec.default).__name__,
            }
            for spec in specs()
        ]

    async def check_settings(self, values: Mapping[str, Any], *, online: bool = True) -> None:
        """Raises what is wrong with them; `online` asks the providers for the models that are named."""
        self.require("settings")
        settings = await asyncio.to_thread(self.parts.settings)
        await self.parts.models.check_settings(values, settings.changed(values), online=online)

    def change_settings(self, values: Mapping[str, Any], *, reset: Iterable[str] = ()) -> dict[str, tuple[Any, Any]]:
        """For this library, seen by every program at its next question; nothing changes when one is wrong.

        Gives what each that has changed was before, and what it is now.
        """
        return self._changed(lambda: self.parts.settings_store.change(values, reset))

    def reset_settings(self, name: str | None = None) -> dict[str, tuple[Any, Any]]:
        """One, or all, to what refdesk.toml or the default says."""
        return self._changed(lambda: self.parts.settings_store.reset(name))

    def use_preset(self, name: str) -> dict[str, tuple[Any, Any]]:
        return self._changed(lambda: self.parts.settings_store.use_preset(name))

    def _changed(self, change: Callable[[], None]) -> dict[str, tuple[Any, Any]]:
        self.require("settings")
        before = self.parts.settings_store.current()
        change()
        pairs = zip(before.items(), self.parts.settings_store.current().items(), strict=True)
        return {name: (old, new) for (name, old, _), (_, new, _) in pairs if old != new}

    @staticmethod
    def presets() -> dict[str, dict[str, Any]]:
        return {name: dict(values) for name, values in PRESETS.items()}

    # models, and the addresses and keys of their providers

    @property
    def has_model(self) -> bool:
        """Whether a model writes the answers, or they are quoted from the documents."""
        return self.parts.models.of(self.settings).role("answer") is not None

    @property
    def has_sight(self) -> bool:
        """Whether a question may carry a picture: a model that sees is named."""
        if not self.has_model:
            return False
        try:
            self.parts.asking.require_sight(self.settings)
        except ModelNotAllowed:
            return False
        return True

    def allowed_models(self) -> list[str]:
        """The models that a question may be put to, the one that answers without being named first."""
        return self.parts.models.allowed(self.settings)

    def _put_to(self, model: str, settings: Settings) -> Settings:
        """The settings of a question that is put to this model."""
        allowed = self.parts.models.allowed(settings)
        if model == next(iter(allowed), ""):
            return settings
        if not settings.llm_enabled:
            raise ModelNotAllowed("models are switched off in this library", hint="ask without `model`")
        if model not in allowed:
            others = f"use one of {', '.join(allowed)}" if allowed else "the owner can allow models in llm.allowed"
            raise ModelNotAllowed(f"the model '{model[:100]}' is not allowed in this library", hint=others)
        return settings.changed({"llm.answer": model})

    def model_state(self) -> dict[str, Any]:
        """Which models are named, the providers as they would be called now, and what cannot be used."""
        self.require("settings")
        settings = self.settings
        named = self.parts.models.by_role(settings)
        return {
            "answer": named.get("answer", [""])[0],
            "roles": named,
            "allowed": self.parts.models.allowed(settings),
            "enabled": settings.llm_enabled,
            "providers": [self._shown(provider) for provider in PROVIDERS.values()],
            "problems": list(self.parts.models.of(settings).problems),
        }

    async def list_models(
        self, provider: str, base_url: str | None = None, api_key: str | None = None
    ) -> list[str] | None:
        """The models of a provider, None where it has no list; with the saved address and key, or with others."""
        self._require_models()
        found = _provider(provider)
        return await self.parts.models.listed(found, self._entered(found, base_url, api_key))

    async def connect_model(
        self,
        provider: str,
        model: str = "",
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        role: ModelRole = "answer",
        check: bool = True,
    ) -> Connection:
        """Checks a provider's address and key, and puts a question to the model; what came of it, and how to save it.

        A `UsageError` when they cannot be used, or when the answer is not from the passage that was given.
        """
        self._require_models()
        found, model = _provider(provider), model.strip()
        entered = self._entered(found, base_url, api_key)
        await self.parts.models.check(found, model, entered, online=check)
        name = f"{found.name}:{model}" if model else ""
        trial = await self._tried(name, entered) if name and check else None

        def save() -> None:
            self.parts.models.enter(found, entered)
            if name:
                self.change_settings({f"llm.{role}": name})

        return Connection(name, trial, save)

    async def _tried(self, name: str, entered: Entered) -> dict[str, Any]:
        try:
            trial = await self.parts.models.test(name, await asyncio.to_thread(self.parts.settings), entered)
        except ProviderError as error:
            raise UsageError(str(error), hint=error.hint) from error
        if not trial["answers"]:
            reply = trial["reply"][:SHOWN_OF_REPLY] or "nothing"
            raise UsageError(f"{name} did not answer from the given passage: “{reply}”", hint="try a larger model")
        return trial

    def disconnect_model(self, role: ModelRole = "answer") -> tuple[str, str]:
        """No model has this role any more: (who had it, who has it all the same, by the environment or refdesk.toml).

        The address and key of its provider are forgotten where no other model of it is named.
        """
        self.require("settings")
        before = self.parts.models.by_role(self.settings)
        self.change_settings({}, reset=[f"llm.{role}"])
        after = self.parts.models.by_role(self.settings)
        gone, left = (named.get(role, [""])[0] for named in (before, after))
        provider = gone.partition(":")[0]
        if gone and all(name.partition(":")[0] != provider for names in after.values() for name in names):
            self.parts.models.enter(_provider(provider), Entered())
        return gone, left

    def forget_provider(self, name: str) -> None:
        self.require("settings")
        self.parts.models.enter(_provider(name), Entered())

    async def test_model(self, name: str, base_url: str | None = None, api_key: str | None = None) -> dict[str, Any]:
        """Asks the model about a passage. If it answers, it is used again even if it failed before."""
        self.require("settings")
        provider = PROVIDERS.get(name.partition(":")[0].strip())
        entered = self._entered(provider, base_url, api_key) if provider else None
        return await self.parts.models.test(name, await asyncio.to_thread(self.parts.settings), entered)

    async def check_models(self) -> list[tuple[str, RefdeskError | None]]:
        """Each model that is named, and what is wrong with it."""
        return await self.parts.models.examine(await asyncio.to_thread(self.parts.settings))

    async def aclose(self) -> None:
        """Closes the connections to models that the running event loop has kept."""
        await self.parts.models.aclose()

    def _require_models(self) -> None:
        self.require("settings")
        if not self.settings.llm_enabled:
            raise UsageError("models are switched off", hint="set llm.enabled to true first")

    def _entered(self, provider: Provider, base_url: str | None, api_key: str | None) -> Entered:
        """What is saved with what was said now; a saved key goes to the address it was saved for and to no other."""
        known = self.parts.models.entered(provider)
        address = known.base_url if base_url is None else base_url.strip()
        if address.rstrip("/") == provider.base_url:
            address = ""
        kept = known.api_key if address == known.base_url else ""
        return replace(known, base_url=address, api_key=kept if api_key is None else api_key.strip())

    def _shown(self, provider: Provider) -> dict[str, Any]:
        known = self.parts.models.entered(provider)
        try:
            access = self.parts.config.access(provider, known)
            base_url, key, variable = access.base_url, access.api_key, access.key_variable
        except UsageError:  # no key yet, or an address that is none
            base_url, key, variable = known.base_url or provider.base_url, "", ""
        is_own = base_url == provider.base_url
        return {
            "name": provider.name,
            "base_url": base_url,
            "default_base_url": provider.base_url,
            "address_from": "settings" if known.base_url else "provider" if is_own else "environment",
            "needs_key": provider.needs_key,
            "key": ("…" + key[-SHOWN_OF_KEY:] if len(key) >= LONG_KEY else "…") if key else "",
            "key_from": "" if not key else "settings" if variable == IN_SETTINGS else "environment",
        }


def _provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise NotFound(f"there is no provider '{name}'", hint=f"use one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]
