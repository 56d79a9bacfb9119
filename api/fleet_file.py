"""The fleet file of contracts.md §1, and the same objects one by one as the HTTP interface takes them.

Heights and volumes are converted to SI here, once. Every problem is found, not only the first; each names the
line, the key and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from alerts import calendar
from alerts.conditions import KINDS, PLACES, Subject, subject_of
from alerts.ordinance import Ordinance
from api import tomllines
from api.checked import Problem, Problems, Table
from api.credentials import username_of
from api.service import Fleet
from api.settings import nearest
from ingest.profile import DEVICE_NUMBERS
from store.records import Hauler, Interceptor, Json, Sensor, Site

ID_PATTERN: Final = r"[a-z0-9-]{1,64}"
SENSOR_PATTERN: Final = r"[A-Za-z0-9._:-]{1,64}"
_ID_WORDS: Final = "an id of a-z, 0-9 and -, at most 64 long"
_SENSOR_WORDS: Final = "an id of letters, digits and . _ : -, at most 64 long"
CONTACT_ROLES: Final = ("owner", "property-owner", "manager", "inspector")
_DEVICE_MM: Final = (
    "mount_height_mm",
    "pressure_height_mm",
    "sonar_height_mm",
    "pitch_mm",
    "first_mm",
    "min_layer_mm",
    "resolution_mm",
)

T = TypeVar("T", Site, Interceptor, Sensor, Hauler)

#: (frequency, ordinance id, facts of the device) -> what is expected instead; None where it is fine.
FrequencyCheck = Callable[[str, str, Subject], str | None]


def frequency_check(ordinances: Mapping[str, Ordinance], day: date) -> FrequencyCheck:
    """The check of frequencies against the maximum of the ordinance in force on a local date."""

    def check(frequency: str, ordinance: str, subject: Subject) -> str | None:
        rules = ordinances[ordinance].at(day).rules_for(subject)
        try:
            calendar.check_frequency(frequency, rules.max_interval, rules.max_citation or "")
        except (calendar.DurationError, calendar.FrequencyError) as error:
            return str(error)
        return None

    return check


class FleetError(Exception):
    """A fleet file or object that cannot be used; one problem a line in the text."""

    def __init__(self, messages: Collection[str], problems: Collection[Problem] = ()) -> None:
        super().__init__("\n".join(messages))
        self.messages = tuple(messages)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Known:
    """What a fleet may refer to: ordinances, device profiles, and the objects that are registered already."""

    ordinances: Collection[str]
    profiles: Collection[str]
    check_frequency: FrequencyCheck
    registered: Fleet = field(default_factory=Fleet)


def parse_fleet(text: str, name: str, known: Known) -> Fleet:
    """Read a fleet file.

    Raises
    ------
    FleetError
        Something in it is wrong; its text has one line ``file:line: key: what was expected`` a problem.
    """
    try:
        document = tomllines.parse(text)
    except tomllines.TomlSyntaxError as error:
        raise FleetError([f"{name}:{error.line}: not TOML: {error.what}"]) from None
    problems = Problems()
    fleet = _read(document.data, known, problems)
    if problems.found:
        found = sorted(problems.found, key=lambda one: document.line(one.path))
        raise FleetError(
            [f"{name}:{document.line(one.path)}: {one.key}: {one.expected}" for one in found], found
        )
    return fleet


def parse_object(kind: str, data: Mapping[str, Any], known: Known) -> Fleet:
    """Read one object as the fleet file would write it; ``kind`` is sites, interceptors, sensors or haulers.

    Raises
    ------
    FleetError
        Something in it is wrong; the problems name the keys.
    """
    problems = Problems()
    fleet = _read({kind: [dict(data)]}, known, problems)
    if problems.found:
        found = [Problem(one.path[2:] or one.path, one.expected) for one in problems.found]
        raise FleetError([f"{one.key}: {one.expected}" for one in found], found)
    return fleet


def _read(data: Mapping[str, Any], known: Known, problems: Problems) -> Fleet:
    reader = _Reader(known, problems)
    top = Table(data, (), problems)
    sites = reader.all(top, "sites", reader.site)
    haulers = reader.all(top, "haulers", reader.hauler)
    interceptors = reader.all(top, "interceptors", reader.interceptor)
    sensors = reader.all(top, "sensors", reader.sensor)
    top.done()
    return Fleet(sites, interceptors, sensors, haulers)


class _Reader:
    """Reads the lists in the order in which they refer to each other."""

    def __init__(self, known: Known, problems: Problems) -> None:
        self._known = known
        self._problems = problems
        self._sites = {one.id: one for one in known.registered.sites}
        self._interceptors = {one.id: one for one in known.registered.interceptors}
        self._haulers = {one.id for one in known.registered.haulers}
        self._users = {username_of(one.id): one.id for one in known.registered.sensors}
        self._broken: set[tuple[str, str]] = set()  # ids of objects with problems of their own

    def all(self, top: Table, kind: str, read: Callable[[Table], T | None]) -> tuple[T, ...]:
        """One list of objects; a duplicate id is a problem."""
        objects: list[T] = []
        first: dict[str, int] = {}
        for index, table in enumerate(top.tables(kind)):
            before = len(self._problems.found)
            found = read(table)
            table.done()
            identity = table.raw("id").lower() if kind == "sensors" else table.raw("id")
            if identity in first:
                table.wrong(
                    "id", f"{identity!r} is already the id of {kind}[{first[identity]}]: ids are unique"
                )
            elif identity:
                first[identity] = index
            if len(self._problems.found) > before:
                self._broken.add((kind, identity))
            elif found is not None:
                objects.append(found)
        return tuple(objects)

    def site(self, table: Table) -> Site | None:
        before = len(self._problems.found)
        site = Site(
            id=table.text("id", required=True, pattern=ID_PATTERN, what=_ID_WORDS) or "",
            name=table.text("name", required=True) or "",
            ordinance=table.choice("ordinance", self._known.ordinances) or "",
            timezone=self._timezone(table),
            kitchen=table.text("kitchen") or "",
            latitude=table.number("latitude", low=-90, high=90),
            longitude=table.number("longitude", low=-180, high=180),
            units=table.choice("units", ("us", "si"), default="us") or "us",
            seats=table.whole("seats", low=0, high=100_000),
            equipment=table.texts("equipment"),
            contacts=tuple(_contact(one) for one in table.tables("contacts")),
        )
        if len(self._problems.found) > before:
            return None
        self._sites[site.id] = site
        return site

    def interceptor(self, table: Table) -> Interceptor | None:
        before = len(self._problems.found)
        base_mm = table.number("base_depth_mm", required=True, above=0, high=20_000, unit="mm")
        static_mm = table.number("static_level_mm", above=0, high=20_000, unit="mm")
        volume_l = table.number("volume_l", above=0, high=10_000_000, unit="l")
        interceptor = Interceptor(
            id=table.text("id", required=True, pattern=ID_PATTERN, what=_ID_WORDS) or "",
            site=self._reference(table, "site", "sites", self._sites),
            kind=table.choice("kind", KINDS) or "",
            base_depth_m=_metres(base_mm) or 0.0,
            static_level_m=_metres(static_mm if static_mm is not None else base_mm) or 0.0,
            place=table.choice("place", PLACES, required=False),
            volume_m3=_metres(volume_l),
            compartments=table.whole("compartments", low=1, high=16, default=1) or 1,
            frequency=table.text("frequency", what="an ISO 8601 duration such as P3M, P30D or P2W"),
            last_pump_out=table.day("last_pump_out"),
            hauler=self._reference(table, "hauler", "haulers", self._haulers, required=False) or None,
            dispatch=table.choice("dispatch", ("authorized", "notify"), default="notify") or "notify",
        )
        self._frequency(table, interceptor)
        if len(self._problems.found) > before:
            return None
        self._interceptors[interceptor.id] = interceptor
        return interceptor

    def sensor(self, table: Table) -> Sensor | None:
        before = len(self._problems.found)
        owner = self._reference(table, "interceptor", "interceptors", self._interceptors)
        sensor = Sensor(
            id=(table.text("id", required=True, pattern=SENSOR_PATTERN, what=_SENSOR_WORDS) or "").lower(),
            interceptor=owner,
            compartment=table.whole("compartment", low=1, high=16, default=1) or 1,
            profile=table.choice("profile", self._known.profiles, default="native") or "native",
            interval_s=table.number("interval_s", low=1, high=7 * 86_400, unit="s") or 900.0,
            device=self._device(table),
        )
        other = self._users.setdefault(username_of(sensor.id), sensor.id)
        if other != sensor.id:  # the broker could not tell them apart: each could publish as the other
            table.wrong(
                "id", f"has the user name {username_of(other)!r} of {other!r} at a broker: choose another"
            )
        interceptor = self._interceptors.get(owner)
        if interceptor is not None and sensor.compartment > interceptor.compartments:
            table.wrong(
                "compartment",
                f"expected one of the {interceptor.compartments} compartments of {owner!r}, "
                f"found {sensor.compartment}",
            )
        return sensor if len(self._problems.found) == before else None

    def hauler(self, table: Table) -> Hauler | None:
        before = len(self._problems.found)
        hauler = Hauler(
            id=table.text("id", required=True, pattern=ID_PATTERN, what=_ID_WORDS) or "",
            name=table.text("name", required=True) or "",
            licenses=tuple(_license(one) for one in table.tables("licenses")),
            webhook=table.text("webhook", pattern=r"https?://[^\s]+", what="an address that begins https://"),
            email=table.text("email", pattern=r"[^@\s]+@[^@\s]+", what="an e-mail address"),
        )
        if len(self._problems.found) > before:
            return None
        self._haulers.add(hauler.id)
        return hauler

    # ---- parts ---------------------------------------------------------------------------------------

    def _timezone(self, table: Table) -> str:
        name = table.text("timezone", required=True, what="a time zone such as America/Los_Angeles")
        if name is None:
            return ""
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            table.wrong("timezone", f"expected a time zone such as America/Los_Angeles, found {name!r}")
        return name

    def _reference(
        self, table: Table, key: str, kind: str, there: Collection[str], *, required: bool = True
    ) -> str:
        wanted = table.text(key, required=required, what=f"the id of one of the {kind}")
        if wanted is None or wanted in there or (kind, wanted) in self._broken:
            return wanted or ""
        hint = nearest(wanted, sorted(there)) if there else f"there are no {kind} yet"
        table.wrong(key, f"expected the id of one of the {kind}, found {wanted!r}; {hint}")
        return ""

    def _frequency(self, table: Table, interceptor: Interceptor) -> None:
        site = self._sites.get(interceptor.site)
        if interceptor.frequency is None or site is None or not interceptor.kind:
            return
        expected = self._known.check_frequency(
            interceptor.frequency, site.ordinance, subject_of(interceptor, site)
        )
        if expected is not None:
            table.wrong("frequency", expected)

    @staticmethod
    def _device(table: Table) -> Json:
        device: Json = {}
        for key in _DEVICE_MM:
            value = table.number(key, low=0, high=20_000, unit="mm")
            if value is not None:
                device[key.removesuffix("_mm") + "_m"] = _metres(value)
        tau = table.number("tau_s", above=0, high=86_400, unit="s")
        if tau is not None:
            device["tau_s"] = tau
        for key, (low, high) in DEVICE_NUMBERS.items():
            number = table.number(key, low=low, high=high)
            if number is not None:
                device[key] = number
        levels = table.table("levels")
        if levels is not None:
            device["levels"] = {
                medium: levels.number(medium, required=medium != "solids")
                for medium in ("air", "fog", "water", "solids")
            }
            levels.done()
        return device


def _metres(thousandths: float | None) -> float | None:
    """Millimetres to metres, litres to cubic metres; divided, so that 1220 mm is 1.22 m to the last bit."""
    return None if thousandths is None else thousandths / 1000


def _contact(table: Table) -> Json:
    contact = {
        "role": table.choice("role", CONTACT_ROLES),
        "name": table.text("name"),
        "email": table.text("email", pattern=r"[^@\s]+@[^@\s]+", what="an e-mail address"),
        "phone": table.text("phone"),
    }
    table.done()
    return contact


def _license(table: Table) -> Json:
    paper = {
        "kind": table.text("kind", required=True),
        "number": table.text("number", required=True),
        "expires": table.day("expires"),
    }
    table.done()
    return paper
