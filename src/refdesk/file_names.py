"""Names of files inside others: which of them nobody means, and what is safe of a name. Pure."""

from __future__ import annotations

import re

# What programs leave lying about; nobody means these when adding a folder or what was packed from one.
JUNK_NAMES = frozenset({"thumbs.db", "desktop.ini", "__macosx", "__pycache__", "node_modules"})
JUNK_BEGINNINGS = (".", "~$")


def is_junk(name: str) -> bool:
    return name.startswith(JUNK_BEGINNINGS) or name.lower() in JUNK_NAMES


def safe_name(name: str) -> str:
    """A name without folders or control characters: "../../x.pdf" -> "x.pdf"."""
    name = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "", name.replace("\\", "/")).rsplit("/", 1)[-1].strip()
    return name[-150:] or "attachment"
