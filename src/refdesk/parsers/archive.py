"""ZIP: the files in it as documents of their own, as attachments of a mail are; nothing is unpacked by its own path."""

from __future__ import annotations

import stat
import zipfile
from contextlib import suppress

from refdesk.errors import EmptyDocument
from refdesk.file_names import is_junk, safe_name
from refdesk.parsers.build import ParseOptions, contents
from refdesk.parsers.office import Archive
from refdesk.types import Attachment, Parsed

MAX_FILES = 10_000
UTF_8 = 0x800  # the flag of an entry whose name is in UTF-8; other names may be, too


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """A list of the files, each of which is a child; hidden ones and junk of systems are left out, as of a folder."""
    archive = Archive(data, options, holds_files=True)
    entries = [entry for entry in archive.entries if _is_file(entry)]
    children = []
    for done, entry in enumerate(entries[:MAX_FILES], 1):
        children.append(Attachment(_name(entry), archive.read(entry.filename)))
        options.progress(done, len(entries))
    if not children:
        raise EmptyDocument("there are no files in this ZIP archive")
    left = len(entries) - len(children)
    notes = [f"{left:,} further files were left out"] if left else []
    return contents("zip", [child.name for child in children], children, notes)


def _is_file(entry: zipfile.ZipInfo) -> bool:
    """Neither a folder nor a link, which would be read as the name that it leads to."""
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    return not (entry.is_dir() or is_link or any(map(is_junk, _name(entry).split("/"))))


def _name(entry: zipfile.ZipInfo) -> str:
    """The name with its folders below the archive: `../a/x.pdf` -> `a/x.pdf`."""
    name = entry.filename
    if not entry.flag_bits & UTF_8:
        with suppress(UnicodeError):  # many programs write UTF-8 without saying so
            name = name.encode("cp437").decode("utf-8")
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(map(safe_name, parts[-10:])) or "file"
