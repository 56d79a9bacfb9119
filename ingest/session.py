"""The MQTT session: one reader thread that drives its connections and hands over whole windows.

Messages are acknowledged in order of reception, and only when :meth:`Session.done` says that their window is
committed. Pings never wait for that: the reader goes on while the store hangs. What may be unacknowledged is
bounded by ReceiveMaximum (MQTT 5) or the broker's in-flight limit (3.1.1), what waits here by ``BACKLOG`` windows
and 64 MiB: beyond them the reader leaves the rest to the network.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog
from paho.mqtt.client import MQTTv5, MQTTv311
from paho.mqtt.enums import MQTTProtocolVersion

from ingest.access import AccessError
from ingest.backoff import Backoff
from ingest.connection import Connection, MqttSettings
from ingest.gathering import BACKLOG, GATHER_S, Gathering
from ingest.message import RawMessage
from ingest.packets import Published
from ingest.reasons import refusal_hint, words
from ingest.told import Notice, Remembered, SessionStatus, Window

__all__ = ["BACKLOG", "SWITCH_S", "MqttSettings", "Notice", "Remembered", "Session", "SessionStatus"]

_log = structlog.get_logger("quarterline.mqtt")

#: The interpreter's switch interval that suits the reader and the writer beside each other [s]: by default a
#: thread that comes back from the disk waits 5 ms for the one that reads the network.
SWITCH_S: Final = 0.0005
_IDLE_S: Final = 0.05
_LOOK_S: Final = 0.5  # between two looks at a silence
_TOLD_US: Final = 86_400_000_000  # a possible loss is told for a day
_NOTICES: Final = 1000  # that may wait here


class Session:
    """One persistent MQTT session.

    Parameters
    ----------
    clock
        Service time [s since the epoch]: the receipt time of every message.
    chance
        Source of the back-off's jitter.
    remembered
        What an earlier run left at the broker.
    silent_after_s
        After how long without any message a connection is suspect [s]; None: never. Not asked where the settings
        say it.
    """

    def __init__(
        self,
        settings: MqttSettings,
        clock: Callable[[], float],
        *,
        chance: random.Random | None = None,
        remembered: Remembered | None = None,
        silent_after_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._backoff = Backoff(chance or random.Random())
        known = remembered or Remembered()
        self._formerly, self._expected, self._served_us = known.topics, known.welcomed, known.seen_us
        self._silent_after_s = silent_after_s
        self._gathering = Gathering(clock, settings.window)
        self.bound = self._gathering.bound  # about the most messages that `pending` can be
        self._committed: deque[Window] = deque()
        self._epoch = 0
        self._version: MQTTProtocolVersion = MQTTv311 if settings.version == "3.1.1" else MQTTv5
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqtt-reader", daemon=True)
        self._status = SessionStatus(False, "not started")
        self._received = self._acknowledged = self._finished = 0
        self._sessions_lost = self._connections = 0
        self._lost: Notice | None = None
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._renew = threading.Event()
        self._quiet_since = self._look_at = 0.0
        self._stalled = False
        self._in_flight: set[int] = set()  # packet identifiers of this connection, not yet acknowledged

    # ---- from the writer's thread --------------------------------------------------------------------

    def start(self) -> None:
        """Start connecting; a broker that is not there is tried for ever."""
        self._thread.start()

    def stop(self) -> None:
        """Acknowledge what is committed and disconnect; the broker keeps the session."""
        self._stopping.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(10)
        self._wake_in.close()
        self._wake_out.close()

    def next(self, timeout_s: float) -> Window | None:
        """The next window, an empty one when nothing came; None when there is none in time."""
        return self._gathering.next(timeout_s)

    def done(self, window: Window) -> None:
        """Everything in this window is committed: acknowledge it, once all that were handed out before it are."""
        if window.messages:
            self._committed.extend(self._gathering.done(window))
            self._wake()

    def pending(self) -> int:
        """Messages received that no window given out by :meth:`next` holds."""
        return self._gathering.pending()

    def is_alive(self) -> bool:
        """Whether the thread that reads the network runs, has not been started yet, or was told to stop."""
        return self._thread.ident is None or self._thread.is_alive() or self._stopping.is_set()

    def ready(self) -> tuple[bool, str]:
        """Whether messages can come in, and why not, or what else a person should know of it."""
        if not self.is_alive():
            return False, "the thread that reads the network has ended: restart the service"
        status = self._status
        return status.connected, status.detail + (self._remark() if status.connected else "")

    def reconnect(self) -> None:
        """Connect anew at once, with the password and TLS files as they now are."""
        self._renew.set()
        self._wake()

    def notices(self) -> list[Notice]:
        """What is to be remembered since this was last asked."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._notices.popleft())
        return found

    def status(self) -> SessionStatus:
        """How the session is."""
        return replace(
            self._status,
            received=self._received,
            acknowledged=self._acknowledged,
            waiting=self._received - self._finished,
            sessions_lost=self._sessions_lost,
            connections=self._connections,
            stalled=self._stalled,
            contested=self._backoff.contested,
        )

    def _remark(self) -> str:
        if self._stalled:
            minutes = (time.monotonic() - self._quiet_since) / 60
            return (
                f", but no message has come for {minutes:.0f} min: look whether the sensors publish, and under the "
                "topics of mqtt.subscriptions"
            )
        lost = self._lost
        if lost is not None and self._gathering.last_us - lost.until_us < _TOLD_US:
            return f"; {lost.detail}"
        return ""

    # ---- the reader's thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            connection: Connection | None = None
            again = False
            try:
                connection = Connection(self._settings, self._version, self._gather, self._formerly)
                again = self._connect_once(connection)
            except AccessError as error:
                self._say(False, str(error))
            except (OSError, ValueError) as error:
                settings = self._settings
                reason = words(error, settings.host, tls=settings.uses_tls)
                self._say(False, f"cannot reach {settings.address}: {reason}")
            except Exception as error:
                # the thread must outlive any fault: the broker redelivers what was not acknowledged
                _log.exception("the session was broken by a fault")
                self._say(False, f"broken by a fault: {error!r}")
            if not again:
                self._pause(self._wait_s(connection))
        self._gathering.hand_over(final=True)

    def _wait_s(self, connection: Connection | None) -> float:
        """How long to wait after this connection [s]; whether our name is contested is told on the way."""
        if connection is None:
            return self._backoff.after(welcomed=False, age_s=0.0, taken_over=False)
        pause_s = self._backoff.after(
            welcomed=connection.welcome,
            age_s=connection.age_s,
            taken_over="taken over" in connection.ended.lower(),
            opened=connection.opened and not connection.refused,
        )
        if self._backoff.contested and not self._stopping.is_set():
            self._say(
                False,
                f"dropped again and again right after connecting: client id {self._settings.client_id!r} seems to "
                "be in use by another client; give each its own mqtt.client_id. The next attempt is in "
                f"{pause_s:.0f} s",
            )
        return pause_s

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; the clock's watermark goes on meanwhile."""
        end = time.monotonic() + seconds
        while self._meanwhile() and not self._renew.is_set() and (left := end - time.monotonic()) > 0:
            self._stopping.wait(min(left, _IDLE_S))

    def _meanwhile(self) -> bool:
        """What goes on without a connection; False where the session is to stop."""
        self._settle(None)
        self._gathering.hand_over()
        return not self._stopping.is_set()

    def _connect_once(self, connection: Connection) -> bool:
        """One connection from CONNECT to its end; True when the next is to be tried at once."""
        self._epoch += 1
        self._in_flight.clear()
        self._renew.clear()
        opened = False
        try:
            opened = connection.open_beside(self._meanwhile)
            if opened:
                self._serve(connection)
        finally:
            if opened:
                self._settle(connection)
                connection.close()
            if connection.welcome:
                self._served_us = self._gathering.last_us
        if self._stopping.is_set():
            self._say(False, "stopped", quiet=True)
            return True
        if not connection.welcome and self._other_version(connection.refused):
            return True
        self._note_end(connection)
        return self._renew.is_set()

    def _serve(self, connection: Connection) -> None:
        welcomed = settled = False
        self._quiet_since = time.monotonic() if not self._stalled else self._quiet_since
        while not (self._stopping.is_set() or self._renew.is_set() or self._falls_silent(connection)):
            self._settle(connection)
            timeout = _IDLE_S if self._gathering.is_empty else GATHER_S / 4
            more = connection.turn(self._wake_out, timeout, reading=self._gathering.has_room())
            if more is None:
                return
            _drain(self._wake_out)
            if connection.welcome and not welcomed:
                welcomed = True
                self._note_welcome(connection)
            if connection.settled and not settled:
                settled, self._formerly = True, self._settings.subscriptions
                self._notices.append(Notice("settled", self._gathering.now_us(), topics=self._formerly))
            if connection.detail != self._status.detail:
                self._status = replace(self._status, connected=connection.ready, detail=connection.detail)
            self._gathering.hand_over(idle=not more)

    def _falls_silent(self, connection: Connection) -> bool:
        """Whether so long a silence on a good connection is to end it. Once: what is silent still is the sensors."""
        now = time.monotonic()
        if now < self._look_at or not connection.ready or self._stalled:
            return False
        self._look_at = now + _LOOK_S
        if self._received != self._finished:
            self._quiet_since = now  # the store holds us up; the broker waits, as it should
        own = self._settings.stall_s
        limit_s = self._silent_after_s() if own is None else own or None
        if limit_s is None or now - self._quiet_since <= limit_s:
            return False
        self._stalled = True
        detail = f"connected, but no message came for {limit_s:.0f} s; connecting anew"
        _log.warning("the connection seems to be stalled", reason=detail)
        self._notices.append(Notice("stalled", self._gathering.now_us(), detail=detail))
        connection.ended = detail
        self._renew.set()
        return True

    def _other_version(self, refused: str) -> bool:
        """After a connection that got no welcome: whether to try MQTT 3.1.1 at once."""
        if self._settings.version != "auto":
            return False
        if self._version is MQTTv311:
            if not refused:
                self._version = MQTTv5  # it was no question of the version, perhaps
            return False
        if refused not in {"", "Unsupported protocol version"}:
            return False
        _log.info("the broker does not take MQTT 5; falling back to 3.1.1", broker=self._settings.address)
        self._version = MQTTv311
        return True

    # ---- what is told of a connection ----------------------------------------------------------------

    def _note_welcome(self, connection: Connection) -> None:
        lost = self._expected and not connection.session_present
        self._expected = True
        self._connections += 1
        if lost:
            self._note_loss()
        tell = _log.warning if lost else _log.info
        tell(
            "connected to a broker that had forgotten the session, and what it held for us"
            if lost
            else "connected",
            broker=self._settings.address,
            mqtt=connection.protocol,
            session_present=connection.session_present,
        )
        self._status = replace(
            self._status, protocol=connection.protocol, session_present=connection.session_present
        )

    def _note_loss(self) -> None:
        self._sessions_lost += 1
        until_us = self._gathering.now_us()
        since_us = min(self._served_us, until_us) or until_us
        detail = (
            "the broker had forgotten the session: messages published between "
            f"{_iso(since_us)} and {_iso(until_us)} may be missing"
        )
        self._lost = Notice("possible_loss", until_us, since_us, detail)
        self._notices.append(self._lost)

    def _note_end(self, connection: Connection) -> None:
        address = self._settings.address
        if connection.refused:
            hint = refusal_hint(connection.refused)
            self._say(False, f"{address} refused the connection: {connection.refused}{hint}")
            return
        hint = ""
        if (
            self._settings.tls and not self._status.connected
        ):  # the refusal itself may be lost with the connection
            hint = "; check mqtt.tls and mqtt.port, and mqtt.cert_file where it asks for one"
        self._say(False, f"lost the connection to {address}: {connection.ended or 'closed'}{hint}")

    def _say(self, connected: bool, detail: str, *, quiet: bool = False) -> None:
        if detail != self._status.detail and not quiet:
            _log.warning("not connected", reason=detail)
        self._status = replace(self._status, connected=connected, detail=detail)

    # ---- messages ------------------------------------------------------------------------------------

    def _gather(self, one: Published) -> None:
        topic, payload, mid, qos, retain, dup, size, digest = one
        if qos:
            if mid in self._in_flight:
                return  # NATS sends again what waits long for its commit; it is here, and is acknowledged once
            self._in_flight.add(mid)
        received_us = self._gathering.now_us()
        self._gathering.add(
            RawMessage(topic, payload, received_us, retain, dup, mid, qos, self._epoch, size, digest)
        )
        self._received += 1
        if not retain:
            self._quiet_since, self._stalled = self._gathering.began, False

    def _settle(self, connection: Connection | None) -> None:
        """Acknowledge what is committed. What came over an earlier connection the broker sends again."""
        while self._committed:
            window = self._committed.popleft()
            messages = window.messages
            mids = [one.mid for one in messages if one.qos and one.epoch == self._epoch]
            if connection is not None and mids:
                connection.acknowledge(mids)
                self._in_flight.difference_update(mids)
                self._acknowledged += len(mids)
            self._finished += len(messages)
            self._gathering.release(window)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or gone
            self._wake_in.send(b"x")


def _drain(wire: socket.socket) -> None:
    with suppress(BlockingIOError):
        while wire.recv(4096):
            pass


def _iso(us: int) -> str:
    return datetime.fromtimestamp(us // 1_000_000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
