"""Files handed in as the network does it, the queue that adds them, and the fixtures for both.

desk, uploads = upload_samples.desk, upload_samples.running    # in a test module: under these names
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from library_samples import open_desk, wait_until
from refdesk import Refdesk
from refdesk.records import LOCAL, Caller
from refdesk.serve.uploads import Uploads, new_upload
from refdesk.types import Added, Job, Progress


def hand_in(
    desk: Refdesk, name: str, data: bytes, caller: Caller = LOCAL, collection: str = "default", **options: Any
) -> Job:
    uploads = Uploads(desk)
    with uploads.receiving() as (upload_id, file):
        file.write(data)
        return uploads.accept(new_upload(upload_id, name, collection, caller, size=len(data), **options), file)


def work_off(desk: Refdesk, on_progress: Callable[[Progress], None] | None = None) -> list[Added]:
    """Adds what waits, in this thread."""
    with desk.at_work() as run:
        return desk.work(run, lambda free: free, on_progress=on_progress)


def done(uploads: Uploads) -> list[Job]:
    """The uploads once none is waiting any more, by name."""
    assert wait_until(lambda: all(one.status in ("ready", "failed") for one in uploads.listed(LOCAL)))
    return sorted(uploads.listed(LOCAL), key=lambda one: one.name)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        yield found


@pytest.fixture
def waiting(desk: Refdesk) -> Iterator[Uploads]:
    """A queue that the test starts."""
    found = Uploads(desk)
    yield found
    found.stop()


@pytest.fixture
def running(desk: Refdesk) -> Iterator[Uploads]:
    found = Uploads(desk)
    found.start()
    yield found
    found.stop()
