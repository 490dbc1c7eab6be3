"""A library's own settings in SQL: changed while programs run, seen by each of them at its next question."""

from __future__ import annotations

import threading
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


class SqlSettings:
    """The `SettingsStore` port."""

    def __init__(self, reader: PreparedReader, base: Settings | None = None, notes: tuple[str, ...] = ()) -> None:
        self._reader = reader
        self.base = base or Settings()
        self._find_revision = SqlStatement(select(state.c.value).where(state.c.name == "settings"))
        self._find = SqlStatement(select(table.c.name, table.c.value).order_by(table.c.name))
        self._lock = threading.Lock()
        self._revision: str | None = None
        self._values: Mapping[str, Any] = {}
        self._settings = self.base
        self._base_notes = notes  # what refdesk.toml has and this version does not
        self._notes = notes

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
        stored = self._stored()
        if name is not None and name not in stored and name not in {spec.name for spec in specs()}:
            raise NotFound(f"there is no setting '{name}'", hint="see docs/settings.md")
        self.change({}, stored if name is None else [name])

    def use_preset(self, name: str) -> None:
        self.change(*preset(name))

    def change(self, values: Mapping[str, Any], reset: Iterable[str] = ()) -> None:
        gone = set(reset) - values.keys()
        left = {name: value for name, value in self.load().items() if name not in gone}
        checked = {name: value for name, value, _ in self.base.changed(left | dict(values)).items()}
        rows = [{"name": name, "value": orjson.dumps(checked[name]).decode(), "updated_at": now()} for name in values]
        with changes(self._reader.engine) as connection:
            connection.execute(delete(table).where(table.c.name.in_([*gone, *values])))
            if rows:
                connection.execute(insert(table), rows)
            bump(connection, "settings")

    def _stored(self) -> list[str]:
        """Also those that this version does not know."""
        return [name for name, _ in self._reader.rows(self._find)]

    def _refresh(self) -> None:
        rows = self._reader.rows(self._find_revision)
        revision = str(rows[0][0]) if rows else ""
        if revision == self._revision:
            return
        stored = {name: orjson.loads(value) for name, value in self._reader.rows(self._find)}
        with self._lock:
            self._values, self._settings, notes = _usable(self.base, stored)
            self._notes = (*self._base_notes, *notes)
            self._revision = revision


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
