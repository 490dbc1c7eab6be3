"""Small libraries for the tests of safety: notes with a word of their own, programs on them, and what must hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from refdesk import Refdesk
from refdesk.caller_desk import CallerDesk
from refdesk.records import Caller
from timing import PATIENCE_S

SETTINGS: dict[str, Any] = {"ingest.workers": 1, "ingest.ocr": False}
# Part of a program that ends, as kill -9 does, at the nth call of a function: before it, or after.
DYING_AT = """
import os

def die_at(owner, name, nth, when):
    original, calls = getattr(owner, name), 0

    def dying(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            os._exit(9)
        result = original(*arguments, **options)
        if calls == nth and when == "after":
            os._exit(9)
        return result

    setattr(owner, name, dying)
"""

# Adds the folders that are named after the library, and says when it has opened the library.
ADDING = f"""
import sys
from refdesk import Refdesk
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    print("open", flush=True)
    results = desk.add(*sys.argv[2:], sync=True)
    print(sorted((one.name, one.outcome) for one in results))
"""


def seen_by(desk: Refdesk, *collections: str, key: str = "") -> CallerDesk:
    """The library for a reader of these collections."""
    return desk.for_caller(Caller(key, "a reader", "reader", collections))


def open_desk(folder: Path, **settings: Any) -> Refdesk:
    return Refdesk(folder, settings=SETTINGS | settings)


def word(number: int, version: int = 0) -> str:
    """A word that stands in one version of one note only, and that no stemmer changes: `zq12v3`."""
    return f"zq{number}v{version}"


def write_note(folder: Path, number: int, version: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"note-{number}.md"
    path.write_text(f"# Note {number}\n\nThe buoy {word(number, version)} was moored in the outer harbour.\n")
    return path


def write_mail(folder: Path, number: int, version: int = 0) -> Path:
    """A mail whose attachment holds the word."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = f"Mail {number}", "a@example.org", "b@example.org"
    message.set_content(f"The sheet of mooring {number} is attached, in edition {version}.")
    sheet = f"The buoy {word(number, version)} was moored in the outer harbour."
    message.add_attachment(sheet, filename=f"sheet-{number}.txt")
    path = folder / f"mail-{number}.eml"
    path.write_bytes(message.as_bytes())
    return path


def write_notes(folder: Path, count: int, first: int = 0) -> Path:
    for number in range(first, first + count):
        write_note(folder, number)
    return folder


def words_in(desk: Refdesk, document_id: str) -> set[str]:
    return set(re.findall(r"zq\d+v\d+", "".join(page.text for page in desk.pages(document_id))))


def found_by(desk: Refdesk, text: str, method: Any = "bm25") -> list[str]:
    """The names of the documents that hold a word, one for each chunk found."""
    return [hit.document.name for hit in desk.search(text, method=method, k=5) if text in hit.chunk.text]


def assert_whole(desk: Refdesk) -> None:
    """Everything that is ready is found by its own word, once; nothing is there twice."""
    documents = desk.documents()
    names = [(document.collection, document.name) for document in documents if document.parent_id is None]
    assert len(names) == len(set(names))
    for document in documents:
        if document.status == "ready":
            for one in words_in(desk, document.id):
                assert found_by(desk, one) == [document.name], (document, one)
        else:
            assert document.status in ("pending", "processing"), document
            assert desk.chunks(document.id) == []


def assert_repaired(desk: Refdesk) -> None:
    """The next writer makes SQL and indexes agree."""
    with desk.parts.writer.locked():
        pass
    findings = list(desk.check())
    assert all(finding.well for finding in findings), findings


def start(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A Python program of its own, in a session of its own, so that whatever it leaves behind can be told."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def finish(process: subprocess.Popen[str], timeout: float = 100.0) -> str:
    """What it printed; it must have ended well."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out


def left_behind(session: int) -> list[int]:
    """Processes of a session that still run."""
    return [pid for pid in _pids() if _session(pid) == session]


def wait_until(holds: Any, seconds: float = PATIENCE_S) -> bool:
    """Looks again and again until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _pids() -> Iterator[int]:
    proc = Path("/proc")
    if proc.is_dir():
        yield from (int(path.name) for path in proc.iterdir() if path.name.isdigit())
    else:
        listed = subprocess.run(["ps", "-axo", "pid="], capture_output=True, text=True, check=True).stdout
        yield from (int(one) for one in listed.split())


def _session(pid: int) -> int:
    try:
        if Path(f"/proc/{pid}/stat").is_file() and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][1] == "Z":
            return 0
        return os.getsid(pid)
    except (ProcessLookupError, FileNotFoundError, PermissionError):
        return 0
