"""Health, metrics, and the interface's own documentation without a content delivery network."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, JSONResponse, Response

from api.http.wire import ServiceDep
from api.metrics import LOSSES, MEDIA_TYPE, Losses, exposition
from api.problems import MEDIA_TYPE as PROBLEM
from api.problems import body_of, not_found

router = APIRouter(tags=["System"])

#: Files of Swagger UI as the installed package carries them, by the name they are served under.
_SWAGGER: Final = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}
_DOCS_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_DOCS: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quarterline API</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/docs/static/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/static/swagger-ui-bundle.js"></script>
<script src="/static/docs.js"></script>
</body>
</html>
"""


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "alive"}


@router.get("/readyz")
def readyz(service: ServiceDep) -> Response:
    """Whether every part does its work; 503 with the reasons where one does not."""
    parts = service.readiness()
    shown: dict[str, Any] = {name: {"ok": ok, "detail": detail} for name, (ok, detail) in parts.items()}
    broken = [f"{name}: {detail}" for name, (ok, detail) in parts.items() if not ok]
    if broken:
        body = body_of(503, "; ".join(broken), "/readyz", slug="not-ready", extra={"parts": shown})
        return JSONResponse(body, status_code=503, media_type=PROBLEM)
    return JSONResponse({"status": "ready", "parts": shown})


@router.get("/metrics", response_class=Response)
def metrics(service: ServiceDep) -> Response:
    """Counters and gauges for Prometheus."""
    pending = service.pending()
    store = service.store
    losses = Losses(int(store.ledger.get_meta(LOSSES) or 0), store.history.quarantine_dropped())
    text = exposition(
        store.history.totals(), pending, service.readiness(), service.flow(), service.session(), losses
    )
    return Response(text, media_type=MEDIA_TYPE)


@router.get("/docs", include_in_schema=False)
def docs() -> HTMLResponse:
    """The interface's documentation, to read and to try."""
    return HTMLResponse(_DOCS, headers={"content-security-policy": _DOCS_POLICY})


@router.get("/docs/static/{name}", include_in_schema=False)
def docs_static(name: str) -> Response:
    """A file of Swagger UI."""
    if name not in _SWAGGER:
        raise not_found("file", name)
    content = files("fastapi_offline").joinpath("static", name).read_bytes()
    return Response(content, media_type=_SWAGGER[name], headers={"cache-control": "public, max-age=86400"})
