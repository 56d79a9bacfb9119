"""RabbitMQ with its MQTT plugin as a node of its own: own ports, own folder, bounded memory, no system service.

Debian's package brings a wrapper that changes user and folder; the program below it takes both as they are.
The Erlang port mapper is a child of ours too: a node that starts its own leaves it behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_START_S = 90.0
_CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{amqp_port}
mqtt.listeners.tcp.1 = 127.0.0.1:{port}
mqtt.allow_anonymous = true
mqtt.default_user = guest
mqtt.default_pass = guest
mqtt.prefetch = 1000
mqtt.subscription_ttl = 604800000
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
log.console = false
log.file.level = warning
"""


class RabbitBroker:
    """One RabbitMQ node with MQTT on loopback."""

    def __init__(self, folder: Path, free_port: Callable[[], int]) -> None:
        self._folder = folder
        self.port = free_port()
        self._mapper_port, node_port = free_port(), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "rabbitmq.conf"
        config.write_text(_CONFIG.format(amqp_port=free_port(), port=self.port), encoding="utf-8")
        (folder / "enabled_plugins").write_text("[rabbitmq_mqtt].\n", encoding="utf-8")
        nothing = folder / "none.conf"
        nothing.touch()
        self._environment = {
            **os.environ,
            "HOME": str(folder),  # the node's cookie
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "quarterline-test@localhost",
            "RABBITMQ_DIST_PORT": str(node_port),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_CONF_ENV_FILE": str(nothing),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        self._mapper: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and return once the MQTT port answers."""
        if self._mapper is None:
            program = shutil.which("epmd")
            assert program is not None, "epmd comes with RabbitMQ's Erlang"
            self._mapper = subprocess.Popen(
                [program, "-port", str(self._mapper_port), "-address", "127.0.0.1"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with (self._folder / "console.log").open("ab") as log:
            # a group of its own: kill -9 must reach its helpers too
            self._node = subprocess.Popen(
                [PROGRAM], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._node.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)  # between two looks
        self.kill()
        raise AssertionError(
            "RabbitMQ does not answer:\n" + (self._folder / "console.log").read_text()[-3000:]
        )

    def stop(self) -> None:
        """End it as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait(10)
            self._mapper = None

    def _end(self, how: signal.Signals) -> None:
        node, self._node = self._node, None
        if node is None:
            return
        if node.poll() is None:
            if how is signal.SIGTERM:
                node.terminate()
            else:
                os.killpg(node.pid, how)
        node.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
