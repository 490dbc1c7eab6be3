"""The connection to Redis for state shared beside SQL; never blocks if Redis is unavailable.

While Redis is away every call raises `RedisAway` at once, and whoever called goes on without: slower, never wrong. Once
a second one call tries again. Nothing in Redis is the truth of anything: it may be emptied at any moment.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from refdesk.errors import ExtraMissing, UsageError

TIMEOUT_S = 0.5  # for an answer that takes a millisecond; whoever asks a question must not notice
AGAIN_S = 1.0  # after which one call tries whether Redis is back
Result = TypeVar("Result")
logger = logging.getLogger("refdesk.redis")


class RedisAway(Exception):
    """Redis does not answer, or refuses; the caller does without."""


class RedisLink:
    """A pool of connections for one process and all of its threads. Keys begin with `prefix`."""

    def __init__(self, url: str, library: str) -> None:
        """`library` says which one it is on a Redis that several share: where its truth lies."""
        driver = _driver()
        self.prefix = f"refdesk:{hashlib.blake2b(library.encode(), digest_size=8).hexdigest()}:"
        self.problem = ""  # why it is away, in a sentence; "" while it answers
        self._failures: tuple[type[Exception], ...] = (driver.RedisError, OSError)
        self._lock = threading.Lock()
        self._next_try = 0.0
        try:
            # A connection that Redis closed when it was restarted is replaced by a new one; nothing is waited for.
            again = driver.retry.Retry(driver.backoff.NoBackoff(), 1)
            self._client = driver.Redis.from_url(
                url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=again
            )
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"REFDESK_REDIS_URL cannot be used: {error}", hint="give it as redis://host:6379/0 or rediss://…"
            ) from error

    def call(self, work: Callable[[Any], Result]) -> Result:
        """What the work gives, which is handed the client; `RedisAway` where it cannot be done now."""
        with self._lock:
            if self.problem:
                if time.monotonic() < self._next_try:
                    raise RedisAway(self.problem)
                self._next_try = time.monotonic() + AGAIN_S  # for this call alone
        try:
            result = work(self._client)
        except self._failures as error:
            self._lose(error)
            raise RedisAway(self.problem) from error
        if self.problem:
            logger.warning("Redis is available again")
            self.problem = ""
        return result

    def _lose(self, error: Exception) -> None:
        with self._lock:
            if not self.problem:
                logger.warning("Redis is unavailable: %s", error)
            self.problem = f"Redis is unavailable: {error}".rstrip(".")
            self._next_try = time.monotonic() + AGAIN_S

    def is_there(self) -> bool:
        try:
            return bool(self.call(lambda client: client.ping()))
        except RedisAway:
            return False

    def close(self) -> None:
        self._client.close()


def _driver() -> Any:
    try:
        import redis
        import redis.backoff
        import redis.retry
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            "REFDESK_REDIS_URL is set, but the Redis driver is not installed", hint="pip install 'refdesk[redis]'"
        ) from error
    return redis
