"""Device profiles: what the fields of a device mean, in which units, read from TOML files.

A profile may give the units of native quantities that come without one, the fields of a decoded LoRaWAN object,
and keys of the device itself that its sensors inherit, written in mm as in the fleet file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from analysis.units import QUANTITIES, UNITS, Quantity
from store.records import Json

_DEVICE_MM: Final = (
    "mount_height_mm",
    "pressure_height_mm",
    "sonar_height_mm",
    "pitch_mm",
    "first_mm",
    "min_layer_mm",
    "resolution_mm",
)
#: Device keys that are no heights, as a profile or a fleet file writes them: least and greatest sensible value.
DEVICE_NUMBERS: Final[dict[str, tuple[float, float]]] = {
    "fog_density_kg_m3": (700.0, 980.0),
    "fog_density_sd_kg_m3": (0.1, 200.0),
    "fog_sound_m_s": (1000.0, 2000.0),
    "fog_sound_sd_m_s": (0.1, 300.0),
    "fog_permittivity": (1.5, 75.0),
    "fog_permittivity_sd": (0.01, 30.0),
    "radar_permittivity": (1.0, 75.0),
    "assumed_air_c": (-40.0, 80.0),
}
_MEDIA: Final = ("air", "fog", "water", "solids")
_TOP: Final = ("id", "title", "source", "device", "units", "fields")
_FIELD: Final = ("path", "quantity", "unit", "scale", "offset", "sentinels", "text")


class ProfileError(Exception):
    """A device profile that cannot be used: which file, which key, and what was expected."""

    def __init__(self, file: str, key: str, what: str) -> None:
        super().__init__(f"{file}: {key}: {what}")
        self.file = file
        self.key = key
        self.what = what


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a decoded object: ``(raw * scale + offset)`` is the quantity in ``unit``."""

    path: tuple[str, ...]
    quantity: Quantity
    unit: str | None
    scale: float = 1.0
    offset: float = 0.0
    sentinels: tuple[float | str, ...] = ()  # these mean "no value"
    text: bool = False  # a number as text, perhaps with its unit: "2799 mm"

    @property
    def name(self) -> str:
        """The path as a person writes it."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """One kind of device. ``device`` holds the keys of its geometry in SI, as a sensor's own."""

    id: str
    title: str = ""
    source: str = ""
    device: Json = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)  # quantity -> unit of native fields without one
    fields: tuple[Field, ...] = ()


NATIVE: Final = DeviceProfile("native", "Native messages of contracts.md section 2")


def load_profiles(paths: Sequence[Path] = ()) -> dict[str, DeviceProfile]:
    """The shipped profiles and those of ``paths``, by id; a path is a TOML file or a folder of them.

    Raises
    ------
    ProfileError
        A file cannot be read or used, or an id is there twice among the given ones.
    """
    found = {NATIVE.id: NATIVE}
    shipped = sorted((Path(__file__).parent / "profiles").glob("*.toml"))
    found.update((profile.id, profile) for profile in map(_load, shipped))
    given: dict[str, Path] = {}
    for path in _files(paths):
        profile = _load(path)
        if profile.id in given:
            raise ProfileError(
                str(path), "id", f"{profile.id!r} is also in {given[profile.id]}; ids are unique"
            )
        given[profile.id] = path
        found[profile.id] = profile  # one's own profile wins over a shipped one
    return found


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if Path(path).is_dir():
            yield from sorted(Path(path).glob("*.toml"))
        else:
            yield Path(path)


def _load(path: Path) -> DeviceProfile:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(str(path), "file", f"cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(str(path), "file", f"not TOML: {error}") from None
    return _Reader(str(path)).profile(data)


class _Reader:
    """Reads one file; the first problem ends it."""

    def __init__(self, file: str) -> None:
        self._file = file

    def wrong(self, key: str, what: str) -> ProfileError:
        return ProfileError(self._file, key, what)

    def profile(self, data: Json) -> DeviceProfile:
        self._known("", data, _TOP)
        identity = self._text("id", data.get("id"))
        units = self._table("units", data.get("units", {}))
        for name, unit in units.items():
            self._unit(f"units.{name}", self._quantity(f"units.{name}", name), unit)
        fields = data.get("fields", [])
        if not isinstance(fields, list):
            raise self.wrong("fields", "expected [[fields]] tables")
        return DeviceProfile(
            id=identity,
            title=self._text("title", data.get("title", "")),
            source=self._text("source", data.get("source", "")),
            device=self._device(self._table("device", data.get("device", {}))),
            units=dict(units),
            fields=tuple(self._field(f"fields[{index}]", one) for index, one in enumerate(fields)),
        )

    def _field(self, key: str, data: Any) -> Field:
        table = self._table(key, data)
        self._known(key, table, _FIELD)
        quantity = self._quantity(f"{key}.quantity", table.get("quantity"))
        path = table.get("path")
        parts = path.split(".") if isinstance(path, str) else path
        if not isinstance(parts, list) or not parts or not all(isinstance(p, str) and p for p in parts):
            raise self.wrong(f"{key}.path", "expected names joined by dots, or an array of names")
        text = table.get("text", False)
        if not isinstance(text, bool):
            raise self.wrong(f"{key}.text", f"expected true or false, found {text!r}")
        return Field(
            path=tuple(parts),
            quantity=quantity,
            unit=self._unit(f"{key}.unit", quantity, table.get("unit", quantity.unit)),
            scale=self._number(f"{key}.scale", table.get("scale", 1.0)),
            offset=self._number(f"{key}.offset", table.get("offset", 0.0)),
            sentinels=self._sentinels(f"{key}.sentinels", table.get("sentinels", [])),
            text=text,
        )

    def _device(self, data: Json) -> Json:
        self._known("device", data, (*_DEVICE_MM, "tau_s", *DEVICE_NUMBERS, "levels"))
        device: Json = {}
        for name in _DEVICE_MM:
            if name in data:
                millimetres = self._number(f"device.{name}", data[name])
                if not 0 <= millimetres <= 20_000:
                    raise self.wrong(f"device.{name}", f"expected 0 to 20000 mm, found {data[name]}")
                device[name.removesuffix("_mm") + "_m"] = millimetres / 1000
        if "tau_s" in data:
            device["tau_s"] = self._number("device.tau_s", data["tau_s"])
            if device["tau_s"] <= 0:
                raise self.wrong("device.tau_s", f"expected more than 0 s, found {data['tau_s']}")
        for name, (low, high) in DEVICE_NUMBERS.items():
            if name in data:
                device[name] = self._number(f"device.{name}", data[name])
                if not low <= device[name] <= high:
                    raise self.wrong(f"device.{name}", f"expected {low:g} to {high:g}, found {data[name]}")
        if "levels" in data:
            device["levels"] = self._levels(self._table("device.levels", data["levels"]))
        return device

    def _levels(self, data: Json) -> Json:
        self._known("device.levels", data, _MEDIA)
        levels: Json = {}
        for medium in _MEDIA:
            if medium not in data and medium != "solids":
                raise self.wrong(f"device.levels.{medium}", "expected the electrode's value in this medium")
            value = data.get(medium)
            levels[medium] = None if value is None else self._number(f"device.levels.{medium}", value)
        return levels

    # ---- parts ---------------------------------------------------------------------------------------

    def _known(self, key: str, data: Json, names: Sequence[str]) -> None:
        for name in data:
            if name not in names:
                where = f"{key}.{name}" if key else name
                close = get_close_matches(name, names, n=1)
                hint = f"did you mean {close[0]}? " if close else ""
                raise self.wrong(where, f"unknown key; {hint}Known are {', '.join(names)}")

    def _table(self, key: str, value: Any) -> Json:
        if not isinstance(value, dict):
            raise self.wrong(key, "expected a table")
        return value

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or (key == "id" and not value):
            raise self.wrong(key, "expected a text" if value is not None else "missing; expected a text")
        return value

    def _number(self, key: str, value: Any) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or value != value
            or abs(value) > 1e12
        ):
            raise self.wrong(key, f"expected a number, found {value!r}")
        return float(value)

    def _quantity(self, key: str, name: Any) -> Quantity:
        quantity = QUANTITIES.get(name) if isinstance(name, str) else None
        if quantity is None:
            raise self.wrong(key, f"expected one of {', '.join(QUANTITIES)}, found {name!r}")
        return quantity

    def _unit(self, key: str, quantity: Quantity, unit: Any) -> str | None:
        fitting = [name for name, one in UNITS.items() if one.dimension == quantity.dimension]
        if not fitting and unit is None:
            return None
        if unit not in fitting:
            raise self.wrong(key, f"expected one of {', '.join(fitting) or 'no unit'}, found {unit!r}")
        return str(unit)

    def _sentinels(self, key: str, values: Any) -> tuple[float | str, ...]:
        if not isinstance(values, list):
            raise self.wrong(key, "expected an array of numbers or texts that mean: no value")
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise self.wrong(key, f"expected numbers or texts, found {value!r}")
        return tuple(values)
