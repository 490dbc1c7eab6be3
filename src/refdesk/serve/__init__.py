"""The doors of a library, and what they share: the documents that come with Refdesk."""

from __future__ import annotations

from pathlib import Path

from refdesk.errors import UsageError

EXAMPLES = "examples"  # the collection they go to


def example_folder() -> Path:
    """Inside an installed package, or beside the source."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "assets" / "examples", package.parent.parent / "examples" / "documents"):
        if folder.is_dir():
            return folder
    raise UsageError("the example documents are not installed", hint="name a folder with --documents")
