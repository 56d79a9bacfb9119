"""Errors as RFC 9457 problem details: what is wrong, which field, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from fastapi.exceptions import RequestValidationError
from markupsafe import escape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from store.ports import StoreError, StoreFull, StoreHangs
from store.records import Json

MEDIA_TYPE: Final = "application/problem+json"
_log = structlog.get_logger("quarterline.http")
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Quarterline</title>
<link rel="stylesheet" href="/static/quarterline.css">
</head>
<body>
<main><section class="card sign-in"><h1>{title}</h1><p>{detail}</p>
<p><a href="/">All interceptors</a></p></section></main>
</body>
</html>
"""


class ProblemError(Exception):
    """Ends a request with a problem; ``errors`` are (field, what was expected)."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        slug: str | None = None,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.slug = slug
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


def not_found(what: str, identity: str) -> ProblemError:
    """404 naming what was looked for."""
    return ProblemError(404, f"there is no {what} {identity!r}")


def invalid(field: str, expected: str) -> ProblemError:
    """422 for one field."""
    return ProblemError(422, f"{field}: {expected}", errors=[(field, expected)])


def body_of(
    status: int,
    detail: str,
    path: str,
    *,
    slug: str | None = None,
    errors: Sequence[tuple[str, str]] = (),
    extra: Mapping[str, Any] | None = None,
) -> Json:
    """The JSON object of a problem."""
    title = HTTPStatus(status).phrase
    word = slug or title.lower().replace(" ", "-")
    body: Json = {
        "type": f"urn:quarterline:problem:{word}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": path,
    }
    if errors:
        body["errors"] = [{"field": field, "detail": expected} for field, expected in errors]
    return body | dict(extra or {})


def respond(error: ProblemError, path: str, extra: Mapping[str, Any] | None = None) -> Response:
    """The HTTP answer of a problem."""
    body = body_of(error.status, error.detail, path, slug=error.slug, errors=error.errors, extra=extra)
    return Response(
        msgspec.json.encode(body), status_code=error.status, media_type=MEDIA_TYPE, headers=error.headers
    )


def on_problem(request: Request, error: Exception) -> Response:
    """Handler of :class:`ProblemError`: a page for a browser outside the API, else problem details."""
    assert isinstance(error, ProblemError)
    if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/"):
        page = _PAGE.format(title=HTTPStatus(error.status).phrase, detail=escape(error.detail))
        return HTMLResponse(page, status_code=error.status, headers=error.headers)
    return respond(error, request.url.path)


def on_http(request: Request, error: Exception) -> Response:
    """Handler of the framework's own errors: 404, 405, 413 …"""
    assert isinstance(error, HTTPException)
    details = {
        404: f"there is nothing at {request.url.path}; /docs lists what there is",
        405: f"{request.method} is not possible here",
    }
    detail = details.get(error.status_code, error.detail)
    return on_problem(request, ProblemError(error.status_code, detail, headers=error.headers))


def on_invalid(request: Request, error: Exception) -> Response:
    """Handler of requests that do not fit their schema: each wrong field with what was expected."""
    assert isinstance(error, RequestValidationError)
    found = [(_field(one["loc"]), _lower(one["msg"])) for one in error.errors()]
    detail = "; ".join(f"{field}: {expected}" for field, expected in found)
    return on_problem(request, ProblemError(422, detail, errors=found))


def on_store(request: Request, error: Exception) -> Response:
    """Handler of a store that refuses: nothing was kept, the same request can be sent again; or of one that hangs."""
    _log.error("the store refused a request", path=request.url.path, reason=str(error))
    why = "the disk is full" if isinstance(error, StoreFull) else "the store cannot do this now"
    detail = f"{why}: nothing of the request was kept, send it again"
    if isinstance(error, StoreHangs):
        detail = (
            "the store hangs and may yet take this: look first, or send it again under its Idempotency-Key"
        )
    problem = ProblemError(503, detail, headers={"Retry-After": "5"})
    return respond(problem, request.url.path)


def crash(path: str, method: str, error: Exception) -> Response:
    """The answer to our own faults: the log has the traceback, the answer has none."""
    _log.error("a request failed", path=path, method=method, exc_info=error)
    return respond(ProblemError(500, "a fault of the service: its log says more"), path)


HANDLERS: Final = {
    ProblemError: on_problem,
    HTTPException: on_http,
    RequestValidationError: on_invalid,
    StoreError: on_store,
}


def _field(location: Sequence[str | int]) -> str:
    parts = list(location)
    if len(parts) > 1 and parts[0] in ("body", "query", "path", "header"):
        parts = parts[1:]
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "body"


def _lower(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
