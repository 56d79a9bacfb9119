"""The brokers that the service is tried with, alike to start, end and kill."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ingest.broker import BrokerError, EmbeddedBroker


class Broker(Protocol):
    """A broker on a loopback port, whose queues outlive its process."""

    @property
    def port(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True)
class Traits:
    """What a test must know of a broker; each line is a row in docs/chaos.md."""

    mqtt_5: bool
    keeps_over_kill: bool  # what it acknowledged before kill -9 is delivered afterwards


#: Mosquitto acknowledges from memory and writes its queues down now and then.
TRAITS = {
    "embedded": Traits(mqtt_5=False, keeps_over_kill=True),
    "mosquitto": Traits(mqtt_5=True, keeps_over_kill=False),
    "rabbitmq": Traits(mqtt_5=False, keeps_over_kill=True),
}
#: As docs/chaos.md and deploy/ advise: no limit that drops without a word, a window as large as ours.
MOSQUITTO = (
    "persistence true",
    "autosave_interval 5",  # [s]; at each change it would spend its time writing, and resend without end
    "max_queued_messages 0",
    "max_inflight_messages 1000",
    "max_keepalive 600",
)


class Embedded:
    """The embedded broker, killed with its watcher."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self._broker = EmbeddedBroker(folder, port)

    def start(self) -> None:
        end = time.monotonic() + 20
        while True:
            try:
                self._broker.start()
            except BrokerError:  # a killed one lets go of its port a moment after its watcher has ended
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        self._broker.stop()

    def kill(self) -> None:
        if (pid := self._broker.pid) is not None:
            os.kill(pid, signal.SIGKILL)  # the server ends with it
        self._broker.stop()
