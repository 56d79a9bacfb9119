"""Cities, and the stand-in for the service's API, that the simulators' tests share."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from simulators.city import City, Step
from simulators.interceptor import Tanks
from simulators.kitchen import Inflow


@pytest.fixture(scope="session")
def small_city() -> Callable[..., City]:
    """A new city of six interceptors: ``small_city(seed=1, count=6, …)``."""

    def build(seed: int = 1, count: int = 6, **more: Any) -> City:
        return City(seed, count, **more)

    return build


@pytest.fixture(scope="session")
def lived_fortnight() -> tuple[City, list[Step]]:
    """A city of 40 that has lived 14 days, with a complete and a partial pump-out on the second day."""
    city = City(5)
    first, second = city.plan.interceptors[0].id, city.plan.interceptors[1].id
    city.pump_out(first, city.start_s + 31 * 3600.0, complete=True)
    city.pump_out(second, city.start_s + 32 * 3600.0, complete=False)
    return city, [city.step() for _ in range(14 * 96)]


@pytest.fixture
def one_tank() -> Tanks:
    """A 1,000-gallon interceptor, 1.22 m deep, its first compartment six tenths of the surface."""
    area = 3.785 / 1.22
    return Tanks(np.array([[0.6 * area, 0.4 * area]]), np.array([1.22]), np.array([1.22]))


@pytest.fixture
def steady_inflow() -> Callable[..., Inflow]:
    """One quarter-hour's inflow of one interceptor, the same every time."""

    def build(
        volume_m3: float = 0.08, grease_m3: float = 2e-5, solids_kg: float = 0.012, mix_c: float = 38.0
    ) -> Inflow:
        one = np.ones(1)
        return Inflow(
            volume_m3 * one, grease_m3 * one, solids_kg * one, mix_c * one,
            np.nan * one, 0 * one, 0 * one, np.zeros(1, dtype=bool),
        )  # fmt: skip

    return build


@dataclass
class StandInApi:
    """What takes answers and manifests where the service would: it keeps them, and may fail first."""

    url: str = ""
    posts: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, path_part: str, count: int = 1, limit_s: float = 60.0) -> list[dict[str, Any]]:
        """Bodies posted to paths holding ``path_part``, once there are ``count``."""

        def found() -> list[dict[str, Any]]:
            return [body for path, _, body in self.posts if path_part in path]

        with self.changed:
            assert self.changed.wait_for(lambda: len(found()) >= count, limit_s), self.posts
            return found()


@pytest.fixture
def api() -> Iterator[StandInApi]:
    stand_in = StandInApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with stand_in.changed:
                status = stand_in.failures.pop(0) if stand_in.failures else 201
                if status < 300:
                    stand_in.posts.append((self.path, self.headers["Authorization"], body))
                stand_in.changed.notify_all()
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    stand_in.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield stand_in
    server.shutdown()
    server.server_close()
    thread.join()
