"""The fleet's geometry as arrays: sensors, tracks (monitored compartments) and interceptors.

A *track* is one compartment that has at least one sensor; several sensors of one compartment share it. Without any
sensor every compartment is one, for what is measured by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from analysis import acoustics, hydrostatics, radar
from analysis.estimate import DEFAULT_PRIOR, RatePrior
from analysis.model import Bools, Floats, InterceptorModel, Ints, SensorModel

BRIM_SHARE: Final = 0.85  # of the mount's height: nearer than that a ranger may go blind
BRIM_SURGE: Final = 0.03  # m
BRIM_BLIND: Final = 0.10  # m


@dataclass(frozen=True, slots=True)
class SensorGeometry:
    """Geometry of the sensors a batch comes from, one row each, all [m] unless named; NaN is not given.

    ``levels`` has shape (n, 4): nominal electrode value in solids, water, fog and air.
    """

    mount: Floats
    pressure: Floats
    sonar: Floats
    pitch: Floats
    first: Floats
    levels: Floats
    min_layer: Floats
    resolution: Floats
    static: Floats
    fog_density: Floats  # kg/m³; NaN: not given
    fog_density_sd: Floats
    fog_sound: Floats  # m/s at 22 degC
    fog_sound_sd: Floats
    fog_permittivity: Floats
    fog_permittivity_sd: Floats
    radar_permittivity: Floats  # what a guided-wave radar is set to
    assumed_air_c: Floats  # degC, by a ranger that does not compensate

    def rows(self, index: Ints | slice) -> SensorGeometry:
        """The geometry of these rows, in this order; of a slice a view."""
        return SensorGeometry(*[getattr(self, f.name)[index] for f in fields(self)])


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows by interceptor: those of interceptor ``i`` are ``order[start[i]:start[i + 1]]``."""

    order: Ints
    start: Ints

    @classmethod
    def of(cls, owner: Ints, count: int) -> Groups:
        """Group the rows of ``owner`` (rows,), an interceptor's number each, over ``count`` interceptors."""
        order = np.argsort(owner, kind="stable")
        start = np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64)
        return cls(order, start)

    def __getitem__(self, interceptor: int) -> Ints:
        """The rows of one interceptor."""
        return self.order[self.start[interceptor] : self.start[interceptor + 1]]

    def rows(self, who: Ints) -> tuple[Ints, Ints]:
        """The rows of these interceptors (n,) one after the other, and where each one's begin, shape (n,)."""
        size = self.start[who + 1] - self.start[who]
        if bool((size == 1).all()):
            return self.order[self.start[who]], np.arange(len(who))
        first = np.cumsum(size) - size
        inside = np.arange(int(size.sum())) - np.repeat(first, size)
        return self.order[np.repeat(self.start[who], size) + inside], first


@dataclass(frozen=True, slots=True)
class Fleet:
    """All interceptors and sensors that one state is folded over.

    Sensor arrays have shape (sensors,), track arrays (tracks,), interceptor arrays (interceptors,).
    ``sensors_of`` and ``tracks_of`` list the rows of each interceptor. Rates of ``prior`` are per base depth.
    """

    interceptors: tuple[InterceptorModel, ...]
    sensors: tuple[SensorModel, ...]
    prior: RatePrior
    interceptor_index: dict[str, int]
    sensor_index: dict[str, int]
    geometry: SensorGeometry
    sensor_interceptor: Ints
    sensor_track: Ints
    interval_s: Floats
    tau_s: Floats
    hot_limit_c: Floats  # by sensor
    track_interceptor: Ints
    track_compartment: Ints
    track_heard: Bools  # has a sensor; without one only hands tell of it
    track_kitchen: Ints  # index into ``kitchens``
    kitchens: tuple[str, ...]  # in order; "" where none is stated
    track_base: Floats
    track_static: Floats
    track_resolution: Floats
    track_brim: Floats  # height from which a rising surface may soon be out of the sensor's sight [m]
    base: Floats
    limit: Floats
    last_pump_out_s: Floats
    sensors_of: Groups
    tracks_of: Groups

    @classmethod
    def of(
        cls,
        interceptors: Sequence[InterceptorModel],
        sensors: Sequence[SensorModel],
        prior: RatePrior = DEFAULT_PRIOR,
    ) -> Fleet:
        """Lay out a fleet.

        Raises
        ------
        ValueError
            An id stands twice, a sensor names an unknown interceptor, or a compartment is out of range.
        """
        interceptor_index = _index("interceptor", [i.id for i in interceptors])
        sensor_index = _index("sensor", [s.id for s in sensors])
        owner = np.array([_owner(s, interceptor_index, interceptors) for s in sensors], dtype=np.int64)
        heard = {(int(o), s.compartment) for o, s in zip(owner, sensors, strict=True)}
        places = sorted(heard | _unwatched(owner, interceptors))
        track_of = {place: row for row, place in enumerate(places)}
        track = np.array(
            [track_of[int(o), s.compartment] for o, s in zip(owner, sensors, strict=True)], dtype=np.int64
        )
        base = np.array([i.base_depth_m for i in interceptors], dtype=np.float64)
        static = np.array([i.static_level_m for i in interceptors], dtype=np.float64)
        hot = np.array([i.hot_limit_c for i in interceptors], dtype=np.float64)
        last = np.array([_or_nan(i.last_pump_out_s) for i in interceptors], dtype=np.float64)
        track_interceptor = np.array([place[0] for place in places], dtype=np.int64)
        kitchens, kitchen = np.unique([i.kitchen for i in interceptors], return_inverse=True)
        geometry = _geometry(sensors, static[owner] if len(sensors) else np.empty(0))
        finest = np.full(len(places), np.inf)
        np.minimum.at(finest, track, _resolution(geometry))
        return cls(
            interceptors=tuple(interceptors),
            sensors=tuple(sensors),
            prior=prior,
            interceptor_index=interceptor_index,
            sensor_index=sensor_index,
            geometry=geometry,
            sensor_interceptor=owner,
            sensor_track=track,
            interval_s=np.array([s.interval_s for s in sensors], dtype=np.float64),
            tau_s=np.array([_or_nan(s.tau_s) for s in sensors], dtype=np.float64),
            hot_limit_c=hot[owner] if len(sensors) else np.empty(0),
            track_interceptor=track_interceptor,
            track_compartment=np.array([place[1] for place in places], dtype=np.int64),
            track_heard=np.array([place in heard for place in places], dtype=np.bool_),
            track_kitchen=kitchen.astype(np.int64)[track_interceptor],
            kitchens=tuple(str(name) for name in kitchens),
            track_base=base[track_interceptor],
            track_static=static[track_interceptor],
            track_resolution=finest,
            track_brim=_brim(geometry.mount, track, static[track_interceptor]),
            base=base,
            limit=np.array([i.fill_limit for i in interceptors], dtype=np.float64),
            last_pump_out_s=last,
            sensors_of=Groups.of(owner, len(interceptors)),
            tracks_of=Groups.of(track_interceptor, len(interceptors)),
        )


def _index(what: str, ids: Sequence[str]) -> dict[str, int]:
    found = {id_: row for row, id_ in enumerate(ids)}
    if len(found) < len(ids):
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        raise ValueError(f"{what}: id {twice[0]!r} stands twice")
    return found


def _unwatched(owner: Ints, interceptors: Sequence[InterceptorModel]) -> set[tuple[int, int]]:
    """Every compartment of interceptors without a sensor: hands may measure there."""
    bare = set(range(len(interceptors))) - set(owner.tolist())
    return {(row, place) for row in bare for place in range(1, interceptors[row].compartments + 1)}


def _owner(sensor: SensorModel, index: dict[str, int], interceptors: Sequence[InterceptorModel]) -> int:
    row = index.get(sensor.interceptor)
    if row is None:
        raise ValueError(f"sensor {sensor.id!r}: interceptor {sensor.interceptor!r} is not in the fleet")
    count = interceptors[row].compartments
    if not 1 <= sensor.compartment <= count:
        raise ValueError(f"sensor {sensor.id!r}: compartment {sensor.compartment} is not one of 1 to {count}")
    return row


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _levels(sensor: SensorModel) -> tuple[float, float, float, float]:
    if sensor.levels is None:
        return (np.nan,) * 4
    return (_or_nan(sensor.levels.solids), sensor.levels.water, sensor.levels.fog, sensor.levels.air)


def _geometry(sensors: Sequence[SensorModel], static: Floats) -> SensorGeometry:
    pitch = np.array([_or_nan(s.pitch_m) for s in sensors], dtype=np.float64)
    first = np.array([_or_nan(s.first_m) for s in sensors], dtype=np.float64)
    return SensorGeometry(
        mount=np.array([_or_nan(s.mount_height_m) for s in sensors], dtype=np.float64),
        pressure=_heights([s.pressure_height_m for s in sensors], [s.mount_height_m for s in sensors]),
        sonar=_heights([s.sonar_height_m for s in sensors], [s.mount_height_m for s in sensors]),
        pitch=pitch,
        first=np.where(np.isnan(first), pitch / 2, first),
        levels=np.array([_levels(s) for s in sensors], dtype=np.float64).reshape(len(sensors), 4),
        min_layer=np.array([s.min_layer_m for s in sensors], dtype=np.float64),
        resolution=np.array([s.resolution_m for s in sensors], dtype=np.float64),
        static=static,
        fog_density=_given(sensors, "fog_density_kg_m3"),
        fog_density_sd=_given(sensors, "fog_density_sd_kg_m3", hydrostatics.FOG_DENSITY_SD),
        fog_sound=_given(sensors, "fog_sound_m_s", acoustics.OIL_SOUND),
        fog_sound_sd=_given(sensors, "fog_sound_sd_m_s", acoustics.OIL_SOUND_SD),
        fog_permittivity=_given(sensors, "fog_permittivity", radar.FOG_PERMITTIVITY),
        fog_permittivity_sd=_given(sensors, "fog_permittivity_sd", radar.FOG_PERMITTIVITY_SD),
        radar_permittivity=_given(sensors, "radar_permittivity"),
        assumed_air_c=_given(sensors, "assumed_air_c"),
    )


def _given(sensors: Sequence[SensorModel], name: str, usual: float = np.nan) -> Floats:
    values = [getattr(sensor, name) for sensor in sensors]
    return np.array([usual if value is None else value for value in values], dtype=np.float64)


def _heights(own: Sequence[float | None], mount: Sequence[float | None]) -> Floats:
    return np.array([_or_nan(o if o is not None else m) for o, m in zip(own, mount, strict=True)])


def _brim(mount: Floats, track: Ints, static: Floats) -> Floats:
    """85 % of the highest mount, but above every ordinary surge; without a mount 100 mm above the outlet."""
    highest = np.full(len(static), -np.inf)
    np.fmax.at(highest, track, mount)
    known = np.isfinite(highest)
    near = np.maximum(BRIM_SHARE * np.where(known, highest, 0.0), static + BRIM_SURGE)
    return np.where(known, near, static + BRIM_BLIND)


def _resolution(geometry: SensorGeometry) -> Floats:
    """The thickness one sensor can tell from nothing [m]: its resolution, its pitch or its least layer."""
    return np.fmax(np.fmax(geometry.resolution, geometry.pitch), geometry.min_layer)
