"""What one sensor may send: how large a message, and how many in a time, so that none drowns the others.

The rate is a token bucket on the receipt times, kept as one number a sensor (the generic cell rate algorithm,
ITU-T I.371): the instant at which the bucket would be full again. The same receipt times give the same verdicts,
in a replay too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ingest.refused import Refused

_REMEMBERED: Final = 100_000  # sensors; beyond it the full buckets are forgotten
_NOTABLE_US: Final = 1_000_000  # a bucket that fills within a second need not outlive a restart


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of one message; messages a second of one sensor in the long run, and at once."""

    message_bytes: int = 256 * 1024
    sensor_per_s: float = 10.0
    sensor_burst: int = 86_400


class Pace:
    """The buckets of all sensors. A window takes from them only when it is kept: see :meth:`keep`."""

    def __init__(self, limits: Limits, full_us: Mapping[str, int] | None = None) -> None:
        self._limits = limits
        self._step_us = 1e6 / limits.sensor_per_s
        self._most_us = self._step_us * (limits.sensor_burst - 1)
        self._full_us: dict[str, int] = dict(full_us or {})

    def take(self, window: dict[str, int], sensor: str, received_us: int) -> None:
        """Take one message from the sensor's bucket; ``window`` holds what the window took before.

        Raises
        ------
        Refused
            The bucket is empty; nothing was taken.
        """
        full_us = window.get(sensor)
        if full_us is None:
            full_us = self._full_us.get(sensor, 0)
        full_us = max(full_us, received_us)
        if full_us - received_us > self._most_us:
            limits = self._limits
            raise Refused(
                "rate",
                f"more than {limits.sensor_burst} messages at once and {limits.sensor_per_s:g} a second came from this "
                "sensor; let it send less often, or raise limits.sensor_per_s and limits.sensor_burst",
            )
        window[sensor] = round(full_us + self._step_us)

    def keep(self, window: Mapping[str, int]) -> dict[str, int]:
        """What the window took is gone; returns what stood there before, for :meth:`put_back`."""
        before = {sensor: self._full_us.get(sensor, 0) for sensor in window}
        self._full_us.update(window)
        if len(self._full_us) > _REMEMBERED and window:
            now_us = max(window.values()) - self._step_us
            self._full_us = {sensor: at for sensor, at in self._full_us.items() if at > now_us}
        return before

    def put_back(self, before: Mapping[str, int]) -> None:
        """The window was not committed after all: it comes again, and takes the same again."""
        self._full_us.update(before)


def notable(window: Mapping[str, int], received_us: int) -> tuple[tuple[str, int], ...]:
    """What of a window a restart must not forget: buckets that are more than a second from full."""
    return tuple((sensor, at) for sensor, at in window.items() if at - received_us > _NOTABLE_US)
