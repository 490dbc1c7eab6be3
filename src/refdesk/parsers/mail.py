"""Email (EML) and e-books (EPUB): containers of several parts, most of them HTML.

Of a mail headers and body; attachments become documents of their own. Of an e-book the spine in reading order, a page
for every item of it.
"""

from __future__ import annotations

import email
import email.policy
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from urllib.parse import unquote

from refdesk.errors import BrokenFile, NeedsPassword
from refdesk.file_names import safe_name
from refdesk.parsers import html, rtf
from refdesk.parsers import text as plain
from refdesk.parsers.build import Builder, Item, ParseOptions, contents, one_line
from refdesk.parsers.office import Archive, Element, parse_xml
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
QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)  # of a mailbox: what would else begin a message
QUOTED = re.compile(r"(?:> ?)+")
MAX_ATTRIBUTION = 3  # lines that say who wrote what is quoted
MAX_DEPTH = 30  # multiparts inside multiparts


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a message, sorted; of the bodies the first kind that there is will be read."""

    plain: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    rtf: list[bytes] = field(default_factory=list)  # of Outlook alone
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
    parts = Parts()
    _collect(message, parts, depth=0)
    return written({name: _header(message, name) for name in SHOWN}, parts, "eml")


def written(headers: Mapping[str, str], parts: Parts, format: str) -> Parsed:
    """A message of any format, from what it says under `SHOWN` and its parts."""
    builder = Builder()
    builder.page(headers["Subject"])
    # A list, so that each of them is quoted by itself: who wrote a mail is one line, and when another.
    builder.block("list", "\n".join(f"{name}: {value}" for name, value in headers.items() if value))
    for items in _bodies(parts):
        builder.write(items, paged=False)
    metadata = {name.lower(): headers[name] for name in ("From", "To", "Cc") if headers[name]}
    if date := _iso_date(headers["Date"]):
        metadata["date"] = date
    return builder.build(
        format, title=headers["Subject"], metadata=metadata, children=parts.children, notes=parts.notes
    )


def _bodies(parts: Parts) -> Iterator[list[Item]]:
    if any(part.strip() for part in parts.plain):
        yield from map(_items, parts.plain)
    elif any(part.strip() for part in parts.html):
        for part in filter(str.strip, parts.html):
            root, complete = html.read_tree(part)
            yield html.items_of(root) if complete else [Item("text", html.strip_tags(part))]
    else:
        yield from map(rtf.items_of, parts.rtf)


def _items(text: str) -> list[Item]:
    """Paragraphs and headings. What is quoted at the end is headed by the line that says of whom it is; what is quoted
    between the lines of an answer keeps one mark for each paragraph.
    """
    parts = _by_depth(text)
    depths = [depth for depth, _ in parts]
    if 1 not in depths:
        return plain.items_of(text, [])
    own = max(place for place, depth in enumerate(depths) if place == 0 or depth < depths[place - 1])
    found: list[Item] = []
    heading = ""
    for place, (depth, lines) in enumerate(parts):
        begin, end = 0, len(lines)
        if depth and place > own and not heading and (begin := _attributed(lines[: _first_blank(lines)])):
            heading = one_line(" ".join(lines[:begin]))
        if heading:
            found.append(Item("heading", heading, level=min(6, depth + 1)))
        end -= _attributed(lines) if own <= place < len(parts) - 1 else 0
        heading = one_line(" ".join(lines[end:]))
        items = plain.items_of("\n".join(lines[begin:end]), [])
        found += [replace(item, text=f"> {item.text}") for item in items] if depth and place < own else items
    return found


def _first_blank(lines: list[str]) -> int:
    return next((place for place, line in enumerate(lines) if not line.strip()), 0)


def _by_depth(text: str) -> list[tuple[int, list[str]]]:
    """Runs of lines that are quoted equally deep, without the marks; a blank line belongs to what is above it."""
    found: list[tuple[int, list[str]]] = []
    for line in text.split("\n"):
        marks = QUOTED.match(line)
        depth = marks.group().count(">") if marks else 0
        if not found or (depth != found[-1][0] and line.strip()):
            found.append((depth, []))
        found[-1][1].append(line[marks.end() :] if marks else line)
    return found


def _attributed(lines: list[str]) -> int:
    """How many lines at the end say who wrote what is quoted below: `On Monday Ada Brook wrote:`, perhaps wrapped."""
    filled = len("\n".join(lines).rstrip().split("\n"))
    if not lines or not lines[filled - 1].rstrip().endswith(":"):
        return 0
    begin = next((place + 1 for place in range(filled - 1, -1, -1) if not lines[place].strip()), 0)
    return len(lines) - (begin if filled - begin <= MAX_ATTRIBUTION else filled - 1)


def _mailbox(messages: list[bytes]) -> Parsed:
    """Several messages in one file: a list of what they are about, each message a document of its own."""
    messages = [QUOTED_FROM.sub(rb"\1", message) for message in messages]
    children = [Attachment(_message_name(_message(data)), data) for data in messages[:MAX_MESSAGES]]
    left = len(messages) - len(children)
    notes = [f"{left:,} further messages were left out"] if left else []
    return contents("mbox", [child.name.removesuffix(".eml") for child in children], children, notes)


def _message(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)


def read_into(parts: Parts, data: bytes) -> None:
    """The parts of a message that is stored inside another one."""
    _collect(_message(data), parts, depth=0)


def _collect(part: EmailMessage, parts: Parts, depth: int) -> None:
    """Sorts the parts of a message into texts and attachments."""
    kind = part.get_content_type()
    payload = part.get_payload()
    inner = [child for child in payload if isinstance(child, EmailMessage)] if isinstance(payload, list) else []
    if depth > MAX_DEPTH or len(parts.children) >= MAX_PARTS:
        parts.notes.append("the email has more parts than Refdesk reads")
    elif kind in ENCRYPTED and "signed-data" not in str(part.get("Content-Type", "")):
        parts.notes.append("the email is encrypted; only its headers are readable")
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
            parts.children.append(Attachment(safe_name(name), data))
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
    return safe_name(f"{_header(message, 'Subject')[:100] or 'message'}.eml")


def _bytes_of(message: EmailMessage) -> bytes:
    try:
        return message.as_bytes()
    except Exception:  # a part that cannot be written again in its own encoding
        return message.as_string().encode("utf-8", "replace")


# --- e-books ----------------------------------------------------------------------------------------------------------

FONT_METHODS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # hide fonts only


def parse_epub(data: bytes, options: ParseOptions) -> Parsed:
    """Each item of the spine is read as a web page; a table of contents is marked as one."""
    archive = Archive(data, options, allow_doctype=True)
    _refuse_protected(archive)
    package_path = _package_path(archive)
    package = parse_xml(archive.read(package_path), recover=True)
    folder = posixpath.dirname(package_path)
    manifest = {item.get("id"): item for item in package.iter("{*}item")}
    builder = Builder()
    spine = [manifest[ref.get("idref")] for ref in package.iter("{*}itemref") if ref.get("idref") in manifest]
    for done, item in enumerate(spine, 1):
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or "")))
        kind = item.get("media-type") or ""
        if archive.has(path) and ("html" in kind or path.lower().endswith(("html", "htm", "xml"))):
            _write_page(builder, decode(archive.read(path)), "nav" in (item.get("properties") or "").split())
        options.progress(done, len(spine))
    names = {"language": "language", "publisher": "publisher", "date": "date", "author": "creator"}
    metadata = {key: value for key, name in names.items() if (value := _dublin(package, name))}
    return builder.build("epub", title=_dublin(package, "title"), metadata=metadata)


def _write_page(builder: Builder, text: str, is_toc: bool) -> None:
    if not text.strip():
        return
    root, complete = html.read_tree(text)
    if is_toc:
        lines = [one_line(link.text_content()) for link in root.iter("a")]
        builder.page("Contents")
        builder.block("toc", "\n".join(line for line in lines if line))
    elif not complete:
        builder.page()
        builder.block("text", html.strip_tags(text))
    elif items := html.items_of(root):  # nothing to read on a cover picture
        builder.page(next((item.text for item in items if item.kind == "heading"), ""))
        builder.write(items, paged=False)


def _refuse_protected(archive: Archive) -> None:
    if not archive.has("META-INF/encryption.xml"):
        return
    for method in parse_xml(archive.read("META-INF/encryption.xml"), recover=True).iter("{*}EncryptionMethod"):
        if (method.get("Algorithm") or "") not in FONT_METHODS:
            raise NeedsPassword(
                "this e-book is protected against copying (DRM), so its text cannot be read",
                hint="add a copy without DRM",
            )


def _package_path(archive: Archive) -> str:
    if archive.has("META-INF/container.xml"):
        for rootfile in parse_xml(archive.read("META-INF/container.xml"), recover=True).iter("{*}rootfile"):
            path = unquote(rootfile.get("full-path") or "")
            if archive.has(path):
                return path
    package = next((name for name in archive.names if name.lower().endswith(".opf")), None)
    if package is None:
        raise BrokenFile("the e-book has no table of contents")
    return package


def _dublin(package: Element, name: str) -> str:
    """A field of the package; `{*}` because makers of e-books disagree about namespaces."""
    texts = (one_line("".join(element.itertext())) for element in package.iter(f"{{*}}{name}"))
    return next(filter(None, texts), "")
