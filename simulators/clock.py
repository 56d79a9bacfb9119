"""One accelerated clock for a whole demo: simulated service time as an affine function of real time.

The three numbers travel to child processes as text, so that service, city and hauler agree to a microsecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


class ClockError(ValueError):
    """The text of a clock is not ``start_sim,start_real,speed``."""


@dataclass(frozen=True, slots=True)
class AcceleratedClock:
    """Service time [s since the epoch] that runs ``speed`` times as fast as real time.

    Parameters
    ----------
    start_sim_s, start_real_s
        Simulated and real instants [s since the epoch] that belong together.
    speed
        Simulated seconds a real second, above 0.
    real
        Real time [s since the epoch]; injected in tests.

    Raises
    ------
    ClockError
        ``speed`` is not above 0.
    """

    start_sim_s: float
    start_real_s: float
    speed: float = 1.0
    real: Callable[[], float] = field(default=time.time, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.speed > 0.0:
            raise ClockError(f"speed: must be above 0, is {self.speed!r}")

    @classmethod
    def starting_now(cls, start_sim_s: float, speed: float) -> AcceleratedClock:
        """Start at ``start_sim_s`` at this real instant."""
        return cls(start_sim_s, time.time(), speed)

    @classmethod
    def real_time(cls) -> AcceleratedClock:
        """The clock that shows real time."""
        now_s = time.time()
        return cls(now_s, now_s)

    def __call__(self) -> float:
        """Simulated time now [s since the epoch]."""
        return self.start_sim_s + (self.real() - self.start_real_s) * self.speed

    def real_delay(self, sim_s: float) -> float:
        """Real seconds until the clock shows ``sim_s`` [s since the epoch]; 0 where that has passed."""
        return max(0.0, (sim_s - self()) / self.speed)

    def as_text(self) -> str:
        """The clock as one argument; the inverse of :meth:`from_text`."""
        return f"{self.start_sim_s!r},{self.start_real_s!r},{self.speed!r}"

    @classmethod
    def from_text(cls, text: str) -> AcceleratedClock:
        """Read what :meth:`as_text` wrote.

        Raises
        ------
        ClockError
            The text is not three numbers separated by commas.
        """
        parts = text.split(",")
        try:
            start_sim_s, start_real_s, speed = (float(part) for part in parts)
        except ValueError as error:
            raise ClockError(
                f"clock: expected start_sim,start_real,speed as three numbers, got {text!r}"
            ) from error
        return cls(start_sim_s, start_real_s, speed)
