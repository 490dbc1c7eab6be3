"""Every error Refdesk raises.

    RefdeskError
    ├── UsageError              the call is wrong: unknown method, k < 1
    │   ├── ModelNotAllowed     a model that the owner has not named for questions, or one that cannot do what is asked
    │   └── NotFound            no such document, answer, conversation or key, or none that the caller may see
    ├── AccessError             the caller may not do this
    │   ├── NotSignedIn         no key was given, or one that is not known (any more)
    │   ├── AccessDenied        the role or the collections of the key do not allow it
    │   └── TooManyRequests     over a limit of this key; `retry_after_s` says when to come back
    ├── DocumentError           this one document cannot be taken in; the others go on
    │   ├── UnsupportedFormat   a type Refdesk does not read
    │   ├── NeedsPassword       encrypted, and no password or a wrong one was given
    │   ├── BrokenFile          truncated or damaged
    │   ├── EmptyDocument       no bytes, or nothing readable in it
    │   ├── TooLarge            over a limit on bytes, pages or characters
    │   ├── HostileFile         a zip bomb, XML entities: built to do harm
    │   ├── UnreadableFile      vanished, no permission, not a regular file
    │   ├── ParseTimeout        took longer than the time limit
    │   └── ParserDied          needed more memory than the limit, or crashed its worker
    ├── LibraryError            the library as a whole
    │   ├── DiskFull
    │   ├── LibraryBusy         another process holds the writer's lock
    │   ├── FilesAway           originals and uploads are kept elsewhere, and cannot be reached
    │   ├── LibraryDamaged      the database or a backup does not open
    │   ├── IndexDamaged        a search index does not open; it can be rebuilt
    │   └── LibraryTooNew       written by a newer Refdesk
    ├── ModelError              the embedder or another model failed
    │   ├── ExtraMissing        an optional part is not installed
    │   └── ProviderError       a model that writes did not answer
    │       ├── ProviderRefused         400, 401, 403, 404: the same request fails again
    │       ├── ProviderEmpty           it ended its answer without a word
    │       ├── ProviderUnavailable     429, 5xx, no network, a time-out: another try may succeed
    │       └── ProviderInterrupted     the stream broke after it had begun
    └── AskError                a needed stage of a question failed

The message says what happened; `hint` says what to do; `retryable` says whether the same call may succeed later.
"""

from __future__ import annotations

from typing import Any


class RefdeskError(Exception):
    """The root: `code` for programs, the message and `hint` for people."""

    stage: str = ""
    retryable: bool = False
    hint: str = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint

    @property
    def code(self) -> str:
        """`NeedsPassword` -> `needs_password`."""
        name = type(self).__name__
        return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))

    @property
    def sentence(self) -> str:
        """What happened and what to do, in one line."""
        message = str(self).rstrip(".")
        return f"{message}; {self.hint}" if self.hint else message

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": str(self),
            "stage": self.stage,
            "retryable": self.retryable,
            "hint": self.hint,
        }

    def __reduce__(self) -> tuple[Any, ...]:  # crosses the border between worker and parent whole
        return (type(self), (str(self),), {"hint": self.hint, "retryable": self.retryable})


class UsageError(RefdeskError, ValueError):
    pass


class ModelNotAllowed(UsageError):
    """A question names a model that the owner has not named for questions, or that cannot do what is asked of it."""


class NotFound(UsageError):
    pass


class AccessError(RefdeskError):
    stage = "access"


class NotSignedIn(AccessError):
    hint = "sign in with a valid key"


class AccessDenied(AccessError):
    hint = "ask the administrator of this library"


class TooManyRequests(AccessError):
    retryable = True
    hint = "wait a moment"

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: float = 1.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class DocumentError(RefdeskError):
    stage = "parse"


class UnsupportedFormat(DocumentError):
    hint = "convert it to PDF, DOCX, HTML or plain text first"


class NeedsPassword(DocumentError):
    hint = "use --password, or the field `password` over HTTP"


class BrokenFile(DocumentError):
    hint = "open it in the program that made it and save it again"


class EmptyDocument(DocumentError):
    hint = "it contains nothing to search"


class TooLarge(DocumentError):
    hint = "split it, or raise the limit in the settings"


class HostileFile(DocumentError):
    hint = "it was not opened; do not trust its source"


class UnreadableFile(DocumentError):
    retryable = True
    hint = "check that it exists and that you can read it"


class ParseTimeout(DocumentError):
    retryable = True
    hint = "split it, or raise ingest.time_limit_s"


class ParserDied(DocumentError):
    hint = "split it, or raise ingest.memory_limit_mb"


class LibraryError(RefdeskError):
    stage = "store"


class DiskFull(LibraryError):
    retryable = True
    hint = "free some space and run the same command again; finished work is kept"


class LibraryBusy(LibraryError):
    retryable = True
    hint = "wait for the other process to finish, or stop it"


class FilesAway(LibraryError):
    retryable = True
    hint = "try again in a moment"


class LibraryDamaged(LibraryError):
    hint = "restore a backup with `refdesk restore FILE`"


class IndexDamaged(LibraryError):
    hint = "run `refdesk reindex`"


class LibraryTooNew(LibraryError):
    hint = "upgrade Refdesk"


class ModelError(RefdeskError):
    stage = "embed"


class ExtraMissing(ModelError):
    pass


class ProviderError(ModelError):
    """`spent` is the `Usage` of streams that broke before everyone was given up; None when nothing was written.

    `model` is who failed, "" where nobody said; `status` is that of the HTTP answer, 0 where there was none.
    """

    stage = "generate"
    spent: Any = None
    model: str = ""
    status: int = 0


class ProviderRefused(ProviderError):
    hint = "check the model's name and its API key"

    def __init__(self, message: str, *, hint: str | None = None, status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ProviderEmpty(ProviderError):
    hint = "raise answer.max_tokens or use another model"


class ProviderUnavailable(ProviderError):
    retryable = True
    hint = "try again in a moment, or set a fallback model in llm.fallbacks"

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: float = 0.0, status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s
        self.status = status


class ProviderInterrupted(ProviderError):
    retryable = True
    hint = "try again"


class AskError(RefdeskError):
    """A needed stage failed; the cause is the error it is raised from."""

    def __init__(self, message: str, *, hint: str | None = None, stage: str = "") -> None:
        super().__init__(message, hint=hint)
        self.stage = stage
