"""Parts that several rooms' tests share: what is on this machine, free ports, a real Mosquitto.

A test that needs a part of the machine says so by a marker (`mosquitto`, `browser`) or by using the part's
fixture. Where the part is missing the test is skipped and the summary says what to install; with
TESTS_NO_SKIPS=1, as in CI, any skip fails the run.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test may depend on how busy the machine is: neither the time of one example nor that of drawing it.
settings.register_profile(
    "quarterline", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quarterline")

# Where Debian and Homebrew put daemons, beside the search path of an ordinary user.
DAEMONS = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"]
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), *DAEMONS])
OURS = ("analysis", "store", "ingest", "alerts", "simulators", "api")
NO_SKIPS = os.environ.get("TESTS_NO_SKIPS", "") not in ("", "0")


@dataclass(frozen=True)
class Part:
    """Something that tests need and that no Python package brings."""

    name: str
    commands: tuple[str, ...]
    debian: str
    fixtures: tuple[str, ...]

    def path(self) -> str | None:
        """Path of the first of the part's commands that is here, or None."""
        found = (shutil.which(command, path=SEARCH_PATH) for command in self.commands)
        return next((path for path in found if path), None)

    @property
    def remedy(self) -> str:
        return f"{self.name} is missing: apt-get install {self.debian}"


PARTS = {
    "mosquitto": Part("Mosquitto", ("mosquitto",), "mosquitto", ("mosquitto_broker",)),
    "mosquitto_pub": Part("mosquitto_pub", ("mosquitto_pub",), "mosquitto-clients", ("mosquitto_pub_path",)),
    "rabbitmq": Part(  # the program below Debian's wrapper, which would change user and folder
        "RabbitMQ", ("/usr/lib/rabbitmq/bin/rabbitmq-server",), "rabbitmq-server", ("rabbitmq_broker",)
    ),
    "faketime": Part("libfaketime", ("faketime",), "faketime", ("faketime_library",)),
    "browser": Part(
        "Chromium", ("chromium", "chromium-browser", "google-chrome"), "chromium", ("chromium_path",)
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Using a part's fixture is needing the part."""
    for item in items:
        for marker, part in PARTS.items():
            if set(part.fixtures) & set(getattr(item, "fixturenames", ())):
                item.add_marker(marker)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, part in PARTS.items():
        if item.get_closest_marker(marker) and part.path() is None:
            if NO_SKIPS:
                pytest.fail(part.remedy, pytrace=False)
            pytest.skip(part.remedy)


def pytest_sessionstart() -> None:
    """Keep a developer's own configuration out; in a run against the wheel, refuse to test anything else."""
    for name in [name for name in os.environ if name.upper().startswith("QUARTERLINE_")]:
        del os.environ[name]
    if os.environ.get("TESTS_FROM_WHEEL"):
        for name in OURS:
            where = importlib.import_module(name).__file__ or ""
            if "site-packages" not in Path(where).parts:
                pytest.exit(f"{name} is loaded from {where}, not from the installed wheel", returncode=1)


def _skips(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter else {}
    return [f"{report.nodeid}: {report.longrepr}" for report in stats.get("skipped", [])]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    on_worker = hasattr(session.config, "workerinput")
    if NO_SKIPS and not on_worker and session.exitstatus == pytest.ExitCode.OK and _skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skips = _skips(config)
    counts = {part: sum(part.remedy in skip for skip in skips) for part in PARTS.values()}
    if any(counts.values()):
        terminalreporter.section("skipped for want of a part of this machine")
        for part, count in counts.items():
            if count:
                terminalreporter.write_line(f"{count} tests skipped because {part.remedy}")
    if NO_SKIPS and skips:
        terminalreporter.section("TESTS_NO_SKIPS: a skip fails this run", red=True)
        for skip in skips:
            terminalreporter.write_line(skip)


@pytest.fixture
def free_port() -> Callable[[], int]:
    """A function giving a TCP port of the loopback address that was free a moment ago."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    return find


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the Chromium that browser tests drive."""
    path = PARTS["browser"].path()
    assert path is not None  # the marker that comes with this fixture skips first
    return path


@pytest.fixture(scope="session")
def faketime_library() -> str:
    """Path of the library that steps one program's wall clock."""
    (path,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    return str(path)


@pytest.fixture(scope="session")
def mosquitto_pub_path() -> str:
    """Path of Mosquitto's publishing client."""
    path = PARTS["mosquitto_pub"].path()
    assert path is not None  # the marker that comes with this fixture skips first
    return path


@dataclass
class MosquittoBroker:
    """A real Mosquitto on a loopback port, in a directory of its own, for a test to start, stop and kill."""

    binary: str
    directory: Path
    host: str
    port: int
    config_lines: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> str:
        return (self.directory / "mosquitto.log").read_text(errors="replace")

    def _configuration(self) -> str:
        lines = list(self.config_lines)
        words = {line.split()[0] for line in lines if line.split()}
        # Options of the listener follow its line; the rest may stand anywhere.
        head = [] if "listener" in words else [f"listener {self.port} {self.host}"]
        if "allow_anonymous" not in words:
            head.append("allow_anonymous true")
        if os.getuid() == 0 and "user" not in words:
            head.append("user root")  # else it gives up root and cannot read the test's directory
        return "\n".join([*head, f"persistence_location {self.directory}/", *lines, ""])

    def start(self) -> None:
        """Start and return once the port answers. AssertionError with the broker's log where it does not."""
        config = self.directory / "mosquitto.conf"
        config.write_text(self._configuration())
        with (self.directory / "mosquitto.log").open("ab") as log:
            self.process = subprocess.Popen([self.binary, "-v", "-c", str(config)], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError), socket.create_connection((self.host, self.port), timeout=1):
                return
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"mosquitto does not answer on {self.host}:{self.port}:\n{self.log}")

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(how)
            self.process.wait(timeout=20)
            self.process = None

    def stop(self) -> None:
        """End it as an operator would: with persistence on, what it holds is written down first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._end(signal.SIGKILL)


@pytest.fixture
def mosquitto_broker(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]
) -> Iterator[Callable[..., MosquittoBroker]]:
    """Start a Mosquitto: `mosquitto_broker(["persistence true", …], port=…) -> MosquittoBroker`.

    Without a `listener` line it listens on the loopback address, anonymous clients allowed. Options of the
    listener (cafile, certfile, …) may stand among the lines. All are ended with the test.
    """
    binary = PARTS["mosquitto"].path()
    assert binary is not None  # the marker that comes with this fixture skips first
    started: list[MosquittoBroker] = []

    def start(config_lines: Sequence[str] = (), *, port: int | None = None) -> MosquittoBroker:
        directory = tmp_path_factory.mktemp("mosquitto")
        broker = MosquittoBroker(binary, directory, "127.0.0.1", port or free_port(), config_lines)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()
