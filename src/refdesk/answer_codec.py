"""Answers to bytes and back: JSON of the very shape of `Answer.to_dict()`, so that a door may hand the bytes on. Pure.

A field that this version does not know is left out, one that is missing has its default: answers outlive versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

import orjson

from refdesk.answer import (
    Answer,
    Citation,
    Claim,
    Confidence,
    Conflict,
    FailedModel,
    Source,
    Sufficiency,
    Usage,
    Verification,
)
from refdesk.geometry import Box

_T = TypeVar("_T")
_NUMPY = orjson.OPT_SERIALIZE_NUMPY  # a score may still be a float of numpy's


def encode_answer(answer: Answer) -> bytes:
    """`orjson.loads(encode_answer(answer))` is `answer.to_dict()` with lists for tuples."""
    try:
        return orjson.dumps(answer, default=_plain, option=_NUMPY)
    except orjson.JSONEncodeError:
        # A model may send half of a surrogate pair, which no encoding takes.
        return orjson.dumps(_sound(answer.to_dict()), default=_plain, option=_NUMPY)


@lru_cache(maxsize=128)
def decode_answer(data: bytes) -> Answer:
    """The answer that was encoded; every tuple is a tuple again. The same question tends to come again and again."""
    return answer_from_dict(orjson.loads(data))


def answer_from_dict(packed: Mapping[str, Any]) -> Answer:
    known = _known(Answer, packed)
    known["claims"] = tuple(_tuples(Claim, one) for one in packed.get("claims", ()))
    known["citations"] = tuple(_citation(one) for one in packed.get("citations", ()))
    for name in ("sources", "related_documents"):
        known[name] = tuple(_tuples(Source, one) for one in packed.get(name, ()))
    known["failed_models"] = tuple(_tuples(FailedModel, one) for one in packed.get("failed_models", ()))
    for name in ("suggested_questions", "notes"):
        known[name] = tuple(packed.get(name, ()))
    for name, kind in _PARTS.items():
        if name in known:
            known[name] = kind(known[name])
    return Answer(**known)


def _citation(packed: Mapping[str, Any]) -> Citation:
    known = _known(Citation, packed)
    known["heading_path"] = tuple(known["heading_path"])
    known["boxes"] = tuple(Box(**box) for box in known["boxes"])
    known["origin"] = tuple(known.get("origin", (0, 0)))
    return Citation(**known)


def _sufficiency(packed: Mapping[str, Any]) -> Sufficiency:
    known = _known(Sufficiency, packed)
    known["missing_aspects"] = tuple(known.get("missing_aspects", ()))
    known["conflicts"] = tuple(_tuples(Conflict, one) for one in known.get("conflicts", ()))
    return Sufficiency(**known)


def _tuples(kind: type[_T], packed: Mapping[str, Any]) -> _T:
    """A value none of whose parts is a value itself: lists become tuples."""
    names = _NAMES[kind]
    return kind(**{k: tuple(v) if type(v) is list else v for k, v in packed.items() if k in names})


def _known(kind: type, packed: Mapping[str, Any]) -> dict[str, Any]:
    names = _NAMES[kind]
    return {name: value for name, value in packed.items() if name in names}


_KINDS = (Answer, Citation, Claim, Confidence, Conflict, FailedModel, Source, Sufficiency, Usage, Verification)
_NAMES: Mapping[type, frozenset[str]] = {kind: frozenset(one.name for one in fields(kind)) for kind in _KINDS}
_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "confidence": lambda packed: _tuples(Confidence, packed),
    "sufficiency": _sufficiency,
    "verification": lambda packed: _tuples(Verification, packed),
    "usage": lambda packed: _tuples(Usage, packed),
}


def _plain(value: Any) -> Any:
    """What orjson does not know: boxes are named tuples, metrics may be any mapping."""
    if isinstance(value, Box):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no part of an answer")


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_sound(name): _sound(one) for name, one in value.items()}
    return [_sound(one) for one in value] if isinstance(value, list | tuple) else value
