"""A small truth, and what a service would write of it that knows it all, or is wrong by a known amount."""

from __future__ import annotations

from typing import Any

from simulators.truth import iso, seconds

Line = dict[str, Any]
T0 = 1_788_246_000.0  # 2026-09-01 00:00 in Los Angeles
DAY = 86400.0
HOUR = 3600.0
BASE_MM = 1000.0


def midnight(day: int, fraction: float) -> Line:
    return {
        "at": iso(T0 + day * DAY),
        "type": "depths",
        "interceptor": "a",
        "compartment": 1,
        "fog_mm": 500 * fraction,
        "solids_mm": 500 * fraction,
        "fraction": fraction,
        "compartments": [],
    }


def service(day: int, *, complete: bool, fall_mm: float = 900.0, left_mm: float = 2.5) -> Line:
    """A pump-out from 9:00 to 9:30 of a day."""
    start_s = T0 + day * DAY + 9 * HOUR
    return {
        "at": iso(start_s + 1800.0),
        "type": "pump_out",
        "interceptor": "a",
        "start": iso(start_s),
        "end": iso(start_s + 1800.0),
        "complete": complete,
        "fall_mm": fall_mm,
        "after": [{"compartment": 1, "fog_mm": left_mm, "solids_mm": left_mm}],
    }


def hot(hour: float, seconds_long: float, peak_c: float = 70.0) -> Line:
    start_s = T0 + hour * HOUR
    return {
        "at": iso(start_s),
        "type": "hot_discharge",
        "interceptor": "a",
        "start": iso(start_s),
        "end": iso(start_s + seconds_long),
        "peak_c": peak_c,
        "duration_s": seconds_long,
    }


def crossing(day: float, level: float) -> Line:
    return {
        "at": iso(T0 + day * DAY),
        "type": "crossing",
        "interceptor": "a",
        "compartment": 1,
        "level": level,
    }


def fault(kind: str, first_day: float, last_day: float) -> Line:
    return {
        "type": "fault",
        "kind": kind,
        "interceptor": "a",
        "sensor": "s",
        "start": iso(T0 + first_day * DAY),
        "end": iso(T0 + last_day * DAY),
        "size": 1.0,
    }


def one_rod() -> list[Line]:
    """30 days: 1 point a day from 20 %, over the limit on day 5, pumped on day 12 and, in part, on day 20."""
    days = [midnight(day, 0.20 + 0.01 * day) for day in range(13)]
    days += [midnight(day, 0.005 + 0.01 * (day - 12)) for day in range(13, 31)]
    sensor = {
        "at": iso(T0),
        "type": "sensor",
        "interceptor": "a",
        "sensor": "s",
        "compartment": 1,
        "principle": "rod",
        "tau_s": 10.0,
    }
    return [
        sensor,
        *days,
        crossing(5, 0.25),
        service(12, complete=True),
        service(20, complete=False, left_mm=44.4),  # of little effect: the truth goes on as before
        hot(1, 60.0),
        hot(9, 15.0),  # too short for the probe to be held to it
    ]


def quantiles(when: float | None, width_s: float = HOUR) -> Line | None:
    """A narrow forecast around ``when``; None where nothing is crossed in this cycle."""
    if when is None:
        return None
    early, late = iso(when - width_s), iso(when + width_s)
    return {"p05": early, "p10": early, "p50": iso(when), "p90": late, "p95": late}


def assessment(line: Line, passages: list[float], shift_mm: float, late_s: float, sd: float) -> Line:
    ahead = [at_s + late_s for at_s in passages if at_s > seconds(line["at"])]
    return {
        "at": line["at"],
        "type": "assessment",
        "interceptor": line["interceptor"],
        "compartment": 1,
        "fog_mm": line["fog_mm"] + shift_mm,
        "solids_mm": line["solids_mm"] - shift_mm,
        "fraction": line["fraction"] + shift_mm / 1000,
        "fraction_sd": sd,
        "crossing": quantiles(min(ahead, default=None)),
        "compartments": [],
    }


def told(line: Line, late_s: float) -> list[Line]:
    """What a service would write of one line of truth that is no depth."""
    if line["type"] in {"fault", "sensor"}:
        return []
    at_s = seconds(line["at"])
    mine = {"at": iso(at_s + late_s), "interceptor": line["interceptor"]}
    if line["type"] == "pump_out":
        pumped = iso(seconds(line["start"]) + late_s)
        own = {"type": "pump_out", "id": f"p{at_s}", "pumped_at": pumped, "complete": line["complete"]}
        return [mine | own]
    if line["type"] == "hot_discharge":
        span = {"start": iso(at_s + late_s), "end": iso(seconds(line["end"]) + late_s)}
        return [mine | span | {"type": "hot_discharge", "id": f"h{at_s}", "status": "confirmed"}]
    if line["type"] == "crossing" and line["level"] == 0.25:
        return [alarm(at_s + late_s + 600.0, line["interceptor"])]
    return []


def alarm(at_s: float, interceptor: str = "a", **other: str) -> Line:
    fired = {"at": iso(at_s), "type": "alert", "interceptor": interceptor, "id": f"a{at_s}"}
    return fired | {"kind": "over_limit", "state": "firing", "basis": "estimate"} | other


def perfect(truth: list[Line], *, shift_mm: float = 0.0, late_s: float = 0.0, sd: float = 0.01) -> list[Line]:
    """What a service would write that knows the truth, off by the given amounts."""
    out: list[Line] = []
    for line in truth:
        if line["type"] != "depths":
            out += told(line, late_s)
            continue
        passages = [
            seconds(one["at"])
            for one in truth
            if one["type"] == "crossing"
            and one["level"] == 0.25
            and one["interceptor"] == line["interceptor"]
        ]
        out.append(assessment(line, passages, shift_mm, late_s, sd))
    return out
