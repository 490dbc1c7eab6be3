"""Refdesk: a reference desk for your documents."""

from refdesk.answer import Answer, Citation, Claim
from refdesk.engine import Refdesk
from refdesk.errors import DocumentError, LibraryError, ModelError, RefdeskError, UsageError
from refdesk.geometry import Box
from refdesk.settings import Settings
from refdesk.types import Added, Chunk, Document, Hit, Progress, Scope

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
