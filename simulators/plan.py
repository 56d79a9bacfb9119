"""The plan of a city: its sites, interceptors, sensors and haulers, drawn from one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from simulators.kitchen import KINDS, KitchenKind
from simulators.mounting import SensorPlan, checked_mix, draw_mixed, draw_usual
from simulators.sensor import Principle

ZONE: Final = "America/Los_Angeles"
GALLON_L: Final = 3.785411784
ORDINANCES: Final = ("inglewood", "sierra-madre")
CENTRES: Final = {"inglewood": (33.9617, -118.3531), "sierra-madre": (34.1617, -118.0528)}
LIAR: Final = "swift"
GREASE_KG_M3: Final = (
    915.0,
    12.0,
)  # mean and spread between kitchens: lard 875, vegetable oil 920, water in it
SIZES: Final = ((750, 1067), (1000, 1220), (1000, 1220), (1250, 1270), (1500, 1370), (2000, 1524))
FIRST_NAMES: Final = (
    "Alma", "Bao", "Carmen", "Dario", "Elena", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kiri", "Luigi",
    "Mina", "Nadia", "Omar", "Paula", "Quan", "Rosa", "Soledad", "Tariq", "Uma", "Vera", "Wen", "Ximena",
    "Yusuf", "Zoe", "Bruno", "Celeste", "Dolores", "Emil", "Fatima", "Gilda", "Hector", "Iris", "Joaquin",
    "Kamala", "Leonor", "Mateo", "Noor", "Otis",
)  # fmt: skip
SUFFIX: Final = {
    "full-service": ("Kitchen", "Grill", "Trattoria", "Table"),
    "quick-service": ("Fried Chicken", "Burgers", "Tacos", "Wok"),
    "cafe": ("Cafe", "Coffee House", "Espresso"),
    "bakery": ("Bakery", "Panaderia"),
    "cafeteria": ("School Cafeteria", "Dining Hall"),
}
EQUIPMENT: Final = {
    "full-service": ("fryer", "range", "dishwasher"),
    "quick-service": ("fryer", "wok"),
    "cafe": ("range",),
    "bakery": ("oven", "mixer"),
    "cafeteria": ("range", "dishwasher", "kettle"),
}


@dataclass(frozen=True, slots=True)
class SitePlan:
    """One establishment."""

    id: str
    name: str
    ordinance: str
    kitchen: str
    latitude: float
    longitude: float
    seats: int
    equipment: tuple[str, ...]
    owner: str
    phone: str


@dataclass(frozen=True, slots=True)
class InterceptorPlan:
    """One interceptor; ``share`` is its part of the site's flow, ``load`` its site's lognormal factor."""

    id: str
    site: int
    kind: str
    volume_l: float
    base_depth_mm: float
    compartments: int
    frequency: str | None
    hauler: str
    share: float
    load: float
    purges_a_day: float
    grease_kg_m3: float | None = None  # None: nobody asks how far its grease stands above the outlet


@dataclass(frozen=True, slots=True)
class HaulerPlan:
    """One pumping company; ``lies`` sends papers without a truck."""

    id: str
    name: str
    transport: str
    city_business: str
    transport_expires: date
    business_expires: date
    lies: bool = False


@dataclass(frozen=True, slots=True)
class CityPlan:
    """Everything that stands still."""

    sites: tuple[SitePlan, ...]
    interceptors: tuple[InterceptorPlan, ...]
    sensors: tuple[SensorPlan, ...]
    haulers: tuple[HaulerPlan, ...]
    timezone: str = ZONE


USUAL_KITCHENS: Final = dict(zip(KINDS, (0.40, 0.26, 0.14, 0.10, 0.10), strict=True))


def draw_plan(
    rng: np.random.Generator,
    count: int,
    start_s: float,
    principles: Mapping[Principle, float] | None = None,
    kitchens: Mapping[str, float] | None = None,
) -> CityPlan:
    """Draw a city of ``count`` interceptors (at least 1) that starts at ``start_s`` [s since the epoch].

    Four interceptors stand at three sites. Most sensors are 50 mm electrode rods; two-interface devices,
    device-computed depths and sonars follow. ``principles`` gives weights instead; each sensor then has
    limits, resolution and lags of its own, and each interceptor a density of its grease, whose floating part
    stands above the outlet. Sites and interceptors are the same with every mix. ``kitchens`` gives weights of
    the kinds of kitchen.

    Raises
    ------
    ValueError
        ``count`` is below 1; a weight is negative or no number, or none is above 0.
    """
    if count < 1:
        raise ValueError(f"count: a city has at least 1 interceptor, not {count}")
    mix = None if principles is None else checked_mix(principles)
    sites = _draw_sites(rng, -(-count * 3 // 4), kitchens or USUAL_KITCHENS)
    homes = np.sort(np.concatenate([np.arange(len(sites)), np.arange(count - len(sites)) * 3 % len(sites)]))
    loads = [float(np.exp(rng.normal(0.0, KINDS[site.kitchen].spread))) for site in sites]
    interceptors = []
    for index, home in enumerate(homes.tolist()):
        twins = int((homes == home).sum())
        twin = int((homes[:index] == home).sum())
        interceptors.append(_draw_interceptor(rng, sites[home], home, twin, twins, index, loads[home]))
    if mix is None:
        sensors = [draw_usual(rng, index, plan.base_depth_mm) for index, plan in enumerate(interceptors)]
    else:
        interceptors = [
            replace(plan, grease_kg_m3=round(float(rng.normal(*GREASE_KG_M3)), 1)) for plan in interceptors
        ]
        sensors = draw_mixed(rng, [plan.base_depth_mm for plan in interceptors], mix)
    today = datetime.fromtimestamp(start_s, ZoneInfo(ZONE)).date()
    return CityPlan(tuple(sites), tuple(interceptors), tuple(sensors), _haulers(today))


def _draw_sites(rng: np.random.Generator, count: int, weights: Mapping[str, float]) -> list[SitePlan]:
    share = np.array([weights.get(kind, 0.0) for kind in KINDS])
    kinds = rng.choice(list(KINDS), size=count, p=share / share.sum())
    order = rng.permutation(len(FIRST_NAMES))
    sites = []
    for number in range(count):
        kind = KINDS[str(kinds[number])]
        owner = FIRST_NAMES[order[number % len(order)]]
        more = number // len(order)
        suffix = str(rng.choice(SUFFIX[kind.name]))
        ordinance = ORDINANCES[number % 5 >= 3]
        latitude, longitude = CENTRES[ordinance]
        extra = ("dishwasher",) if kind.name == "quick-service" and rng.random() < 0.4 else ()
        sites.append(
            SitePlan(
                id=f"{owner.lower()}{more + 1 if more else ''}-{suffix.split()[-1].lower()}",
                name=f"{owner}'s {suffix}" + (f" {more + 1}" if more else ""),
                ordinance=ordinance,
                kitchen=kind.name,
                latitude=round(latitude + float(rng.uniform(-0.012, 0.012)), 5),
                longitude=round(longitude + float(rng.uniform(-0.012, 0.012)), 5),
                seats=_draw_seats(rng, kind),
                equipment=EQUIPMENT[kind.name] + extra,
                owner=owner,
                phone=f"626-555-{100 + number:04d}",
            )
        )
    return sites


def _draw_seats(rng: np.random.Generator, kind: KitchenKind) -> int:
    return int(rng.integers(kind.seats[0], kind.seats[1] + 1))


def _draw_interceptor(
    rng: np.random.Generator, site: SitePlan, home: int, twin: int, twins: int, index: int, load: float
) -> InterceptorPlan:
    small = site.kitchen == "cafe" and site.seats < 45
    flow_l = site.seats * KINDS[site.kitchen].litres_a_seat / twins
    fitting = [size for size in SIZES if size[0] * GALLON_L > 0.45 * flow_l] or [SIZES[-1]]
    gallons, depth = fitting[min(int(rng.integers(0, 2)), len(fitting) - 1)]
    purging = "dishwasher" in site.equipment and rng.random() < 0.6
    return InterceptorPlan(
        id=f"{site.id}-gi{twin + 1}",
        site=home,
        kind="hydromechanical" if small else "gravity",
        volume_l=760.0 if small else round(gallons * GALLON_L),
        base_depth_mm=762.0 if small else float(depth),
        compartments=1 if small else 2,
        frequency=(None, None, "P3M", "P60D")[int(rng.integers(0, 4))],
        hauler=(LIAR if index % 5 == 3 else "valley" if index % 2 else "harbor"),
        share=1.0 / twins,
        load=load,
        purges_a_day=float(rng.uniform(0.05, 0.35)) if purging else 0.0,
    )


def _haulers(today: date) -> tuple[HaulerPlan, ...]:
    def plan(name: str, title: str, number: int, *, lies: bool = False) -> HaulerPlan:
        return HaulerPlan(
            id=name,
            name=title,
            transport=f"CA-{number}",
            city_business=f"BL-{number + 77}",
            transport_expires=today + timedelta(days=500),
            business_expires=date(today.year + 1, 12, 31),
            lies=lies,
        )

    return (
        plan("valley", "Valley Pumping", 20417),
        plan("harbor", "Harbor Grease Service", 31188),
        plan(LIAR, "Swift Haul", 40265, lies=True),
    )
