"""Temporary folders of servers that were killed go at the next start; those of living ones, and of others, stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from library_samples import start
from refdesk.serve.cli.admin import PREFIX, UNOWNED_S, clear_dead

SERVING = """
import time
from refdesk.serve.cli.admin import shared_folder
with shared_folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_server_left_goes_at_the_next_start(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    killed, living = (start(SERVING, env=environment) for _ in range(2))
    assert killed.stdout is not None and living.stdout is not None
    left, kept = Path(killed.stdout.readline().strip()), Path(living.stdout.readline().strip())
    (left / "counter.db").write_bytes(b"x")
    killed.kill()
    killed.communicate()
    assert left.is_dir()
    again = start(SERVING, env=environment)
    assert again.stdout is not None
    fresh = Path(again.stdout.readline().strip())
    assert set(tmp_path.glob(f"{PREFIX}*")) == {kept, fresh}
    for process in (again, living):
        process.kill()
        process.communicate()


def test_folders_that_may_be_somebodys_stay(tmp_path: Path) -> None:
    making, old, other = (tmp_path / f"{PREFIX}{name}" for name in ("making", "old", "other"))
    for folder in (making, old, other):
        folder.mkdir()
    long_ago = time.time() - UNOWNED_S - 60
    os.utime(old, (long_ago, long_ago))
    (tmp_path / f"{PREFIX}link").symlink_to(making)
    if os.geteuid() == 0:
        os.utime(other, (long_ago, long_ago))
        os.chown(other, 65534, -1)
    clear_dead(tmp_path)
    assert making.is_dir() and other.is_dir() and not old.exists()
    assert (tmp_path / f"{PREFIX}link").is_symlink()


if os.name == "nt":
    pytest.skip("other rights", allow_module_level=True)
