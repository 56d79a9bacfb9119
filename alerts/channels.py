"""Ways out to the world: signed webhooks (Standard Webhooks) and the log. Failure is a return value."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

import httpx
import structlog
from standardwebhooks import Webhook

from store.records import Hauler, OutboxItem

_THROTTLED = frozenset({429, 502, 503, 504})
MAX_BODY = 20_000  # the Standard Webhooks recommendation [bytes]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one attempt.

    ``word`` is delivered, retry, failed (no further attempt would help) or gone (the endpoint says 410: it
    wants nothing any more). ``after_s`` is the wait that the receiver asked for [s].
    """

    word: str
    detail: str = ""
    after_s: float | None = None


class Channel(Protocol):
    """One way out."""

    def deliver(self, item: OutboxItem, now_s: float) -> Outcome:
        """Try once; never raises for what the other side does. ``now_s`` is real time [s]."""


class LogChannel:
    """Writes the message to the log, for a person or a log collector to take further."""

    def __init__(self, name: str = "quarterline.outbox") -> None:
        self._log = structlog.get_logger(name)

    def deliver(self, item: OutboxItem, now_s: float) -> Outcome:
        """Always delivered."""
        self._log.info(item.type, id=item.id, target=item.target, at=now_s, data=item.body.get("data"))
        return Outcome("delivered")


def encode(item: OutboxItem) -> bytes:
    """The exact bytes that are signed and sent."""
    return json.dumps(item.body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


class WebhookChannel:
    """Posts an item to its hauler's endpoint, signed over the exact bytes sent; ``haulers`` gives them by id.

    Only 2xx is a delivery; redirects are not followed; addresses that are not public are refused unless
    ``allow_private``. The connection goes to the very address that was checked, so that a name which
    changes in between leads nowhere else.
    """

    def __init__(
        self,
        haulers: Callable[[], Mapping[str, Hauler]],
        *,
        allow_private: bool = False,
        timeout_s: float = 20.0,
        transport: httpx.BaseTransport | None = None,
        resolve: Callable[[str, int], list[str]] | None = None,
    ) -> None:
        self._haulers = haulers
        self._allow_private = allow_private
        self._resolve = resolve or _resolve
        self._client = httpx.Client(
            timeout=timeout_s, follow_redirects=False, trust_env=False, transport=transport
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def deliver(self, item: OutboxItem, now_s: float) -> Outcome:
        """Sign and post once."""
        hauler = self._haulers().get(item.target)
        if hauler is None or hauler.webhook is None:
            return Outcome("failed", f"hauler {item.target!r} has no webhook any more")
        if hauler.secret is None:
            return Outcome("failed", f"hauler {item.target!r} has no signing secret; set one (whsec_…)")
        body = encode(item)
        if len(body) > MAX_BODY:
            return Outcome("failed", f"the message has {len(body)} bytes, more than {MAX_BODY}")
        try:
            headers = sign(hauler.secret, item.id, body, now_s)
        except ValueError as error:
            return Outcome("failed", f"the signing secret of {item.target!r} is not one: {error}")
        return self._post(hauler.webhook, body, headers, now_s)

    def _post(self, url: str, body: bytes, headers: dict[str, str], now_s: float) -> Outcome:
        try:
            target = httpx.URL(url)
        except httpx.InvalidURL as error:
            return Outcome("failed", f"webhook: {error}")
        refused = self._refused(target)
        if refused is not None:
            return Outcome("failed", refused)
        address = self._address(target)
        if isinstance(address, Outcome):
            return address
        headers["Host"] = target.netloc.decode("ascii")
        try:
            response = self._client.post(
                target.copy_with(host=address),
                content=body,
                headers=headers,
                extensions={"sni_hostname": target.host},
            )
        except httpx.HTTPError as error:
            return Outcome("retry", f"{type(error).__name__}: {error}")
        return read_response(response, now_s)

    def _refused(self, target: httpx.URL) -> str | None:
        schemes = {"https", "http"} if self._allow_private else {"https"}
        if target.scheme not in schemes or not target.host:
            return f"webhook: {target} is no {' or '.join(sorted(schemes))} address"
        return None

    def _address(self, target: httpx.URL) -> str | Outcome:
        port = target.port or (443 if target.scheme == "https" else 80)
        try:
            addresses = self._resolve(target.host, port)
        except (OSError, UnicodeError) as error:
            return Outcome("retry", f"webhook: {target.host} does not resolve: {error}")
        if not addresses:
            return Outcome("retry", f"webhook: {target.host} does not resolve")
        if not self._allow_private:
            inside = [one for one in addresses if not is_public(one)]
            if inside:
                return Outcome(
                    "failed", f"webhook: {target.host} is {inside[0]}, which is not a public address"
                )
        return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address is reachable for everybody; an IPv4 address inside an IPv6 one counts as itself."""
    one = ipaddress.ip_address(address.split("%")[0])
    if isinstance(one, ipaddress.IPv6Address):
        inner = one.ipv4_mapped or one.sixtofour
        if inner is not None:
            return inner.is_global
    return one.is_global and not one.is_multicast


def sign(secret: str, message_id: str, body: bytes, now_s: float) -> dict[str, str]:
    """The Standard Webhooks headers of one attempt over these exact bytes.

    Raises
    ------
    ValueError
        The secret is empty or not base64.
    """
    if not secret.removeprefix("whsec_"):
        raise ValueError("it is empty")
    at = datetime.fromtimestamp(int(now_s), tz=UTC)
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now_s)),
        "webhook-signature": Webhook(secret).sign(message_id, at, body.decode()),
    }


def read_response(response: httpx.Response, now_s: float) -> Outcome:
    """What an endpoint's answer means: 2xx delivered, 410 gone, anything else a later attempt."""
    status = response.status_code
    if response.is_success:
        return Outcome("delivered", f"HTTP {status}")
    if status == 410:
        return Outcome("gone", "HTTP 410: the endpoint wants nothing any more")
    if response.is_redirect:
        return Outcome("retry", f"HTTP {status}: redirects are not followed; give the final address")
    after = _retry_after(response.headers.get("retry-after"), now_s)
    if after is None and status in _THROTTLED:
        after = 30.0
    return Outcome("retry", f"HTTP {status}", after)


def _retry_after(value: str | None, now_s: float) -> float | None:
    """``Retry-After`` as seconds from now, from either of its forms; at most a day."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), 86_400.0)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return min(max(0.0, at.timestamp() - now_s), 86_400.0)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
