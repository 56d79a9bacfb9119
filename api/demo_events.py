"""Journal lines as a person would tell them; lines nobody waits for are None."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

ZONE: Final = ZoneInfo("America/Los_Angeles")  # the simulated city's

_ORDER_WORDS: Final = {
    "proposed": "order proposed ({reason}, due {due})",
    "offered": "order offered to {hauler}",
    "accepted": "order accepted by {hauler}",
    "scheduled": "service scheduled by {hauler} for {scheduled}",
    "serviced": "serviced: {note}",
    "verified": "VERIFIED: sensor and manifest agree on a complete pump-out",
    "closed": "ORDER CLOSED ({reason}): {note}",
    "declined": "order declined: {note}",
    "cancelled": "order cancelled: {note}",
}
_ALERTS: Final = {
    "over_limit": "OVER THE LIMIT",
    "overdue": "overdue",
    "hot_discharge": "HOT DISCHARGE",
    "high_liquid_level": "HIGH LIQUID LEVEL",
    "pump_out_unverified": "NOT VERIFIED",
    "pump_out_partial": "partial pump-out",
}
_LEGEND: Final = "Every estimate is an instrument's estimate, not a determination of violation."


def legend() -> str:
    """What is said once, before the first line."""
    return _LEGEND


def in_words(line: dict[str, Any]) -> str | None:
    """One line of the event stream in a sentence with local time, or None where it is not worth one."""
    kind = line.get("type")
    text = None
    if kind == "order":
        text = _order(line)
    elif kind == "alert":
        text = _alert(line)
    elif kind == "pump_out" and line.get("confidence"):
        text = f"the sensor saw a {'complete' if line['complete'] else 'partial'} pump-out"
    elif kind == "frequency_proposal":
        text = f"proposal: an interval of {line['to']} in place of {line['from']}"
    if text is None:
        return None
    return f"{_local(line['at'])}  {line.get('interceptor') or '-':<24} {text}"


def _order(line: dict[str, Any]) -> str:
    scheduled = line.get("scheduled_at")
    return _ORDER_WORDS[line["state"]].format(
        hauler=line.get("hauler"),
        scheduled=_local(scheduled) if scheduled else "a time to come",
        reason=line["reason"],
        due=line["due"],
        note=line.get("note") or "",
    )


def _alert(line: dict[str, Any]) -> str | None:
    name = _ALERTS.get(line["kind"])
    if name is None or line["state"] != "firing":
        return None
    return f"{name}: {_without_legend(line['reason'])}"


def _without_legend(reason: str) -> str:
    for tail in ("This is an instrument", "From the records on file"):
        reason = reason.split(tail)[0]
    return reason.strip()


def _local(at: str) -> str:
    return datetime.fromisoformat(at).astimezone(ZONE).strftime("%b %d %H:%M")
