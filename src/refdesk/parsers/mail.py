"""Mail (EML): headers, body and attachments, which become documents of their own."""

from __future__ import annotations

import email
import email.policy
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime

from refdesk.parsers import html
from refdesk.parsers import text as plain
from refdesk.parsers.build import Builder, ParseOptions, write
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


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """One message; `children` are the attached files, also attached messages."""
    if wide_encoding(data) or data.startswith(b"\xef\xbb\xbf"):
        data = decode(data).encode("utf-8", "surrogatepass")
    data = data.lstrip(b"\r\n")
    if data.startswith(b"From ") and len(messages := MAILBOX_LINE.split(data)) > 2:
        return _mailbox([message for message in messages if message.strip()])
    message = email.message_from_bytes(data, policy=email.policy.default)
    headers = {name: _header(message, name) for name in SHOWN}
    builder = Builder()
    builder.page(headers["Subject"])
    builder.block("text", "\n".join(f"{name}: {value}" for name, value in headers.items() if value))

    plain_parts: list[str] = []
    html_parts: list[str] = []
    children: list[Attachment] = []
    notes: list[str] = []
    _collect(message, plain_parts, html_parts, children, notes, depth=0)
    if any(part.strip() for part in plain_parts):
        for part in plain_parts:
            write(builder, plain.items_of(part, []), paged=False)
    else:
        for part in html_parts:
            root, complete = html.read_tree(part) if part.strip() else (None, True)
            if root is not None:
                write(builder, html.items_of(root), paged=False) if complete else builder.block(
                    "text", html.strip_tags(part)
                )
    return builder.build("eml", title=headers["Subject"], metadata=_metadata(headers), children=children, notes=notes)


def _mailbox(messages: list[bytes]) -> Parsed:
    """Several messages in one file: a list of what they are about, each message a document of its own."""
    children = []
    for data in messages[:MAX_MESSAGES]:
        message = email.message_from_bytes(data, policy=email.policy.default)
        children.append(Attachment(_safe_name(f"{_header(message, 'Subject')[:100] or 'message'}.eml"), data))
    builder = Builder()
    builder.block("list", "\n".join(f"- {child.name.removesuffix('.eml')}" for child in children))
    left = len(messages) - len(children)
    return builder.build("eml", children=children, notes=[f"{left:,} further messages were left out"] if left else [])


def _collect(
    part: EmailMessage,
    plain_parts: list[str],
    html_parts: list[str],
    children: list[Attachment],
    notes: list[str],
    depth: int,
) -> None:
    """Sorts the parts of a message into texts and attachments."""
    kind = part.get_content_type()
    if depth > MAX_DEPTH or len(children) >= MAX_PARTS:
        notes.append("the mail has more parts than Refdesk reads")
        return
    if kind in ENCRYPTED and "signed-data" not in str(part.get("Content-Type", "")):
        notes.append("the mail is encrypted; only its headers are readable")
    elif kind in SIGNATURES:
        return
    elif kind == "message/rfc822":
        for inner in _inner(part):
            name = f"{_header(inner, 'Subject')[:100] or 'message'}.eml"
            children.append(Attachment(_safe_name(name), _bytes_of(inner)))
    elif part.is_multipart():
        for inner in _inner(part):
            _collect(inner, plain_parts, html_parts, children, notes, depth + 1)
    elif _is_attachment(part):
        data = part.get_payload(decode=True)
        if isinstance(data, bytes) and data:
            children.append(Attachment(_attachment_name(part, len(children) + 1), data))
    elif kind == "text/html":
        html_parts.append(_text_of(part))
    elif kind.startswith("text/"):
        plain_parts.append(_text_of(part))


def _inner(part: EmailMessage) -> list[EmailMessage]:
    payload = part.get_payload()
    return [inner for inner in payload if isinstance(inner, EmailMessage)] if isinstance(payload, list) else []


def _is_attachment(part: EmailMessage) -> bool:
    """A file for the reader: said to be one, or not a text; pictures shown inside the text are not."""
    disposition = (part.get_content_disposition() or "").lower()
    kind = part.get_content_type()
    if kind.startswith("image/") and (
        disposition == "inline" or (part.get("Content-ID") and disposition != "attachment")
    ):
        return False
    if disposition == "attachment":
        return True
    return not kind.startswith("text/") or (_file_name(part) != "" and kind not in ("text/plain", "text/html"))


def _text_of(part: EmailMessage) -> str:
    """The text of a part, whatever it claims its encoding to be."""
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        data = str(part.get_payload()).encode("utf-8", "surrogateescape")
    if not isinstance(data, bytes):
        return ""
    return decode(data, _charset(part))


def _charset(part: EmailMessage) -> str:
    try:
        return part.get_content_charset() or ""
    except (ValueError, LookupError, TypeError):
        return ""


def _header(message: EmailMessage, name: str) -> str:
    """A header as text; what the email package cannot parse is taken as it stands."""
    try:
        values = message.get_all(name) or []
        return ", ".join(" ".join(str(value).split()) for value in values)
    except Exception:  # the header parser raises IndexError, AttributeError and others on broken headers
        for key, value in message._headers:  # type: ignore[attr-defined]
            if key.lower() == name.lower():
                return " ".join(str(value).split())
        return ""


def _metadata(headers: dict[str, str]) -> dict[str, str]:
    metadata = {name.lower(): headers[name] for name in ("From", "To", "Cc") if headers[name]}
    if date := _iso_date(headers["Date"]):
        metadata["date"] = date
    return metadata


def _iso_date(text: str) -> str:
    """ "Fri, 16 Dec 2022 17:04:16 -0500" -> "2022-12-16T22:04:16+00:00", "" when it is no date."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment.astimezone(UTC).isoformat() if moment.tzinfo else moment.isoformat()
    return ""


def _file_name(part: EmailMessage) -> str:
    try:
        return part.get_filename() or ""
    except Exception:  # broken parameters raise many kinds
        return ""


def _attachment_name(part: EmailMessage, number: int) -> str:
    suffix = part.get_content_subtype().split(";")[0][:10]
    return _safe_name(_file_name(part) or f"attachment-{number}.{suffix}")


def _safe_name(name: str) -> str:
    """A name without folders or control characters: "../../x.pdf" -> "x.pdf"."""
    name = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "", name.replace("\\", "/")).rsplit("/", 1)[-1].strip()
    return name[-150:] or "attachment"


def _bytes_of(message: EmailMessage) -> bytes:
    try:
        return message.as_bytes()
    except Exception:  # a part that cannot be written again in its own encoding
        return message.as_string().encode("utf-8", "replace")
