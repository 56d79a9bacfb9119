"""The tables of one interceptor's page: services and papers, readings, sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.units import QUANTITIES
from api.pages.views import Chip
from api.pages.words import NONE, Reader, ago, cadence, percent, plain
from api.service import Service
from store.records import CoreSample, Hauler, Manifest, PumpOutRecord, StoredReading

_READINGS: Final = 60
_DAY_US: Final = 86_400_000_000
_QUANTITY_WORDS: Final = {
    "surface": "Surface",
    "distance": "Distance",
    "fog_bottom": "FOG bottom",
    "solids_top": "Solids top",
    "fog_depth": "FOG depth",
    "solids_depth": "Solids depth",
    "pressure": "Pressure",
    "echo_fog_us": "Echo, FOG",
    "echo_solids_us": "Echo, solids",
    "inlet": "Inlet",
    "inlet_max": "Inlet, highest",
    "inlet_over_s": "Inlet over 60 °C",
    "tank": "Tank",
    "air": "Air",
    "battery_v": "Battery",
    "battery_pct": "Battery",
    "rssi_dbm": "Signal",
}


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A pump-out as the sensor saw it, or a paper about one."""

    at: str
    kind: str
    what: str
    tone: str
    before: str
    detail: str
    order: float


@dataclass(frozen=True, slots=True)
class ReadingsView:
    """The newest readings as a table."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def services(
    pump_outs: Sequence[PumpOutRecord],
    manifests: Sequence[Manifest],
    samples: Sequence[CoreSample],
    haulers: Sequence[Hauler],
    reader: Reader,
) -> tuple[ServiceView, ...]:
    """Pump-outs seen, papers and core samples of one interceptor, newest first."""
    names = {one.id: one.name for one in haulers}
    found = [_seen(one, reader) for one in pump_outs if one.confidence > 0]
    found += [_paper(one, names, reader) for one in manifests]
    found += [_sample(one, reader) for one in samples]
    return tuple(sorted(found, key=lambda one: -one.order)[:20])


def _seen(one: PumpOutRecord, reader: Reader) -> ServiceView:
    before = [
        f"{reader.depth(layer.get('fog_m'))} FOG, {reader.depth(layer.get('solids_m'))} solids"
        for layer in one.before
    ]
    return ServiceView(
        at=reader.at(one.start_us),
        kind="Seen by the sensor",
        what="Complete pump-out" if one.complete else "Partial pump-out",
        tone="good" if one.complete else "warn",
        before="; ".join(before) or NONE,
        detail=f"confidence {percent(one.confidence, 0)}",
        order=one.start_us,
    )


def _paper(one: Manifest, names: Mapping[str, str], reader: Reader) -> ServiceView:
    who = names.get(one.hauler or "", one.hauler or "hauler not named")
    before = NONE
    if one.fog_m is not None or one.solids_m is not None:
        before = f"{reader.depth(one.fog_m)} FOG, {reader.depth(one.solids_m)} solids"
    volume = f", {reader.volume(one.volume_m3)}" if one.volume_m3 is not None else ""
    return ServiceView(
        at=reader.at(one.pumped_us),
        kind="Manifest" + (f" {one.number}" if one.number else ""),
        what="Complete, by the paper" if one.complete else "Partial, by the paper",
        tone="info",
        before=before,
        detail=f"{who}{volume}",
        order=one.pumped_us,
    )


def _sample(one: CoreSample, reader: Reader) -> ServiceView:
    return ServiceView(
        at=reader.at(one.sampled_us),
        kind="Core sample",
        what=f"Compartment {one.compartment}",
        tone="info",
        before=f"{reader.depth(one.fog_m)} FOG, {reader.depth(one.solids_m)} solids",
        detail=f"by {one.by}" if one.by else "",
        order=one.sampled_us,
    )


def readings(service: Service, sensors: Sequence[str], reader: Reader, now_us: int) -> ReadingsView:
    """The newest readings in the site's units, a column for each quantity that is there."""
    rows: list[StoredReading] = []
    if sensors:
        last = service.store.history.last(sensors)
        newest = max((one.time_us for one in last.values()), default=now_us)
        span = _DAY_US
        while not rows and span <= 32 * _DAY_US and last:
            rows = service.store.history.readings(sensors, since_us=newest - span, until_us=newest + 1)
            span *= 4
    newest_first = sorted(rows, key=lambda r: r.time_us, reverse=True)[:_READINGS]
    present = [q for q in QUANTITIES.values() if any(q.column in r.values for r in newest_first)]
    profile = any(r.profile is not None for r in newest_first)
    many = len(sensors) > 1
    heads = ["Time", *(["Sensor"] if many else []), *(_QUANTITY_WORDS.get(q.name, q.name) for q in present)]
    table = []
    for one in newest_first:
        cells = [reader.at(one.time_us), *([one.sensor] if many else [])]
        cells += [_cell(one.values.get(q.column), q.name, q.dimension, reader) for q in present]
        if profile:
            cells.append(" ".join(NONE if v is None else f"{v:.2g}" for v in one.profile or ()))
        table.append(tuple(cells))
    return ReadingsView((*heads, "Electrodes, floor up") if profile else tuple(heads), tuple(table))


def _cell(value: float | None, name: str, dimension: str, reader: Reader) -> str:
    if value is None:
        return ""
    if dimension == "length":
        return reader.depth(value)
    if dimension == "temperature":
        return reader.temperature(value)
    if dimension == "pressure":
        return f"{value / 1000:.2f} kPa"
    if name.endswith("_us"):
        return f"{value * 1e6:.1f} µs"
    return f"{value:.3g} {({'battery_v': 'V', 'battery_pct': '%', 'rssi_dbm': 'dBm'}).get(name, 's')}"


def sensors(service: Service, sensors: Sequence[Any], now_us: int) -> tuple[tuple[str, str, str, str], ...]:
    """Each sensor: id, where, profile and cadence, and when it was last heard."""
    contacts = service.store.history.contacts()
    found = []
    for one in sensors:
        heard = contacts.get(one.id)
        age = ago((now_us - heard) / 1e6) if heard is not None else "never heard"
        every = f"every {cadence(one.interval_s)}"
        found.append((one.id, f"compartment {one.compartment}", f"profile {one.profile}, {every}", age))
    return tuple(found)


def health_chip(flag: Mapping[str, Any]) -> Chip:
    """One health flag as a chip."""
    where = f" ({flag['sensor']})" if flag.get("sensor") else ""
    return Chip(f"{plain(str(flag.get('flag')))}{where}", "warn", f"since {flag.get('since') or 'unknown'}")
