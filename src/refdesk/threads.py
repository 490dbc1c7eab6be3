"""Where does work run that would hold up the event loop? In threads that live as long as the process.

`asyncio.to_thread` would do, but each `asyncio.run` has threads of its own, and a new thread opens a connection and
fills the caches of its stemmers: twice the time of a question asked synchronously.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}  # by process: a fork must not use its parent's


async def aside(function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
    """What the function gives, computed in a thread while others go on."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), partial(function, *arguments, **named))


def _pool() -> ThreadPoolExecutor:
    process = os.getpid()
    if process not in _pools:
        # As many as asyncio's own default: an embedder behind a network waits, and must not stop the others.
        _pools[process] = ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), "refdesk")
    return _pools[process]
