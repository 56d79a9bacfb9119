"""Connections to read by, lent to whoever reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from store.ports import StoreError

_IDLE: Final = 8  # kept open between reads; one costs a file handle and its page cache


class Readers:
    """As many connections as there are reads at one moment, whichever threads come and go.

    A connection a thread would be kept by every thread that ever read; a server's threads are many and die.
    """

    def __init__(self, connect: Callable[[], sa.Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()  # not the writer's: a reader never waits for a transaction
        self._idle: list[sa.Connection] = []
        self._closed = False

    @contextmanager
    def borrowed(self) -> Iterator[sa.Connection]:
        """A connection for one read; one that failed is not lent again.

        Raises
        ------
        StoreError
            The store is closed.
        """
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            end(connection)
            raise
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        end(connection)

    def close(self) -> None:
        """End the idle ones now and those still lent when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            end(connection)


def end(connection: sa.Connection) -> None:
    """Close a connection and the engine's handle with it."""
    connection.invalidate()
    connection.close()
