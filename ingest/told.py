"""What a session tells the service: windows of messages, how it is, and what a person should know later."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.message import RawMessage


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
    connections: int = 0  # that the broker welcomed
    stalled: bool = False  # connected, and nothing has come for too long
    contested: bool = False  # another client seems to use this client id


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is known from an earlier run of the session that the broker keeps.

    ``topics`` may be subscribed there; with ``welcomed`` the broker must still know the session, which was last
    served at ``seen_us``.
    """

    topics: tuple[str, ...] = ()
    welcomed: bool = False
    seen_us: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to be remembered.

    ``settled``: the broker has these topics for us and no others. ``possible_loss``: the broker had forgotten the
    session, and with it what came between ``since_us`` and ``until_us``. ``stalled``: connected, but nothing came.
    """

    kind: str
    until_us: int
    since_us: int = 0
    detail: str = ""
    topics: tuple[str, ...] = ()
