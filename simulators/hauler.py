"""`python -m simulators.hauler`: pumping companies that take signed offers, drive, pump and send papers.

One process serves every hauler under ``/webhooks/<hauler id>``, each with its own secret and key. A truck
pumps in the simulated city, through its control port; only what it measured there goes onto the manifest. One
hauler lies: its manifests come without a truck.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from simulators.clock import AcceleratedClock, ClockError
from simulators.plan import LIAR
from simulators.publish import say
from simulators.truth import Line, iso

MAX_BODY: Final = 64 * 1024
TRUCKS: Final = 32
ATTEMPTS: Final = 8
FIRST_PAUSE_S: Final = 0.1  # real; doubles after each failure
LONGEST_PAUSE_S: Final = 5.0
HOUR_S: Final = 3600.0
URGENT_H: Final = (2.0, 9.0)  # simulated hours from an urgent offer to the truck
ROUTINE_H: Final = (12.0, 40.0)
PAPERWORK_H: Final = (0.5, 2.5)
SITE_WAIT_S: Final = 5.0  # real; one long poll of the control port


class Hauler(msgspec.Struct, frozen=True):
    """One company as ``--haulers`` has it: its webhook secret, its key to the API, and whether it lies."""

    id: str
    secret: str
    key: str
    name: str = ""
    lies: bool | None = None

    @property
    def honest(self) -> bool:
        """Whether it pumps before it writes."""
        return not (self.id == LIAR if self.lies is None else self.lies)


class RefusedError(Exception):
    """The other side answered, and the answer is no."""


class StoppedError(Exception):
    """The process is ending."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What an offer says that a dispatcher needs."""

    order: str
    interceptor: str
    urgent: bool


@dataclass(frozen=True, slots=True)
class CalledOff:
    """An order that this hauler shall not serve any more."""

    order: str


def read_event(event: Any) -> Offer | CalledOff | None:
    """What a webhook's body {type, timestamp, data} asks of a dispatcher; None where it asks nothing.

    Raises
    ------
    ValueError
        The body, or the order it speaks of, is not whole.
    """
    if not isinstance(event, dict) or not isinstance(event.get("data"), dict):
        raise ValueError("body: must have type, timestamp and data")
    kind, data = event.get("type"), event["data"]
    if kind not in {"order.offered", "order.withdrawn", "order.cancelled"}:
        return None
    order, interceptor = data.get("order"), data.get("interceptor")
    if not isinstance(order, str):
        raise ValueError(f"data.order: {kind} must name its order")
    if kind != "order.offered":
        return CalledOff(order)
    if not isinstance(interceptor, str):
        raise ValueError("data.interceptor: an offer must name its interceptor")
    return Offer(order, interceptor, data.get("due") == "immediately")


class Wire:
    """HTTP with bounded, growing pauses between attempts; pauses end when the process does."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._client = httpx.Client(timeout=httpx.Timeout(10.0, read=SITE_WAIT_S + 20.0))

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def send(self, method: str, url: str, body: Line | None = None, **headers: str) -> Line:
        """Ask until answered, at most 8 times; the JSON answer.

        Raises
        ------
        RefusedError
            The answer is 4xx, or there is none after the last attempt.
        StoppedError
            The process is ending.
        """
        trouble = ""
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for attempt in range(ATTEMPTS):
            if attempt:
                self.pause(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
            try:
                answer = self._client.request(method, url, content=content, headers=named)
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code < 300:
                told: Line = msgspec.json.decode(answer.content, type=dict) if answer.content else {}
                return told
            trouble = f"{answer.status_code} {answer.text[:300]}"
            if answer.status_code < 500 and answer.status_code != 429:
                break
        raise RefusedError(f"{method} {url}: {trouble}")

    def pause(self, real_s: float) -> None:
        """Wait ``real_s`` [s, real]; raises :class:`StoppedError` when the process ends meanwhile."""
        if self._stop.wait(real_s):
            raise StoppedError


@dataclass(slots=True)
class Company:
    """The dispatcher of every hauler: answers offers, sends trucks, files manifests."""

    api: str
    city: str
    clock: AcceleratedClock
    wire: Wire
    dice: random.Random
    tell: Callable[[str], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: deque[str] = field(default_factory=lambda: deque(maxlen=10_000))
    _busy: set[str] = field(default_factory=set)
    _called_off: set[str] = field(default_factory=set)

    def take(self, message_id: str, offer: Offer) -> bool:
        """Whether this offer starts work: False for a delivery seen before or an order already in hand."""
        with self._lock:
            if message_id in self._seen or offer.order in self._busy:
                return False
            self._seen.append(message_id)
            self._busy.add(offer.order)
            self._called_off.discard(offer.order)
            return True

    def call_off(self, order: str) -> None:
        """Send no truck for this order any more."""
        with self._lock:
            self._called_off.add(order)

    def serve(self, hauler: Hauler, offer: Offer) -> None:
        """One order from answer to manifest; every trouble is told, none is raised."""
        try:
            self._serve(hauler, offer)
        except RefusedError as refusal:
            self.tell(f"{hauler.id}: order {offer.order}: {refusal}")
        except StoppedError:
            return
        finally:
            with self._lock:
                self._busy.discard(offer.order)

    def _is_called_off(self, order: str) -> bool:
        with self._lock:
            return order in self._called_off

    def _hours(self, bounds: tuple[float, float]) -> float:
        with self._lock:
            return self.dice.uniform(*bounds)

    def _serve(self, hauler: Hauler, offer: Offer) -> None:
        scheduled_s = self.clock() + HOUR_S * self._hours(URGENT_H if offer.urgent else ROUTINE_H)
        self._post(
            hauler,
            f"/orders/{offer.order}/answers",
            {"answer": "accepted", "scheduled_at": iso(scheduled_s)},
            f"{offer.order}-accepted-{int(scheduled_s)}",
        )
        self.tell(f"{hauler.id}: order {offer.order} accepted for {iso(scheduled_s)}")
        self.wire.pause(self.clock.real_delay(scheduled_s))
        if self._is_called_off(offer.order):
            self.tell(f"{hauler.id}: order {offer.order} called off before the truck left")
            return
        paper = self._pump(offer, scheduled_s) if hauler.honest else self._invent(scheduled_s)
        written_s = self.clock() + HOUR_S * self._hours(PAPERWORK_H)
        self.wire.pause(self.clock.real_delay(written_s))
        number = f"{hauler.id.upper()}-{offer.order}"
        self._post(hauler, "/manifests", self._manifest(hauler, offer, number, paper), number)
        self.tell(f"{hauler.id}: manifest {number} filed" + ("" if hauler.honest else " without a truck"))

    def _pump(self, offer: Offer, scheduled_s: float) -> Line:
        wish: Line = {"interceptor": offer.interceptor, "at": iso(scheduled_s), "complete": True}
        job = self.wire.send("POST", f"{self.city}/pump-outs", wish)
        while job["state"] != "done":
            job = self.wire.send("GET", f"{self.city}/pump-outs/{job['id']}?wait_s={SITE_WAIT_S:g}")
        return {name: job[name] for name in ("complete", "volume_l", "fog_mm", "solids_mm")} | {
            "pumped_at": job["start"]
        }

    def _invent(self, scheduled_s: float) -> Line:
        with self._lock:
            fog, solids = self.dice.uniform(80.0, 160.0), self.dice.uniform(90.0, 170.0)
        return {
            "complete": True,
            "volume_l": 3785.0,
            "fog_mm": round(fog),
            "solids_mm": round(solids),
            "pumped_at": iso(scheduled_s),
        }

    def _manifest(self, hauler: Hauler, offer: Offer, number: str, paper: Line) -> Line:
        driver = f"Driver {sum(hauler.id.encode()) % 9 + 1}"
        return paper | {
            "interceptor": offer.interceptor,
            "number": number,
            "hauler": hauler.id,
            "fields": {
                "company": hauler.name or hauler.id,
                "operator": driver,
                "signature": f"signed by {driver}",
                "disposal_facility": "Carson Grease Receiving Station",
                "repairs": "none required",
            },
        }

    def _post(self, hauler: Hauler, path: str, body: Line, once: str) -> None:
        self.wire.send(
            "POST",
            f"{self.api}/api/v1{path}",
            body,
            Authorization=f"Bearer {hauler.key}",
            Idempotency_Key=once,
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    company: Company
    haulers: dict[str, Hauler]
    trucks: ThreadPoolExecutor

    def do_POST(self) -> None:
        """Take one webhook: 2xx once it is verified and understood, before any work is done."""
        hauler = self.haulers.get(self.path.removeprefix("/webhooks/"))
        length = self.headers.get("Content-Length", "")
        if hauler is None or not self.path.startswith("/webhooks/"):
            return self._answer(404, "no hauler is here")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return self._answer(413, f"Content-Length: must be given, at most {MAX_BODY}")
        body = self.rfile.read(int(length))
        try:
            event = Webhook(hauler.secret).verify(body, dict(self.headers.items()))
        except (WebhookVerificationError, ValueError) as error:
            return self._answer(401, f"signature: {error}")
        try:
            asked = read_event(event)
        except ValueError as error:
            return self._answer(400, str(error))
        if isinstance(asked, CalledOff):
            self.company.call_off(asked.order)
        elif asked is not None and self.company.take(self.headers["webhook-id"], asked):
            try:
                self.trucks.submit(self.company.serve, hauler, asked)
            except RuntimeError:  # the pool is closed: the process is ending
                return self._answer(503, "ending")
        return self._answer(204, "")

    def _answer(self, status: int, detail: str) -> None:
        text = msgspec.json.encode({"status": status, "detail": detail}) if detail else b""
        if detail:
            self.close_connection = True  # the body may not have been read
        self.send_response(status)
        if text:
            self.send_header("Content-Type", "application/problem+json")
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: the company tells what matters."""


class HaulerServer:
    """The haulers' webhooks on loopback, and their trucks."""

    def __init__(
        self, haulers: Sequence[Hauler], company: Company, port: int, host: str = "127.0.0.1"
    ) -> None:
        self._trucks = ThreadPoolExecutor(TRUCKS, thread_name_prefix="truck")
        known = {hauler.id: hauler for hauler in haulers}
        handler = type("Handler", (_Handler,), {"company": company, "haulers": known, "trucks": self._trucks})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="webhooks")
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more and let the trucks end; the stop event must be set before."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._trucks.shutdown(wait=True, cancel_futures=True)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulators.hauler", description=__doc__)
    parser.add_argument(
        "--haulers", required=True, help="JSON list of {id, secret, key, name, lies}; - for standard input"
    )
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--clock", help="start_sim,start_real,speed; default: real time")
    parser.add_argument("--api", required=True, help="the service, such as http://127.0.0.1:8080")
    parser.add_argument("--city", required=True, help="the city's control port")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _read_haulers(source: str) -> list[Hauler]:
    text = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    return msgspec.json.decode(text, type=list[Hauler])


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; exit status 0 ended, 1 cannot work, 2 wrong use."""
    options = _arguments().parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    text = options.clock
    try:
        haulers = _read_haulers(options.haulers)
        clock = AcceleratedClock.real_time() if text is None else AcceleratedClock.from_text(text)
    except (OSError, msgspec.DecodeError, ClockError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    wire = Wire(stop)
    company = Company(
        options.api.rstrip("/"), options.city.rstrip("/"), clock, wire, random.Random(options.seed), say
    )
    try:
        server = HaulerServer(haulers, company, options.port)
    except OSError as error:
        sys.stderr.write(f"--port {options.port}: {error.strerror}; choose another\n")
        return 1
    server.start()
    say(f"ready: {len(haulers)} haulers at http://127.0.0.1:{server.port}/webhooks/<id>")
    stop.wait()
    server.stop()
    wire.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
