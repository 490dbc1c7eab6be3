"""What is said of a model that did not answer? A sentence for the reader, a warning in the log, a code to count."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from refdesk.answer import FailedModel
from refdesk.ask.writing.draft import EXTRACTIVE, Draft
from refdesk.errors import ProviderEmpty, ProviderError, ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.trace import Trace

NO_CREDIT = "its account has no credit left"
REFUSED: Mapping[int, str] = {
    401: "it refused the key",
    402: NO_CREDIT,
    403: "it refused the key",
    404: "its provider does not know it",
    429: NO_CREDIT,  # any other 429 is `ProviderUnavailable`
}

logger = logging.getLogger("refdesk.ask")


def tell(draft: Draft, trace: Trace) -> None:
    """Notes for the reader and warnings in the log of every model that failed before the writer of this draft."""
    failed = given_up(draft.failures, draft.model)
    warn(failed, trace)
    if failed:
        draft.notes.append(sentence(failed, draft.model, is_quoting=bool(draft.content)))


def given_up(failures: Sequence[ProviderError], writer: str) -> list[ProviderError]:
    """The last failure of each model, without the writer's: one that broke off and began anew has answered."""
    return list({one.model: one for one in failures if one.model != writer}.values())


def failed_models(draft: Draft) -> tuple[FailedModel, ...]:
    return tuple(FailedModel(one.model, one.code) for one in given_up(draft.failures, draft.model))


def sentence(failed: Sequence[ProviderError], writer: str, *, is_quoting: bool) -> str:
    """`openai:gpt-4o did not answer (it refused the key), so the sentences are quoted from the documents instead.`"""
    named = ", nor did ".join(
        f"{one.model} did not answer ({reason(one)})" if place == 0 else f"{one.model} ({reason(one)})"
        for place, one in enumerate(failed)
    )
    if writer != EXTRACTIVE:
        return f"{named}, so {writer} wrote this instead."
    instead = "the sentences are quoted from the documents instead" if is_quoting else "no model has looked for it"
    return f"{named}, so {instead}."


def warn(failed: Sequence[ProviderError], trace: Trace) -> None:
    """One line for each, under the id of its answer, whose trace has every try.

    Not in the provider's words: some say the whole request again, and questions are not logged.
    """
    for one in failed:
        said = {"model": one.model, "code": one.code, "status": one.status, "hint": one.hint, "answer_id": trace.id}
        logger.warning("%s did not answer: %s", one.model, reason(one), extra=said)


def reason(error: ProviderError) -> str:
    """Why it did not answer, in plain words; no address, no key and nothing that the provider said.

    >>> reason(ProviderRefused("openai:gpt-4o answered 401: wrong key sk-…", status=401))
    'it refused the key'
    """
    match error:
        case ProviderRefused():
            return REFUSED.get(error.status, "it refused the request" if error.status else "it cannot be asked")
        case ProviderUnavailable():
            return _unavailable(error.status)
        case ProviderInterrupted():
            return "it broke off"
        case ProviderEmpty():
            return "it wrote nothing"
    return "it failed"


def _unavailable(status: int) -> str:
    if status == 429:
        return "it has too many requests at present"
    return "its server failed" if status >= 500 else "it is not available at present"
