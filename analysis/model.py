"""The types the core speaks: geometry of interceptors and sensors, batches of readings, what is found.

Times are seconds since the epoch, UTC [s]; lengths [m]; temperatures [degC]; NaN is "missing".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Levels:
    """Nominal electrode value in each medium, in the device's own scale."""

    air: float
    fog: float
    water: float
    solids: float | None = None


@dataclass(frozen=True, slots=True)
class SensorModel:
    """What estimation must know of one sensor. Heights above the tank floor [m].

    The grease in front of it: ``fog_density_kg_m3``, ``fog_sound_m_s`` (at 22 degC) and ``fog_permittivity``,
    each with its standard uncertainty; absent, the priors of :mod:`analysis.fleet`. ``radar_permittivity`` is what
    a guided-wave radar is set to, ``assumed_air_c`` what a ranger takes the air for that does not compensate.
    """

    id: str
    interceptor: str
    compartment: int
    interval_s: float = 900.0
    mount_height_m: float | None = None
    pressure_height_m: float | None = None
    sonar_height_m: float | None = None
    pitch_m: float | None = None
    first_m: float | None = None
    levels: Levels | None = None
    min_layer_m: float = 0.0
    resolution_m: float = 0.001
    tau_s: float | None = None
    fog_density_kg_m3: float | None = None
    fog_density_sd_kg_m3: float | None = None
    fog_sound_m_s: float | None = None
    fog_sound_sd_m_s: float | None = None
    fog_permittivity: float | None = None
    fog_permittivity_sd: float | None = None
    radar_permittivity: float | None = None
    assumed_air_c: float | None = None


@dataclass(frozen=True, slots=True)
class InterceptorModel:
    """What estimation must know of one interceptor."""

    id: str
    base_depth_m: float
    static_level_m: float
    compartments: int = 1
    kitchen: str = ""
    fill_limit: float = 0.25
    hot_limit_c: float = 60.0
    last_pump_out_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """Readings as a struct of arrays, n of them, in any order.

    ``sensor`` indexes the fleet's sensors, shape (n,). ``values`` holds SI columns of
    :data:`analysis.units.COLUMNS`, each shape (n,), NaN where missing; an absent column is all NaN.
    ``profile`` has shape (n, electrodes), floor up, NaN padded; zero columns where nobody sent one.
    ``restamped`` (n,) marks readings whose own clock was wrong, so that they stand at their receipt; empty
    where none was.
    """

    sensor: Ints
    time_s: Floats
    values: dict[str, Floats]
    profile: Floats = field(default_factory=lambda: np.empty((0, 0)))
    restamped: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))


@dataclass(frozen=True, slots=True)
class Layers:
    """Both layers of one compartment at one instant [m]; ``None`` where unseen."""

    compartment: int
    fog_m: float | None
    solids_m: float | None


@dataclass(frozen=True, slots=True)
class PumpOut:
    """An observed pump-out of one interceptor: the liquid fell from ``start_s`` on, was back by ``end_s``."""

    interceptor: str
    start_s: float
    end_s: float
    complete: bool
    confidence: float
    before: tuple[Layers, ...]
    after: tuple[Layers, ...]


@dataclass(frozen=True, slots=True)
class HotDischarge:
    """Wastewater above the limit at one inlet probe; ``end_s`` is None while it lasts."""

    interceptor: str
    sensor: str
    start_s: float
    end_s: float | None
    peak_c: float
    duration_s: float
    status: str  # possible | confirmed


@dataclass(frozen=True, slots=True)
class Found:
    """What one fold step noticed, in order of time."""

    pump_outs: tuple[PumpOut, ...] = ()
    hot_discharges: tuple[HotDischarge, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthFlag:
    """One health remark on a sensor; flags are those of contracts.md §3."""

    flag: str
    sensor: str | None
    quantity: str | None
    since_s: float


@dataclass(frozen=True, slots=True)
class CompartmentAssessment:
    """One compartment now: quiescent latent depths with their standard deviations [m]; None is unknown."""

    compartment: int
    fog_m: float | None
    fog_sd_m: float | None
    solids_m: float | None
    solids_sd_m: float | None
    fraction: float | None
    fraction_sd: float | None
    p_over_limit: float | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """One interceptor now, by its fullest monitored compartment.

    Rates [m/day] are of FOG + solids; their deviation holds what menus and seasons may bring. ``rate_own_share``
    is the share of the rate's information that is the interceptor's own, not the fleet's prior. ``crossing_s``
    holds the p05, p10, p50, p90 and p95 instants [s], each None when more than 183 days ahead; the tuple itself
    is None when the fraction is unknown.
    """

    interceptor: str
    time_s: float
    compartment: int | None
    fog_m: float | None
    fog_sd_m: float | None
    solids_m: float | None
    solids_sd_m: float | None
    fraction: float | None
    fraction_sd: float | None
    p_over_limit: float | None
    rate_m_per_day: float | None
    rate_sd_m_per_day: float | None
    crossing_s: tuple[float | None, float | None, float | None, float | None, float | None] | None
    health: tuple[HealthFlag, ...]
    compartments: tuple[CompartmentAssessment, ...]
    own_evidence: bool  # this cycle's own readings suffice for a forecast order
    last_reading_s: float | None
    since_s: float | None  # start of the present cycle, None where unknown
    rate_own_share: float | None = None
