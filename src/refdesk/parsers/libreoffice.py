"""DOC and PPT of Office 97–2003, which LibreOffice turns into DOCX and PPTX where it is installed.

It works in a folder of its own, without macros and links to the outside, and ends with whoever waits for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from refdesk.errors import BrokenFile, NeedsPassword, ParseTimeout, UnsupportedFormat
from refdesk.parsers import docx, office
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.compound import open_compound
from refdesk.parsers.compound import stream as read_stream
from refdesk.types import Parsed

PROGRAMS = ("soffice", "libreoffice")
PLACES = (
    *os.defpath.split(os.pathsep),  # a worker process is given no PATH
    *("/usr/local/bin", "/snap/bin", "/opt/libreoffice/program", "/Applications/LibreOffice.app/Contents/MacOS"),
)
TIME_LIMIT_S = 120.0
# Runs a command; when standard input ends, whoever was to read the result is gone, and the folder and all of this are.
LIFELINE = 'exec 3<&0; folder=$1; shift; (read -r _ <&3; rm -rf -- "$folder"; kill -KILL 0) & exec "$@" 3<&- </dev/null'
# No macros, and nothing is fetched that a document refers to.
SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting">
<prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop>
<prop oor:name="BlockUntrustedRefererLinks" oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Writer/Content/Update">
<prop oor:name="Link" oor:op="fuse"><value>0</value></prop></item>
</oor:items>
"""
ENCRYPTED_WORD, ENCRYPTED_SLIDES = 0x0100, 0xF3D1C4DF  # [MS-DOC] 2.5.2, [MS-PPT] 2.3.2


def parse_doc(data: bytes, options: ParseOptions) -> Parsed:
    """As the DOCX that LibreOffice makes of it."""
    _refuse_encrypted(data, "WordDocument", slice(10, 12), lambda flags: bool(flags & ENCRYPTED_WORD))
    return replace(docx.parse(converted(data, "doc", "docx", "a Word 97–2003 document"), options), format="doc")


def parse_ppt(data: bytes, options: ParseOptions) -> Parsed:
    """As the PPTX that LibreOffice makes of it."""
    _refuse_encrypted(data, "Current User", slice(12, 16), lambda token: token == ENCRYPTED_SLIDES)
    made = converted(data, "ppt", "pptx", "a PowerPoint 97–2003 presentation")
    return replace(office.parse_pptx(made, options), format="ppt")


def find_program() -> str | None:
    """Where LibreOffice is, None where it is not installed (or cannot be ended reliably, as on Windows)."""
    if os.name != "posix":
        return None
    found = (shutil.which(program, path=os.pathsep.join(PLACES)) for program in PROGRAMS)
    return next(filter(None, found), None)


def converted(data: bytes, suffix: str, wanted: str, kind: str, program: str | None = None) -> bytes:
    """The file in the wanted format."""
    program = program or find_program()
    if program is None:
        raise UnsupportedFormat(
            f"this is {kind}, which Refdesk reads only where LibreOffice is installed",
            hint=f"install LibreOffice, or save it as {wanted.upper()} first",
        )
    with tempfile.TemporaryDirectory(prefix="refdesk-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        source, profile = folder / f"document.{suffix}", folder / "profile"
        source.write_bytes(data)
        (profile / "user").mkdir(parents=True)
        (profile / "user" / "registrymodifications.xcu").write_text(SETTINGS, encoding="utf-8")
        command = [program, f"-env:UserInstallation={profile.as_uri()}", "--headless", "--norestore", "--nologo"]
        _run([*command, "--convert-to", wanted, "--outdir", place, str(source)], place)
        made = source.with_suffix(f".{wanted}")
        if not made.is_file():
            raise BrokenFile(f"LibreOffice could not read this file, which looks like {kind}")
        return made.read_bytes()


def _run(command: list[str], folder: str) -> None:
    """Runs a program with all its children in a group of processes, none of which outlives it or this process."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", LIFELINE, "sh", folder, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": folder, "TMPDIR": folder, "PATH": os.defpath, "LANG": "C.UTF-8"},
        process_group=0,
    )
    try:
        process.wait(TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ParseTimeout(f"LibreOffice had not finished with it after {TIME_LIMIT_S:.0f} seconds") from error
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _refuse_encrypted(data: bytes, stream: str, place: slice, is_encrypted: Callable[[int], bool]) -> None:
    with open_compound(data) as container:
        found = read_stream(container, stream)
    if is_encrypted(int.from_bytes(found[place], "little")):
        raise NeedsPassword("this Office file is encrypted with a password", hint="save it without a password first")
