"""Which of the files that documents were made from, or will be, are missing or altered? Each is known by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from sqlalchemy import Connection, select

from refdesk.adapters.files import FileStore, hash_file
from refdesk.adapters.schema import chunks, documents
from refdesk.adapters.spool import Spool
from refdesk.types import UNFINISHED, Finding

_NAMED = 3  # files that a sentence names; the others are counted
_FIGURES = "a figure of "


@dataclass(frozen=True, slots=True)
class Damage:
    """`name` is the document's or the upload's, `what` is "missing" or "altered"."""

    name: str
    what: str


def damaged_originals(connection: Connection, files: FileStore) -> list[Damage]:
    """Of documents and of the pictures cut out of them; a text that a program handed in has no original."""
    wanted: dict[str, str] = {}
    added = select(documents.c.content_hash, documents.c.name).where(
        documents.c.status == "ready", (documents.c.source != "") | documents.c.parent_id.is_not(None)
    )
    for content_hash, name in connection.execute(added):
        wanted.setdefault(content_hash, name)
    figures = (
        select(chunks.c.details, documents.c.name)
        .join(documents, documents.c.key == chunks.c.document_key)
        .where(chunks.c.kind == "figure", documents.c.status == "ready")
    )
    for details, name in connection.execute(figures):
        if image := orjson.loads(details)["image"]:
            wanted.setdefault(image, f"{_FIGURES}{name}")
    wanted.pop("", None)
    found = [(name, _state(files.path(content_hash), content_hash)) for content_hash, name in wanted.items()]
    return [Damage(name, what) for name, what in found if what]


def damaged_uploads(spool: Spool) -> list[Damage]:
    """Those that wait to be added and cannot be; one that is added this moment is not looked for."""
    found = []
    for upload in spool.all(anew=True).values():
        if upload.status not in UNFINISHED and not spool.has_data(upload.id):
            continue  # added; or nothing is kept for another try
        what = _state(spool.data(upload.id), upload.content_hash)
        if what and upload.id in spool.all(anew=True):
            found.append(Damage(upload.name, what))
    return found


def _state(path: Path, content_hash: str) -> str:
    try:
        return "altered" if content_hash and hash_file(path) != content_hash else ""
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"not readable ({error.strerror or error})"


def finding(title: str, damaged: Sequence[Damage], advice: str) -> Finding:
    """For the doctor."""
    said = [f"{one.name} is {one.what}" for one in damaged[:_NAMED]]
    if len(damaged) > _NAMED:
        said.append(f"{len(damaged) - _NAMED} more")
    return Finding(title, not damaged, "; ".join(said) or "all there and unaltered", advice)
