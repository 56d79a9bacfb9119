"""A socket that reads ahead, so that packets are seen whole, and never sends a part of one.

paho reads a message in three or four system calls and sends each acknowledgement in one. Every one of them lets
go of the interpreter's lock, for which the writer's thread waits.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from paho.mqtt.client import Client

from ingest.packets import PUBLISH, Published, length_at, read_publish

AHEAD: Final = 65_536
HUGE: Final = 1 << 20  # bytes: of a longer message only the head is kept
_HEAD: Final = 4 * AHEAD  # topic and properties of a huge message must end within this
_KEPT: Final = 4096
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Wire:
    """A non-blocking socket with a buffer each way; what it does not define is the socket's own."""

    def __init__(self, inner: Any) -> None:  # paho says no more than "like a socket"
        self._inner = inner
        self._ahead = bytearray()
        self._unsent = bytearray()
        self._skim: _Skim | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    # ---- in ------------------------------------------------------------------------------------------

    def fill(self) -> int:
        """Read ahead what the network has, 64 KiB at most; returns how many bytes came.

        Raises
        ------
        ConnectionError
            The peer has closed the connection.
        """
        try:
            data = self._inner.recv(AHEAD)
        except _LATER:
            return 0
        if not data:
            raise ConnectionError("closed by the broker")
        self._ahead += data
        return len(data)

    def publishes(self) -> list[tuple[int, bytes]]:
        """First byte and body of every PUBLISH that is here whole, up to the first other packet.

        Raises
        ------
        Malformed
        """
        found = []
        ahead = self._ahead
        at, end = 0, len(ahead)
        while at < end and ahead[at] & 0xF0 == PUBLISH:
            length = length_at(ahead, at + 1)
            if length is None or (stop := length[1] + length[0]) > end:
                break
            found.append((ahead[at], bytes(ahead[length[1] : stop])))
            at = stop
        del ahead[:at]
        return found

    def other(self) -> bool:
        """Whether the next packet is no PUBLISH and here whole: paho may read it with one ``loop_read``.

        Raises
        ------
        Malformed
        """
        ahead = self._ahead
        if not ahead or ahead[0] & 0xF0 == PUBLISH:
            return False
        length = length_at(ahead, 1)
        return length is not None and sum(length) <= len(ahead)

    def huge(self) -> bool:
        """Whether the next packet is a PUBLISH of more than ``HUGE`` bytes, or the rest of one.

        Raises
        ------
        Malformed
        """
        ahead = self._ahead
        if self._skim is not None:
            return True
        if not ahead or ahead[0] & 0xF0 != PUBLISH:
            return False
        length = length_at(ahead, 1)
        return length is not None and length[0] > HUGE

    def skim(self, *, mqtt_5: bool) -> Published | None:
        """Let a huge message pass by; its head, size and hash once all of it has, else None.

        Raises
        ------
        Malformed
        """
        ahead = self._ahead
        if self._skim is None:
            length = length_at(ahead, 1)
            assert length is not None
            if len(ahead) < length[1] + _HEAD:
                return None
            head = read_publish(ahead[0], bytes(ahead[length[1] : length[1] + _HEAD]), mqtt_5=mqtt_5)
            self._skim = _Skim(head, length[0] - (_HEAD - len(head.payload)))
            del ahead[: length[1] + _HEAD]
        taken = self._skim.take(ahead)
        del ahead[:taken]
        if self._skim.left:
            return None
        done, self._skim = self._skim.done(), None
        return done

    def recv(self, size: int) -> bytes:
        """At most ``size`` bytes; raises as the socket does where there are none."""
        if not self._ahead:
            return bytes(self._inner.recv(size))
        part = bytes(self._ahead[:size])
        del self._ahead[:size]
        return part

    def pending(self) -> int:
        """Bytes that came over TLS and wait below: ``select`` does not see them."""
        return self._inner.pending() if isinstance(self._inner, ssl.SSLSocket) else 0

    # ---- out -----------------------------------------------------------------------------------------

    def send(self, data: bytes) -> int:
        """Send whole; what the network does not take now is kept and sent before anything else."""
        self._unsent += data
        self.flush()
        return len(data)

    def flush(self) -> None:
        """Send as much of what was kept as the network takes now."""
        while self._unsent:
            try:
                sent = self._inner.send(self._unsent)
            except _LATER:
                return
            del self._unsent[:sent]

    def farewell(self, most_s: float) -> None:
        """Send no more, and wait until the peer has read everything and closed; at most ``most_s`` [s].

        A broker drops what it has not read of a connection when the next one of that client comes.
        """
        self._inner.shutdown(socket.SHUT_WR)
        end = time.monotonic() + most_s
        while (left := end - time.monotonic()) > 0 and select.select([self._inner], [], [], left)[0]:
            with suppress(*_LATER):
                if not self._inner.recv(AHEAD):
                    return

    @property
    def unsent(self) -> int:
        """Bytes that wait for the network."""
        return len(self._unsent)

    def fileno(self) -> int:
        """What ``select`` waits on."""
        return int(self._inner.fileno())


class _Skim:
    """A huge message on its way past: the head of its payload, the hash so far, the bytes still to come."""

    def __init__(self, head: Published, size: int) -> None:
        self._head = head
        self._hash = sha256(head.payload)
        self._size = size
        self.left = size - len(head.payload)

    def take(self, data: bytearray) -> int:
        part = data[: self.left]
        self._hash.update(part)
        self.left -= len(part)
        return len(part)

    def done(self) -> Published:
        head = self._head
        return head._replace(payload=head.payload[:_KEPT], size=self._size, sha256=self._hash.hexdigest())


class WireClient(Client):
    """paho's client over a :class:`Wire`: its way to make a socket is the one place where that can be had."""

    def _create_socket(self) -> Any:
        return Wire(super()._create_socket())

    def _ssl_wrap_socket(self, tcp_sock: Any) -> ssl.SSLSocket:
        """Like paho's, but what a failed handshake leaves is closed. The context checks the host's name."""
        context = self._ssl_context
        assert context is not None
        assert context.check_hostname
        wire = context.wrap_socket(tcp_sock, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            wire.settimeout(self._connect_timeout)
            wire.do_handshake()
        except BaseException:
            wire.close()
            raise
        return wire
