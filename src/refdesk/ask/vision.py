"""Images for vision models: the pages and figures found, and the images attached to a question.

In the mode `vision` each passage that has a picture is shown beside its text: a figure as it was cut out of its page,
else the page. What was read from a picture and is in no text is marked as such, and cites the figure's box. A
model that does not see is given captions and text, those from OCR included, and the answer says so.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refdesk.answer import Claim, Context, Image, Part, Plan, Query, Question, Turn, Usage
from refdesk.ask.attest import Attested
from refdesk.ask.citations import pages_label
from refdesk.ask.keep import AskPorts, Keeper
from refdesk.errors import ModelNotAllowed, UsageError
from refdesk.models import model_info
from refdesk.ports import Models, Request
from refdesk.prompts import DESCRIBE, LONGEST_TEXT
from refdesk.settings import Settings
from refdesk.text import CHARACTERS_PER_TOKEN, query_terms
from refdesk.trace import Trace, in_thread
from refdesk.types import Box

MOST_PICTURES = 4  # of pages and figures in one request, and attached to one question
PAGE_WIDTH = 1200  # pixels; small print is still read
LONGEST_SIDE = 1568  # pixels of an attached picture: larger ones are made smaller by the providers anyway
MEGABYTE = 1 << 20
LARGEST = 10 * MEGABYTE  # bytes of one as it comes
MOST_PIXELS = 60_000_000
KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
BLIND = "{who}, so captions and text (including OCR) were used instead of page images."
SEEN = "read from the image; the text does not say it"
UNSEEN = "None of the pages found has an image, so only the text was used."


def sees(model: str, settings: Settings) -> bool:
    """Whether this model takes pictures: by its name, unless the owner says (`llm.sees`)."""
    return model_info(model).sees if settings.llm_sees == "auto" else settings.llm_sees == "yes"


def require_sight(models: Models, settings: Settings) -> None:
    """A question with a picture is refused in one sentence where nobody could look at it."""
    writer = models.role("answer")
    if writer is None:
        raise ModelNotAllowed("images need a model that accepts them, and none is set", hint="ask without the image")
    if not sees(writer.name, settings):
        raise ModelNotAllowed(
            f"{writer.name} does not accept images", hint="ask without the image, or choose a model that accepts images"
        )


# --- attached pictures ------------------------------------------------------------------------------------------------


def checked(images: Sequence[Any]) -> tuple[Image, ...]:
    """Pictures as a caller hands them in (bytes, a path, or an `Image`), checked and made small enough to send."""
    if len(images) > MOST_PICTURES:
        raise UsageError(f"a question can have at most {MOST_PICTURES} images, not {len(images)}")
    return tuple(_checked(image) for image in images)


def _checked(image: Any) -> Image:
    from PIL import Image as Pictures
    from PIL import ImageOps

    data = _bytes(image)
    if len(data) > LARGEST:
        raise UsageError(f"an image can have at most {LARGEST // MEGABYTE} MB, not {len(data) / MEGABYTE:.1f}")
    try:
        with Pictures.open(io.BytesIO(data), formats=list(KINDS)) as opened:
            kind = opened.format or ""
            if opened.width * opened.height > MOST_PIXELS:
                raise UsageError(f"an image can have at most {MOST_PIXELS:,} pixels")
            # Upright, without what a camera writes beside it, and no larger than anybody looks at.
            small = ImageOps.exif_transpose(opened).convert("RGB")
            small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
            buffer = io.BytesIO()
            small.save(buffer, "JPEG" if kind == "JPEG" else "PNG")
    except UsageError:
        raise
    except (OSError, ValueError, SyntaxError, Pictures.DecompressionBombError) as error:
        raise UsageError("the image cannot be read", hint="send a PNG, JPEG, GIF or WebP") from error
    return Image(buffer.getvalue(), KINDS["JPEG" if kind == "JPEG" else "PNG"])


def _bytes(image: Any) -> bytes:
    if isinstance(image, Image):
        return image.data
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if not isinstance(image, str | Path):
        raise UsageError("an image must be bytes or the path of a file")
    try:
        path = Path(image).expanduser()
        return path.read_bytes() if path.stat().st_size <= LARGEST else b"\0" * (LARGEST + 1)
    except OSError as error:
        raise UsageError(f"the image {image} cannot be read: {error.strerror}") from error


async def looked_up(question: Question, query: Query, desk: AskPorts, trace: Trace) -> Query:
    """The query with what a model says is in the attached pictures, so that documents on it are found."""
    llm = desk.models.role("answer")
    if llm is None:
        return query
    found: list[str] = []
    with trace.optional("look", model=llm.name, pictures=len(question.images)) as stage:
        asked = Turn("user", (DESCRIBE.format(question=query.standalone), *question.images))
        usage = Usage()
        async with aclosing(
            llm.stream(Request("", (asked,), LONGEST_TEXT // CHARACTERS_PER_TOKEN, role="router"))
        ) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                found = [] if piece.restarted else found
                found.append(piece.text)
                usage += piece.usage or Usage()
        stage.usage = usage
        stage.gave(characters=len("".join(found)))
    description = " ".join("".join(found).split())[:LONGEST_TEXT]
    if not description:
        return query
    text = f"{query.fullest} {description}"
    vector = await in_thread(desk.embedder.embed_query, text)
    terms = tuple(dict.fromkeys((*query.terms, *query_terms(description, desk.library.languages))))
    return replace(query, vector=vector, terms=terms)


# --- pictures of what was found ---------------------------------------------------------------------------------------


async def with_pictures(
    question: Question, context: Context, plan: Plan, desk: AskPorts, keeper: Keeper, trace: Trace
) -> Context:
    """The context with the pictures that a model is shown beside it; none where it does not see."""
    writer = desk.models.role("answer")
    if writer is None or not plan.use_llm or not sees(writer.name, desk.settings):
        who = "No model is set" if writer is None or not plan.use_llm else f"{writer.name} does not accept images"
        if question.mode == "vision":
            keeper.notes.append(BLIND.format(who=who))
        return context
    parts: list[Part] = []
    if question.mode == "vision":
        with trace.optional("pictures", passages=len(context.passages)) as stage:
            shown = await in_thread(_shown, context, desk)
            parts = [part for picture in shown for part in (picture.label, picture.image)]
            stage.gave(pictures=len(shown))
        if not parts:
            keeper.notes.append(UNSEEN)
    for number, image in enumerate(question.images, 1):
        label = f"Picture {number} that came with the question:" if len(question.images) > 1 else "The picture:"
        parts += [label, image]
    return replace(context, pictures=tuple(parts))


@dataclass(frozen=True, slots=True)
class Shown:
    label: str
    image: Image


def _shown(context: Context, desk: AskPorts) -> list[Shown]:
    """Figures first, then pages, in the order of the passages; each picture once."""
    figures = [(passage, chunk) for passage in context.passages for chunk in passage.chunks if chunk.image]
    pages = [
        (passage, passage.hit.chunk) for passage in context.passages if not any(chunk.image for chunk in passage.chunks)
    ]
    found: dict[tuple[str, str], Shown] = {}
    for passage, chunk in (*figures, *pages):
        key = (passage.document.id, chunk.image or f"page {chunk.page}")
        if key in found or len(found) >= MOST_PICTURES:
            continue
        data = desk.picture(passage.document, chunk, PAGE_WIDTH)
        if data is not None:
            what = "The figure" if chunk.image else "The page"
            label = f"{what} of passage [{passage.number}] ({pages_label((chunk.page,))}):"
            found[key] = Shown(label, Image(data))
    return list(found.values())


def seen(attested: Attested, context: Context, desk: AskPorts) -> Attested:
    """What a claim cites of a passage whose picture was shown: the figure's box too, and that it was read from it."""
    shown = {number for part in context.pictures if isinstance(part, str) for number in _numbers(part)}
    if not shown:
        return attested
    markers = {place for place, number in enumerate(attested.order, 1) if number in shown}
    boxes = _figure_boxes(context, desk)
    citations = tuple(
        replace(citation, boxes=tuple(dict.fromkeys((boxes[citation.chunk_id], *citation.boxes))), located=True)
        if citation.marker in markers and citation.chunk_id in boxes
        else citation
        for citation in attested.citations
    )
    claims = tuple(_as_seen(claim) if markers & set(claim.markers) else claim for claim in attested.claims)
    return replace(attested, claims=claims, citations=citations)


def _numbers(label: str) -> list[int]:
    number = label.partition("[")[2].partition("]")[0]
    return [int(number)] if number.isdigit() else []


def _as_seen(claim: Claim) -> Claim:
    return replace(claim, verdict="partly", note=SEEN) if claim.verdict == "unsupported" else claim


def _figure_boxes(context: Context, desk: AskPorts) -> Mapping[int, Box]:
    """By the id of a figure's chunk the place of its picture on the page, where that was noted when it was cut out."""
    found: dict[int, Box] = {}
    for passage in context.passages:
        for chunk in passage.chunks:
            place = desk.figure_place(chunk) if chunk.image else None
            if place is not None:
                found[chunk.id] = place
    return found
