"""The pages people look at, and signing in and out of them."""

from __future__ import annotations

import hmac
from importlib.resources import files
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from api.http.guard import COOKIE, own_origin
from api.http.wire import PrincipalDep, ServiceDep
from api.pages.detail import detail
from api.pages.views import dashboard
from api.problems import ProblemError, not_found
from api.security import STAFF, authenticate_key, close_session, open_session, redeem
from api.service import Service

router = APIRouter(include_in_schema=False)

_PAGES: Final = Environment(
    loader=PackageLoader("api.pages"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_STATIC: Final = {
    "quarterline.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def _page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_PAGES.get_template(name).render(**values), status_code=status)


# ---- pages -------------------------------------------------------------------------------------------


@router.get("/")
def show_dashboard(
    service: ServiceDep,
    principal: PrincipalDep,
    q: Annotated[str, Query(max_length=200)] = "",
    only: Annotated[str, Query(pattern="^(all|attention|unknown)$")] = "all",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    fragment: bool = False,
) -> HTMLResponse:
    """All interceptors, most urgent first."""
    view = dashboard(service, query=q, only=only, page=page)
    name = "_dashboard.html" if fragment else "dashboard.html"
    return _page(name, view=view, principal=principal, events="/api/v1/events")


@router.get("/interceptors/{id}")
def show_interceptor(
    service: ServiceDep, principal: PrincipalDep, id: str, fragment: bool = False
) -> HTMLResponse:
    """One interceptor."""
    view = detail(service, id)
    if view is None:
        raise not_found("interceptor", id)
    name = "_interceptor.html" if fragment else "interceptor.html"
    return _page(name, view=view, principal=principal, events=f"/api/v1/events?interceptor={view.id}")


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Style, script and icon of the pages."""
    if name not in _STATIC:
        raise not_found("file", name)
    content = files("api.pages").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"cache-control": "no-cache"})


# ---- sign-in -----------------------------------------------------------------------------------------


@router.get("/sign-in")
def show_sign_in() -> HTMLResponse:
    """How to get in."""
    return _page("sign_in.html", problem="")


@router.get("/sign-in/{token}")
def use_link(request: Request, service: ServiceDep, token: str) -> Response:
    """Use a one-time link up."""
    now_us = round(request.app.state.real_now() * 1e6)
    hours = service.settings.auth.session_hours
    session = service.submit(
        lambda commands: redeem(commands.store.ledger, token, now_us=now_us, session_hours=hours)
    )
    if session is None:
        return _page("sign_in.html", 401, problem="This sign-in link was used already, or its time is over.")
    return _signed_in(request, service, session)


@router.post("/sign-in")
def use_key(request: Request, service: ServiceDep, key: Annotated[str, Form(max_length=400)]) -> Response:
    """Open a session with an API key."""
    if not own_origin(request.headers):
        raise ProblemError(403, "this form did not come from a page of this service", slug="csrf")
    principal = authenticate_key(key.strip(), service.store.ledger.keys())
    if principal is None:
        return _page("sign_in.html", 401, problem="This key is unknown or revoked.")
    if principal.role not in STAFF:
        problem = f"A {principal.role} key does not open the pages; programs use it with the API."
        return _page("sign_in.html", 403, problem=problem)
    now_us = round(request.app.state.real_now() * 1e6)
    session = service.submit(
        lambda commands: open_session(
            commands.store.ledger,
            principal.name,
            principal.role,
            now_us=now_us,
            session_hours=service.settings.auth.session_hours,
        )
    )
    return _signed_in(request, service, session)


@router.post("/sign-out")
def sign_out(
    request: Request, service: ServiceDep, principal: PrincipalDep, csrf: Annotated[str, Form()]
) -> Response:
    """End the session."""
    session = request.cookies.get(COOKIE)
    if session is None or not hmac.compare_digest(csrf.encode(), (principal.csrf or "-").encode()):
        raise ProblemError(403, "this form did not come from a page of this service", slug="csrf")
    service.submit(lambda commands: close_session(commands.store.ledger, session))
    answer = RedirectResponse("/sign-in", status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax", path="/")
    return answer


def _signed_in(request: Request, service: Service, session: str) -> Response:
    answer = RedirectResponse("/", status_code=303)
    secure = request.url.scheme == "https" or service.settings.http.url.startswith("https:")
    answer.set_cookie(
        COOKIE,
        session,
        max_age=round(service.settings.auth.session_hours * 3600),
        httponly=True,
        samesite="lax",
        secure=secure,
        path="/",
    )
    return answer
