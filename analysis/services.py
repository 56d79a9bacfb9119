"""From the judged cases of an interceptor's compartments to one pump-out."""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.events import COMPLETE, NONE, PATIENCE_S
from analysis.fleet import Fleet
from analysis.model import Floats, Ints, Layers, PumpOut
from analysis.state import TrackState

COMPANIONS_S: Final = 3 * 3600.0  # the other compartments are judged within this, or were not served


def settle_cases(
    track: TrackState, rows: Ints, now_s: float, since_s: float, fleet: Fleet, number: int
) -> PumpOut | None:
    """Join the verdicts of one interceptor's tracks; ``None`` while another compartment is still open.

    Complete means complete in every monitored compartment: one without a case of its own must hold no more
    than 2 % of the base depth or twice the resolution. Taken verdicts are cleared.
    """
    judged = track.verdict[rows] != NONE
    others_open = bool((track.mode[rows][~judged] == 1).any())
    late = now_s - since_s >= (PATIENCE_S if others_open else COMPANIONS_S)
    if not judged.all() and not late:
        return None
    whole = bool((track.verdict[rows][judged] == COMPLETE).all())
    whole = whole and all(_empty(track, int(row), fleet, number) for row in rows[~judged])
    before, after = [], []
    for row, place in zip(rows.tolist(), fleet.tracks_of[number].tolist(), strict=True):
        compartment = int(fleet.track_compartment[place])
        own = bool(track.verdict[row] != NONE)
        now = np.where(track.seen[row], np.maximum(track.x[row], 0.0), np.nan)
        before.append(_layers(compartment, track.verdict_before[row] if own else now))
        after.append(_layers(compartment, track.verdict_after[row] if own else now))
    pump_out = PumpOut(
        interceptor=fleet.interceptors[number].id,
        start_s=float(track.start_s[rows][judged].min()),
        end_s=float(track.end_s[rows][judged].max()),
        complete=whole,
        confidence=float(track.verdict_conf[rows][judged].min()),
        before=tuple(before),
        after=tuple(after),
    )
    track.verdict[rows] = NONE
    return pump_out


def _empty(track: TrackState, row: int, fleet: Fleet, number: int) -> bool:
    if not track.seen[row].all():
        return False
    base = float(fleet.base[number])
    place = int(fleet.tracks_of[number][0])
    limit = max(0.02 * base, 2.0 * float(fleet.track_resolution[place]))
    return float(np.maximum(track.x[row], 0.0).sum()) <= limit


def _layers(compartment: int, depth: Floats) -> Layers:
    fog, solids = (float(d) if np.isfinite(d) else None for d in depth)
    return Layers(compartment, fog, solids)
