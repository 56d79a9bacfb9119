"""`quarterline demo`: the whole loop on one machine, every part a process of its own.

One accelerated clock runs in service, city and haulers; keys, sign-ins and signatures go by real time.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from api.demo_events import in_words, legend
from api.demo_lan import ANY, Lan, lan_address
from api.security import new_key, new_sign_in
from api.serve import load_rules
from api.settings import Settings, load_settings
from api.work import WorkError, put_fleet, read_fleet
from ingest.broker import EmbeddedBroker
from simulators.city import City
from simulators.clock import AcceleratedClock
from store import open_store
from store.ports import Store
from store.records import Hauler

HOST: Final = "127.0.0.1"
START_S: Final = 1_788_249_600.0  # 2026-09-01T08:00:00Z: the simulated city's first instant
_DAY_S: Final = 86_400.0
_HEAD_START_S: Final = 4.0
_START_LIMIT_S: Final = 60.0
_STOP_LIMIT_S: Final = 15.0


class DemoError(WorkError):
    """The demo cannot start, or a part of it has ended; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What can be chosen."""

    seed: int = 1
    port: int = 8080
    mqtt_port: int = 18830
    day_s: float = 5.0
    stop_after_s: float | None = None
    until_closed: bool = False
    lan: bool = False
    lan_address: str | None = None


class Demo:
    """Starts every part, tells what happens, and ends every part again."""

    def __init__(self, settings: DemoSettings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._children: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._closed = False
        self._lan = Lan(settings.lan_address or lan_address()) if settings.lan else None

    def run(self) -> int:
        """Run until Ctrl-C, a time limit, or (on request) the first order closed; the exit status."""
        for name, port, how in self._ports():
            _must_be_free(name, port, how)
        with tempfile.TemporaryDirectory(prefix="quarterline-demo-") as folder, _signals_as_interrupt():
            try:
                self._start(Path(folder))
                self._watch()
            except KeyboardInterrupt:
                self._say("Stopping …")
            finally:
                self._stop()
        if self._settings.until_closed and not self._closed:
            self._say("No order was closed in the given time.")
            return 1
        return 0

    def _ports(self) -> Iterator[tuple[str, int, str]]:
        chosen = self._settings
        yield "dashboard", chosen.port, '--port, as in: make demo ARGS="--port 8100"'
        yield "embedded broker", chosen.mqtt_port, '--mqtt-port, as in: make demo ARGS="--mqtt-port 18900"'

    # ---- start ---------------------------------------------------------------------------------------

    def _start(self, folder: Path) -> None:
        chosen = self._settings
        lan = self._lan
        if lan is None:
            self._broker = EmbeddedBroker(folder / "broker", chosen.mqtt_port)
        else:
            self._broker = EmbeddedBroker(folder / "broker", chosen.mqtt_port, host=ANY, users=lan.users)
        self._broker.start()
        # the first simulated instant comes when every part is up
        clock = AcceleratedClock(START_S, time.time() + _HEAD_START_S, _DAY_S / chosen.day_s)
        control_port, hauler_port = _free_port(), _free_port()
        config = self._write_config(folder, clock)
        settings = load_settings(config)
        fleet_file = folder / "fleet.toml"
        more = "" if lan is None else lan.fleet
        fleet_file.write_text(City(chosen.seed, start_s=START_S).fleet_toml() + more, encoding="utf-8")
        store = open_store(settings.data_dir)
        try:
            haulers, self._reader, link = self._prepare(store, settings, fleet_file, hauler_port)
        finally:
            store.close()
        self._spawn("service", ["-m", "api", "serve", "--config", str(config)], folder)
        self._wait_ready()
        self._spawn(
            "city",
            [
                "-m", "simulators.publish",
                "--seed", str(chosen.seed), "--clock", clock.as_text(),
                "--mqtt-port", str(chosen.mqtt_port), "--control-port", str(control_port),
                *([] if lan is None else lan.city_words(folder)),
            ],
            folder,
        )  # fmt: skip
        hauler_file = folder / "haulers.json"
        hauler_file.write_bytes(msgspec.json.encode(haulers))
        hauler_file.chmod(0o600)
        self._spawn(
            "haulers",
            [
                "-m", "simulators.hauler",
                "--haulers", str(hauler_file), "--port", str(hauler_port), "--clock", clock.as_text(),
                "--api", self._url, "--city", f"http://{HOST}:{control_port}",
            ],
            folder,
        )  # fmt: skip
        self._say(f"Quarterline demo: 40 simulated interceptors, one simulated day in {chosen.day_s:g} s.")
        self._say(f"Dashboard, signed in by this one-time link:  {link}")
        if lan is not None:
            lan.tell(settings, config, self._say)
        self._say(f"{legend()} Ctrl-C ends everything.")

    @property
    def _url(self) -> str:
        return f"http://{HOST}:{self._settings.port}"

    def _write_config(self, folder: Path, clock: AcceleratedClock) -> Path:
        path = folder / "quarterline.toml"
        path.write_text(
            f"""data_dir = "data"
[http]
port = {self._settings.port}
[mqtt]
port = {self._settings.mqtt_port}
{"" if self._lan is None else self._lan.service_lines(folder)}[webhooks]
allow_private = true
[auth]
sign_in_minutes = 1440
[policy]
# a simulated hour passes in a fraction of a second: give a real answer the time to arrive
offer_timeout_s = 172800
urgent_offer_timeout_s = 86400
silent_min_s = 43200
verify_min_s = 43200
[clock]
start_s = {clock.start_sim_s!r}
real_start_s = {clock.start_real_s!r}
speed = {clock.speed!r}
""",
            encoding="utf-8",
        )
        return path

    def _prepare(
        self, store: Store, settings: Settings, fleet_file: Path, hauler_port: int
    ) -> tuple[list[dict[str, Any]], str, str]:
        """Fill the registry; make the haulers' keys and secrets, a reader's key and the sign-in link."""
        now_us = time.time_ns() // 1000
        fleet = read_fleet(fleet_file, load_rules(settings), store)
        haulers: list[Hauler] = []
        told: list[dict[str, Any]] = []
        with store.transaction():
            for hauler in fleet.haulers:
                secret = f"whsec_{b64encode(secrets.token_bytes(32)).decode()}"
                url = f"http://{HOST}:{hauler_port}/webhooks/{hauler.id}"
                haulers.append(replace(hauler, webhook=url, secret=secret))
                key, token = new_key(hauler.name, "hauler", subject=hauler.id, now_us=now_us)
                store.ledger.put_key(key)
                told.append({"id": hauler.id, "name": hauler.name, "secret": secret, "key": token})
            reader, reader_token = new_key("demo", "read-only", now_us=now_us)
            store.ledger.put_key(reader)
            link, link_token = new_sign_in(
                "you", "manager", now_us=now_us, minutes=settings.auth.sign_in_minutes
            )
            store.ledger.put_sign_in(link)
            put_fleet(store, replace(fleet, haulers=tuple(haulers)))
            if self._lan is not None:
                self._lan.register(store)
        return told, reader_token, f"{self._url}/sign-in/{link_token}"

    def _spawn(self, name: str, arguments: list[str], folder: Path) -> None:
        log = (folder / f"{name}.log").open("wb")
        with log:
            child = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,  # Ctrl-C reaches this process only; it ends the others in order
            )
        self._children.append((name, child))
        self._logs = folder

    def _wait_ready(self) -> None:
        limit = time.monotonic() + _START_LIMIT_S
        last = "no answer yet"
        pause = 0.05
        while time.monotonic() < limit:
            self._all_alive()
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.get(f"{self._url}/readyz", timeout=2.0)
                if answer.status_code == 200:
                    return
                last = answer.text
            time.sleep(pause)
        raise DemoError(f"the service is not ready after {_START_LIMIT_S:g} s: {last}")

    def _all_alive(self) -> None:
        for name, child in self._children:
            status = child.poll()
            if status is not None:
                raise DemoError(f"the {name} process ended with status {status}:\n{self._tail(name)}")

    def _tail(self, name: str) -> str:
        lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-30:])

    # ---- watch ---------------------------------------------------------------------------------------

    def _watch(self) -> None:
        limit = self._settings.stop_after_s
        deadline = None if limit is None else time.monotonic() + limit
        after = 0
        while deadline is None or time.monotonic() < deadline:
            self._all_alive()
            try:
                for seq, line in self._lines(after, deadline):
                    after = seq
                    text = in_words(line)
                    if text is not None:
                        self._say(text)
                    if _closed_by_evidence(line):
                        self._closed = True
                        if self._settings.until_closed:
                            return
                    if deadline is not None and time.monotonic() >= deadline:
                        return
            except httpx.HTTPError:
                self._all_alive()

    def _lines(self, after: int, deadline: float | None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The journal as it is written, by the same event stream the dashboard uses."""
        headers = {"Authorization": f"Bearer {self._reader}", "Last-Event-ID": str(after)}
        timeout = httpx.Timeout(5.0, read=2.0)
        with httpx.stream("GET", f"{self._url}/api/v1/events", headers=headers, timeout=timeout) as stream:
            stream.raise_for_status()
            seq = after
            for row in stream.iter_lines():
                if row.startswith("id:"):
                    seq = int(row[3:])
                elif row.startswith("data:"):
                    yield seq, msgspec.json.decode(row[5:])
                if deadline is not None and time.monotonic() >= deadline:
                    return

    # ---- stop ----------------------------------------------------------------------------------------

    def _stop(self) -> None:
        for _, child in reversed(self._children):
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(_STOP_LIMIT_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        self._children.clear()
        broker = getattr(self, "_broker", None)
        if broker is not None:
            broker.stop()


def _closed_by_evidence(line: dict[str, Any]) -> bool:
    return line.get("type") == "order" and line.get("state") == "closed" and line.get("pump_out") is not None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _must_be_free(name: str, port: int, how: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DemoError(
                f"port {port} for the {name} cannot be used ({error.strerror}); choose another with {how}"
            ) from None


@contextlib.contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does; so does SIGINT where a shell's background job began by ignoring it."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
