"""Keys over HTTP, for admins; signing in and out; who one is."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.engine import Refdesk
from refdesk.errors import NotSignedIn, UsageError
from refdesk.serve.http.desk import Library, Serving
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.guard import COOKIE, Who, is_counted
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import ChangedKey, Key, KeyList, Me, NewKey, RevokedKey, SignedOut
from refdesk.serve.http.shapes import KeyChange, KeyIn, SessionIn
from refdesk.threads import aside

router = APIRouter(prefix="/api", tags=["access"])
KEY: Key = {
    "id": "3c9a1f",
    "name": "anna",
    "role": "reader",
    "collections": ["finance"],
    "created_at": "2026-01-31T09:00:00.000+00:00",
    "last_used": "",
}
ME: Me = {
    "id": "3c9a1f",
    "name": "anna",
    "role": "reader",
    "collections": ["finance"],
    "signed_in": True,
    "may": {
        "add": False,
        "settings": False,
        "keys": False,
        "traces": False,
        "analytics": False,
        "clear_cache": False,
    },
    "model": True,
}


@router.get("/keys", summary="Every key, without its secret", responses=gives(KeyList, {"keys": [KEY]}))
def keys(desk: Library, caller: Who) -> Response:
    caller.require("keys")
    return reply({"keys": [one.to_dict() for one in desk.keys.list()]})


@router.post(
    "/keys", status_code=201, summary="Make a key", responses=gives(NewKey, {"key": KEY, "secret": "rd_…"}, 201)
)
def add_key(desk: Library, caller: Who, body: KeyIn) -> Response:
    """The secret is in this answer and nowhere else."""
    caller.require("keys")
    if body.collections == []:  # a program that found none to name does not mean all of them
        raise UsageError("a key without any collection opens nothing", hint="leave `collections` out for all of them")
    if not desk.keys.exist() and (body.role != "admin" or body.collections is not None):
        said = "the first key must be that of an admin of every collection"
        raise UsageError(said, hint="with it the library is closed, and only an admin can make more keys")
    key, secret = desk.keys.add(body.name, body.role, body.collections)
    return reply({"key": key.to_dict(), "secret": secret}, 201)


@router.patch("/keys/{key_id}", summary="Change a key", responses=gives(ChangedKey, {"key": KEY}) | failures(404))
def change_key(desk: Library, caller: Who, key_id: str, body: KeyChange) -> Response:
    """Its name, its role or its collections; `null` is every collection. In force at once, for sign-ins with it too.

    Its secret stays, and so do the conversations and answers of whoever holds it.
    """
    caller.require("keys")
    every = "collections" in body.model_fields_set and body.collections is None
    key = desk.keys.change(
        key_id,
        name=body.name,
        role=body.role,
        collections=body.collections,
        every_collection=every,
        keep_owner=True,
    )
    return reply({"key": key.to_dict()})


@router.delete("/keys/{key_id}", summary="Revoke a key", responses=gives(RevokedKey, {"revoked": KEY}) | failures(404))
def revoke_key(desk: Library, caller: Who, key_id: str) -> Response:
    """From now on nobody gets in with it, nor with a sign-in that used it."""
    caller.require("keys")
    return reply({"revoked": desk.keys.revoke(key_id, keep_owner=True).to_dict()})


@router.post("/session", summary="Sign in with a key", responses=gives(Me, ME))
async def sign_in(request: Request, service: Serving, body: SessionIn) -> Response:
    """Sets a cookie that no script can read and no other site can send."""
    desk = service.desk
    caller = await aside(desk.keys.verify, body.key)
    if caller is None:
        raise NotSignedIn("this key is not known")
    if is_counted(caller, request.url.path):  # the guard did not know yet whose request it is
        service.limits.count(caller, await aside(lambda: desk.settings))
    if known := request.cookies.get(COOKIE):
        await aside(desk.sessions.end, known)
    token, seconds = await aside(desk.sessions.begin, caller)
    answer = reply(await aside(_me, desk, caller))
    answer.set_cookie(
        COOKIE, token, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@router.delete("/session", summary="Sign out", responses=gives(SignedOut, {"signed_in": False}))
def sign_out(request: Request, desk: Library) -> Response:
    if token := request.cookies.get(COOKIE):
        desk.sessions.end(token)
    answer = reply({"signed_in": False})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


@router.get("/me", summary="The caller: name, role and rights", responses=gives(Me, ME))
def me(desk: Library, caller: Who) -> Response:
    return reply(_me(desk, caller))


def _me(desk: Refdesk, caller: Caller) -> dict[str, Any]:
    allowed = None if caller.collections is None else list(caller.collections)
    own = {"id": caller.id, "name": caller.name, "role": caller.role, "collections": allowed}
    may = {name: caller.may(name) for name in ("add", "settings", "keys", "traces", "analytics", "clear_cache")}
    return own | {"signed_in": bool(caller.id), "may": may, "model": desk.asking.has_model(desk.settings)}
