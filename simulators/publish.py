"""`python -m simulators.publish`: a simulated city speaks over MQTT on an accelerated clock."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

import msgspec
import numpy as np

from simulators.city import DEFAULT_START_S, City, Step
from simulators.clock import AcceleratedClock, ClockError
from simulators.control import ControlServer, Gate
from simulators.interceptor import fraction
from simulators.kitchen import SLOT_S
from simulators.network import Message
from simulators.people import Crew
from simulators.recorded import CREW_STREAM
from simulators.scenario import Scenario
from simulators.scenariofile import load
from simulators.truth import MONITORED, Line, iso, seconds
from simulators.wire import TELL_EVERY_S, Broker, Say

COALESCE_S: Final = 0.004  # real; messages due within it go out together
LAG_S: Final = 1.0  # real; told when the city is this far behind its clock


def say(text: str) -> None:
    """One line to standard output, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class LineFile:
    """Lines of truth, or events, into a file, one JSON object each; nowhere without a path."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[bytes] | None = None if path is None else path.open("wb")

    def write(self, lines: list[Line]) -> None:
        """Append lines."""
        if self._file is not None and lines:
            self._file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class Publisher:
    """Steps the city when its clock says so and sends each message when it is due.

    Where the machine cannot keep pace the messages go out late, with the times they carry unchanged, and the
    lag is told.
    """

    def __init__(
        self,
        gate: Gate,
        broker: Broker,
        clock: AcceleratedClock,
        truth: LineFile,
        stop: threading.Event,
        tell: Say,
        crew: Crew | None = None,
    ) -> None:
        self._gate, self._broker, self._clock = gate, broker, clock
        self._truth, self._stop, self._tell = truth, stop, tell
        self._crew = crew
        self._told = -TELL_EVERY_S

    def join(self) -> None:
        """Let the city live up to now without sending: the sensors come on line at this moment."""
        missed = 0
        while self._gate.live(lambda city: city.now_s) + SLOT_S <= self._clock() and not self._stop.is_set():
            self._step()
            missed += 1
        if missed:
            self._tell(f"joined {missed / 96:.2f} simulated days after the city's start")

    def run(self, until_s: float, progress: Callable[[float], None] = lambda _: None) -> None:
        """Go on until ``until_s`` [s since the epoch, simulated] or until told to stop.

        ``progress`` is told the simulated time [s since the epoch] before each step.
        """
        while not self._stop.is_set():
            now_s = self._gate.live(lambda city: city.now_s)
            progress(now_s)
            if now_s >= until_s or self._stop.wait(self._clock.real_delay(now_s)):
                return
            self._send(self._step().messages)

    def _step(self) -> Step:
        step = self._gate.live(self._live)
        self._gate.finished(step.done)
        self._truth.write(step.truth)
        return step

    def _live(self, city: City) -> Step:
        """One step; where a crew serves the city, it plans each of its days from the start."""
        if self._crew is None:
            return city.step()
        if (city.now_s - city.start_s) % 86400.0 == 0.0:
            self._crew.plan_day(city.now_s, fraction(city.tanks, city.layers())[:, MONITORED])
        step = city.step()
        self._crew.services_done(step.done)
        return step

    def _send(self, messages: list[Message]) -> None:
        for message in messages:
            delay = self._clock.real_delay(message.received_us / 1e6)
            if delay > 0.0 and self._stop.wait(max(delay, COALESCE_S)):
                return
            if not (self._broker.wait_up(self._stop) and self._broker.room(self._stop)):
                return
            self._broker.publish(message)
        if messages:
            self._tell_lag(messages[-1].received_us / 1e6)

    def _tell_lag(self, due_s: float) -> None:
        lag_s = (self._clock() - due_s) / self._clock.speed
        if lag_s > LAG_S and time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            behind = lag_s * self._clock.speed / 3600.0
            self._tell(f"lagging: {lag_s:.1f} s behind ({behind:.1f} simulated hours); times stay correct")


@dataclass(frozen=True, slots=True)
class Live:
    """A city to publish: what, on which clock, to which broker.

    ``days`` [day] may be infinite. ``truth`` and ``events`` are files to write, None: none. With ``crew`` the
    scenario's own people serve the interceptors; without, only who asks at the control port.
    """

    scenario: Scenario
    clock: AcceleratedClock
    days: float
    host: str
    port: int
    username: str | None = None
    password: str | None = None
    control_port: int = 0
    truth: Path | None = None
    events: Path | None = None
    crew: bool = False
    from_start: bool = True


def publish(
    live: Live,
    city: City,
    stop: threading.Event,
    tell: Say = say,
    progress: Callable[[float], None] = lambda _: None,
) -> int:
    """Publish until the end or until ``stop``; exit status 0 ended, 1 the control port cannot be had."""
    seed = live.scenario.seed
    gate = Gate(city, np.random.default_rng((seed, 8)))
    try:
        control = ControlServer(gate, live.control_port)
    except OSError as error:
        sys.stderr.write(f"--control-port {live.control_port}: {error.strerror}; choose another\n")
        return 1
    crew = None
    if live.crew:
        crew = Crew(city, live.scenario.habits, np.random.default_rng((seed, CREW_STREAM)))
    broker = Broker(live.host, live.port, live.username, live.password, tell)
    truth, events = LineFile(live.truth), LineFile(live.events)
    publisher = Publisher(gate, broker, live.clock, truth, stop, tell, crew)
    control.start()
    broker.start()
    try:
        tell(f"ready: city {seed}, {len(city.plan.interceptors)} interceptors, from {iso(city.start_s)}")
        tell(f"control port http://127.0.0.1:{control.port}")
        if broker.wait_up(stop):
            if not live.from_start:
                publisher.join()
            publisher.run(city.start_s + live.days * 86400.0, progress)
    finally:
        broker.stop()
        control.stop()
        truth.close()
        if crew is not None:
            events.write(crew.events_until(city.now_s))
        events.close()
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulators.publish", description=__doc__)
    parser.add_argument("--scenario", help="by name, or a scenario file; default: the usual city")
    parser.add_argument("--seed", type=int, help="default: the scenario's")
    parser.add_argument("--count", type=int, help="interceptors; default: the scenario's")
    parser.add_argument("--clock", help="start_sim,start_real,speed; default: from now on")
    parser.add_argument("--start", help="first instant of the city, ISO 8601; default: the clock's start")
    parser.add_argument("--speed", type=float, default=21600.0, help="without --clock: simulated s a real s")
    parser.add_argument("--days", type=float, default=float("inf"), help="end after so many simulated days")
    parser.add_argument("--mqtt-host", default="127.0.0.1")
    parser.add_argument("--mqtt-port", type=int, default=1883)
    parser.add_argument("--username")
    parser.add_argument("--password-file", type=Path, help="its first line is the password")
    parser.add_argument("--control-port", type=int, default=0, help="0: any free one")
    parser.add_argument("--truth", type=Path, help="write the truth to this file")
    parser.add_argument(
        "--from-start", action="store_true", help="send what was due before this process began"
    )
    return parser


def _scenario(options: argparse.Namespace) -> Scenario:
    chosen = Scenario() if options.scenario is None else load(options.scenario)
    if options.seed is not None:
        chosen = replace(chosen, seed=options.seed)
    return chosen if options.count is None else replace(chosen, count=options.count)


def _timing(options: argparse.Namespace) -> tuple[AcceleratedClock, float]:
    text = options.clock
    start_s = None if options.start is None else seconds(options.start)
    if text is None:
        first = DEFAULT_START_S if start_s is None else start_s
        return AcceleratedClock.starting_now(first, options.speed), first
    clock = AcceleratedClock.from_text(text)
    return clock, clock.start_sim_s if start_s is None else start_s


def first_line(path: Path | None) -> str | None:
    """A password kept in a file: its first line; None without a file."""
    return None if path is None else path.read_text(encoding="utf-8").partition("\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; exit status 0 ended, 1 cannot work, 2 wrong use."""
    options = _arguments().parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        clock, start_s = _timing(options)
        live = Live(
            scenario=replace(_scenario(options), start_s=start_s),
            clock=clock,
            days=options.days,
            host=options.mqtt_host,
            port=options.mqtt_port,
            username=options.username,
            password=first_line(options.password_file),
            control_port=options.control_port,
            truth=options.truth,
            from_start=options.from_start,
        )
        city = City.of(live.scenario)
    except (ClockError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return publish(live, city, stop)


if __name__ == "__main__":
    raise SystemExit(main())
