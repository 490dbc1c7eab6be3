"""How long a call takes, told so that it does not matter what else the machine computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def quickest(call: Callable[[], Any], times: int = 20) -> float:
    """Seconds of the processor in the best of several runs of this thread: what others do meanwhile is not counted."""
    found = []
    for _ in range(times):
        began = time.thread_time()
        call()
        found.append(time.thread_time() - began)
    return min(found)
