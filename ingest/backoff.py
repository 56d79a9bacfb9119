"""How long to wait before the next connection, and whether another client fights for our name.

A broker ends the older of two connections of one client id. Two services that both come back at once evict each
other for ever. So the one whose connections are short again and again steps back: of the two that is the newcomer,
because whoever was there before had a long connection to lose.
"""

from __future__ import annotations

import random
from typing import Final

SETTLED_S: Final = 10.0  # a connection that lasted this long was a good one
_ENDS: Final = 4  # in a row, of connections that were short or got no welcome ...
_SHORT_LIVES: Final = 2  # ... and so many of them short: somebody else has our name
_PAUSE_S: Final = (1.0, 60.0)
_CONTESTED_S: Final = (120.0, 600.0)


class Backoff:
    """Pauses that grow from 1 s to a minute, from two minutes to ten while the client id is contested."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._short = self._unwelcome = 0
        self._pause_s, self._contested_s = _PAUSE_S[0], _CONTESTED_S[0]
        self.contested = False

    def after(self, *, welcomed: bool, age_s: float, taken_over: bool, opened: bool = True) -> float:
        """The pause after a connection that ended so [s]; half of it at least, the rest by chance."""
        if welcomed and age_s >= SETTLED_S:
            self._short = self._unwelcome = 0
            self._pause_s, self._contested_s = _PAUSE_S[0], _CONTESTED_S[0]
        elif welcomed:
            self._short += 1
        elif opened and self._short:
            self._unwelcome += 1  # NATS closes at once who comes within a second of another of its name
        ends = self._short + self._unwelcome
        self.contested = (ends >= _ENDS and self._short >= _SHORT_LIVES) or (taken_over and self._short > 0)
        if self.contested:
            pause_s = self._contested_s
            self._contested_s = min(2 * pause_s, _CONTESTED_S[1])
        else:
            pause_s = self._pause_s
            self._pause_s = min(2 * pause_s, _PAUSE_S[1])
        return pause_s * self._chance.uniform(0.5, 1.0)
