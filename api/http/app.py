"""The HTTP application over a running service."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

from api.http import papers, quarantine, registry, sensing, system, watch
from api.http.guard import BodyLimit, Faults, Guard, SafetyHeaders
from api.pages import routes as pages
from api.problems import HANDLERS, MEDIA_TYPE
from api.security import ACCESS, PUBLIC
from api.service import Service

_ABOUT: Final = (
    "Watches grease interceptors. Names carry their units (`fog_mm`, `inlet_c`, `volume_l`), times are UTC, "
    "unknown is null. Lists page by cursor. Every estimate is an instrument's estimate, not a determination "
    "of violation."
)
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


def create_app(service: Service, *, real_now: Callable[[], float] = time.time) -> FastAPI:
    """The application: API, pages, documentation. ``real_now`` is the clock of authentication."""
    routes = [
        *system.router.routes,
        *registry.router.routes,
        *sensing.router.routes,
        *watch.router.routes,
        *quarantine.router.routes,
        *papers.router.routes,
        *pages.router.routes,
    ]
    app = FastAPI(
        title="Quarterline", version=version("quarterline"), docs_url=None, redoc_url=None, openapi_url=None
    )
    app.router.routes.extend(routes)
    app.router.redirect_slashes = False
    app.state.service = service
    app.state.real_now = real_now

    @app.get("/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        """This interface, described."""
        return JSONResponse(_describe(app))

    app.user_middleware = [
        Middleware(SafetyHeaders),
        Middleware(Faults),
        Middleware(BodyLimit, limit=service.settings.http.body_limit_bytes),
        Middleware(Guard, routes=app.router.routes, service=service, real_now=real_now),
    ]
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app


def _describe(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1, with who may use each operation and how errors look."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.router.routes)
    parts = schema.setdefault("components", {})
    parts.setdefault("schemas", {})["Problem"] = _PROBLEM
    for name in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(name, None)
    parts["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key: ql_…"}
    }
    problem = {
        "description": "Problem details (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = problem
            roles = ACCESS.get((method.upper(), path), frozenset())
            if roles is not PUBLIC:
                operation["security"] = [{"key": []}]
                who = f"Roles: {', '.join(sorted(roles))}."
                operation["description"] = f"{operation.get('description', '')}\n\n{who}".strip()
    app.openapi_schema = schema
    return schema
