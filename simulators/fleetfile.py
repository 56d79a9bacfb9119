"""The fleet file of a city, as the public contract has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Final

from simulators.mounting import SensorPlan
from simulators.plan import CityPlan, HaulerPlan, InterceptorPlan, SitePlan
from simulators.profiles import SCALES
from simulators.sensor import Principle

STEP_S: Final = 900
_PROFILE: Final = ("pitch_mm", "first_mm")
DEVICE_KEYS: Final[Mapping[Principle, tuple[str, ...]]] = {
    Principle.ROD: _PROFILE,
    Principle.INTERFACES: ("min_layer_mm",),
    Principle.DEPTHS: ("min_layer_mm",),
    Principle.ECHO: ("min_layer_mm", "mount_height_mm", "sonar_height_mm"),
    Principle.CAPACITANCE: _PROFILE,
    Principle.THERMISTOR: _PROFILE,
    Principle.SONAR_UP: ("min_layer_mm", "sonar_height_mm"),
    Principle.SONAR_DOWN: ("sonar_height_mm",),
    Principle.AIR_GAP: ("mount_height_mm",),
    Principle.OPTICAL: ("mount_height_mm",),
    Principle.PRESSURE: ("pressure_height_mm",),
    Principle.PRESSURE_SURFACE: ("pressure_height_mm",),
    Principle.RADAR: ("min_layer_mm",),
}
"""What the fleet file tells of a device beside its probe's lag and its resolution."""


def fleet_toml(plan: CityPlan, last_pump_outs: Mapping[int, date], webhook_base: str | None = None) -> str:
    """Write the fleet as TOML.

    Parameters
    ----------
    plan
        The city.
    last_pump_outs
        Local date of the last complete pump-out by index of interceptor; absent where nobody knows.
    webhook_base
        Where the haulers listen, such as ``http://127.0.0.1:8081/webhooks``; a hauler's id is appended.
    """
    parts = [_site(site, plan.timezone) for site in plan.sites]
    parts += [
        _interceptor(interceptor, plan.sites[interceptor.site].id, last_pump_outs.get(index))
        for index, interceptor in enumerate(plan.interceptors)
    ]
    parts += [_sensor(sensor, plan.interceptors[sensor.interceptor].id) for sensor in plan.sensors]
    parts += [_hauler(hauler, webhook_base) for hauler in plan.haulers]
    return "\n".join(parts)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def _number(value: float) -> str:
    return f"{value:g}" if value == int(value) else repr(value)


def _site(site: SitePlan, timezone: str) -> str:
    mail = f"{site.owner.lower()}@{site.id}.example"
    return (
        "[[sites]]\n"
        f"id = {_text(site.id)}\n"
        f"name = {_text(site.name)}\n"
        f"ordinance = {_text(site.ordinance)}\n"
        f"timezone = {_text(timezone)}\n"
        f"kitchen = {_text(site.kitchen)}\n"
        f"latitude = {site.latitude!r}\n"
        f"longitude = {site.longitude!r}\n"
        'units = "us"\n'
        f"seats = {site.seats}\n"
        f"equipment = {_list(site.equipment)}\n"
        f'contacts = [{{ role = "owner", name = {_text(site.owner)}, email = {_text(mail)}, '
        f"phone = {_text(site.phone)} }}]\n"
    )


def _interceptor(interceptor: InterceptorPlan, site: str, last: date | None) -> str:
    optional = "" if interceptor.frequency is None else f"frequency = {_text(interceptor.frequency)}\n"
    if last is not None:
        optional += f"last_pump_out = {last.isoformat()}\n"
    return (
        "[[interceptors]]\n"
        f"id = {_text(interceptor.id)}\n"
        f"site = {_text(site)}\n"
        f"kind = {_text(interceptor.kind)}\n"
        f"volume_l = {_number(interceptor.volume_l)}\n"
        f"base_depth_mm = {_number(interceptor.base_depth_mm)}\n"
        f"static_level_mm = {_number(interceptor.base_depth_mm)}\n"
        f"compartments = {interceptor.compartments}\n"
        f"{optional}"
        f"hauler = {_text(interceptor.hauler)}\n"
        'dispatch = "authorized"\n'
    )


def _sensor(sensor: SensorPlan, interceptor: str) -> str:
    keys = ("tau_s", *DEVICE_KEYS[sensor.principle])
    values: dict[str, float | None] = {key: getattr(sensor, key) for key in keys}
    if sensor.resolution_mm > 0.0:
        values["resolution_mm"] = sensor.resolution_mm
    lines = "".join(f"{key} = {_number(value)}\n" for key, value in values.items() if value is not None)
    if sensor.principle in SCALES:
        levels = SCALES[sensor.principle].levels()
        lines += "levels = { " + ", ".join(f"{name} = {value!r}" for name, value in levels.items()) + " }\n"
    return (
        "[[sensors]]\n"
        f"id = {_text(sensor.id)}\n"
        f"interceptor = {_text(interceptor)}\n"
        "compartment = 1\n"
        'profile = "native"\n'
        f"interval_s = {STEP_S}\n"
        f"{lines}"
    )


def _hauler(hauler: HaulerPlan, webhook_base: str | None) -> str:
    webhook = "" if webhook_base is None else f"webhook = {_text(f'{webhook_base}/{hauler.id}')}\n"
    return (
        "[[haulers]]\n"
        f"id = {_text(hauler.id)}\n"
        f"name = {_text(hauler.name)}\n"
        "licenses = [\n"
        f'  {{ kind = "transport", number = {_text(hauler.transport)}, '
        f"expires = {hauler.transport_expires.isoformat()} }},\n"
        f'  {{ kind = "city-business", number = {_text(hauler.city_business)}, '
        f"expires = {hauler.business_expires.isoformat()} }},\n"
        "]\n"
        f"{webhook}"
        f'email = "dispatch@{hauler.id}.example"\n'
    )
