"""Keys, links, sessions and the table of access, at a real server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.routing import BaseRoute

from api.http.app import create_app
from api.security import (
    ACCESS,
    PUBLIC,
    ROLES,
    STAFF,
    RoleError,
    allowed,
    authenticate_key,
    new_key,
    new_sign_in,
)

Client = Callable[..., httpx.Client]


def test_the_table_names_every_route_of_the_application_and_nothing_else(service: Any) -> None:
    def name(route: BaseRoute) -> set[tuple[str, str]]:
        return {(method, route.path) for method in route.methods}  # type: ignore[attr-defined]

    routes = set().union(*(name(route) for route in create_app(service).router.routes))
    assert routes - set(ACCESS) == set()
    assert set(ACCESS) - routes == set()


def test_only_roles_that_exist_are_in_the_table() -> None:
    for roles in ACCESS.values():
        assert roles is PUBLIC or roles <= set(ROLES)


def test_a_route_that_is_not_in_the_table_is_refused_to_everybody(service: Any) -> None:
    key, token = new_key("boss", "admin", now_us=1)
    service.submit(lambda commands: commands.store.ledger.put_key(key))
    app = create_app(service)
    app.router.add_route("/secret", lambda request: None)
    transport = httpx.ASGITransport(app=app)

    async def ask() -> tuple[int, int]:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            headers = {"Authorization": f"Bearer {token}"}
            return (await client.get("/secret")).status_code, (
                await client.get("/secret", headers=headers)
            ).status_code

    import asyncio

    assert asyncio.run(ask()) == (401, 403)
    assert not allowed("GET", "/secret", authenticate_key(token, [key]))


# What each role gets of a reading, a deciding, a measuring, an answering and a sending route.
_PROBES = [
    ("GET", "/api/v1/sites", STAFF),
    ("GET", "/api/v1/orders", STAFF | {"hauler"}),
    ("GET", "/api/v1/readings?sensor=d-0001", STAFF),
    ("POST", "/api/v1/readings?sensor=d-0001", {"admin", "sensor"}),
    ("POST", "/api/v1/core-samples", {"admin", "manager", "inspector"}),
    ("POST", "/api/v1/frequency-decisions", {"admin", "manager"}),
    ("POST", "/api/v1/manifests", {"admin", "manager", "hauler"}),
    ("POST", "/api/v1/haulers", {"admin", "manager"}),
    ("GET", "/", STAFF),
    ("GET", "/interceptors/luigi-gi1", STAFF),
]


@pytest.mark.parametrize("role", [None, *ROLES])
def test_each_role_gets_what_the_table_says(client: Client, fleet: Any, role: str | None) -> None:
    subject = {"hauler": "valley", "sensor": "d-0001"}.get(role or "")
    asker = client(role, subject)
    for method, path, roles in _PROBES:
        status = asker.request(method, path, content=b"").status_code
        if role is None:
            assert status == 401, path
        elif role in roles:
            assert status in (200, 201, 422), (path, status)
        else:
            assert status == 403, (path, status)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/sign-in"])
def test_what_needs_no_sign_in(client: Client, path: str) -> None:
    assert client().get(path).status_code == 200


def test_a_key_is_kept_as_a_digest_and_works_until_it_is_revoked(service: Any, client: Client) -> None:
    asker = client("read-only")
    assert asker.get("/api/v1/sites").status_code == 200
    (kept,) = service.store.ledger.keys()
    token = asker.headers["Authorization"].removeprefix("Bearer ")
    assert token.startswith(f"ql_{kept.id}_")
    assert len(kept.digest) == 64
    assert kept.digest not in token
    assert token.split("_", 2)[2] not in repr(kept)
    service.submit(lambda c: c.store.ledger.put_key(replace(kept, revoked_us=5)))
    answer = asker.get("/api/v1/sites")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "token",
    ["x", "ql_", "ql_aaaaaaaaaaaa_", "ql_aaaaaaaaaaaa_" + "A" * 43, "ql_" + "é" * 12, "Basic eA=="],
)
def test_a_wrong_key_is_refused(server: str, service: Any, token: str) -> None:
    key, good = new_key("k", "admin", now_us=1)
    service.submit(lambda c: c.store.ledger.put_key(key))
    other = good[:-1] + ("A" if good[-1] != "A" else "B")
    for one in (token, other, good.upper()):
        headers = {"Authorization": b"Bearer " + one.encode()}
        assert httpx.get(f"{server}/api/v1/sites", headers=headers).status_code == 401


def test_roles_and_subjects() -> None:
    with pytest.raises(RoleError, match="role 'boss' is unknown: use one of admin"):
        new_key("x", "boss", now_us=1)
    with pytest.raises(RoleError, match="a hauler key needs a subject"):
        new_key("x", "hauler", now_us=1)
    with pytest.raises(RoleError, match="leave the subject out"):
        new_key("x", "manager", subject="valley", now_us=1)
    with pytest.raises(RoleError, match="does not use the pages"):
        new_sign_in("x", "sensor", now_us=1, minutes=5)
    assert new_key("x", "sensor", subject="D-0001", now_us=1)[0].subject == "d-0001"


# ---- sign-in -----------------------------------------------------------------------------------------


def test_a_link_opens_one_session_and_no_second(client: Client, link: Callable[..., str]) -> None:
    path = link()
    browser = client()
    answer = browser.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert browser.get("/").status_code == 200
    again = client().get(path)
    assert again.status_code == 401
    assert "used already" in again.text


def test_a_link_whose_time_is_over_opens_nothing(client: Client, link: Callable[..., str]) -> None:
    assert client().get(link(minutes=-1)).status_code == 401
    assert client().get("/sign-in/nonsense").status_code == 401


def test_a_session_ends_with_its_time(service: Any, link: Callable[..., str]) -> None:
    now = [time.time()]
    app = create_app(service, real_now=lambda: now[0])
    path = link()

    async def visit() -> list[int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as browser:
            codes = [(await browser.get(path)).status_code, (await browser.get("/")).status_code]
            now[0] += service.settings.auth.session_hours * 3600 + 1
            return [*codes, (await browser.get("/")).status_code]

    import asyncio

    assert asyncio.run(visit()) == [303, 200, 401]


def test_tokens_of_links_and_sessions_are_not_kept(service: Any, client: Client, link: Any) -> None:
    path = link()
    browser = client()
    browser.get(path)
    session = browser.cookies["ql_session"]
    assert service.store.ledger.sign_in(session) is None
    assert service.store.ledger.sign_in(path.removeprefix("/sign-in/")) is None
    # a session's token is no link, and a link's is no session
    assert client().get(f"/sign-in/{session}").status_code == 401


def test_a_browser_without_session_is_shown_the_door(client: Client) -> None:
    answer = client().get("/", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    page = client().get("/sign-in")
    assert "quarterline token sign-in" in page.text


def test_a_key_opens_the_pages_for_staff_only(client: Client, key: Callable[..., str]) -> None:
    browser = client()
    assert browser.post("/sign-in", data={"key": key("inspector")}).status_code == 303
    assert browser.get("/").status_code == 200
    refused = client().post("/sign-in", data={"key": key("hauler", "valley")})
    assert refused.status_code == 403
    assert "does not open the pages" in refused.text
    assert client().post("/sign-in", data={"key": "ql_nonsense"}).status_code == 401


def test_signing_out_needs_the_form_token_and_ends_the_session(client: Client, link: Any) -> None:
    browser = client()
    browser.get(link())
    page = browser.get("/").text
    token = page.split('name="csrf" value="')[1].split('"')[0]
    assert len(token) == 64
    assert browser.post("/sign-out", data={"csrf": "0" * 64}).status_code == 403
    assert browser.get("/").status_code == 200
    session = browser.cookies["ql_session"]
    assert browser.post("/sign-out", data={"csrf": token}).status_code == 303
    stolen = client().get("/", headers={"Cookie": f"ql_session={session}"})
    assert stolen.status_code == 401


def test_another_sites_page_cannot_write_with_a_session(client: Client, link: Any, fleet: Any) -> None:
    browser = client()
    browser.get(link())
    token = browser.get("/").text.split('name="csrf" value="')[1].split('"')[0]
    body = {"interceptor": "luigi-gi1", "sampled_at": "2026-11-30T10:00:00Z", "fog_mm": 1, "solids_mm": 1}

    def send(**headers: str) -> int:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return browser.post("/api/v1/core-samples", json=body, headers=named).status_code

    assert send() == 403
    assert send(X_CSRF_Token="0" * 64) == 403
    assert send(X_CSRF_Token=token, Origin="https://evil.example") == 403
    assert send(X_CSRF_Token=token, Sec_Fetch_Site="cross-site") == 403
    assert send(X_CSRF_Token=token, Origin="http://[") == 403
    odd = {"X-CSRF-Token": b"\xe9"}
    assert browser.post("/api/v1/core-samples", json=body, headers=odd).status_code == 403
    assert browser.post("/sign-out", data={"csrf": "é"}).status_code == 403
    assert send(X_CSRF_Token=token) == 201


@pytest.mark.parametrize("path", ["/", "/sign-in", "/api/v1/sites", "/nowhere"])
def test_browsers_are_kept_in_bounds(client: Client, path: str) -> None:
    headers = client("admin").get(path).headers
    assert "script-src 'self';" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
