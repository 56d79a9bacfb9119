"""`quarterline simulate`: a simulated city, written down for replay or published over MQTT."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from api.terminal import complain, fail, say

if TYPE_CHECKING:
    from simulators.scenario import Scenario

DAY_S: Final = 86400.0


def register(app: typer.Typer) -> None:
    """Add this command to the program's."""
    app.command("simulate")(simulate)


def simulate(
    out: Annotated[
        Path | None, typer.Option(help="Folder for fleet.toml, messages.jsonl, events.jsonl, truth.jsonl.")
    ] = None,
    scenario: Annotated[
        str, typer.Option(help="Scenario by name, or a scenario file (TOML); --list names them.")
    ] = "clean",
    seed: Annotated[
        int | None,
        typer.Option(help="Which city; the scenario's where absent. Same seed, same bytes.", min=0),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Days to simulate; the scenario's where absent.", min=1)
    ] = None,
    interceptors: Annotated[
        int | None, typer.Option(help="Interceptors; the scenario's where absent.", min=1)
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of a broker: publish there as time goes by; --out keeps the rest."),
    ] = None,
    speed: Annotated[
        float, typer.Option(help="With --publish: simulated seconds a real second.", min=1.0)
    ] = 21600.0,
    head_start_s: Annotated[
        float, typer.Option(help="With --publish: real seconds before the first simulated one.", min=0.0)
    ] = 0.0,
    username: Annotated[str | None, typer.Option(help="With --publish: name for the broker.")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="With --publish: file whose first line is the password.")
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="Name the scenarios that come along.")] = False,
) -> None:
    """Simulate a city with the truth beside it: for replay, or over MQTT on an accelerated clock."""
    from simulators.scenariofile import load, shipped

    if names:
        say("\n".join(shipped()))
        return
    if out is None:
        fail("--out: missing; give a folder for the files", 2)
    chosen = load(scenario)
    chosen = replace(
        chosen,
        seed=chosen.seed if seed is None else seed,
        days=chosen.days if days is None else days,
        count=chosen.count if interceptors is None else interceptors,
    )
    if publish is None:
        _record(chosen, out)
        return
    raise typer.Exit(_publish(chosen, out, publish, speed, head_start_s, username, password_file))


def _record(scenario: Scenario, out: Path) -> None:
    from simulators.recorded import simulate as write

    with _bar(f"{scenario.count} interceptors, {scenario.days} days") as progress:
        files = write(scenario, out, progress)
    say(f"wrote {files.fleet}, {files.messages}, {files.events} and {files.truth}")


def _publish(
    scenario: Scenario,
    out: Path,
    broker: str,
    speed: float,
    head_start_s: float,
    username: str | None,
    password_file: Path | None,
) -> int:
    from simulators.city import City
    from simulators.clock import AcceleratedClock
    from simulators.publish import Live, first_line, publish

    host, port = _address(broker)
    city = City.of(scenario)
    out.mkdir(parents=True, exist_ok=True)
    (out / "fleet.toml").write_text(city.fleet_toml(), encoding="utf-8")
    clock = AcceleratedClock(scenario.start_s, time.time() + head_start_s, speed)
    live = Live(
        scenario,
        clock,
        scenario.days,
        host,
        port,
        username,
        first_line(password_file),
        truth=out / "truth.jsonl",
        events=out / "events.jsonl",
        crew=True,
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    complain("a service beside it needs this clock in its configuration:")
    complain(
        f"[clock]\nstart_s = {clock.start_sim_s!r}\nreal_start_s = {clock.start_real_s!r}\n"
        f"speed = {clock.speed!r}"
    )
    with _bar(f"publishing {scenario.days} days to {broker}") as progress:
        span_s = scenario.days * DAY_S
        status = publish(
            live, city, stop, complain, lambda now_s: progress((now_s - scenario.start_s) / span_s)
        )
    done = (city.now_s - scenario.start_s) / DAY_S
    say(f"published {done:.2f} of {scenario.days} days; fleet, events and truth in {out}")
    return status


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        fail(f"--publish: expected HOST:PORT such as 127.0.0.1:1883, got {text!r}", 2)
    return host.strip("[]"), int(port)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[float], None]]:
    """A bar on standard error where that is a terminal; takes the part done, 0 to 1."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with Progress(console=console) as shown:
        task = shown.add_task(what, total=1.0)
        yield lambda part: shown.update(task, completed=part)
