"""The MQTT session: one reader thread that drives paho's external loop and hands over whole windows.

Messages are acknowledged in order of reception, and only when :meth:`Session.done` says that their window is
committed. Pings never wait for that: the reader goes on while the store hangs. What may be unacknowledged is
bounded by ReceiveMaximum (MQTT 5) or the broker's in-flight limit (3.1.1), what waits here by ``BACKLOG`` windows.
"""

from __future__ import annotations

import queue
import random
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import structlog
from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from ingest.message import RawMessage
from ingest.wire import Wire, WireClient

_log = structlog.get_logger("quarterline.mqtt")

#: The interpreter's switch interval that suits the reader and the writer beside each other [s]: by default a
#: thread that comes back from the disk waits 5 ms for the one that reads the network.
SWITCH_S: Final = 0.0005
BACKLOG: Final = 4  # parts handed over and not yet committed, beyond the one being filled
_PARTS: Final = 4  # handed over in quarters: one is committed while others are read and acknowledged
_GATHER_S: Final = 0.1  # a window is handed over at the latest this long after its first message
_IDLE_S: Final = 0.05
_READS: Final = 200  # packets between two looks at everything else
_MISC_S: Final = 1.0
_BACKOFF_S: Final = (1.0, 60.0)
_SETTLED_S: Final = 10.0  # a connection that lasted this long was a good one
_CONNACK_S: Final = 10.0
_TAKE_OVERS: Final = 3


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """How to reach the broker. ``window`` is the most that is committed, and may be unacknowledged, at once."""

    host: str = "127.0.0.1"
    port: int = 1883
    client_id: str = "quarterline"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca_file: Path | None = None
    keepalive_s: int = 60
    window: int = 1000
    session_expiry_s: int = 7 * 86_400
    version: str = "auto"  # auto: MQTT 5, or 3.1.1 where the broker does not take it; 5; 3.1.1
    subscriptions: tuple[str, ...] = (
        "quarterline/v1/+/readings",
        "quarterline/v1/+/status",
        "application/+/device/+/event/+",
        "v3/+/devices/+/up",
    )


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
    waiting: int = 0  # received and not yet acknowledged


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
        self._protocol: MQTTProtocolVersion = MQTTv311 if settings.version == "3.1.1" else MQTTv5
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqtt-reader", daemon=True)
        self._status = SessionStatus(False, "not started")
        self._acknowledged_connack = False
        self._refused = ""
        self._disconnected = ""
        self._short_lives = 0
        self._received = self._acknowledged = 0

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
        waiting = self._received - self._acknowledged
        return replace(
            self._status, received=self._received, acknowledged=self._acknowledged, waiting=waiting
        )

    # ---- the reader's thread -------------------------------------------------------------------------

    def _run(self) -> None:
        delay = _BACKOFF_S[0]
        while not self._stopping.is_set():
            began = time.monotonic()
            fallback = False
            try:
                fallback = self._connection()
            except (OSError, ssl.SSLError, ValueError) as error:
                self._say(False, f"cannot reach {self._address}: {_words(error)}")
            except Exception as error:
                # the thread must outlive any fault of a callback: the broker redelivers what was not acknowledged
                _log.exception("the session was broken by a fault")
                self._say(False, f"broken by a fault: {error!r}")
            if fallback:
                continue
            if time.monotonic() - began >= _SETTLED_S:
                delay = _BACKOFF_S[0]
            self._pause(delay * self._chance.uniform(0.5, 1.0))
            delay = min(delay * 2, _BACKOFF_S[1])
        self._hand_over(final=True)

    @property
    def _address(self) -> str:
        return f"{self._settings.host}:{self._settings.port}"

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; the clock's watermark goes on meanwhile."""
        end = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := end - time.monotonic()) > 0:
            self._hand_over()
            self._stopping.wait(min(left, _IDLE_S))

    def _connection(self) -> bool:
        """One connection from CONNECT to its end; True when it is to be tried at once with MQTT 3.1.1."""
        self._epoch += 1
        self._acknowledged_connack, self._refused, self._disconnected = False, "", ""
        self._committed.clear()  # acknowledgements of an earlier connection: the broker sends those again
        client = self._client()
        began = time.monotonic()
        try:
            self._connect(client)
            self._serve(client, began)
        finally:
            self._leave(client)
        lasted = time.monotonic() - began
        if not self._acknowledged_connack and not self._stopping.is_set() and self._other_protocol():
            return True
        self._note_end(lasted)
        return False

    def _other_protocol(self) -> bool:
        """After a connection that got no welcome: whether to try 3.1.1 at once."""
        if self._settings.version != "auto":
            return False
        if self._protocol is MQTTv311:
            if not self._refused:
                self._protocol = MQTTv5  # it was no question of the version, perhaps
            return False
        if self._refused not in {"", "Unsupported protocol version"}:
            return False
        _log.info("the broker does not take MQTT 5; falling back to 3.1.1", broker=self._address)
        self._protocol = MQTTv311
        return True

    def _note_end(self, lasted: float) -> None:
        if self._stopping.is_set():
            self._status = replace(self._status, connected=False, detail="stopped")
            return
        if self._refused:
            self._say(False, f"{self._address} refused the connection: {self._refused}{_hint(self._refused)}")
            return
        self._short_lives = self._short_lives + 1 if self._acknowledged_connack and lasted < _SETTLED_S else 0
        if self._short_lives >= _TAKE_OVERS or "taken over" in self._disconnected.lower():
            self._say(
                False,
                f"dropped again and again right after connecting: client id {self._settings.client_id!r} seems to "
                "be in use by another client; give each its own mqtt.client_id",
            )
        else:
            self._say(False, f"lost the connection to {self._address}: {self._disconnected or 'closed'}")

    def _client(self) -> Client:
        settings = self._settings
        client = WireClient(
            CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            clean_session=None if self._protocol is MQTTv5 else False,
            protocol=self._protocol,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        if settings.username is not None:
            client.username_pw_set(settings.username, settings.password)
        if settings.tls or settings.ca_file is not None:
            client.tls_set_context(ssl.create_default_context(cafile=settings.ca_file))
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    def _connect(self, client: Client) -> None:
        settings = self._settings
        properties = None
        if self._protocol is MQTTv5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho leaves it untyped
            properties.SessionExpiryInterval = settings.session_expiry_s
            properties.ReceiveMaximum = min(settings.window, 65_535)
        client.connect(
            settings.host,
            settings.port,
            keepalive=settings.keepalive_s,
            clean_start=False if self._protocol is MQTTv5 else 3,
            properties=properties,
        )

    def _serve(self, client: Client, began: float) -> None:
        misc_at = 0.0
        while not self._stopping.is_set():
            wire = client.socket()
            if not isinstance(wire, Wire):
                return
            self._acknowledge(client, wire)
            now = time.monotonic()
            if now >= misc_at:
                misc_at = now + _MISC_S
                if client.loop_misc() is not MQTTErrorCode.MQTT_ERR_SUCCESS:
                    return
            if not self._acknowledged_connack and (self._refused or now - began > _CONNACK_S):
                self._disconnected = self._disconnected or "no answer to CONNECT"
                return
            if not self._turn(client, wire):
                return

    def _turn(self, client: Client, wire: Wire) -> bool:
        """Wait for bytes, read what there is, hand it over; False when the connection has ended."""
        room = len(self._gathered) < BACKLOG * self._settings.window
        pending = wire.pending() > 0
        reading: list[Wire | socket.socket] = [self._wake_out, *([wire] if room else [])]
        writing = [wire] if client.want_write() or wire.unsent else []
        timeout = 0.0 if pending else (_GATHER_S / 4 if self._gathered else _IDLE_S)
        readable, writable, _ = select.select(reading, writing, [], timeout)
        if self._wake_out in readable:
            _drain(self._wake_out)
        if writable:
            wire.flush()
        if writable and client.loop_write() is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            return False
        idle = True
        if room and (pending or wire in readable):
            idle = self._read(client)
            if client.socket() is None:
                return False
        self._hand_over(idle=idle)
        return True

    def _read(self, client: Client) -> bool:
        """Read packets; True when the wire ran dry."""
        for _ in range(_READS):
            before = len(self._gathered)
            if client.loop_read() is not MQTTErrorCode.MQTT_ERR_SUCCESS:
                return True
            if len(self._gathered) == before:
                return True
        return False

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

    def _acknowledge(self, client: Client, wire: Wire) -> None:
        while self._committed:
            window = self._committed.popleft()
            wire.hold()
            for message in window.messages:
                if message.qos and message.epoch == self._epoch:
                    client.ack(message.mid, message.qos)
            wire.release()
            self._acknowledged += len(window.messages)

    def _leave(self, client: Client) -> None:
        wire = client.socket()
        if isinstance(wire, Wire):
            self._acknowledge(client, wire)
            client.disconnect()
            for _ in range(3):
                if client.socket() is None or not client.want_write():
                    break
                client.loop_write()
        # an object without its callbacks cannot speak any more, whatever is still in flight
        client.on_message = None
        wire = client.socket()
        if wire is not None:
            wire.close()

    # ---- paho's callbacks, in the reader's thread ----------------------------------------------------

    def _on_connect(
        self, client: Client, _data: Any, flags: ConnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if reason.is_failure:
            self._refused = str(reason)
            return
        self._acknowledged_connack = True
        version = "5" if self._protocol is MQTTv5 else "3.1.1"
        self._status = SessionStatus(False, f"subscribing at {self._address}", version, flags.session_present)
        _log.info("connected", broker=self._address, mqtt=version, session_present=flags.session_present)
        if self._protocol is MQTTv5:
            options = SubscribeOptions(qos=1)
            client.subscribe([(one, options) for one in self._settings.subscriptions])
        else:
            client.subscribe([(one, 1) for one in self._settings.subscriptions])

    def _on_subscribe(
        self, _client: Client, _data: Any, _mid: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        refused = [
            f"{topic} ({reason})"
            for topic, reason in zip(self._settings.subscriptions, reasons, strict=False)
            if reason.is_failure
        ]
        if refused:
            self._say(
                False,
                f"{self._address} refused the subscription of {', '.join(refused)}: check its access list",
            )
        else:
            self._status = replace(self._status, connected=True, detail=f"connected to {self._address}")

    def _on_disconnect(
        self, _client: Client, _data: Any, _flags: DisconnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        self._disconnected = str(reason)

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        if not self._gathered:
            self._gathered_at = time.monotonic()
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = bytes(message._topic).decode("utf-8", "replace")
        self._gathered.append(
            RawMessage(
                topic,
                bytes(message.payload),
                self._now_us(),
                bool(message.retain),
                bool(message.dup),
                message.mid,
                message.qos,
                self._epoch,
            )
        )
        self._received += 1

    # ---- small things --------------------------------------------------------------------------------

    def _now_us(self) -> int:
        """The receipt time: the service's clock, never backwards."""
        self._last_us = max(self._last_us, int(self._clock() * 1e6))
        return self._last_us

    def _say(self, connected: bool, detail: str) -> None:
        if detail != self._status.detail:
            _log.warning("not connected", reason=detail)
        self._status = replace(self._status, connected=connected, detail=detail)

    def _wake(self) -> None:
        try:
            self._wake_in.send(b"x")
        except (BlockingIOError, OSError):
            return  # it is awake already, or gone


def _drain(wire: socket.socket) -> None:
    try:
        while wire.recv(4096):
            pass
    except BlockingIOError:
        return


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
