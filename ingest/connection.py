"""One MQTT connection from CONNECT to its end: paho's client, its external loop, and the hot path beside it."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from ingest.access import password, tls_context
from ingest.packets import DISCONNECT, PINGREQ, Malformed, Published, acknowledgements, read_publish
from ingest.reasons import words
from ingest.wire import AHEAD, Wire, WireClient

_CONNACK_S: Final = 10.0
_MEANWHILE_S: Final = 0.05
_FAREWELL_S: Final = 1.0
_NO_SUCH_SUBSCRIPTION: Final = 0x11


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """How to reach the broker. ``window`` is the most that is committed, and may be unacknowledged, at once.

    Files are read at every connection. After ``stall_s`` without a message a connection is tried anew; None leaves
    that to the session's own measure, 0 never does.
    """

    host: str = "127.0.0.1"
    port: int = 1883
    client_id: str = "quarterline"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    keepalive_s: int = 60
    window: int = 1000
    session_expiry_s: int = 7 * 86_400
    stall_s: float | None = None
    version: str = "auto"  # auto: MQTT 5, or 3.1.1 where the broker does not take it; 5; 3.1.1
    subscriptions: tuple[str, ...] = (
        "quarterline/v1/+/readings",
        "quarterline/v1/+/status",
        "application/+/device/+/event/+",
        "v3/+/devices/+/up",
    )

    @property
    def uses_tls(self) -> bool:
        """Whether to speak TLS: naming whom to trust asks for it."""
        return self.tls or self.ca_file is not None

    @property
    def address(self) -> str:
        """The broker, for a sentence."""
        return f"{self.host}:{self.port}"


class Connection:
    """One attempt, and what it came to.

    ``opened`` says that the broker was reached, ``welcome`` that it took CONNECT, ``ready`` that messages can come in,
    ``settled`` that it has our topics and no longer those of ``formerly``, ``detail`` how it stands in words;
    ``refused`` is the broker's reason against CONNECT, ``ended`` why the connection ended.
    """

    def __init__(
        self,
        settings: MqttSettings,
        version: MQTTProtocolVersion,
        take: Callable[[Published], None],
        formerly: Iterable[str] = (),
    ) -> None:
        self._settings = settings
        self._gone = sorted(set(formerly) - set(settings.subscriptions))
        self._mqtt_5 = version is MQTTv5
        self._take = take
        self._began = self._heard = self._spoke = time.monotonic()
        self._keepalive_s: float = settings.keepalive_s
        self._client = self._make(version)
        self.opened = False
        self.welcome = False
        self.ready = False
        self.settled = False
        self.session_present = False
        self.refused = ""
        self.ended = ""
        self.detail = f"connecting to {settings.address}"

    @property
    def protocol(self) -> str:
        """The version of MQTT it speaks."""
        return "5" if self._mqtt_5 else "3.1.1"

    @property
    def age_s(self) -> float:
        """How long ago it began."""
        return time.monotonic() - self._began

    def open(self) -> None:
        """Connect and send CONNECT: name service, network and TLS may keep it waiting.

        Raises
        ------
        OSError
            The broker cannot be reached.
        """
        settings = self._settings
        properties = None
        if self._mqtt_5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho leaves it untyped
            properties.SessionExpiryInterval = settings.session_expiry_s
            properties.ReceiveMaximum = min(settings.window, 65_535)
        self._client.connect(
            settings.host,
            settings.port,
            keepalive=settings.keepalive_s,
            clean_start=False if self._mqtt_5 else 3,
            properties=properties,
        )
        self._began = self._heard = self._spoke = time.monotonic()
        self.opened = True

    def open_beside(self, meanwhile: Callable[[], bool]) -> bool:
        """:meth:`open` on a thread of its own; ``meanwhile`` runs again and again until then.

        False where ``meanwhile`` said to give up: the connection then closes itself.

        Raises
        ------
        OSError
            The broker cannot be reached.
        """
        failed: list[BaseException] = []
        given_up = threading.Event()
        over = threading.Event()

        def run() -> None:
            try:
                self.open()
            except BaseException as error:
                failed.append(error)
            finally:
                over.set()
                if given_up.is_set():
                    self.close()

        threading.Thread(target=run, name="mqtt-opening", daemon=True).start()
        while not over.wait(_MEANWHILE_S):
            if not meanwhile():
                given_up.set()
                if not over.is_set():
                    return False
        if failed:
            raise failed[0]
        return True

    def turn(self, wake: socket.socket, timeout_s: float, *, reading: bool) -> bool | None:
        """Wait for bytes and read them; whether the network may have more, None when the connection has ended.

        ``wake`` becoming readable ends the wait. Without ``reading`` nothing is taken from the network, and the
        broker is not judged by its silence; pings go on in either case.
        """
        wire = self._wire()
        if wire is None or self.refused or not (self.welcome or self.age_s <= _CONNACK_S):
            self.ended = self.ended or ("" if self.refused else "no answer to CONNECT")
            return None
        try:
            more = self._exchange(wire, wake, timeout_s, reading=reading)
        except (OSError, Malformed) as error:
            self.ended = self.ended or words(error, self._settings.host)
            return None
        return None if self._wire() is None else more

    def acknowledge(self, mids: Iterable[int]) -> None:
        """Acknowledge messages in this order; on a broken connection nothing happens."""
        wire = self._wire()
        if wire is not None:
            with suppress(OSError):  # the next turn says so; what was not acknowledged comes again
                wire.send(acknowledgements(mids))

    def close(self) -> None:
        """Say goodbye where that is still possible, and let go of the socket; the broker keeps the session."""
        wire = self._wire()
        if wire is not None:
            with suppress(OSError):
                wire.send(DISCONNECT)  # paho would close at once, with what the broker has not read yet
                if not self.ended:
                    wire.farewell(_FAREWELL_S)
            wire.close()

    # ---- the network ---------------------------------------------------------------------------------

    def _wire(self) -> Wire | None:
        wire = self._client.socket()
        return wire if isinstance(wire, Wire) else None

    def _exchange(self, wire: Wire, wake: socket.socket, timeout_s: float, *, reading: bool) -> bool:
        at_once = reading and wire.pending() > 0
        reads: list[Wire | socket.socket] = [wake, wire] if reading else [wake]
        writes = [wire] if self._client.want_write() or wire.unsent else []
        readable, writable, _ = select.select(reads, writes, [], 0.0 if at_once else timeout_s)
        if writable:
            wire.flush()
            self._client.loop_write()
        came = 0
        if at_once or wire in readable:
            came = wire.fill()
            self._packets(wire)
        self._keep_alive(wire, heard=came > 0 or not reading)
        return came >= AHEAD or wire.pending() > 0

    def _packets(self, wire: Wire) -> None:
        while True:
            if wire.huge():
                passed = wire.skim(mqtt_5=self._mqtt_5)
                if passed is None:
                    return
                self._take(passed)
            for first, body in wire.publishes():
                self._take(read_publish(first, body, mqtt_5=self._mqtt_5))
            if wire.huge():
                continue
            if not wire.other():
                return
            if self._client.loop_read() is not MQTTErrorCode.MQTT_ERR_SUCCESS or self._wire() is not wire:
                return

    def _keep_alive(self, wire: Wire, *, heard: bool) -> None:
        """Ping in time. paho's own keep-alive would take a reader that holds back for a broker that is gone."""
        now = time.monotonic()
        if heard:
            self._heard = now
        elif self._keepalive_s and now - self._heard > self._keepalive_s:
            raise ConnectionError(f"no sign of life for {self._keepalive_s:g} s")
        if self.welcome and self._keepalive_s and now - self._spoke >= self._keepalive_s / 2:
            self._spoke = now
            wire.send(PINGREQ)

    # ---- paho ----------------------------------------------------------------------------------------

    def _make(self, version: MQTTProtocolVersion) -> Client:
        settings = self._settings
        client = WireClient(
            CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            clean_session=None if self._mqtt_5 else False,
            protocol=version,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        if settings.username is not None:
            client.username_pw_set(settings.username, password(settings.password, settings.password_file))
        if settings.uses_tls:
            client.tls_set_context(tls_context(settings.ca_file, settings.cert_file, settings.key_file))
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe
        client.on_disconnect = self._on_disconnect
        return client

    def _on_connect(
        self, client: Client, _data: Any, flags: ConnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if reason.is_failure:
            self.refused = str(reason)
            return
        self.welcome = True
        self.session_present = flags.session_present
        self._keepalive_s = client.keepalive  # the broker may have set its own
        self.detail = f"subscribing at {self._settings.address}"
        if not flags.session_present:
            self._gone = []  # the broker knows nothing of them
        topics = self._settings.subscriptions
        if self._mqtt_5:  # what is retained comes once a session, not at every connection
            once = SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
            client.subscribe([(one, SubscribeOptions(qos=1, retainHandling=once)) for one in topics])
        else:
            client.subscribe([(one, 1) for one in topics])

    def _on_subscribe(
        self, _client: Client, _data: Any, _mid: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        refused = [
            f"{topic} ({reason})"
            for topic, reason in zip(self._settings.subscriptions, reasons, strict=False)
            if reason.is_failure
        ]
        address = self._settings.address
        self.ready = not refused
        self.detail = f"connected to {address}"
        if refused:
            self.detail = f"{address} refused the subscription of {', '.join(refused)}: check its access list"
        if self._gone:
            self._client.unsubscribe(self._gone)
        else:
            self.settled = True

    def _on_unsubscribe(
        self, _client: Client, _data: Any, _mid: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        # MQTT 3.1.1 gives no reasons: there it is always done
        self.settled = not any(one.is_failure and one.value != _NO_SUCH_SUBSCRIPTION for one in reasons)

    def _on_disconnect(
        self, _client: Client, _data: Any, _flags: DisconnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        self.ended = self.ended or str(reason)
