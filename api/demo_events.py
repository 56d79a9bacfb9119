"""Journal lines as a person would tell them; lines nobody waits for are None."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

ZONE: Final = ZoneInfo("America/Los_Angeles")  # the simulated city's

_ORDER_WORDS: Final = {
    "proposed": "order proposed",
    "offered": "order offered to {hauler}",
    "accepted": "order accepted by {hauler}",
    "scheduled": "service scheduled by {hauler} for {scheduled}",
    "serviced": "serviced",
    "verified": "pump-out verified: sensor and manifest agree",
    "closed": "ORDER CLOSED",
    "declined": "order declined by {hauler}",
    "cancelled": "order cancelled",
}
_ALERTS: Final = frozenset(
    {"over_limit", "overdue", "hot_discharge", "pump_out_unverified", "pump_out_partial", "high_liquid_level"}
)


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
    elif kind == "hot_discharge":
        peak_f = line["peak_c"] * 1.8 + 32
        text = f"hot discharge, {line['status']}: peak {peak_f:.0f} °F for {line['duration_s']:.0f} s"
    elif kind == "frequency_proposal":
        text = f"frequency proposal: {line['from']} to {line['to']}: {line['reason']}"
    if text is None:
        return None
    return f"{_local(line['at'])}  {line.get('interceptor') or '-':<14} {text}"


def _order(line: dict[str, Any]) -> str:
    scheduled = line.get("scheduled_at")
    words = _ORDER_WORDS[line["state"]].format(
        hauler=line.get("hauler"), scheduled=_local(scheduled) if scheduled else "a time to come"
    )
    why = (
        f" ({line['reason']}, due {line['due']})"
        if line["state"] in {"proposed", "offered", "closed"}
        else ""
    )
    note = f": {line['note']}" if line.get("note") else ""
    return f"{words}{why}{note}"


def _alert(line: dict[str, Any]) -> str | None:
    if line["kind"] not in _ALERTS or line["state"] not in {"firing", "resolved"}:
        return None
    name = line["kind"].replace("_", " ")
    return f"{name.upper()}: {line['reason']}" if line["state"] == "firing" else f"{name}: resolved"


def _local(at: str) -> str:
    return datetime.fromisoformat(at).astimezone(ZONE).strftime("%b %d %H:%M")
