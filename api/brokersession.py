"""What outlives a run of the MQTT session: what the broker keeps for us, what may be lost, and who fell."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

import structlog

from api.commands import Commands
from api.engine import Engine
from api.metrics import LOSSES
from api.recording import instant_text
from api.settings import Mqtt
from ingest.session import Notice, Remembered, Session
from store.ports import Store, StoreError

_log = structlog.get_logger("quarterline.mqtt")

META: Final = "mqtt_session"
_LOOK_S: Final = 0.25
_FLEET_S: Final = 60.0  # between two looks at the fleet's intervals
_STALL_LEAST_S: Final = 300.0
_STALL_INTERVALS: Final = 3.0


def remembered(store: Store, host: str, port: int, client_id: str) -> Remembered:
    """What an earlier run left at this broker under this client id."""
    kept = store.ledger.get_meta(META)
    if kept is None:
        return Remembered()
    known = json.loads(kept)
    if (known["broker"], known["client_id"]) != (f"{host}:{port}", client_id):
        return Remembered()
    seen_us = max(store.history.contacts().values(), default=0)
    return Remembered(tuple(known["topics"]), bool(known["welcomed"]), seen_us)


class Cadence:
    """After how long without a message a connection is suspect [s]: three of the fleet's shortest interval."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._look_at = 0.0
        self._after_s: float | None = None

    def __call__(self) -> float | None:
        """None while the fleet has no sensor."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _FLEET_S
            try:
                intervals = [one.interval_s for one in self._store.registry.sensors()]
            except StoreError:
                return self._after_s
            self._after_s = max(_STALL_LEAST_S, _STALL_INTERVALS * min(intervals)) if intervals else None
        return self._after_s


class SessionKeeper:
    """Writes down what the session tells, and ends the process where a thread of it has ended."""

    def __init__(self, session: Session, engine: Engine, store: Store, mqtt: Mqtt) -> None:
        self.session = session
        self.fallen = ""
        self._engine = engine
        self._mqtt = mqtt
        self._stopping = threading.Event()
        self._waiting: deque[Notice] = deque()
        self._thread = threading.Thread(target=self._run, name="session-keeper", daemon=True)
        known = remembered(store, mqtt.host, mqtt.port, mqtt.client_id)
        with store.transaction():  # before anything is subscribed: a crash must not forget a topic
            self._remember(store, {*known.topics, *mqtt.subscriptions}, welcomed=known.welcomed)

    def start(self) -> None:
        """Start listening to the session."""
        self._thread.start()

    def stop(self) -> None:
        """Write down what is left."""
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        last = False
        while not last:
            last = self._stopping.wait(_LOOK_S)
            self._waiting.extend(self.session.notices())
            while self._waiting and self._keep(self._waiting[0]):
                self._waiting.popleft()
            if not last:
                self._look()

    def _look(self) -> None:
        parts = self._engine.readiness()
        words = "" if parts["writer"][0] else parts["writer"][1]
        words = words or ("" if self.session.is_alive() else self.session.ready()[1])
        if words and not self.fallen and not self._stopping.is_set():
            self.fallen = words
            _log.error("the service ends: a thread that it cannot do without has ended", reason=words)
            os.kill(os.getpid(), signal.SIGTERM)

    def _keep(self, notice: Notice) -> bool:
        try:
            self._engine.submit(lambda commands: self._write(commands, notice))
        except StoreError:
            return False  # the store is down, or the service stops: it is told again
        return True

    def _write(self, commands: Commands, notice: Notice) -> None:
        ledger = commands.store.ledger
        if notice.kind == "settled":
            self._remember(commands.store, notice.topics, welcomed=True)
        elif notice.kind == "possible_loss":
            ledger.set_meta(LOSSES, str(int(ledger.get_meta(LOSSES) or 0) + 1))
            body = {
                "since": instant_text(notice.since_us),
                "until": instant_text(notice.until_us),
                "broker": f"{self._mqtt.host}:{self._mqtt.port}",
                "detail": notice.detail,
            }
            commands.note("possible_loss", body)
        else:
            commands.note(notice.kind, {"noticed_at": instant_text(notice.until_us), "detail": notice.detail})

    def _remember(self, store: Store, topics: Iterable[str], *, welcomed: bool) -> None:
        kept = {
            "broker": f"{self._mqtt.host}:{self._mqtt.port}",
            "client_id": self._mqtt.client_id,
            "topics": sorted(topics),
            "welcomed": welcomed,
        }
        store.ledger.set_meta(META, json.dumps(kept))
