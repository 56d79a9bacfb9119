"""A TCP proxy between a client and a broker that cuts, holds or slows what passes.

A cable that is pulled says nothing: neither end hears of it (`hold`). A router that restarts resets what it
carried (`cut`). Everything runs in one thread with `select`; bytes are kept in order and never dropped on a
live connection, as TCP does.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

_CHUNK = 65_536
_HELD = 1 << 20  # what a direction may hold before its sender has to wait


@dataclass(eq=False)
class _Leg:
    """One end of a connection, and what waits to be sent to it, each piece with its due time."""

    wire: socket.socket
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    peer: _Leg | None = None

    def held(self) -> int:
        return sum(len(piece) for _, piece in self.waiting)


class Proxy:
    """Listens on a loopback port and passes every connection on to the broker's.

    ``taken`` counts the connections that clients made.
    """

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._legs: set[_Leg] = set()
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._delay_s = 0.0
        self._holding = self._refusing = self._stopping = False
        self.taken = 0
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    # ---- faults --------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Reset every connection, and every new one, until :meth:`heal`."""
        with self._lock:
            self._refusing = True
            self._reset_all()

    def hold(self) -> None:
        """Half-open: connections stay, new ones are taken, and not a byte passes until :meth:`heal`."""
        with self._lock:
            self._holding = True

    def delay(self, seconds: float) -> None:
        """Everything passes this much later."""
        with self._lock:
            self._delay_s = seconds

    def heal(self, *, forget: bool = False) -> None:
        """Pass everything on; with ``forget`` connections from before are reset first: the middle lost them."""
        with self._lock:
            if forget:
                self._reset_all()
            self._holding = self._refusing = False
            self._delay_s = 0.0

    def close(self) -> None:
        self._stopping = True
        self._thread.join(5)
        with self._lock:
            self._reset_all()
        self._listener.close()
        self._selector.close()

    # ---- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            ready = self._selector.select(0.01)
            with self._lock:
                for key, _ in ready:
                    if key.fileobj is self._listener:
                        self._take()
                    elif key.data in self._legs:
                        self._read(key.data)
                for leg in list(self._legs):
                    self._write(leg)
                    self._watch(leg)

    def _take(self) -> None:
        client, _ = self._listener.accept()
        self.taken += 1
        try:
            if self._refusing:
                raise ConnectionError
            broker = socket.create_connection(self._target, timeout=1)
        except OSError:
            _reset(client)
            return
        near, far = _Leg(client), _Leg(broker)
        near.peer, far.peer = far, near
        for leg in (near, far):
            leg.wire.setblocking(False)
            leg.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._legs.add(leg)
            self._selector.register(leg.wire, selectors.EVENT_READ, leg)

    def _watch(self, leg: _Leg) -> None:
        """Read from a leg only while the other end can take more, and while anything passes at all."""
        if leg not in self._legs or leg.peer is None:
            return
        reading = not self._holding and leg.peer.held() < _HELD
        watched = leg.wire.fileno() in {key.fd for key in self._selector.get_map().values()}
        if reading and not watched:
            self._selector.register(leg.wire, selectors.EVENT_READ, leg)
        elif not reading and watched:
            self._selector.unregister(leg.wire)

    def _read(self, leg: _Leg) -> None:
        if self._holding or leg.peer is None:
            return
        try:
            piece = leg.wire.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._end(leg)
            return
        leg.peer.waiting.append((time.monotonic() + self._delay_s, piece))

    def _write(self, leg: _Leg) -> None:
        while not self._holding and leg.waiting and leg.waiting[0][0] <= time.monotonic():
            due, piece = leg.waiting.popleft()
            try:
                sent = leg.wire.send(piece)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._end(leg)
                return
            if sent < len(piece):
                leg.waiting.appendleft((due, piece[sent:]))
                return

    def _end(self, leg: _Leg) -> None:
        """One end is gone: what it said last is passed on, then the other end is closed too."""
        other = leg.peer
        if other is not None and other in self._legs:
            with suppress(OSError):
                other.wire.setblocking(True)
                other.wire.settimeout(1)
                other.wire.sendall(b"".join(piece for _, piece in other.waiting))
        for one in (leg, other):
            if one is not None and one in self._legs:
                self._forget(one)
                one.wire.close()

    def _reset_all(self) -> None:
        for leg in list(self._legs):
            self._forget(leg)
            _reset(leg.wire)

    def _forget(self, leg: _Leg) -> None:
        self._legs.discard(leg)
        with suppress(KeyError, ValueError):
            self._selector.unregister(leg.wire)


def _reset(wire: socket.socket) -> None:
    """Close with a reset: the peer's next read fails instead of ending."""
    with suppress(OSError):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()
