"""What every request passes first: the size limit, the rule of access, the headers of safety."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.credentials import authenticate_sensor
from api.problems import ProblemError, crash, respond
from api.security import ACCESS, PUBLIC, Principal, allowed, authenticate_key, authenticate_session
from api.service import Service

COOKIE: Final = "ql_session"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


class SafetyHeaders:
    """Adds the headers that keep a browser in bounds, where the answer has not set its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the headers added."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        private = scope["path"] not in ("/docs",) and not scope["path"].startswith(("/static/", "/docs/"))

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if private:
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, sent)


class Faults:
    """Turns what nobody handled into a 500 without a traceback; a stream that has begun is broken off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and answer where nothing else did."""
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            if started or scope["type"] != "http":
                raise
            await crash(scope["path"], scope["method"], error)(scope, receive, send)


class BodyLimit:
    """Refuses bodies above a size, whether announced or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, counting the bytes of the body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        detail = f"the body is larger than {self._limit} bytes; send less at a time"
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdigit() and int(announced) > self._limit:
            answer = respond(ProblemError(413, detail, headers={"Connection": "close"}), scope["path"])
            await answer(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise HTTPException(413, detail)
            return message

        await self._app(scope, counted, send)


class Guard:
    """The rule of access of :mod:`api.security`: a route that is not in its table is refused."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Sequence[BaseRoute],
        service: Service,
        real_now: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._routes = routes
        self._service = service
        self._now = real_now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may pass; ``request.state.principal`` says who asks."""
        if scope["type"] == "websocket":
            raise RuntimeError("there are no web sockets here")
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = None
        found, route = self._route(scope)
        if not found or ACCESS.get((scope["method"], route or "")) is PUBLIC:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        principal, session = await run_in_threadpool(self._who, headers)
        refusal = self._refusal(scope, headers, route or "", principal, session)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        scope["state"]["principal"] = principal
        await self._app(scope, receive, send)

    def _route(self, scope: Scope) -> tuple[bool, str | None]:
        for route in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return True, getattr(route, "path", None)
        return False, None

    def _who(self, headers: Headers) -> tuple[Principal | None, bool]:
        ledger = self._service.store.ledger
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return authenticate_key(token.strip(), ledger.keys()), False
        if scheme.lower() == "basic":
            said = _name_and_password(token.strip())
            return None if said is None else authenticate_sensor(ledger, *said), False
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if session is None:
            return None, False
        return authenticate_session(ledger, session, now_us=round(self._now() * 1e6)), True

    def _refusal(
        self, scope: Scope, headers: Headers, route: str, principal: Principal | None, session: bool
    ) -> Any:
        method, path = scope["method"], scope["path"]
        if principal is None:
            if method == "GET" and "text/html" in headers.get("accept", ""):
                return RedirectResponse("/sign-in", status_code=303)
            said = "authorization" in headers or session
            detail = (
                "this password, key or session is unknown, over or revoked"
                if said
                else "sign in, or send a key: Authorization: Bearer ql_…"
            )
            return respond(ProblemError(401, detail, headers={"WWW-Authenticate": "Bearer"}), path)
        if not allowed(method, route, principal):
            return respond(ProblemError(403, f"the role {principal.role} may not {method} {route}"), path)
        if session and method not in _SAFE and not _same_site(headers, path, principal):
            return respond(
                ProblemError(403, "this request did not come from a page of this service", slug="csrf"), path
            )
        return None


def _name_and_password(token: str) -> tuple[str, str] | None:
    """What HTTP Basic says: for devices, which have a name and a password and no more."""
    try:
        name, colon, password = base64.b64decode(token, validate=True).decode().rpartition(":")
    except ValueError:
        return None
    return (name, password) if colon else None


def _same_site(headers: Headers, path: str, principal: Principal) -> bool:
    """Whether a browser's writing request came from our own page.

    Forms carry their token in the body, which the page that takes them checks; scripts of the page send it
    as a header.
    """
    if not own_origin(headers):
        return False
    if not path.startswith("/api/"):
        return True
    return hmac.compare_digest(headers.get("x-csrf-token", "").encode(), (principal.csrf or "-").encode())


def own_origin(headers: Headers) -> bool:
    """Whether the browser says that the request comes from this very service; silence counts as yes."""
    origin = headers.get("origin")
    try:
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
    except ValueError:  # no address at all, such as http://[
        return False
    return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
