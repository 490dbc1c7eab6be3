"""Mail (EML): headers, body and attachments, which become documents of their own."""

from __future__ import annotations

import email
import email.policy
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime

from refdesk.parsers import html
from refdesk.parsers import text as plain
from refdesk.parsers.build import Builder, ParseOptions, one_line
from refdesk.parsers.text import decode, wide_encoding
from refdesk.types import Attachment, Parsed

SHOWN = ("Subject", "From", "To", "Cc", "Date")
SIGNATURES = (
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
    "application/pgp-signature",
    "application/pgp-keys",
)
ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime", "application/pgp-encrypted", "multipart/encrypted")
MAX_PARTS = 1000
MAX_MESSAGES = 10_000  # of a mailbox
MAILBOX_LINE = re.compile(rb"^From [^\r\n]{3,200}\r?\n(?=[A-Za-z-]{2,40}: )", re.M)
MAX_DEPTH = 30  # multiparts inside multiparts


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a message, sorted."""

    plain: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    children: list[Attachment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """One message; `children` are the attached files, also attached messages."""
    if wide_encoding(data) or data.startswith(b"\xef\xbb\xbf"):
        data = decode(data).encode("utf-8", "surrogatepass")
    data = data.lstrip(b"\r\n")
    if data.startswith(b"From ") and len(messages := MAILBOX_LINE.split(data)) > 2:
        return _mailbox([message for message in messages if message.strip()])
    message = _message(data)
    headers = {name: _header(message, name) for name in SHOWN}
    builder = Builder()
    builder.page(headers["Subject"])
    builder.block("text", "\n".join(f"{name}: {value}" for name, value in headers.items() if value))
    parts = _Parts()
    _collect(message, parts, depth=0)
    if any(part.strip() for part in parts.plain):
        for part in parts.plain:
            builder.write(plain.items_of(part, []), paged=False)
    else:
        for part in filter(str.strip, parts.html):
            root, complete = html.read_tree(part)
            if complete:
                builder.write(html.items_of(root), paged=False)
            else:
                builder.block("text", html.strip_tags(part))
    metadata = {name.lower(): headers[name] for name in ("From", "To", "Cc") if headers[name]}
    if date := _iso_date(headers["Date"]):
        metadata["date"] = date
    return builder.build("eml", title=headers["Subject"], metadata=metadata, children=parts.children, notes=parts.notes)


def _mailbox(messages: list[bytes]) -> Parsed:
    """Several messages in one file: a list of what they are about, each message a document of its own."""
    children = [Attachment(_message_name(_message(data)), data) for data in messages[:MAX_MESSAGES]]
    builder = Builder()
    builder.block("list", "\n".join(f"- {child.name.removesuffix('.eml')}" for child in children))
    left = len(messages) - len(children)
    return builder.build("eml", children=children, notes=[f"{left:,} further messages were left out"] if left else [])


def _message(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)


def _collect(part: EmailMessage, parts: _Parts, depth: int) -> None:
    """Sorts the parts of a message into texts and attachments."""
    kind = part.get_content_type()
    payload = part.get_payload()
    inner = [child for child in payload if isinstance(child, EmailMessage)] if isinstance(payload, list) else []
    if depth > MAX_DEPTH or len(parts.children) >= MAX_PARTS:
        parts.notes.append("the mail has more parts than Refdesk reads")
    elif kind in ENCRYPTED and "signed-data" not in str(part.get("Content-Type", "")):
        parts.notes.append("the mail is encrypted; only its headers are readable")
    elif kind in SIGNATURES:
        return
    elif kind == "message/rfc822":
        parts.children.extend(Attachment(_message_name(message), _bytes_of(message)) for message in inner)
    elif part.is_multipart():
        for child in inner:
            _collect(child, parts, depth + 1)
    elif _is_attachment(part):
        data = part.get_payload(decode=True)
        if isinstance(data, bytes) and data:
            suffix = part.get_content_subtype().split(";")[0][:10]
            name = _file_name(part) or f"attachment-{len(parts.children) + 1}.{suffix}"
            parts.children.append(Attachment(_safe_name(name), data))
    elif kind == "text/html":
        parts.html.append(_text_of(part))
    elif kind.startswith("text/"):
        parts.plain.append(_text_of(part))


def _is_attachment(part: EmailMessage) -> bool:
    """A file for the reader: said to be one, or not a text; pictures shown inside the text are not."""
    disposition = (part.get_content_disposition() or "").lower()
    kind = part.get_content_type()
    if disposition == "attachment":
        return True
    if kind.startswith("image/") and (disposition == "inline" or part.get("Content-ID")):
        return False
    return not kind.startswith("text/") or (_file_name(part) != "" and kind not in ("text/plain", "text/html"))


def _text_of(part: EmailMessage) -> str:
    """The text of a part, whatever it claims its encoding to be."""
    charset = ""
    with suppress(ValueError, LookupError, TypeError):
        charset = part.get_content_charset() or ""
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        data = str(part.get_payload()).encode("utf-8", "surrogateescape")
    return decode(data, charset) if isinstance(data, bytes) else ""


def _header(message: EmailMessage, name: str) -> str:
    """A header as text; what the email package cannot parse is taken as it stands."""
    try:
        return ", ".join(one_line(str(value)) for value in message.get_all(name) or [])
    except Exception:  # the header parser raises IndexError, AttributeError and others on broken headers
        raw: list[tuple[str, str]] = message._headers  # type: ignore[attr-defined]
        return next((one_line(str(value)) for key, value in raw if key.lower() == name.lower()), "")


def _iso_date(text: str) -> str:
    """ "Fri, 16 Dec 2022 17:04:16 -0500" -> "2022-12-16T22:04:16+00:00", "" when it is no date."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, TypeError, IndexError, OverflowError):
            moment = read(text.strip())
            return moment.astimezone(UTC).isoformat() if moment.tzinfo else moment.isoformat()
    return ""


def _file_name(part: EmailMessage) -> str:
    with suppress(Exception):  # broken parameters raise many kinds
        return part.get_filename() or ""
    return ""


def _message_name(message: EmailMessage) -> str:
    return _safe_name(f"{_header(message, 'Subject')[:100] or 'message'}.eml")


def _safe_name(name: str) -> str:
    """A name without folders or control characters: "../../x.pdf" -> "x.pdf"."""
    name = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "", name.replace("\\", "/")).rsplit("/", 1)[-1].strip()
    return name[-150:] or "attachment"


def _bytes_of(message: EmailMessage) -> bytes:
    try:
        return message.as_bytes()
    except Exception:  # a part that cannot be written again in its own encoding
        return message.as_string().encode("utf-8", "replace")
