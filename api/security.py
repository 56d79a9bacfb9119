"""Who may do what: roles, API keys, browser sessions, and the one table of access.

A route that is not in the table is refused, whoever asks. Keys, links and sessions are kept as digests only.
Authentication goes by real time, whatever the service's clock says.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from store.ports import Ledger
from store.records import ApiKey, SignIn

ADMIN: Final = "admin"
MANAGER: Final = "manager"
INSPECTOR: Final = "inspector"
HAULER: Final = "hauler"
SENSOR: Final = "sensor"
READ_ONLY: Final = "read-only"
ROLES: Final = (ADMIN, MANAGER, INSPECTOR, HAULER, SENSOR, READ_ONLY)

PUBLIC: Final = frozenset({"public"})
STAFF: Final = frozenset({ADMIN, MANAGER, INSPECTOR, READ_ONLY})  # see everything
FIELD: Final = frozenset({ADMIN, MANAGER, INSPECTOR})  # measure by hand
DECIDE: Final = frozenset({ADMIN, MANAGER})
OWN_ORDERS: Final = STAFF | {HAULER}  # a hauler: only its own

_API: Final = "/api/v1"

#: Who may use which route. ``PUBLIC`` needs no sign-in; what is missing here is refused.
ACCESS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    ("GET", "/metrics"): PUBLIC,
    ("GET", "/openapi.json"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/docs/static/{name}"): PUBLIC,
    ("GET", "/static/{name}"): PUBLIC,
    ("GET", "/sign-in"): PUBLIC,
    ("POST", "/sign-in"): PUBLIC,
    ("GET", "/sign-in/{token}"): PUBLIC,
    ("POST", "/sign-out"): STAFF,
    ("GET", "/"): STAFF,
    ("GET", "/interceptors/{id}"): STAFF,
    ("GET", f"{_API}/sites"): STAFF,
    ("POST", f"{_API}/sites"): DECIDE,
    ("GET", f"{_API}/sites/{{id}}"): STAFF,
    ("GET", f"{_API}/interceptors"): STAFF,
    ("POST", f"{_API}/interceptors"): DECIDE,
    ("GET", f"{_API}/interceptors/{{id}}"): STAFF,
    ("GET", f"{_API}/sensors"): STAFF,
    ("POST", f"{_API}/sensors"): DECIDE,
    ("GET", f"{_API}/sensors/{{id}}"): STAFF,
    ("GET", f"{_API}/sensors/{{id}}/check"): STAFF | {SENSOR},
    ("POST", f"{_API}/sensors/{{id}}/password"): DECIDE,
    ("GET", f"{_API}/haulers"): STAFF,
    ("POST", f"{_API}/haulers"): DECIDE,
    ("GET", f"{_API}/haulers/{{id}}"): OWN_ORDERS,
    ("GET", f"{_API}/readings"): STAFF,
    ("POST", f"{_API}/readings"): frozenset({ADMIN, SENSOR}),
    ("GET", f"{_API}/assessments"): STAFF,
    ("GET", f"{_API}/pump-outs"): STAFF,
    ("GET", f"{_API}/hot-discharges"): STAFF,
    ("GET", f"{_API}/core-samples"): STAFF,
    ("POST", f"{_API}/core-samples"): FIELD,
    ("GET", f"{_API}/alerts"): STAFF,
    ("GET", f"{_API}/orders"): OWN_ORDERS,
    ("GET", f"{_API}/orders/{{id}}"): OWN_ORDERS,
    ("POST", f"{_API}/orders/{{id}}/answers"): DECIDE | {HAULER},
    ("GET", f"{_API}/manifests"): OWN_ORDERS,
    ("POST", f"{_API}/manifests"): DECIDE | {HAULER},
    ("GET", f"{_API}/frequency-requests"): STAFF,
    ("GET", f"{_API}/frequency-decisions"): STAFF,
    ("POST", f"{_API}/frequency-decisions"): DECIDE,
    ("GET", f"{_API}/ordinances"): STAFF,
    ("GET", f"{_API}/ordinances/{{id}}"): STAFF,
    ("GET", f"{_API}/quarantine"): STAFF,
    ("GET", f"{_API}/quarantine/export"): STAFF,
    ("POST", f"{_API}/quarantine/retry"): DECIDE,
    ("GET", f"{_API}/gaps"): STAFF,
    ("GET", f"{_API}/events"): STAFF,
}

_KEY: Final = re.compile(r"ql_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")


class RoleError(ValueError):
    """A role that does not exist, or one that lacks its subject."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: by key or by browser session; ``subject`` is the hauler or sensor a key speaks for."""

    role: str
    name: str
    subject: str | None = None
    key_id: str | None = None
    csrf: str | None = None  # a session's form token

    @property
    def identity(self) -> str:
        """One word for whoever this is, stable over requests."""
        return f"key:{self.key_id}" if self.key_id is not None else f"session:{self.role}:{self.name}"


def digest(secret: str) -> str:
    """What is kept of a secret: its SHA-256. The secrets are random and long, so no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_key(name: str, role: str, *, subject: str | None = None, now_us: int) -> tuple[ApiKey, str]:
    """A new key as its record and the token to hand over, which is shown once and never again.

    Raises
    ------
    RoleError
        The role is unknown, or a hauler's or sensor's key does not say whose it is.
    """
    if role not in ROLES:
        raise RoleError(f"role {role!r} is unknown: use one of {', '.join(ROLES)}")
    if role in (HAULER, SENSOR) and subject is None:
        raise RoleError(f"a {role} key needs a subject: the id of the {role} it speaks for")
    if role not in (HAULER, SENSOR) and subject is not None:
        raise RoleError(f"a {role} key speaks for no single hauler or sensor: leave the subject out")
    identity = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(12))
    secret = secrets.token_urlsafe(32)
    owner = subject.lower() if role == SENSOR and subject is not None else subject
    return ApiKey(identity, name, role, digest(secret), owner, now_us), f"ql_{identity}_{secret}"


def authenticate_key(token: str, keys: Sequence[ApiKey]) -> Principal | None:
    """Whose key this is; None where it is malformed, unknown, revoked or has another secret."""
    found = _KEY.fullmatch(token)
    if found is None:
        return None
    wanted = digest(found.group(2))
    for key in keys:
        if key.id == found.group(1):
            good = hmac.compare_digest(key.digest, wanted) and key.revoked_us is None
            return Principal(key.role, key.name, key.subject, key.id) if good else None
    return None


def new_sign_in(
    name: str, role: str, *, now_us: int, minutes: float, once: bool = True
) -> tuple[SignIn, str]:
    """A one-time link's record and token, or with ``once=False`` a session's.

    Raises
    ------
    RoleError
        The role does not use the pages.
    """
    if role not in STAFF:
        raise RoleError(f"role {role!r} does not use the pages: use one of {', '.join(sorted(STAFF))}")
    token = secrets.token_urlsafe(32)
    return SignIn(_stored(token, once=once), role, name, now_us + round(minutes * 60e6), once), token


def redeem(ledger: Ledger, token: str, *, now_us: int, session_hours: float) -> str | None:
    """Use a one-time link up and open a session; returns the session's token, None where the link is no good.

    Call it in the writer's transaction: of two who come at once, one gets in.
    """
    link = ledger.sign_in(_stored(token, once=True))
    if link is None or not link.once or not ledger.delete_sign_in(link.digest) or link.expires_us <= now_us:
        return None
    return open_session(ledger, link.name, link.role, now_us=now_us, session_hours=session_hours)


def open_session(ledger: Ledger, name: str, role: str, *, now_us: int, session_hours: float) -> str:
    """Open a browser session; returns its token. Call it in the writer's transaction."""
    session, token = new_sign_in(name, role, now_us=now_us, minutes=session_hours * 60, once=False)
    ledger.put_sign_in(session)
    return token


def close_session(ledger: Ledger, token: str) -> None:
    """End a browser session. Call it in the writer's transaction."""
    ledger.delete_sign_in(_stored(token, once=False))


def authenticate_session(ledger: Ledger, token: str, *, now_us: int) -> Principal | None:
    """Whose session this is; None where it is unknown or over."""
    session = ledger.sign_in(_stored(token, once=False))
    if session is None or session.once or session.expires_us <= now_us:
        return None
    return Principal(session.role, session.name, csrf=csrf_token(token))


def csrf_token(session_token: str) -> str:
    """The token a session's forms carry: derived from the session, of no use for guessing it."""
    return hashlib.sha256(f"form {session_token}".encode()).hexdigest()


def allowed(method: str, route: str, principal: Principal | None) -> bool:
    """The rule of access: what the table does not name is refused."""
    roles = ACCESS.get((method, route))
    if roles is None:
        return False
    return roles is PUBLIC or (principal is not None and principal.role in roles)


def _stored(token: str, *, once: bool) -> str:
    return digest(f"{'link' if once else 'session'} {token}")
