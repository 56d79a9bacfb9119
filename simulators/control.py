"""The city's control port: a truck asks for a pump-out here, and waits until it is done.

Loopback only. ``POST /pump-outs`` {interceptor, at, complete}; ``GET /pump-outs/<id>?wait_s=5``;
``GET /pump-outs``; ``GET /truth``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np

from simulators.city import City, UnknownInterceptorError
from simulators.interceptor import fraction
from simulators.people import Dipped, dip
from simulators.trucks import Job
from simulators.truth import Line, iso, seconds

T = TypeVar("T")
MAX_BODY: Final = 64 * 1024
LONGEST_WAIT_S: Final = 30.0


class RequestError(ValueError):
    """A request that cannot be done; the text names the field and the fix."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Gate:
    """One lock around the city: the publisher steps it, trucks ask it."""

    def __init__(self, city: City, rng: np.random.Generator) -> None:
        self._city = city
        self._rng = rng
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._dipped: dict[str, Dipped] = {}

    def live(self, act: Callable[[City], T]) -> T:
        """Run ``act`` on the city with nobody else at it."""
        with self._changed:
            return act(self._city)

    def finished(self, done: list[Job]) -> None:
        """Let those who wait for these jobs know."""
        if not done:
            return
        with self._changed:
            for job in done:
                self._dipped[job.id] = dip(job, self._rng)
            self._changed.notify_all()

    def ask(self, body: Any) -> Line:
        """Plan a pump-out as a truck asked for it.

        Raises
        ------
        RequestError
            A field is missing or wrong, or the interceptor unknown.
        """
        interceptor, at_s, complete = _wish(body)
        with self._changed:
            try:
                job = self._city.pump_out(interceptor, at_s, complete=complete)
            except UnknownInterceptorError as error:
                raise RequestError(str(error), 404) from None
            self._jobs[job.id] = job
            return self._tell(job)

    def look(self, identity: str, wait_s: float) -> Line:
        """How far a job is; waits up to ``wait_s`` [s, real] for it to be done.

        Raises
        ------
        RequestError
            There is no such job.
        """
        limit = time.monotonic() + min(max(wait_s, 0.0), LONGEST_WAIT_S)
        with self._changed:
            job = self._jobs.get(identity)
            if job is None:
                raise RequestError(f"pump-out: {identity!r} is not known", 404)
            while job.id not in self._dipped and (left := limit - time.monotonic()) > 0.0:
                self._changed.wait(left)
            return self._tell(job)

    def all_jobs(self) -> list[Line]:
        """Every job asked for, in order."""
        with self._changed:
            return [self._tell(job) for job in self._jobs.values()]

    def truth(self) -> Line:
        """The latent layers of compartment 1 now."""
        with self._changed:
            layers = self._city.layers()
            filled = fraction(self._city.tanks, layers)[:, 0].tolist()
            return {
                "at": iso(self._city.now_s),
                "interceptors": [
                    {
                        "interceptor": item.id,
                        "fog_mm": round(1e3 * float(layers.fog[row, 0]), 2),
                        "solids_mm": round(1e3 * float(layers.solids[row, 0]), 2),
                        "fraction": round(filled[row], 5),
                    }
                    for row, item in enumerate(self._city.plan.interceptors)
                ],
            }

    def _tell(self, job: Job) -> Line:
        dipped = self._dipped.get(job.id)
        state = "done" if dipped else "waiting" if job.start_s is None else "pumping"
        return {
            "id": job.id,
            "interceptor": self._city.plan.interceptors[job.interceptor].id,
            "state": state,
            "at": iso(job.at_s),
            "start": None if job.start_s is None else iso(job.start_s),
            "end": None if job.end_s is None else iso(job.end_s),
            "complete": job.complete,
            "volume_l": dipped.volume_l if dipped else None,
            "fog_mm": dipped.fog_mm if dipped else None,
            "solids_mm": dipped.solids_mm if dipped else None,
        }


def _wish(body: Any) -> tuple[str, float, bool]:
    if not isinstance(body, dict):
        raise RequestError("body: must be a JSON object with interceptor, at and complete")
    interceptor, at, complete = body.get("interceptor"), body.get("at"), body.get("complete", True)
    if not isinstance(interceptor, str):
        raise RequestError("interceptor: must be the id of an interceptor")
    if not isinstance(complete, bool):
        raise RequestError("complete: must be true or false")
    try:
        return interceptor, seconds(str(at)), complete
    except ValueError:
        raise RequestError(f"at: must be an ISO 8601 time with an offset, is {at!r}") from None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    gate: Gate

    def do_GET(self) -> None:
        """Answer what is asked about jobs and truth."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take a wish for a pump-out."""
        self._answer(self._post)

    def _get(self) -> tuple[int, Any]:
        parts = urlsplit(self.path)
        if parts.path == "/truth":
            return 200, self.gate.truth()
        if parts.path == "/pump-outs":
            return 200, self.gate.all_jobs()
        if parts.path.startswith("/pump-outs/"):
            wait = parse_qs(parts.query).get("wait_s", ["0"])[-1]
            try:
                wait_s = float(wait)
            except ValueError:
                raise RequestError(f"wait_s: must be a number of seconds, is {wait!r}") from None
            return 200, self.gate.look(parts.path.removeprefix("/pump-outs/"), wait_s)
        raise RequestError(f"path: {parts.path!r} is not here", 404)

    def _post(self) -> tuple[int, Any]:
        if urlsplit(self.path).path != "/pump-outs":
            raise RequestError(f"path: {self.path!r} takes no POST", 404)
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise RequestError(f"Content-Length: must be given, at most {MAX_BODY}", 413)
        try:
            body = msgspec.json.decode(self.rfile.read(int(length)))
        except msgspec.DecodeError as error:
            raise RequestError(f"body: not JSON: {error}") from None
        return 202, self.gate.ask(body)

    def _answer(self, work: Callable[[], tuple[int, Any]]) -> None:
        kind = "application/json"
        try:
            status, body = work()
        except RequestError as error:
            kind, status = "application/problem+json", error.status
            body = {"title": "request cannot be done", "status": status, "detail": str(error)}
            self.close_connection = True
        text = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: the city's own output is the publisher's."""


class ControlServer:
    """The control port on loopback, served from threads of its own."""

    def __init__(self, gate: Gate, port: int, host: str = "127.0.0.1") -> None:
        handler = type("Handler", (_Handler,), {"gate": gate})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="control")
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more; returns when the port is closed."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
