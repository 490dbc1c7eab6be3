"""MSG, a message saved by Outlook: its properties as headers, body and attachments, in the shape of EML.

Names of properties are those of [MS-OXPROPS], where they stand is told by [MS-OXMSG].
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.header import Header
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime
from typing import Any

from refdesk.errors import BrokenFile
from refdesk.file_names import safe_name
from refdesk.parsers import mail
from refdesk.parsers.build import ParseOptions, one_line
from refdesk.parsers.compound import folders, open_compound
from refdesk.parsers.text import codepage, decode
from refdesk.types import Attachment, Parsed

CLASS, SUBJECT, BODY, HTML, RTF = "001A", "0037", "1000", "1013", "1009"
SENDER = (("0C1A", ("5D01", "0C1F")), ("0042", ("5D02", "0065")))  # (name, addresses): who sent it, and for whom
SENT, DELIVERED = 0x0039, 0x0E06
DISPLAYED = {"To": "0E04", "Cc": "0E03"}
RECIPIENT_KIND, KINDS = 0x0C15, {1: "To", 2: "Cc"}
CODEPAGES = (0x3FFD, 0x3FDE)  # of texts that are not Unicode
DATA, LONG_NAME, NAME, TITLE, MEDIA_TYPE, HIDDEN = "3701", "3707", "3704", "3001", "370E", 0x7FFE
CONTENT_ID = "3712"
Tree = dict[tuple[str, ...], list[str]]
TOP_HEADER, INNER_HEADER, PART_HEADER = 32, 24, 8  # bytes before the first property of fixed length
EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
MAX_DEPTH = 20  # messages inside messages
SECURED, SIGNED = "ipm.note.smime", "multipartsigned"  # classes of messages
MAX_BODY = 100_000_000  # bytes a compressed body may claim
# What compressed bodies refer to before they have said anything ([MS-OXRTFCP] 2.1.2.1).
DICTIONARY = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """One message; `children` are the attached files, attached messages as EML."""
    with open_compound(data) as container:
        headers, parts = _Folder(container, folders(container), (), TOP_HEADER).message(0)
    return mail.written(headers, parts, "msg")


class _Folder:
    """The properties of a message, of one of its recipients or of an attachment."""

    def __init__(self, container: Any, tree: Tree, path: tuple[str, ...], header: int, encoding: str = "") -> None:
        self.container, self.tree, self.path = container, tree, path
        self.names = {name.lower(): name for name in tree.get(path, ())}
        stored = self._stream("__properties_version1.0")[header:]
        fixed = (struct.unpack_from("<HHIQ", stored, place) for place in range(0, len(stored) - 15, 16))
        self.fixed = {name: value for _, name, _, value in fixed}
        number = next((self.fixed[name] & 0xFFFF for name in CODEPAGES if self.fixed.get(name)), 1252)
        self.encoding = encoding or codepage(number)

    def text(self, name: str) -> str:
        if found := self._stream(f"__substg1.0_{name}001f"):
            return found.decode("utf-16-le", "replace").rstrip("\0")
        return self._stream(f"__substg1.0_{name}001e").decode(self.encoding, "replace").rstrip("\0")

    def binary(self, name: str) -> bytes:
        return self._stream(f"__substg1.0_{name}0102")

    def folders(self, beginning: str, header: int) -> Iterator[_Folder]:
        for name in sorted(name for name in self.names.values() if name.lower().startswith(beginning)):
            yield _Folder(self.container, self.tree, (*self.path, name), header, self.encoding)

    def _stream(self, name: str) -> bytes:
        found = self.names.get(name.lower())
        if found is None:
            return b""
        try:
            with self.container.openstream([*self.path, found]) as stream:
                return bytes(stream.read())
        except OSError:  # a folder, or a damaged chain of sectors
            return b""

    def message(self, depth: int) -> tuple[dict[str, str], mail.Parts]:
        headers = {"Subject": self.text(SUBJECT), "From": self._sender(), **self._recipients(), "Date": self._date()}
        parts = mail.Parts()
        kind = self.text(CLASS).lower()
        attached = list(self.folders("__attach_version1.0_", PART_HEADER))
        if kind.startswith(SECURED) and SIGNED in kind and attached:  # the message itself is the attachment
            mail.read_into(parts, attached[0].binary(DATA))
        elif kind.startswith(SECURED) or any(part.text(MEDIA_TYPE) in mail.ENCRYPTED for part in attached):
            parts.notes.append("the email is encrypted; only its headers are readable")
        else:
            self._read_bodies(parts)
            for place, part in enumerate(attached[: mail.MAX_PARTS], 1):
                parts.children.extend(part.attachment(place, depth))
        return {name: one_line(value) for name, value in headers.items()}, parts

    def _read_bodies(self, parts: mail.Parts) -> None:
        parts.plain.append(self.text(BODY).replace("\r\n", "\n"))
        page = self.binary(HTML)
        parts.html.append(decode(page, self.encoding) if page else self.text(HTML))
        if compressed := self.binary(RTF):
            parts.rtf.append(unpacked(compressed))

    def _sender(self) -> str:
        named = [_address(self.text(name), *map(self.text, addresses)) for name, addresses in SENDER]
        return next(filter(None, named), "")

    def _recipients(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for recipient in self.folders("__recip_version1.0_", PART_HEADER):
            if kind := KINDS.get(recipient.fixed.get(RECIPIENT_KIND, 0) & 0xFF):
                found.setdefault(kind, []).append(
                    _address(recipient.text(TITLE), recipient.text("39FE"), recipient.text("3003"))
                )
        return {kind: ", ".join(found.get(kind, [])) or self.text(name) for kind, name in DISPLAYED.items()}

    def _date(self) -> str:
        passed = self.fixed.get(SENT) or self.fixed.get(DELIVERED) or 0  # in tenths of microseconds
        with suppress(OverflowError):
            return format_datetime(EPOCH + timedelta(microseconds=passed // 10)) if passed else ""
        return ""

    def attachment(self, place: int, depth: int) -> Iterator[Attachment]:
        is_image = self.text(MEDIA_TYPE).startswith("image/")
        if self.fixed.get(HIDDEN, 0) & 0xFF or (is_image and self.text(CONTENT_ID)):
            return  # a picture shown inside the text
        inner = self.names.get(f"__substg1.0_{DATA}000d".lower())
        if inner is not None:
            folder = _Folder(self.container, self.tree, (*self.path, inner), INNER_HEADER)
            if depth < MAX_DEPTH and "__properties_version1.0" in folder.names:  # else an object of another program
                headers, parts = folder.message(depth + 1)
                name = safe_name(f"{headers['Subject'][:100] or 'message'}.eml")
                yield Attachment(name, _as_eml(headers, parts))
        elif data := self.binary(DATA):
            name = self.text(LONG_NAME) or self.text(NAME) or self.text(TITLE) or f"attachment-{place}"
            yield Attachment(safe_name(name), data)


def _address(name: str, *addresses: str) -> str:
    """`Ada Brook <ada@example.org>`; addresses inside Exchange ("/O=…") say nothing to a reader."""
    address = next((address for address in addresses if "@" in address), "")
    return f"{name} <{address}>" if address and name and address not in name else name or address


def _as_eml(headers: dict[str, str], parts: mail.Parts) -> bytes:
    """An attached message as a file of its own."""
    message = MIMEMultipart()
    for name, value in headers.items():
        message[name] = value if value.isascii() else Header(value, "utf-8").encode()
    bodies = [MIMEText(text, "plain", "utf-8") for text in parts.plain if text.strip()]
    bodies = bodies or [MIMEText(text, "html", "utf-8") for text in parts.html if text.strip()]
    for body in bodies:
        message.attach(body)
    for child in parts.children:
        file = MIMEApplication(child.data)
        file.add_header("Content-Disposition", "attachment", filename=("utf-8", "", child.name))
        message.attach(file)
    return message.as_bytes()


def unpacked(data: bytes) -> bytes:
    """The Rich Text of a compressed body ([MS-OXRTFCP]): runs that refer to the last 4,096 bytes."""
    if len(data) < 16:
        return b""
    size, kind = struct.unpack_from("<4xI4s", data)
    if kind == b"MELA":
        return data[16 : 16 + size]
    if kind != b"LZFu":
        raise BrokenFile("the body of this Outlook message is damaged")
    window = bytearray(DICTIONARY.ljust(4096, b"\0"))
    written, place, found = len(DICTIONARY), 16, bytearray()
    while place < len(data) and len(found) < min(size, MAX_BODY):
        control, place = data[place], place + 1
        for bit in range(8):
            if place >= len(data):
                break
            if not control >> bit & 1:
                run, place = data[place : place + 1], place + 1
            else:
                token, place = int.from_bytes(data[place : place + 2], "big"), place + 2
                offset, length = token >> 4, (token & 15) + 2
                if offset == written % 4096:  # the end
                    return bytes(found)
                run = b""
                for step in range(length):  # may run into what it writes itself
                    byte = window[(offset + step) % 4096]
                    window[(written + step) % 4096] = byte
                    run += bytes((byte,))
            for byte in run:
                window[written % 4096] = byte
                written += 1
            found += run
    return bytes(found)
