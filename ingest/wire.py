"""A socket that reads ahead and sends acknowledgements together.

paho reads a message in three or four system calls and sends each acknowledgement in one. Every one of them lets
go of the interpreter's lock, for which the writer's thread waits; reading 64 KiB at once and sending a window's
acknowledgements at once is a third of the price.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

from paho.mqtt.client import Client

_AHEAD: Final = 65_536
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Wire:
    """A non-blocking socket with a buffer each way; what it does not define is the socket's own."""

    def __init__(self, inner: Any) -> None:  # paho says no more than "like a socket"
        self._inner = inner
        self._read = memoryview(b"")
        self._unsent = bytearray()
        self._holding = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv(self, size: int) -> bytes:
        """At most ``size`` bytes; raises as the socket does where there are none."""
        if not self._read:
            if size >= _AHEAD:
                return bytes(self._inner.recv(size))
            self._read = memoryview(self._inner.recv(_AHEAD))
        part = bytes(self._read[:size])
        self._read = self._read[size:]
        return part

    def pending(self) -> int:
        """Bytes that can be read without the network."""
        below = self._inner.pending() if isinstance(self._inner, ssl.SSLSocket) else 0
        return len(self._read) + below

    def send(self, data: bytes) -> int:
        """Send, or keep while held; what the network does not take is kept and sent before anything else."""
        self._unsent += data
        if not self._holding:
            self.flush()
        return len(data)

    def hold(self) -> None:
        """Keep what is sent until :meth:`release`."""
        self._holding = True

    def release(self) -> None:
        """Send what was kept, together."""
        self._holding = False
        self.flush()

    def flush(self) -> None:
        """Send as much of what was kept as the network takes now."""
        while self._unsent:
            try:
                sent = self._inner.send(self._unsent)
            except _LATER:
                return
            del self._unsent[:sent]

    def fileno(self) -> int:
        """What ``select`` waits on."""
        return int(self._inner.fileno())

    @property
    def unsent(self) -> int:
        """Bytes that wait for the network."""
        return len(self._unsent)


class WireClient(Client):
    """paho's client over a :class:`Wire`: its way to make a socket is the one place where that can be had."""

    def _create_socket(self) -> Any:
        return Wire(super()._create_socket())
