"""Numbers, dates and names as people at a site read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

NONE: Final = "–"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

ALERT_WORDS: Final = {
    "over_limit": "Over the limit",
    "approaching_limit": "Approaching the limit",
    "calendar_due": "Pump-out due soon",
    "overdue": "Pump-out overdue",
    "hot_discharge": "Hot discharge",
    "high_liquid_level": "High liquid level",
    "possibly_overfull": "Possibly overfull",
    "sensor_silent": "Sensor silent",
    "sensor_fault": "Sensor fault",
    "tamper_suspected": "Tampering suspected",
    "low_battery": "Battery low",
    "gateway_silent": "Gateway silent",
    "pump_out_unverified": "Pump-out not verified",
    "pump_out_partial": "Partial pump-out",
    "manifest_mismatch": "Manifest differs",
}
ORDER_WORDS: Final = {
    "proposed": "Order proposed",
    "offered": "Order offered",
    "accepted": "Order accepted",
    "scheduled": "Pump-out scheduled",
    "serviced": "Serviced",
    "verified": "Pump-out verified",
    "closed": "Order closed",
    "declined": "Order declined",
    "cancelled": "Order cancelled",
}
REASON_WORDS: Final = {
    "exceedance": "over the limit",
    "forecast": "forecast to reach the limit",
    "calendar": "the calendar",
    "request": "asked for",
    "unverified": "a pump-out that the sensor did not see",
}
KIND_WORDS: Final = {
    "gravity": "gravity interceptor",
    "hydromechanical": "hydromechanical interceptor",
    "trap": "grease trap",
}
BASIS_WORDS: Final = {
    "estimate": "instrument estimate",
    "core_sample": "core sample",
    "calendar": "calendar",
    "device": "device",
}


@dataclass(frozen=True, slots=True)
class Reader:
    """How one site reads: its unit system and its time zone."""

    units: str
    timezone: str

    @property
    def us(self) -> bool:
        """Whether inches and degrees Fahrenheit are meant."""
        return self.units == "us"

    def depth(self, metres: float | None) -> str:
        """A layer or level: tenths of an inch, or whole millimetres."""
        if metres is None:
            return NONE
        return f"{metres / 0.0254:.1f} in" if self.us else f"{metres * 1000:.0f} mm"

    def depth_mm(self, millimetres: float | None) -> str:
        """The same from millimetres."""
        return self.depth(None if millimetres is None else millimetres / 1000)

    def spread_mm(self, sd_mm: float | None) -> str:
        """Half of the 90% interval of a depth."""
        return "" if sd_mm is None else f"± {self.depth_mm(1.645 * sd_mm)}"

    def rate(self, mm_per_day: float | None) -> str:
        """Growth a day: hundredths of an inch, or tenths of a millimetre."""
        if mm_per_day is None:
            return NONE
        return f"{mm_per_day / 25.4:+.2f} in/day" if self.us else f"{mm_per_day:+.1f} mm/day"

    def temperature(self, celsius: float | None) -> str:
        """A temperature to a tenth of a degree."""
        if celsius is None:
            return NONE
        return f"{celsius * 1.8 + 32:.1f} °F" if self.us else f"{celsius:.1f} °C"

    def volume(self, cubic_metres: float | None) -> str:
        """A tank's volume: gallons or litres."""
        if cubic_metres is None:
            return NONE
        return f"{cubic_metres * 264.172052:,.0f} gal" if self.us else f"{cubic_metres * 1000:,.0f} l"

    def local(self, at_us: int) -> datetime:
        """An instant on the site's clock."""
        return datetime.fromtimestamp(at_us / 1e6, tz=ZoneInfo(self.timezone))

    def at(self, at_us: int | None) -> str:
        """An instant as date and time of the site."""
        if at_us is None:
            return NONE
        here = self.local(at_us)
        return f"{self.day(here.date())} {here:%H:%M}"

    def moment(self, at_us: int | None) -> str:
        """An instant of these days: without the year; empty where there is none."""
        if at_us is None:
            return ""
        here = self.local(at_us)
        return f"{self.short_day(here.date())} {here:%H:%M}"

    def day(self, day: date) -> str:
        """A date: month first where people read it so."""
        month = _MONTHS[day.month - 1]
        return f"{month} {day.day}, {day.year}" if self.us else f"{day.day} {month} {day.year}"

    def short_day(self, day: date) -> str:
        """A date without its year."""
        month = _MONTHS[day.month - 1]
        return f"{month} {day.day}" if self.us else f"{day.day} {month}"

    def month(self, day: date) -> str:
        """A month; its year where a year begins."""
        return f"{_MONTHS[day.month - 1]} {day.year}" if day.month == 1 else _MONTHS[day.month - 1]


def percent(ratio: float | None, digits: int = 1) -> str:
    """A ratio as percent."""
    return NONE if ratio is None else f"{ratio * 100:.{digits}f} %"


def interval(fraction: float, sd: float | None) -> tuple[float, float]:
    """The 90% interval of a fraction, cut at 0."""
    half = 1.645 * (sd or 0.0)
    return max(0.0, fraction - half), fraction + half


def ago(seconds: float | None) -> str:
    """How long ago, in the largest unit that says enough."""
    if seconds is None:
        return "never"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def cadence(seconds: float) -> str:
    """An interval in the largest unit that says it well: 30 s, 15 min, 6 h, 7 d."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    for unit, size in (("d", 86400.0), ("h", 3600.0)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.3g} min" if seconds < 3600 else f"{seconds / 60:.0f} min"


def in_days(days: int) -> str:
    """How far off a date is."""
    if days == 0:
        return "today"
    if days < 0:
        return "yesterday" if days == -1 else f"{-days} days ago"
    return "tomorrow" if days == 1 else f"in {days} days"


def plain(word: str) -> str:
    """A kind or state that has no sentence of its own."""
    return word.replace("_", " ").capitalize()
