"""From what the fold found to the ledger: pump-outs and hot discharges, new or corrected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from alerts.ids import short_id
from alerts.lines import hot_discharge_line, pump_out_line
from analysis.model import Found, HotDischarge, Layers, PumpOut
from api.desk import Desk
from store.records import HotDischargeRecord, Json, PumpOutRecord

_SAME_SERVICE_US: Final = 2 * 3_600_000_000  # a pump-out found again this close to a known one is that one


def record_found(desk: Desk, found: Found, refolded: Mapping[str, float], at_us: int) -> set[str]:
    """Write what is new or was corrected; returns whom it concerns."""
    # a refold passes again through states that were told long ago: only where it ends is news
    again: dict[str, PumpOutRecord] = {}
    for pump_out in found.pump_outs:
        record = _pump_out_record(desk, pump_out, again.values())
        again[record.id] = record
    for record in again.values():
        known = desk.folder(record.interceptor).pump_outs.get(record.id)
        if known is None or pump_out_line(known) != pump_out_line(record):
            desk.put_pump_out(record, at_us)
    for interceptor, since_s in refolded.items():
        for known in list(desk.folder(interceptor).pump_outs.values()):
            if known.start_us > since_s * 1e6 and known.id not in again and known.confidence > 0:
                # late readings showed that it was none: the correction repeats the id
                desk.put_pump_out(replace(known, complete=False, confidence=0.0), at_us)
    for hot in {(hot.sensor, hot.start_s): hot for hot in found.hot_discharges}.values():
        _record_hot(desk, hot, at_us)
    noticed = {p.interceptor for p in found.pump_outs} | {h.interceptor for h in found.hot_discharges}
    return noticed | set(refolded)


def _pump_out_record(desk: Desk, found: PumpOut, beside: Iterable[PumpOutRecord]) -> PumpOutRecord:
    start_us, end_us = round(found.start_s * 1e6), round(found.end_s * 1e6)
    known = [
        p
        for p in (*desk.folder(found.interceptor).pump_outs.values(), *beside)
        if p.interceptor == found.interceptor
        and p.start_us <= end_us + _SAME_SERVICE_US
        and start_us <= p.end_us + _SAME_SERVICE_US
    ]
    identity = known[0].id if known else short_id("po", found.interceptor, str(start_us))
    return PumpOutRecord(
        id=identity,
        interceptor=found.interceptor,
        start_us=start_us,
        end_us=end_us,
        complete=found.complete,
        confidence=found.confidence,
        before=tuple(_layers(one) for one in found.before),
        after=tuple(_layers(one) for one in found.after),
    )


def _record_hot(desk: Desk, hot: HotDischarge, at_us: int) -> None:
    record = HotDischargeRecord(
        id=short_id("hd", hot.sensor, str(round(hot.start_s * 1e6))),
        interceptor=hot.interceptor,
        sensor=hot.sensor,
        start_us=round(hot.start_s * 1e6),
        end_us=None if hot.end_s is None else round(hot.end_s * 1e6),
        peak_c=hot.peak_c,
        duration_s=hot.duration_s,
        status=hot.status,
    )
    known = desk.folder(hot.interceptor).hot_discharges.get(record.id)
    if known is not None and hot_discharge_line(known) == hot_discharge_line(record):
        return
    rose = known is not None and known.status != record.status
    ended = record.end_us is not None and (known is None or known.end_us is None or known != record)
    desk.put_hot_discharge(record, at_us, tell=rose or ended)


def _layers(one: Layers) -> Json:
    return {"compartment": one.compartment, "fog_m": one.fog_m, "solids_m": one.solids_m}
