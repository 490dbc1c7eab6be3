"""What the makers share: reading the texts in `source/`, and writing PDF and ZIP files that never change.

Nothing is deflated: zlib and zlib-ng give different bytes for the same input, and the files are small anyway.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from reportlab import rl_config

SOURCE = Path(__file__).parent.parent / "source"
COMPANY = "Skerry Instruments Ltd."

# An image is stored as it is, not as ASCII: a quarter smaller.
rl_config.useA85 = 0

Block = tuple[str, str]  # (kind, text)

MARKERS = (("### ", "h3"), ("## ", "h2"), ("# ", "h1"), ("- ", "bullet"), ("@", "insert"))


def source_text(name: str) -> str:
    return (SOURCE / name).read_text(encoding="utf-8")


def source_blocks(name: str) -> list[Block]:
    """The blocks of a text in `source/`: `"## 2.1 Site"` -> `("h2", "2.1 Site")`, `"@x"` -> `("insert", "x")`."""
    blocks: list[Block] = []
    for paragraph in re.split(r"\n\s*\n", source_text(name).strip()):
        lines = paragraph.splitlines()
        if re.match(r"\d+\. ", lines[0]):
            blocks += [("number", re.sub(r"^\d+\. ", "", line)) for line in lines]
            continue
        text = " ".join(lines)
        for marker, kind in MARKERS:
            if text.startswith(marker):
                blocks.append((kind, text.removeprefix(marker)))
                break
        else:
            blocks.append(("text", text))
    return blocks


@contextmanager
def pdf_date(day: str) -> Iterator[None]:
    """PDFs made inside carry this date as their date of creation: `with pdf_date("2025-03-17"): …`."""
    moment = datetime.fromisoformat(day).replace(hour=9, tzinfo=UTC)
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(int(moment.timestamp()))
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before


def steady_zip(entries: Mapping[str, bytes], day: datetime) -> bytes:
    """A ZIP file of these entries in this order, each with the date given."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, date_time=day.timetuple()[:6])
            info.create_system = 3  # Unix, whatever machine this runs on
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def steady_office_file(data: bytes, day: datetime) -> bytes:
    """An office file as its library saved it, with every date that says "now" set to `day`."""
    stamp = day.strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    with zipfile.ZipFile(BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    core = "docProps/core.xml"
    entries[core] = re.sub(rb"(<dcterms:(created|modified)[^>]*>)[^<]*", rb"\g<1>" + stamp, entries[core])
    return steady_zip(entries, day)
