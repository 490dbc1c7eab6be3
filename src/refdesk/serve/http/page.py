"""The page people use: its files, each known by the hash of them all, under a policy that lets nothing else run.

/                       the page            /sign-in        takes a key
/static/HASH/app.js     never changes, so it is kept for a year
/page/render            an answer's text as sanitised HTML
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from refdesk.errors import NotFound
from refdesk.serve.http.guard import Who
from refdesk.serve.http.markdown import html_of
from refdesk.serve.http.quoted_html import quoted_html
from refdesk.serve.http.reply import reply

FOLDER = Path(__file__).resolve().parent.parent / "web"
KINDS: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STYLES = ("base.css", "ask.css", "viewer.css", "views.css")
FIRST = (
    "api.js",
    "dom.js",
    "talks.js",
    "viewer.js",
    "ask.js",
    "answer.js",
    "chips.js",
    "scope.js",
    "running.js",
    "writer.js",
    "folders.js",
)  # before app.js asks
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
A_YEAR = "public, max-age=31536000, immutable"

router = APIRouter()


class Web:
    """The files of the page in memory: some 100 kB."""

    def __init__(self, folder: Path) -> None:
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (*KINDS, ".html")}
        whole = hashlib.blake2b(digest_size=8)
        for name, data in files.items():
            whole.update(name.encode() + b"\0" + data)
        self.version = whole.hexdigest()
        self.files = {name: data for name, data in files.items() if Path(name).suffix in (".js", ".svg")}
        self.files["style.css"] = b"\n".join(files[name] for name in STYLES)  # one request instead of four
        self.pages = {name: self._page(data.decode()) for name, data in files.items() if name.endswith(".html")}

    def _page(self, text: str) -> bytes:
        base = f"/static/{self.version}"
        styles = f'<link rel="stylesheet" href="{base}/style.css">'
        modules = "\n".join(f'<link rel="modulepreload" href="{base}/{name}">' for name in FIRST)
        return text.replace("{base}", base).replace("{styles}", styles).replace("{modules}", modules).encode()


@lru_cache(maxsize=1)
def web() -> Web:
    return Web(FOLDER)


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    return _page(request, "index.html")


@router.get("/sign-in", include_in_schema=False)
async def sign_in(request: Request) -> Response:
    return _page(request, "signin.html")


@router.get("/favicon.ico", include_in_schema=False)
async def favicon(request: Request) -> Response:
    return _file(web().files["icon.svg"], KINDS[".svg"], "public, max-age=86400")


@router.get("/static/{version}/{name}", include_in_schema=False)
async def file(version: str, name: str) -> Response:
    """A file of this version of the page; an older page asks for an older one and is told to load anew."""
    data = web().files.get(name)
    if data is None or version != web().version:
        raise NotFound(f"there is no file '{name}' in this version of the page", hint="load the page again")
    return _file(data, KINDS[Path(name).suffix], A_YEAR)


def _page(request: Request, name: str) -> Response:
    tag = f'"{web().version}"'
    headers = {**SECURITY, "ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(web().pages[name], headers=headers, media_type="text/html; charset=utf-8")


def _file(data: bytes, kind: str, caching: str) -> Response:
    return Response(data, headers={**SECURITY, "Cache-Control": caching}, media_type=kind)


Place = Annotated[int, Field(ge=0, le=10_000_000)]


class RenderIn(BaseModel):
    """A text, where its claims are, and which markers have a citation."""

    content: Annotated[str, Field(max_length=200_000)]
    claims: Annotated[list[tuple[Place, Place]], Field(max_length=5000)] = []
    markers: Annotated[list[Place], Field(max_length=5000)] = []
    quoted: bool = False  # sentences of documents, which are no Markdown: the answer's model is "extractive"
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "It weighs 350 kg. [1]", "claims": [[0, 21]], "markers": [1]}]}
    )


@router.post("/page/render", include_in_schema=False)
def render(caller: Who, body: RenderIn) -> Response:
    """Not below /api: several times in an answer, so it does not count as a request of the hour."""
    render_html = quoted_html if body.quoted else html_of
    return reply({"html": render_html(body.content, body.claims, body.markers)})
