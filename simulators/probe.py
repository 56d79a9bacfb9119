"""A thermometer behind its sheath: first-order lag, and the device's own maximum and time above 60 degC.

Within a step the inlet is piecewise constant: the pipe, one pulse, the pipe again. The answer of a
first-order probe to that is exact, segment by segment, so slugs much shorter than a step are measured as a
device would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.kitchen import SLOT_S, Bools, Floats

HOT_C: Final = 60.0
IDLE_C: Final = 23.0  # a pipe nobody uses
PIPE_COOLING_S: Final = 2400.0


def relax(start_c: Floats, target_c: Floats, tau_s: Floats, span_s: Floats) -> tuple[Floats, Floats]:
    """Let probes at ``start_c`` see ``target_c`` for ``span_s`` [s]; all arrays of shape (n,).

    Returns
    -------
    end_c, over_s
        Where each probe stands then, and for how long of the span it was above 60 degC [s].
    """
    gap = start_c - target_c
    end = target_c + gap * np.exp(-span_s / tau_s)
    ratio = gap / np.where(target_c == HOT_C, np.nan, HOT_C - target_c)
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = tau_s * np.log(ratio)  # when the probe passes 60 degC, NaN where it never does
    crossing = np.where(np.isfinite(crossing) & (crossing > 0.0), crossing, 0.0)
    inside = np.minimum(crossing, span_s)
    over = np.where(start_c > HOT_C, np.where(end > HOT_C, span_s, inside), 0.0)
    over = np.where((start_c <= HOT_C) & (end > HOT_C), span_s - inside, over)
    return end, over


@dataclass(frozen=True, slots=True)
class Pulse:
    """The inlet of one step as each probe's site gives it: pipe and one pulse, arrays of shape (n,)."""

    pipe_c: Floats
    pulse_c: Floats
    start_s: Floats
    end_s: Floats


class Probes:
    """The inlet probes of n devices, with what each has gathered since its last message."""

    def __init__(self, tau_s: Floats) -> None:
        self._tau_s = tau_s
        self._slowed_s = tau_s
        self.now_c = np.full(tau_s.size, IDLE_C)
        self._max_c = np.full(tau_s.size, IDLE_C)
        self._over_s = np.zeros(tau_s.size)

    def slow(self, factor: Floats | float) -> None:
        """Make every probe slower by a factor, shape (n,), as a coat of grease on its sheath does."""
        self._slowed_s = self._tau_s * factor

    def advance(self, pulse: Pulse, message_s: Floats) -> tuple[Floats, Floats, Floats]:
        """Go through one step of 900 s; each device speaks at ``message_s`` [s from its start].

        Returns
        -------
        inlet_c, inlet_max_c, inlet_over_s
            What each device says: now, maximum and seconds above 60 degC since it last spoke.
        """
        self._window(pulse, np.zeros_like(message_s), message_s)
        said = (self.now_c.copy(), self._max_c, self._over_s)
        self._max_c = self.now_c.copy()
        self._over_s = np.zeros_like(self._over_s)
        self._window(pulse, message_s, np.full_like(message_s, SLOT_S))
        return said

    def _window(self, pulse: Pulse, first_s: Floats, last_s: Floats) -> None:
        rise = np.clip(pulse.start_s, first_s, last_s)
        fall = np.clip(pulse.end_s, first_s, last_s)
        for target, span in (
            (pulse.pipe_c, rise - first_s),
            (pulse.pulse_c, fall - rise),
            (pulse.pipe_c, last_s - fall),
        ):
            if not span.any():
                continue
            self.now_c, over = relax(self.now_c, target, self._slowed_s, span)
            self._over_s += over
            self._max_c = np.maximum(self._max_c, self.now_c)


class Baths:
    """The tank thermometers of n devices, each behind its sheath; a lag of 0 s follows at once."""

    def __init__(self, tau_s: Floats) -> None:
        self._tau_s = tau_s
        self._lagging = bool((tau_s > 0.0).any())
        self._now_c: Floats | None = None

    def advance(self, tank_c: Floats, span_s: float) -> Floats:
        """What each says after ``span_s`` [s] in liquid of ``tank_c`` [degC]; shapes (n,)."""
        if not self._lagging:
            return tank_c
        if self._now_c is None:
            self._now_c = tank_c
        safe = np.where(self._tau_s > 0.0, self._tau_s, 1.0)
        left = np.where(self._tau_s > 0.0, np.exp(-span_s / safe), 0.0)
        self._now_c = tank_c + (self._now_c - tank_c) * left
        return self._now_c


class Pipes:
    """The pipes before n interceptors: warm while water runs, cooling towards the room when it does not."""

    def __init__(self, count: int) -> None:
        self._pipe_c = np.full(count, IDLE_C)

    def advance(self, mix_c: Floats, pulse_c: Floats, start_s: Floats, span_s: Floats) -> Pulse:
        """The inlet of one step; ``pulse_c`` is NaN where nothing was drawn. Arrays of shape (n,)."""
        drawn: Bools = np.isfinite(pulse_c)
        cooled = IDLE_C + (self._pipe_c - IDLE_C) * np.exp(-SLOT_S / PIPE_COOLING_S)
        self._pipe_c = np.where(drawn, mix_c - 4.0, cooled)
        end = np.where(drawn, start_s + span_s, start_s)
        return Pulse(self._pipe_c.copy(), np.where(drawn, pulse_c, self._pipe_c), start_s, end)
