"""What a stateful format remembers between messages; a window's changes can be taken back until the next window."""

from __future__ import annotations

from typing import Any, Final

_MOST: Final = 20_000  # keys; whoever makes up names must not fill the memory


class Memory:
    """Immutable values by key. What the last window put is undone by :meth:`rewind`, for good after :meth:`begin`."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}
        self._staged: dict[str, Any] = {}
        self._wishes: list[tuple[str, str]] = []

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self._staged[key] if key in self._staged else self._kept.get(key)

    def put(self, key: str, value: Any) -> None:
        """Remember an immutable value; the oldest key goes where there are too many."""
        self._staged[key] = value

    def begin(self) -> None:
        """A new window: what the one before put stays."""
        self._kept.update(self._staged)
        self._staged, self._wishes = {}, []
        while len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def rewind(self) -> None:
        """The window will come again: it put nothing."""
        self._staged, self._wishes = {}, []

    def wish(self, key: str, text: str) -> None:
        """Note what should be asked of a device; this service sends nothing to devices."""
        self._wishes.append((key, text))

    @property
    def wishes(self) -> tuple[tuple[str, str], ...]:
        """What the last window wished for, by key."""
        return tuple(self._wishes)
