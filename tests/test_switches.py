"""Nothing is offered that does nothing: settings are read, and strategies, levels and modes make plans of their own."""

from __future__ import annotations

import ast
import logging
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import refdesk
from refdesk import Refdesk
from refdesk.answer import Hints, Level, Mode, Plan, Query, Question, ResponseMode
from refdesk.ask.plan import wished_plan
from refdesk.ask.strategies import STRATEGIES
from refdesk.settings import REMOVED_SETTINGS, REMOVED_VALUES, Settings, specs

PACKAGE = Path(refdesk.__file__).parent
DECLARING = ("settings.py", "settings_store.py")  # reading a setting there changes nothing
QUERY = Query("why", "why", np.zeros(2), ("why",), intent="analytical", hints=Hints(use_reasoning=True))


def _is_settings(node: ast.expr) -> bool:
    """`settings`, `job.settings`, `self._settings()`."""
    if isinstance(node, ast.Call):
        return _is_settings(node.func)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.endswith("settings")


def _settings_read() -> set[str]:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.name not in DECLARING:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute) and _is_settings(one.value)}
    return found


def test_every_setting_is_read_by_the_code_that_obeys_it() -> None:
    unread = {one.name for one in fields(Settings)} - _settings_read()
    assert not unread, f"offered, and nobody reads them: {sorted(unread)}"


def made(question: Question = Question("why"), **changed: object) -> Plan:  # noqa: B008
    return wished_plan(question, QUERY, Settings().changed(changed), has_llm=True, has_verifier=True)


def choices(name: str) -> tuple[str, ...]:
    return next(spec.choices for spec in specs() if spec.name == name)


def test_every_strategy_searches_in_its_own_way() -> None:
    named = set(choices("rag.strategy")) - {"auto"}
    assert named == set(STRATEGIES)
    plans = [made(**{"rag.strategy": name}) for name in named]
    assert all(one != other for one, other in combinations(plans, 2))
    assert made() != made(replace(Question("why"), level="basic"))  # auto chooses


def test_every_level_does_something_else() -> None:
    assert set(choices("answer.level")) == set(get_args(Level))
    plans = [made(Question("why", level=level)) for level in get_args(Level)]
    assert all(one != other for one, other in combinations(plans, 2))


def test_every_mode_of_checking_does_something_else() -> None:
    assert set(choices("answer.mode")) == set(get_args(ResponseMode))
    plans = [made(Question("why", response_mode=mode)) for mode in get_args(ResponseMode)]
    assert all(one != other for one, other in combinations(plans, 2))
    assert get_args(Mode) == ("chat", "general", "agent", "report", "vision")  # tests/test_agent.py, test_vision.py


def test_what_was_removed_is_offered_nowhere() -> None:
    named = {spec.name for spec in specs()}
    assert not named & REMOVED_SETTINGS
    assert all(not set(choices(name)) & gone for name, gone in REMOVED_VALUES.items())


def test_a_settings_file_with_a_removed_name_is_opened_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["[settings]", '"answer.ensemble_voting" = true', '"rag.top_k" = 7']
    (tmp_path / "refdesk.toml").write_text("\n".join(lines))
    with caplog.at_level(logging.WARNING, "refdesk"), Refdesk(tmp_path) as desk:
        assert desk.settings.top_k == 7 and desk.settings.strategy == "auto"
        assert len(desk.parts.settings_store.notes) == 1
    assert "'answer.ensemble_voting' was removed: it had no effect; it is ignored" in caplog.text
