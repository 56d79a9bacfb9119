"""The MQTT session: one reader thread that drives its connections and hands over whole windows.

Messages are acknowledged in order of reception, and only when :meth:`Session.done` says that their window is
committed. Pings never wait for that: the reader goes on while the store hangs. What may be unacknowledged is
bounded by ReceiveMaximum (MQTT 5) or the broker's in-flight limit (3.1.1), what waits here by ``BACKLOG`` windows
and 64 MiB: beyond them the reader leaves the rest to the network.
"""

from __future__ import annotations

import queue
import random
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog
from paho.mqtt.client import MQTTv5, MQTTv311
from paho.mqtt.enums import MQTTProtocolVersion

from ingest.connection import Connection, MqttSettings
from ingest.message import RawMessage
from ingest.packets import Published

__all__ = ["BACKLOG", "SWITCH_S", "MqttSettings", "Session", "SessionStatus", "Window"]

_log = structlog.get_logger("quarterline.mqtt")

#: The interpreter's switch interval that suits the reader and the writer beside each other [s]: by default a
#: thread that comes back from the disk waits 5 ms for the one that reads the network.
SWITCH_S: Final = 0.0005
BACKLOG: Final = 4  # windows that may wait here
_HELD_BYTES: Final = 64 * 1024 * 1024  # payloads that may wait here
_PARTS: Final = 4  # handed over in quarters: one is committed while others are read and acknowledged
_GATHER_S: Final = 0.1  # a window is handed over at the latest this long after its first message
_IDLE_S: Final = 0.05
_BACKOFF_S: Final = (1.0, 60.0)
_SETTLED_S: Final = 10.0  # a connection that lasted this long was a good one
_TAKE_OVERS: Final = 3


@dataclass(frozen=True, slots=True)
class Window:
    """Messages in order of reception; nothing received before ``watermark_us`` is missing."""

    messages: tuple[RawMessage, ...]
    watermark_us: int


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """How the session is, in words for a person."""

    connected: bool
    detail: str
    protocol: str = ""
    session_present: bool | None = None
    received: int = 0
    acknowledged: int = 0
    waiting: int = 0  # received and not yet committed
    sessions_lost: int = 0  # connections whose broker had forgotten the one before


class Session:
    """One persistent MQTT session.

    Parameters
    ----------
    clock
        Service time [s since the epoch]: the receipt time of every message.
    chance
        Source of the back-off's jitter.
    """

    def __init__(
        self, settings: MqttSettings, clock: Callable[[], float], *, chance: random.Random | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._chance = chance or random.Random()
        self._windows: queue.Queue[Window] = queue.Queue(maxsize=BACKLOG)
        self._committed: deque[Window] = deque()
        self._gathered: list[RawMessage] = []
        self._gathered_at = 0.0
        self._last_us = 0
        self._epoch = 0
        self._version: MQTTProtocolVersion = MQTTv311 if settings.version == "3.1.1" else MQTTv5
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqtt-reader", daemon=True)
        self._status = SessionStatus(False, "not started")
        self._short_lives = 0
        self._received = self._acknowledged = self._finished = self._sessions_lost = 0
        self._held_bytes = 0
        self._in_flight: set[int] = set()  # packet identifiers of this connection, not yet acknowledged
        self._welcomed = False

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
        try:
            return self._windows.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def done(self, window: Window) -> None:
        """Everything in this window is committed: acknowledge it."""
        if window.messages:
            self._committed.append(window)
            self._wake()

    def pending(self) -> int:
        """Messages received that no window given out by :meth:`next` holds."""
        return len(self._gathered) + sum(len(one.messages) for one in list(self._windows.queue))

    def ready(self) -> tuple[bool, str]:
        """Whether messages can come in, and why not."""
        status = self._status
        return status.connected, status.detail

    def status(self) -> SessionStatus:
        """How the session is."""
        return replace(
            self._status,
            received=self._received,
            acknowledged=self._acknowledged,
            waiting=self._received - self._finished,
            sessions_lost=self._sessions_lost,
        )

    # ---- the reader's thread -------------------------------------------------------------------------

    def _run(self) -> None:
        delay = _BACKOFF_S[0]
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                if self._connect_once():
                    continue
            except (OSError, ssl.SSLError, ValueError) as error:
                self._say(False, f"cannot reach {self._settings.address}: {_words(error)}")
            except Exception as error:
                # the thread must outlive any fault: the broker redelivers what was not acknowledged
                _log.exception("the session was broken by a fault")
                self._say(False, f"broken by a fault: {error!r}")
            if time.monotonic() - began >= _SETTLED_S:
                delay = _BACKOFF_S[0]
            self._pause(delay * self._chance.uniform(0.5, 1.0))
            delay = min(delay * 2, _BACKOFF_S[1])
        self._hand_over(final=True)

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; the clock's watermark goes on meanwhile."""
        end = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := end - time.monotonic()) > 0:
            self._settle(None)
            self._hand_over()
            self._stopping.wait(min(left, _IDLE_S))

    def _connect_once(self) -> bool:
        """One connection from CONNECT to its end; True when the next is to be tried at once."""
        self._epoch += 1
        self._in_flight.clear()
        connection = Connection(self._settings, self._version, self._gather)
        try:
            connection.open()
            self._serve(connection)
        finally:
            self._settle(connection)
            connection.close()
        if self._stopping.is_set():
            self._say(False, "stopped", quiet=True)
            return False
        if not connection.welcome and self._other_version(connection.refused):
            return True
        self._note_end(connection)
        return False

    def _serve(self, connection: Connection) -> None:
        welcomed = False
        while not self._stopping.is_set():
            self._settle(connection)
            timeout = _GATHER_S / 4 if self._gathered else _IDLE_S
            more = connection.turn(self._wake_out, timeout, reading=self._has_room())
            if more is None:
                return
            _drain(self._wake_out)
            if connection.welcome and not welcomed:
                welcomed = True
                self._note_welcome(connection)
            if connection.detail != self._status.detail:
                self._status = replace(self._status, connected=connection.ready, detail=connection.detail)
            self._hand_over(idle=not more)

    def _has_room(self) -> bool:
        return len(self._gathered) < BACKLOG * self._settings.window and self._held_bytes < _HELD_BYTES

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
        lost = self._welcomed and not connection.session_present
        self._welcomed = True
        self._sessions_lost += lost
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

    def _note_end(self, connection: Connection) -> None:
        address = self._settings.address
        if connection.refused:
            self._say(
                False, f"{address} refused the connection: {connection.refused}{_hint(connection.refused)}"
            )
            return
        short = connection.welcome and connection.age_s < _SETTLED_S
        self._short_lives = self._short_lives + 1 if short else 0
        if self._short_lives >= _TAKE_OVERS or "taken over" in connection.ended.lower():
            self._say(
                False,
                f"dropped again and again right after connecting: client id {self._settings.client_id!r} seems to "
                "be in use by another client; give each its own mqtt.client_id",
            )
        else:
            self._say(False, f"lost the connection to {address}: {connection.ended or 'closed'}")

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
        if not self._gathered:
            self._gathered_at = time.monotonic()
        self._gathered.append(
            RawMessage(topic, payload, self._now_us(), retain, dup, mid, qos, self._epoch, size, digest)
        )
        self._held_bytes += len(payload)
        self._received += 1

    def _now_us(self) -> int:
        """The receipt time: the service's clock, never backwards."""
        self._last_us = max(self._last_us, int(self._clock() * 1e6))
        return self._last_us

    def _hand_over(self, *, idle: bool = True, final: bool = False) -> None:
        """Give what was gathered to the writer; when nothing was, the time up to which that is so."""
        now = self._now_us()
        if not self._gathered:
            if idle and self._windows.empty():
                self._offer(Window((), now))
            return
        size = max(self._settings.window // _PARTS, 1)
        full = len(self._gathered) >= size
        if not (full or idle or final or time.monotonic() - self._gathered_at >= _GATHER_S):
            return
        while self._gathered:
            part = tuple(self._gathered[:size])
            rest = len(self._gathered) > size
            watermark = part[-1].received_us if rest or not idle else now
            if not self._offer(Window(part, watermark)):
                return
            del self._gathered[:size]
            self._gathered_at = time.monotonic()

    def _offer(self, window: Window) -> bool:
        try:
            self._windows.put_nowait(window)
        except queue.Full:
            return False
        return True

    def _settle(self, connection: Connection | None) -> None:
        """Acknowledge what is committed. What came over an earlier connection the broker sends again."""
        while self._committed:
            messages = self._committed.popleft().messages
            mids = [one.mid for one in messages if one.qos and one.epoch == self._epoch]
            if connection is not None and mids:
                connection.acknowledge(mids)
                self._in_flight.difference_update(mids)
                self._acknowledged += len(mids)
            self._finished += len(messages)
            self._held_bytes -= sum(len(one.payload) for one in messages)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or gone
            self._wake_in.send(b"x")


def _drain(wire: socket.socket) -> None:
    with suppress(BlockingIOError):
        while wire.recv(4096):
            pass


def _hint(reason: str) -> str:
    text = reason.lower()
    if "user name" in text or "authori" in text:
        return ": check mqtt.username and the password"
    if "identifier" in text:
        return ": check mqtt.client_id"
    return ""


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted ({error.verify_message}): check mqtt.ca_file"
    return str(error) or type(error).__name__
