"""Every error is in the tree that the docstring draws, has a code and a sentence, and crosses processes whole."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from refdesk import errors
from refdesk.errors import RefdeskError

CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, RefdeskError) and found.__module__ == errors.__name__
]
everyone = pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)


def drawn() -> dict[str, str]:
    """Each class of the drawing with the one it hangs from."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        found = re.match(r"([ │├└─]*)([A-Z]\w+)(\s{2,}|$)", line)
        if not found or not line.startswith("    "):
            continue
        depth = len(found.group(1))
        path = [step for step in path if step[0] < depth]
        parents[found.group(2)] = path[-1][1] if path else ""
        path.append((depth, found.group(2)))
    return parents


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {
        kind.__name__: next((base.__name__ for base in kind.__bases__ if issubclass(base, RefdeskError)), "")
        for kind in CLASSES
    }


@everyone
def test_an_error_speaks_to_programs_and_to_people(kind: type[RefdeskError]) -> None:
    error = kind("the pump is broken.", hint="call the harbour")
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code)
    assert error.sentence == "the pump is broken; call the harbour"
    assert set(error.to_dict()) == {"code", "message", "stage", "retryable", "hint"}
    assert isinstance(error.retryable, bool)


def test_codes_are_distinct() -> None:
    assert len({kind("x").code for kind in CLASSES}) == len(CLASSES)
    assert errors.NeedsPassword("x").code == "needs_password"


@everyone
def test_an_error_is_pickled_whole(kind: type[RefdeskError]) -> None:
    error = kind("the pump is broken", hint="call the harbour")
    error.retryable = True
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and again.to_dict() == error.to_dict()
    assert pickle.loads(pickle.dumps(kind("x"))).hint == kind.hint


def test_a_usage_error_is_a_value_error() -> None:
    assert issubclass(errors.UsageError, ValueError)


@everyone
def test_hints_are_sentences_without_a_stop(kind: type[RefdeskError]) -> None:
    assert not kind.hint.endswith(".") and kind.hint[:1] == kind.hint[:1].lower()
