"""The interfaces of a library, and what they share: the example documents, and which processes are still running."""

from __future__ import annotations

import os
from pathlib import Path

from refdesk.errors import UsageError

EXAMPLES = "examples"  # the collection they go to


def example_folder() -> Path:
    """Inside an installed package, or beside the source."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "assets" / "examples", package.parent.parent / "examples" / "documents"):
        if folder.is_dir():
            return folder
    raise UsageError("the example documents are not installed", hint="choose a folder with --documents")


def is_alive(process: int) -> bool:
    if os.name == "nt":  # where the same call would end the process
        return True
    try:
        os.kill(process, 0)
    except OSError:  # it is gone, or its number is now that of another user's process
        return False
    return True
