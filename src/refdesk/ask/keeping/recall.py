"""Which earlier answer may stand for this question's? Names the realm in which answers are kept. Pure.

    realm(question, settings, models, generation, turns)   one conversation so far: get and put the very same question
    realm(question, settings, models, generation)          no conversation: also `nearest`, with a question that stands
                                                           alone

An answer that was written with a conversation in view may repeat what was said there, so it is put under its turns
only, without a vector; an answer written without one may serve everybody in its realm.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Any

import orjson

from refdesk.answer import Question, Turn
from refdesk.settings import Settings
from refdesk.types import EVERYTHING, Scope


def realm(
    question: Question,
    settings: Settings,
    models: str,
    generation: int,
    turns: Sequence[Turn] = (),
) -> str:
    """Everything but the question's words that an answer hangs on: `17-` (the corpus version) and a hash.

    `models` names all that take part, the embedder included; `turns` are what was said before.
    """
    parts = [
        _scope(question.scope),
        question.level,
        question.mode,
        question.response_mode,
        question.verbatim,
        question.k,
        question.max_context_chars,
        settings.fingerprint,
        models,
        [(turn.role, turn.content) for turn in turns],
        question.conversation_id if turns else "",  # its summary may hold more than these turns
    ]
    try:
        packed = orjson.dumps(parts)
    except orjson.JSONEncodeError:  # half of a surrogate pair in what was said
        packed = repr(parts).encode("utf-8", "backslashreplace")
    return f"{generation}-{hashlib.blake2b(packed, digest_size=16).hexdigest()}"


def same_words(text: str) -> str:
    """The question by which the exact cache finds it: white space and Unicode's composition do not count, case does.

    >>> same_words("  What does  the US\\nowe us? ")
    'What does the US owe us?'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _scope(scope: Scope) -> list[Any]:
    """In an order that does not hang on the caller's; no access at all (an empty list) is not every access."""
    return [
        sorted(set(scope.collections)),
        sorted(set(scope.documents)),
        sorted(set(scope.kinds)),
        scope.pages,
        scope.date_from,
        scope.date_to,
        sorted(set(scope.metadata)),
        None if scope.access is EVERYTHING else sorted(set(scope.access)),
    ]
