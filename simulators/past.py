"""How the city came to be as it starts: every interceptor fills from its last pump-out on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from simulators.interceptor import Tanks, TankState, advance, depths, fraction
from simulators.kitchen import Bools, Floats, KitchenDay, Kitchens
from simulators.plan import LIAR, CityPlan

PAST_DAYS: Final = 105
STEP_S: Final = 10800.0
LIMIT: Final = 0.25
AHEAD_DAYS: Final = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0)  # some cross within these days
CALM: Final = 0.19  # the others start at most this full
SLOWING: Final = 0.75  # a fairly full tank gains this part of its average gain a day
LEFT_FOG: Final = 0.03
LEFT_SOLIDS: Final = 0.04
UNKNOWN_EVERY: Final = 17  # of so many interceptors one has no known last pump-out


@dataclass(frozen=True, slots=True)
class Past:
    """The state at the start, and the local dates of the last complete pump-outs that are known."""

    state: TankState
    last_pump_outs: dict[int, date]


def live_through(
    plan: CityPlan, kitchens: Kitchens, tanks: Tanks, start_s: float, rng: np.random.Generator
) -> Past:
    """Choose each interceptor's last pump-out and let it fill until ``start_s`` [s since the epoch].

    A first pass from clean tanks tells how fast each fills, a second corrects the dates, the third is the
    past itself. All three have the same weather.
    """
    zone = ZoneInfo(plan.timezone)
    begin_s = start_s - PAST_DAYS * 86400
    weather_seed = int(rng.integers(2**63))
    growth = _growth(kitchens, tanks, begin_s, zone, weather_seed)
    lied_to = np.array([item.hauler == LIAR for item in plan.interceptors])
    days, wanted = _choose_days(growth, lied_to, rng)
    today = datetime.fromtimestamp(start_s, zone).date()

    def fill_since(dates: list[date]) -> TankState:
        noons = np.array([datetime.combine(day, time(12), zone).timestamp() for day in dates])
        return _fill(kitchens, tanks, begin_s, start_s, zone, weather_seed, noons)

    first = fill_since([today - timedelta(days=int(day)) for day in days])
    short = wanted - fraction(tanks, depths(tanks, first))[:, 0]
    daily = SLOWING * wanted / np.maximum(days, 1.0)
    days = np.clip(np.round(days + np.where(wanted > CALM, short / daily, 0.0)), 1.0, PAST_DAYS - 5.0)
    dates = [today - timedelta(days=int(day)) for day in days]
    state = fill_since(dates)
    for ledger in (state.fed, state.left, state.pumped):
        ledger[:] = 0.0
    state.fed[:, 0] = state.grease_m3.sum(axis=1)  # the balance starts with what is there
    state.fed[:, 1] = state.dry_kg.sum(axis=1)
    known = {row: day for row, day in enumerate(dates) if row % UNKNOWN_EVERY != UNKNOWN_EVERY - 1}
    return Past(state, known)


def _fill(
    kitchens: Kitchens,
    tanks: Tanks,
    begin_s: float,
    start_s: float,
    zone: ZoneInfo,
    weather_seed: int,
    noons: Floats,
) -> TankState:
    """Live from ``begin_s`` to ``start_s``; each interceptor is pumped out at its noon."""
    state = TankState.empty(tanks)
    weather = KitchenDay(kitchens, np.random.default_rng(weather_seed))
    now_s = begin_s
    while now_s < start_s:
        due = (noons >= now_s) & (noons < now_s + STEP_S)
        if due.any():
            _clean(state, due)
        advance(tanks, state, weather.draw(_local(now_s, zone), STEP_S), STEP_S)
        now_s += STEP_S
    return state


def _local(now_s: float, zone: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(now_s, zone).utcoffset()
    return now_s + (offset.total_seconds() if offset is not None else 0.0)


def _growth(kitchens: Kitchens, tanks: Tanks, begin_s: float, zone: ZoneInfo, weather_seed: int) -> Floats:
    """Fraction at the end of each day from clean tanks, shape (days, n)."""
    state = TankState.empty(tanks)
    weather = KitchenDay(kitchens, np.random.default_rng(weather_seed))
    daily = np.empty((PAST_DAYS, tanks.static_m.size))
    for day in range(PAST_DAYS):
        for part in range(int(86400 / STEP_S)):
            local_s = _local(begin_s + day * 86400 + part * STEP_S, zone)
            advance(tanks, state, weather.draw(local_s, STEP_S), STEP_S)
        daily[day] = fraction(tanks, depths(tanks, state))[:, 0]
    return daily


def _first_day(growth: Floats, level: float) -> Floats:
    """Days until each column first reaches ``level``; infinity where it does not."""
    reached = growth >= level
    return np.where(reached.any(axis=0), reached.argmax(axis=0) + 1.0, np.inf)


def _choose_days(growth: Floats, lied_to: Bools, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Whole days since the last pump-out, and the fraction wanted at the start.

    Some cross the limit soon, one of the lying hauler's among the first; the others stand anywhere below.
    """
    full = _first_day(growth, LIMIT)
    latest = np.minimum(_first_day(growth, CALM) - 1.0, 80.0)
    days = np.floor(rng.uniform(4.0, np.maximum(latest, 5.0)))
    quick = rng.permutation(np.flatnonzero((full >= 24.0) & (full <= 88.0)))
    theirs = quick[lied_to[quick]][:1]
    quick = np.concatenate([theirs, quick[~np.isin(quick, theirs)]])
    for row, ahead in zip(quick[: len(AHEAD_DAYS)], AHEAD_DAYS, strict=False):
        days[row] = np.floor(full[row] - ahead)
    slow = np.flatnonzero(latest >= 80.0)
    days[slow[:2]] = (86.0, 83.0)[: slow[:2].size]  # the calendar runs out for these first
    days = np.maximum(days, 1.0)
    return days, growth[days.astype(np.int64) - 1, np.arange(days.size)]


def _clean(state: TankState, rows: np.ndarray) -> None:
    state.grease_m3[rows] *= LEFT_FOG
    state.bound_m3[rows] *= LEFT_FOG
    state.dry_kg[rows] *= LEFT_SOLIDS
    state.sludge_m3[rows] *= LEFT_SOLIDS
