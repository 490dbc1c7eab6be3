"""Refdesk: a reference desk for your documents."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from refdesk.answer import Answer, Citation, Claim
    from refdesk.desk import Refdesk
    from refdesk.errors import DocumentError, LibraryError, ModelError, RefdeskError, UsageError
    from refdesk.settings import Settings
    from refdesk.types import Added, Box, Chunk, Document, Hit, Progress, Scope

__version__ = "0.1.0"

__all__ = [
    "Added",
    "Answer",
    "Box",
    "Chunk",
    "Citation",
    "Claim",
    "Document",
    "DocumentError",
    "Hit",
    "LibraryError",
    "ModelError",
    "Progress",
    "Refdesk",
    "RefdeskError",
    "Scope",
    "Settings",
    "UsageError",
]

# Imported when first asked for: a process that parses needs none of the engine, which takes half a second to import.
_MODULES = {
    "answer": ("Answer", "Citation", "Claim"),
    "desk": ("Refdesk",),
    "errors": ("DocumentError", "LibraryError", "ModelError", "RefdeskError", "UsageError"),
    "settings": ("Settings",),
    "types": ("Added", "Box", "Chunk", "Document", "Hit", "Progress", "Scope"),
}


def __getattr__(name: str) -> typing.Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
