"""What came over: the fleet and the native messages of a scenario, read as simply as a reader can.

For the scorer (when did a device speak?) and for the baselines (what did it say, taken at its word?). It shares
nothing with the decoder or the estimator of the product but the table of units.
"""

from __future__ import annotations

import tomllib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.units import UNITS, to_si
from analysis.units import field as field_of
from simulators.truth import Line, seconds

Floats = NDArray[np.float64]
WATER_M_S: Final = 1482.0  # a round figure for every tank: a baseline knows no better
OIL_M_S: Final = 1440.0
PITCH_M: Final = 0.05
EPOCH_SCALES: Final = ((1e11, 1.0), (1e14, 1e-3), (1e17, 1e-6))
EARLIEST_S: Final = 1_577_836_800.0  # 2020-01-01: a time before it is a clock that was never set
_NAN: Final = float("nan")


@dataclass(frozen=True, slots=True)
class Gauge:
    """What the fleet file says of one sensor and of the interceptor it hangs in [m, s]."""

    interceptor: str
    base_m: float
    static_m: float
    compartment: int
    interval_s: float
    pitch_m: float
    mount_m: float
    sonar_m: float
    levels: Mapping[str, float]


@dataclass(slots=True)
class Heard:
    """One interceptor's messages, arrays of shape (n,) in order of event time once ``settle`` is called.

    ``fog_m`` and ``solids_m`` are the device's words turned into depths, NaN where it said nothing of them.
    """

    interceptor: str
    base_m: float
    interval_s: float
    pitch_m: float
    sensors: set[str] = field(default_factory=set)
    at_s: Any = field(default_factory=lambda: array("d"))
    received_s: Any = field(default_factory=lambda: array("d"))
    fog_m: Any = field(default_factory=lambda: array("d"))
    solids_m: Any = field(default_factory=lambda: array("d"))
    maximum_s: Any = field(default_factory=lambda: array("d"))  # when a message carried ``inlet_max``
    probed: set[str] = field(default_factory=set)  # sensors that ever spoke of an inlet

    def settle(self) -> None:
        """Turn what was gathered into arrays, in order of event time."""
        at_s = np.array(self.at_s, dtype=np.float64)
        order = np.argsort(at_s, kind="stable")
        self.at_s = at_s[order]
        self.received_s = np.array(self.received_s, dtype=np.float64)[order]
        self.fog_m = np.array(self.fog_m, dtype=np.float64)[order]
        self.solids_m = np.array(self.solids_m, dtype=np.float64)[order]
        self.maximum_s = np.sort(np.array(self.maximum_s, dtype=np.float64))

    def around(self, start_s: float, end_s: float) -> tuple[int, float, float]:
        """How many messages tell of ``start_s`` to ``end_s``, and the instants of those next to it."""
        first = int(np.searchsorted(self.at_s, start_s, "left"))
        last = int(np.searchsorted(self.at_s, end_s, "right"))
        before = float(self.at_s[first - 1]) if first > 0 else float("-inf")
        after = float(self.at_s[last]) if last < self.at_s.size else float("inf")
        return last - first, before, after

    def maximum_between(self, start_s: float, end_s: float) -> bool:
        """Whether a message with ``inlet_max`` tells of an instant from ``start_s`` to ``end_s``."""
        first, last = np.searchsorted(self.maximum_s, [start_s, end_s])
        return bool(last > first)


def read_fleet(text: str) -> dict[str, Gauge]:
    """The sensors of a fleet file by id, in lower case.

    Raises
    ------
    tomllib.TOMLDecodeError, KeyError
        The text is no fleet file.
    """
    tables = tomllib.loads(text)
    homes = {home["id"]: home for home in tables.get("interceptors", ())}
    return {
        sensor["id"].lower(): _gauge(sensor, homes[sensor["interceptor"]])
        for sensor in tables.get("sensors", ())
    }


def _gauge(sensor: Mapping[str, Any], home: Mapping[str, Any]) -> Gauge:
    base_mm = home["base_depth_mm"]
    static_mm = home.get("static_level_mm", base_mm)
    mount_mm = sensor.get("mount_height_mm", static_mm)
    return Gauge(
        interceptor=home["id"],
        base_m=base_mm / 1e3,
        static_m=static_mm / 1e3,
        compartment=sensor.get("compartment", 1),
        interval_s=float(sensor.get("interval_s", 900)),
        pitch_m=sensor.get("pitch_mm", PITCH_M * 1e3) / 1e3,
        mount_m=mount_mm / 1e3,
        sonar_m=sensor.get("sonar_height_mm", mount_mm) / 1e3,
        levels=sensor.get("levels", {}),
    )


def listen(fleet: Mapping[str, Gauge], lines: Iterable[Line]) -> dict[str, Heard]:
    """Read the lines of a message file; what is no reading of a known sensor is passed over.

    Returns
    -------
    dict
        Every interceptor of ``fleet`` that has a sensor, those that never spoke too.
    """
    heard: dict[str, Heard] = {}
    for name, gauge in fleet.items():
        one = heard.setdefault(
            gauge.interceptor, Heard(gauge.interceptor, gauge.base_m, gauge.interval_s, gauge.pitch_m)
        )
        one.sensors.add(name)
    for line in lines:
        parts = line["topic"].split("/")
        gauge_here = fleet.get(parts[2].lower()) if len(parts) == 4 and parts[3] == "readings" else None
        if gauge_here is None or line.get("retain"):
            continue
        received_s = seconds(line["received_at"])
        for item in _items(line):
            _note(heard[gauge_here.interceptor], gauge_here, parts[2].lower(), item, received_s)
    for one in heard.values():
        one.settle()
    return heard


def _items(line: Line) -> Iterator[Mapping[str, Any]]:
    payload = line.get("payload")
    if isinstance(payload, str):
        try:
            payload = msgspec.json.decode(payload)
        except msgspec.DecodeError:
            return
    for item in payload if isinstance(payload, list) else [payload]:
        if isinstance(item, dict):
            yield item


def _note(heard: Heard, gauge: Gauge, sensor: str, item: Mapping[str, Any], received_s: float) -> None:
    said = _quantities(item)
    if not said:
        return
    at_s = _instant(item.get("time"), received_s)
    fog_m, solids_m = _layers(said, gauge)
    heard.at_s.append(at_s)
    heard.received_s.append(received_s)
    heard.fog_m.append(fog_m)
    heard.solids_m.append(solids_m)
    if "inlet_max" in said:
        heard.maximum_s.append(at_s)
    if "inlet_max" in said or "inlet" in said:
        heard.probed.add(sensor)


def _instant(stated: object, received_s: float) -> float:
    """The time an item states; that of its receipt where it states none, or one that cannot be."""
    at_s = received_s
    if isinstance(stated, str):
        try:
            at_s = seconds(stated)
        except ValueError:
            return received_s
    elif isinstance(stated, int | float) and not isinstance(stated, bool):
        at_s = stated * next((scale for below, scale in EPOCH_SCALES if stated < below), 1e-9)
    return at_s if EARLIEST_S <= at_s <= received_s + 300.0 else received_s


@lru_cache(maxsize=4096)
def _name(key: str) -> tuple[str, str | None] | None:
    found = field_of(key)
    return None if found is None else (found[0].name, found[1])


def _quantities(item: Mapping[str, Any]) -> dict[str, Any]:
    """Quantities by name in SI; an electrode profile as it is."""
    said: dict[str, Any] = {}
    for key, value in item.items():
        known = _name(key)
        if known is None or value is None:
            continue
        quantity, unit = known
        if isinstance(value, int | float) and not isinstance(value, bool):
            said[quantity] = to_si(value, unit) if unit in UNITS else float(value)
        elif quantity == "profile" and isinstance(value, list):
            said[quantity] = value
    return said


def _layers(said: Mapping[str, Any], gauge: Gauge) -> tuple[float, float]:
    """FOG and solids [m] as a person would read them off one message."""
    if "profile" in said:
        return _rod(said["profile"], gauge)
    surface = said.get("surface", gauge.mount_m - said["distance"] if "distance" in said else gauge.static_m)
    fog, solids = _NAN, _NAN
    if "fog_depth" in said:
        fog = said["fog_depth"]
    elif "fog_bottom" in said:
        fog = surface - said["fog_bottom"]
    elif "echo_fog_us" in said:
        fog = said["echo_fog_us"] * OIL_M_S / 2.0
    if "solids_depth" in said:
        solids = said["solids_depth"]
    elif "solids_top" in said:
        solids = said["solids_top"]
    elif "echo_solids_us" in said:
        solids = gauge.sonar_m - said["echo_solids_us"] * WATER_M_S / 2.0
    return max(fog, 0.0), max(solids, 0.0)


def _rod(profile: list[Any], gauge: Gauge) -> tuple[float, float]:
    """Count the electrodes that stand in each medium: solids from the floor up, grease above the water.

    Half in grease and half in water an electrode looks like solids: above the water it counts half.
    """
    if not gauge.levels:
        return _NAN, _NAN
    media = [_medium(value, gauge.levels) for value in profile]
    solids = next((place for place, medium in enumerate(media) if medium != "solids"), len(media))
    water = max((place for place, medium in enumerate(media) if medium == "water"), default=solids - 1)
    above = media[water + 1 :]
    fog = above.count("fog") + above.count("solids") / 2
    return fog * gauge.pitch_m, solids * gauge.pitch_m


def _medium(value: object, levels: Mapping[str, float]) -> str | None:
    if not isinstance(value, int | float):
        return None
    return min(levels, key=lambda name: abs(levels[name] - value))
