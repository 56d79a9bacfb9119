"""The fold's memory: frozen dataclasses of arrays, one row a sensor, a track or an interceptor."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from analysis.estimate import Kalman
from analysis.model import Bools, Floats, Ints

Rows = Ints | slice
WINDOW: Final = 7  # raw values kept a sensor for the median of the spike filter
AFTER: Final = 3  # readings that must agree before a service is judged


@dataclass(frozen=True, slots=True)
class SensorState:
    """What is remembered of each sensor, shape (sensors,) unless stated; times [s], NaN where never."""

    last_s: Floats
    recent: Floats  # (sensors, 2, WINDOW): raw layer depths, newest at ``slot``
    surfaces: Floats  # (sensors, WINDOW): raw heights of the surface, in the same slots
    slot: Ints
    loose_s: Floats  # since when it swings where no liquid does: out of its place
    slipped_s: Floats  # when its mount was last found to have moved
    offset: Floats  # by how much its heights are too large since then [m]
    shift: Floats  # (sensors,): mean of the shift now suspected [m] …
    shift_count: Ints  # … and how many readings in a row show it
    spikes_s: Floats
    gap_s: Floats
    out_of_range_s: Floats
    low_battery_s: Floats
    clock_s: Floats  # since when its clock is wrong
    battery_top_v: Floats
    raw: Floats  # fingerprint of the last level values
    same_since_s: Floats
    same_count: Ints
    changes: Ints  # how often the values changed from one reading to the next
    run: Ints  # longest row of equal values that counts as this sensor's own, by its quantisation
    temp_low: Floats  # extremes of temperature since the fingerprint last changed
    temp_high: Floats
    seen: Bools  # (sensors, 2): has ever seen the layer
    level_s: Floats  # first level value of any kind, NaN never
    inlet_c: Floats
    inlet_s: Floats  # last reading with an inlet temperature
    hot: Ints  # 0 none, 1 possible, 2 confirmed
    hot_start_s: Floats
    hot_end_s: Floats
    hot_peak_c: Floats
    hot_over_s: Floats
    cool_since_s: Floats


@dataclass(frozen=True, slots=True)
class TrackState:
    """What is remembered of each track; layer arrays have shape (tracks, 2)."""

    time_s: Floats  # of the filter; -inf before anything is known
    x: Floats
    r: Floats
    p00: Floats
    p01: Floats
    p11: Floats
    seen: Bools
    used_s: Floats  # (tracks, 2): time of the last value taken in
    bias: Floats  # (tracks, 2): variance of that value's errors that no number of readings removes [m²]
    by_hand: Bools  # (tracks, 2): measured by hand in this cycle
    gain: Floats  # of the sensors' FOG depth, learnt by hand
    shift: Floats  # (tracks, 2): to add to the sensors' depths [m], likewise
    left: Floats  # (tracks, 2): share of the sensors' lasting variance that hands have left
    doubt: Floats  # (tracks, 2): variance by a hand that contradicts the sensor [m²] …
    doubt_s: Floats  # … since then [s], NaN where none does
    last_s: Floats
    rest: Floats  # quiescent height of the surface [m], NaN unknown
    calm: Floats  # share of the last days that the surface stood about its static level, 0 … 1
    day: Ints  # last day (of the epoch) with a good value
    days: Ints  # number of such days in this cycle
    sees_liquid: Bools
    high_s: Floats  # since when the surface stands above the static level, NaN
    level: Floats  # newest surface [m]
    brim_s: Floats  # when the newest reading showed it near the sensor and rising, NaN where it did not
    tamper_s: Floats
    mode: Ints  # 0 idle, 1 a service may be going on
    start_s: Floats
    open_s: Floats
    before_s: Floats
    end_s: Floats
    lowest: Floats
    lowest_s: Floats
    lows: Ints
    after: Floats  # (tracks, 2, AFTER)
    after_count: Ints
    verdict: Ints  # 0 none, 1 partial, 2 complete: waiting for the interceptor's other tracks
    verdict_conf: Floats
    verdict_before: Floats
    verdict_after: Floats

    def kalman(self, rows: Rows) -> Kalman:
        """The filter of these rows."""
        return Kalman(self.x[rows], self.r[rows], self.p00[rows], self.p01[rows], self.p11[rows])

    def set_kalman(self, rows: Rows, k: Kalman) -> None:
        """Write the filter of these rows (of a working copy)."""
        self.x[rows], self.r[rows] = k.x, k.r
        self.p00[rows], self.p01[rows], self.p11[rows] = k.p00, k.p01, k.p11


@dataclass(frozen=True, slots=True)
class InterceptorState:
    """What is remembered of each interceptor, shape (interceptors,) [s]."""

    newest_s: Floats
    since_s: Floats  # start of the cycle, NaN unknown
    waiting_s: Floats  # a track's verdict waits for the others since, NaN none


Part = TypeVar("Part", SensorState, TrackState, InterceptorState)


@dataclass(frozen=True, slots=True)
class FleetState:
    """The whole memory of a fold. Values are never changed in place once handed out, but by a caller who says
    that the state is his alone (``consume``)."""

    sensor: SensorState
    track: TrackState
    interceptor: InterceptorState


def part_rows(part: Part, rows: Rows) -> Part:
    """These rows of one part: a copy, or of a slice the part's own memory."""
    return type(part)(*[getattr(part, f.name)[rows] for f in fields(part)])


def put_rows(part: Part, rows: Rows, new: Part) -> None:
    """Replace these rows of a part in place."""
    for f in fields(part):
        getattr(part, f.name)[rows] = getattr(new, f.name)


def own(state: FleetState) -> FleetState:
    """A copy that its holder may change in place."""
    return FleetState(_copy(state.sensor), _copy(state.track), _copy(state.interceptor))


def _copy(part: Part) -> Part:
    return type(part)(*[getattr(part, f.name).copy() for f in fields(part)])


def either(layers: Bools) -> Bools:
    """Where one of both layers (n, 2) is so; ``any`` along so short an axis takes ten times as long."""
    return np.asarray(layers[:, 0] | layers[:, 1])


def in_step(rows: Rows, slot: Ints) -> bool:
    """Whether these are all rows, and their windows all stand at the same slot: then it is one column of them."""
    return isinstance(rows, slice) and len(slot) > 0 and bool((slot == slot[0]).all())


def span(rows: Ints) -> Rows:
    """Ascending row numbers as a slice where none is missing between them, for what is viewed is not copied."""
    if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def as_arrays(state: FleetState) -> dict[str, NDArray[Any]]:
    """The state as named plain arrays, for a file; :func:`from_arrays` is the inverse."""
    return {
        f"{name}.{f.name}": getattr(part, f.name)
        for name, part in (
            ("sensor", state.sensor),
            ("track", state.track),
            ("interceptor", state.interceptor),
        )
        for f in fields(part)
    }


def from_arrays(arrays: dict[str, NDArray[Any]]) -> FleetState:
    """A state from what :func:`as_arrays` gave.

    Raises
    ------
    KeyError
        An array is missing: the arrays come from another version of the state.
    """
    return FleetState(
        SensorState(*[arrays[f"sensor.{f.name}"] for f in fields(SensorState)]),
        TrackState(*[arrays[f"track.{f.name}"] for f in fields(TrackState)]),
        InterceptorState(*[arrays[f"interceptor.{f.name}"] for f in fields(InterceptorState)]),
    )


def blank_sensors(count: int) -> SensorState:
    """Sensors that have never spoken."""
    nan = np.full(count, np.nan)
    none = np.zeros(count, dtype=np.int64)
    values: dict[str, NDArray[Any]] = {f.name: nan.copy() for f in fields(SensorState)}
    values |= {name: none.copy() for name in ("slot", "same_count", "changes", "run", "hot", "shift_count")}
    values |= {"recent": np.full((count, 2, WINDOW), np.nan), "seen": np.zeros((count, 2), dtype=bool)}
    values |= {
        "surfaces": np.full((count, WINDOW), np.nan),
        "offset": np.zeros(count),
        "shift": np.zeros(count),
    }
    return SensorState(**values)


def blank_tracks(kalman: Kalman, time_s: Floats) -> TrackState:
    """Tracks that nothing has been read of yet, with their prior at ``time_s``."""
    count = len(time_s)
    nan = np.full(count, np.nan)
    two = np.full((count, 2), np.nan)
    none = np.zeros(count, dtype=np.int64)
    values: dict[str, NDArray[Any]] = {f.name: nan.copy() for f in fields(TrackState)}
    values |= {name: none.copy() for name in ("days", "mode", "lows", "after_count", "verdict")}
    values |= {name: two.copy() for name in ("used_s", "verdict_before", "verdict_after")}
    values |= {
        "time_s": time_s,
        "seen": np.zeros((count, 2), dtype=bool),
        "bias": np.zeros((count, 2)),
        "by_hand": np.zeros((count, 2), dtype=bool),
        "gain": np.ones(count),
        "shift": np.zeros((count, 2)),
        "left": np.ones((count, 2)),
        "doubt": np.zeros((count, 2)),
        "doubt_s": two.copy(),
        "calm": np.zeros(count),
        "sees_liquid": np.zeros(count, dtype=bool),
        "day": np.full(count, -1, dtype=np.int64),
        "after": np.full((count, 2, AFTER), np.nan),
        **kalman._asdict(),
    }
    return TrackState(**values)
