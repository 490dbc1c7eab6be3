"""A library's own settings: changed while programs run, seen by each of them at its next question."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy import delete, insert, select

from refdesk.errors import NotFound, UsageError
from refdesk.settings import Settings, preset, specs
from refdesk.store.database import PreparedReader, SqlStatement, changes
from refdesk.store.rows import bump, now
from refdesk.store.schema import settings as table
from refdesk.store.schema import state


class StoredSettings(ABC):
    """The `SettingsStore` port over values by name, kept wherever `_read` finds and `_write` leaves them."""

    def __init__(self, base: Settings | None = None, notes: tuple[str, ...] = ()) -> None:
        self.base = base or Settings()
        self._lock = threading.Lock()
        self._seen: str | None = None  # the revision that these are of
        self._values: Mapping[str, Any] = {}
        self._settings = self.base
        self._base_notes = notes  # what refdesk.toml has and this version does not
        self._notes = notes

    @abstractmethod
    def _revision(self) -> str:
        """Another text after each change."""

    @abstractmethod
    def _read(self) -> dict[str, Any]:
        """What is stored, also what this version does not know."""

    @abstractmethod
    def _write(self, values: Mapping[str, Any], gone: Iterable[str]) -> None: ...

    def load(self) -> dict[str, Any]:
        """The values that are set and that this version knows; read anew only when somebody has changed one."""
        self._refresh()
        return dict(self._values)

    def current(self) -> Settings:
        self._refresh()
        return self._settings

    @property
    def notes(self) -> tuple[str, ...]:
        self._refresh()
        return self._notes

    def set(self, name: str, value: Any) -> None:
        self.change({name: value})

    def reset(self, name: str | None = None) -> None:
        stored = self._read()
        if name is not None and name not in stored and name not in {spec.name for spec in specs()}:
            raise NotFound(f"there is no setting '{name}'", hint="see docs/settings.md")
        self.change({}, stored if name is None else [name])

    def use_preset(self, name: str) -> None:
        self.change(*preset(name))

    def change(self, values: Mapping[str, Any], reset: Iterable[str] = ()) -> None:
        gone = set(reset) - values.keys()
        left = {name: value for name, value in self.load().items() if name not in gone}
        checked = {name: value for name, value, _ in self.base.changed(left | dict(values)).items()}
        self._write({name: checked[name] for name in values}, gone)

    def _refresh(self) -> None:
        revision = self._revision()
        if revision == self._seen:
            return
        stored = self._read()
        with self._lock:
            self._values, self._settings, notes = _usable(self.base, stored)
            self._notes = (*self._base_notes, *notes)
            self._seen = revision


class SqlSettings(StoredSettings):
    def __init__(self, reader: PreparedReader, base: Settings | None = None, notes: tuple[str, ...] = ()) -> None:
        super().__init__(base, notes)
        self._reader = reader
        self._find_revision = SqlStatement(select(state.c.value).where(state.c.name == "settings"))
        self._find = SqlStatement(select(table.c.name, table.c.value).order_by(table.c.name))

    def _revision(self) -> str:
        rows = self._reader.rows(self._find_revision)
        return str(rows[0][0]) if rows else ""

    def _read(self) -> dict[str, Any]:
        return {name: orjson.loads(value) for name, value in self._reader.rows(self._find)}

    def _write(self, values: Mapping[str, Any], gone: Iterable[str]) -> None:
        moment = now()
        with changes(self._reader.engine) as connection:
            connection.execute(delete(table).where(table.c.name.in_([*gone, *values])))
            for name, value in values.items():
                row = {"name": name, "value": orjson.dumps(value).decode(), "updated_at": moment}
                connection.execute(insert(table).values(row))
            bump(connection, "settings")


class MemorySettings(StoredSettings):
    def __init__(self, base: Settings | None = None) -> None:
        super().__init__(base)
        self._stored: dict[str, Any] = {}
        self._changes = 0

    def _revision(self) -> str:
        return str(self._changes)

    def _read(self) -> dict[str, Any]:
        return dict(sorted(self._stored.items()))

    def _write(self, values: Mapping[str, Any], gone: Iterable[str]) -> None:
        self._stored = {name: value for name, value in self._stored.items() if name not in set(gone)} | dict(values)
        self._changes += 1


def _usable(base: Settings, stored: Mapping[str, Any]) -> tuple[dict[str, Any], Settings, tuple[str, ...]]:
    """What of the stored values can be used; a newer version may have written others, or other bounds."""
    try:
        return dict(stored), base.changed(stored), ()
    except UsageError:
        pass  # now one by one
    used: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in stored.items():
        try:
            base.changed(used | {name: value})
        except UsageError as error:
            notes.append(f"the library's setting {name} is not used: {error}")
        else:
            used[name] = value
    return used, base.changed(used), tuple(notes)
