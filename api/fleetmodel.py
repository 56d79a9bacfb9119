"""From the registry's records to the core's geometry, and from stored readings to batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

import numpy as np

from alerts.ordinance import Ordinance, subject_of
from analysis.fold import Fleet
from analysis.model import InterceptorModel, Levels, ReadingBatch, SensorModel
from analysis.units import COLUMNS
from ingest.profile import DEVICE_NUMBERS, DeviceProfile
from store.records import CLOCK_REPLACED, Interceptor, Json, Sensor, Site, StoredReading

_DEVICE_KEYS = (
    "mount_height_m",
    "pressure_height_m",
    "sonar_height_m",
    "pitch_m",
    "first_m",
    "min_layer_m",
    "resolution_m",
    "tau_s",
    *DEVICE_NUMBERS,
)


def local_noon_us(day: str, zone: str) -> int:
    """The instant of local noon of an ISO date [us]: a pump-out known by its date only is held to be then."""
    noon = datetime.combine(date.fromisoformat(day), time(12), ZoneInfo(zone))
    return round(noon.timestamp() * 1e6)


def sensor_model(sensor: Sensor, profile: DeviceProfile | None) -> SensorModel:
    """One sensor's geometry; its own device keys win over its profile's."""
    device: Json = {**(profile.device if profile is not None else {}), **sensor.device}
    keys = {key: float(device[key]) for key in _DEVICE_KEYS if device.get(key) is not None}
    levels = device.get("levels")
    return SensorModel(
        id=sensor.id,
        interceptor=sensor.interceptor,
        compartment=sensor.compartment,
        interval_s=sensor.interval_s,
        levels=Levels(**levels) if levels else None,
        **keys,
    )


def interceptor_model(
    interceptor: Interceptor, site: Site, ordinance: Ordinance, *, day: date
) -> InterceptorModel:
    """One interceptor's geometry with the limits its ordinance holds on that day."""
    rules = ordinance.at(day).rules_for(subject_of(interceptor, site))
    last = interceptor.last_pump_out
    return InterceptorModel(
        id=interceptor.id,
        base_depth_m=interceptor.base_depth_m,
        static_level_m=interceptor.static_level_m,
        compartments=interceptor.compartments,
        kitchen=site.kitchen,
        fill_limit=rules.fill_limit,
        hot_limit_c=math.inf if rules.hot_limit_c is None else rules.hot_limit_c,
        last_pump_out_s=local_noon_us(last, site.timezone) / 1e6 if last else None,
    )


def build_fleet(
    interceptors: Sequence[Interceptor],
    sensors: Sequence[Sensor],
    sites: Mapping[str, Site],
    ordinances: Mapping[str, Ordinance],
    profiles: Mapping[str, DeviceProfile],
    *,
    day: date,
) -> Fleet:
    """The fleet the core folds over, in the registry's order."""
    models = [
        interceptor_model(i, sites[i.site], ordinances[sites[i.site].ordinance], day=day)
        for i in interceptors
    ]
    return Fleet.of(models, [sensor_model(s, profiles.get(s.profile)) for s in sensors])


def as_batch(readings: Sequence[StoredReading], index: Mapping[str, int]) -> ReadingBatch:
    """Stored readings as a struct of arrays, shape (n,)."""
    count = len(readings)
    values: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for row, reading in enumerate(readings):
        for column, value in reading.values.items():
            if column not in values:
                values[column] = np.full(count, np.nan)
            values[column][row] = value
    width = max((len(r.profile) for r in readings if r.profile is not None), default=0)
    profile = np.full((count, width), np.nan)
    for row, reading in enumerate(readings):
        if reading.profile is not None:
            profile[row, : len(reading.profile)] = [np.nan if v is None else v for v in reading.profile]
    unknown = set(values) - set(COLUMNS)
    if unknown:
        raise ValueError(f"not a column of the core: {sorted(unknown)}")
    return ReadingBatch(
        sensor=np.array([index[r.sensor] for r in readings], dtype=np.int64),
        time_s=np.array([r.time_us / 1e6 for r in readings], dtype=np.float64),
        values=dict(values),
        profile=profile,
        restamped=np.array([bool(r.flags & CLOCK_REPLACED) for r in readings]),
    )
