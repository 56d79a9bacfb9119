"""Webhooks against a real HTTP receiver that verifies signatures; what answers mean; private addresses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any

import httpx
import pytest
import structlog
from standardwebhooks import Webhook

from alerts.channels import LogChannel, WebhookChannel, encode, read_response
from store.records import Hauler, OutboxItem

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


@dataclass
class Receiver:
    """A hauler's endpoint: keeps what came, answers as told."""

    url: str
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    told: list[Receiver] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told[0].received.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(told[0].status)
            for name, value in told[0].headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.append(Receiver(f"http://localhost:{server.server_address[1]}/hook"))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield told[0]
    server.shutdown()
    thread.join()
    server.server_close()


def _item(**keys: Any) -> OutboxItem:
    body = {
        "type": "order.offered",
        "timestamp": "2026-06-01T16:00:00Z",
        "data": {"site": "Café Böhm", "n": 1},
    }
    return replace(OutboxItem("msg-1", "webhook", "valley", "order.offered", body, 0, 0), **keys)


@pytest.fixture
def channel(receiver: Receiver) -> Iterator[WebhookChannel]:
    hauler = Hauler("valley", "Valley", webhook=receiver.url, secret=SECRET)
    one = WebhookChannel(lambda: {"valley": hauler}, allow_private=True, timeout_s=5.0)
    yield one
    one.close()


def test_the_receiver_verifies_the_signature_over_the_exact_bytes(
    receiver: Receiver, channel: WebhookChannel
) -> None:
    assert channel.deliver(_item(), time()).word == "delivered"
    headers, body = receiver.received[0]
    assert body == encode(_item())
    assert Webhook(SECRET).verify(body, headers) == _item().body
    assert headers["webhook-id"] == "msg-1"
    assert headers["content-type"] == "application/json"
    assert headers["host"] == receiver.url.removeprefix("http://").removesuffix("/hook")
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(SECRET).verify(body + b" ", headers)


def test_a_retry_keeps_its_id_and_is_signed_anew(receiver: Receiver, channel: WebhookChannel) -> None:
    now = time()
    channel.deliver(_item(), now - 60)
    channel.deliver(_item(), now)
    first, second = (headers for headers, _ in receiver.received)
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 60
    assert first["webhook-signature"] != second["webhook-signature"]


@pytest.mark.parametrize(
    ("status", "headers", "word", "after_s"),
    [
        (200, {}, "delivered", None),
        (301, {"location": "http://localhost/elsewhere"}, "retry", None),
        (400, {}, "retry", None),
        (410, {}, "gone", None),
        (429, {}, "retry", 30.0),
        (429, {"retry-after": "120"}, "retry", 120.0),
        (500, {}, "retry", None),
        (503, {"retry-after": "Mon, 01 Jun 2026 16:10:00 GMT"}, "retry", 600.0),
        (503, {"retry-after": "soon"}, "retry", 30.0),
        (503, {"retry-after": "9999999"}, "retry", 86_400.0),
    ],
)
def test_what_an_answer_means(
    receiver: Receiver,
    channel: WebhookChannel,
    status: int,
    headers: dict[str, str],
    word: str,
    after_s: float | None,
) -> None:
    receiver.status, receiver.headers = status, headers
    outcome = channel.deliver(_item(), 1_780_329_600.0)  # 2026-06-01T16:00:00Z
    assert (outcome.word, outcome.after_s) == (word, after_s)
    assert len(receiver.received) == 1  # a redirect is not followed


@pytest.mark.parametrize(
    ("addresses", "refused"),
    [
        (["127.0.0.1"], True),
        (["10.1.2.3"], True),
        (["169.254.169.254"], True),
        (["192.168.0.9"], True),
        (["::1"], True),
        (["fe80::1%eth0"], True),
        (["::ffff:127.0.0.1"], True),
        (["93.184.216.34", "127.0.0.1"], True),  # one bad address spoils the name
        (["93.184.216.34"], False),
    ],
)
def test_addresses_that_are_not_public_are_refused(addresses: list[str], refused: bool) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(204)

    hauler = Hauler("valley", "Valley", webhook="https://hook.example/in", secret=SECRET)
    channel = WebhookChannel(
        lambda: {"valley": hauler},
        transport=httpx.MockTransport(answer),
        resolve=lambda _host, _port: addresses,
    )
    outcome = channel.deliver(_item(), 0.0)
    channel.close()
    if refused:
        assert (outcome.word, asked) == ("failed", [])
        assert "not a public address" in outcome.detail
    else:
        assert outcome.word == "delivered"
        assert asked[0].url.host == "93.184.216.34"  # the very address that was checked
        assert asked[0].headers["host"] == "hook.example"
        assert asked[0].extensions["sni_hostname"] == "hook.example"


@pytest.mark.parametrize(
    ("hauler", "detail"),
    [
        (None, "has no webhook any more"),
        (Hauler("valley", "V"), "has no webhook any more"),
        (Hauler("valley", "V", webhook="https://a.example"), "no signing secret"),
        (Hauler("valley", "V", webhook="https://a.example", secret="whsec_"), "is not one: it is empty"),
        (Hauler("valley", "V", webhook="https://a.example", secret="whsec_a"), "is not one"),
        (Hauler("valley", "V", webhook="http://a.example", secret=SECRET), "is no https address"),
        (Hauler("valley", "V", webhook="ftp://a.example", secret=SECRET), "is no https address"),
        (Hauler("valley", "V", webhook="valley dot com", secret=SECRET), "is no https address"),
    ],
)
def test_what_no_retry_would_help_fails_with_its_reason(hauler: Hauler | None, detail: str) -> None:
    channel = WebhookChannel(lambda: {} if hauler is None else {"valley": hauler})
    outcome = channel.deliver(_item(), 0.0)
    channel.close()
    assert outcome.word == "failed"
    assert detail in outcome.detail


def test_a_name_that_cannot_resolve_is_tried_again() -> None:
    hauler = Hauler(
        "valley", "V", webhook=f"https://{'a' * 70}.example/", secret=SECRET
    )  # a label of at most 63
    channel = WebhookChannel(lambda: {"valley": hauler})
    outcome = channel.deliver(_item(), 0.0)
    channel.close()
    assert outcome.word in {"retry", "failed"}
    assert "webhook: " in outcome.detail


def test_a_receiver_that_is_not_there_is_tried_again(receiver: Receiver) -> None:
    hauler = Hauler("valley", "V", webhook="http://127.0.0.1:9/hook", secret=SECRET)  # the discard port
    channel = WebhookChannel(lambda: {"valley": hauler}, allow_private=True, timeout_s=5.0)
    outcome = channel.deliver(_item(), 0.0)
    channel.close()
    assert outcome.word == "retry"
    assert "ConnectError" in outcome.detail


def test_a_message_too_large_is_not_sent(receiver: Receiver, channel: WebhookChannel) -> None:
    outcome = channel.deliver(_item(body={"type": "x", "timestamp": "", "data": "x" * 20_000}), 0.0)
    assert (outcome.word, receiver.received) == ("failed", [])


def test_the_log_channel_tells_what_and_to_whom() -> None:
    with structlog.testing.capture_logs() as lines:
        assert LogChannel().deliver(_item(channel="log", target="site:luigi"), 12.0).word == "delivered"
    assert lines[0]["event"] == "order.offered"
    assert (lines[0]["target"], lines[0]["data"]["n"]) == ("site:luigi", 1)


def test_every_2xx_is_a_delivery() -> None:
    assert {read_response(httpx.Response(s), 0.0).word for s in (200, 201, 202, 204, 299)} == {"delivered"}
