"""Findings of the devices themselves: silence, health flags, and wastewater that was too hot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from alerts.calendar import spoken
from alerts.facts import ESTIMATE, Facts, silent_after_us
from alerts.machine import Finding
from alerts.pulses import pulse_remark, regular_gap_s, spoken_span
from store.records import HotDischargeRecord, Sensor

SILENT = "sensor_silent"
HOT = "hot_discharge"


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str
    severity: str
    reason: str
    level: bool = False  # tells of the level: holds while its sensor is silent
    hot: bool = False


_FLAGS = {
    "low_battery": _Kind("low_battery", "info", "The battery is low."),
    "stuck": _Kind("sensor_fault", "warning", "The same value comes again and again."),
    "out_of_range": _Kind("sensor_fault", "warning", "Values come that cannot be."),
    "moved": _Kind("sensor_fault", "warning", "All heights shifted alike: the mount seems to have moved."),
    "cover_open": _Kind("sensor_fault", "warning", "The heights swing as no liquid does: it hangs loose."),
    "drift": _Kind("sensor_fault", "warning", "The zero point moves from service to service."),
    "tamper": _Kind(
        "tamper_suspected",
        "warning",
        f"What the sensor sees fits neither grease nor a pump-out; imputed to nobody. {ESTIMATE}",
    ),
    "high_liquid_level": _Kind(
        "high_liquid_level",
        "critical",
        f"The surface stands above the outlet: the outlet may be blocked and a spill near. {ESTIMATE}",
        level=True,
    ),
    "possibly_overfull": _Kind(
        "possibly_overfull",
        "critical",
        f"The level was high and rising, then the sensor fell silent. {ESTIMATE}",
        level=True,
    ),
}
_KINDS = {one.kind for one in _FLAGS.values()}


def device_findings(facts: Facts) -> list[Finding]:
    """Silence first: it decides what else may clear."""
    silent = silent_sensors(facts)
    return [*silence_findings(facts), *health_findings(facts, silent), *hot_findings(facts)]


def silent_sensors(facts: Facts) -> frozenset[str]:
    """Sensors not heard for three intervals, at least one hour; a sensor never heard has not begun."""
    return frozenset(s.id for s in facts.situation.sensors if _quiet(facts, s))


def _quiet(facts: Facts, sensor: Sensor) -> bool:
    heard = facts.situation.contacts.get(sensor.id)
    return heard is not None and facts.now_us - heard >= silent_after_us(sensor.interval_s, facts.policy)


def silence_findings(facts: Facts) -> list[Finding]:
    """One finding a sensor that was ever heard."""
    found = []
    for sensor in facts.situation.sensors:
        heard = facts.situation.contacts.get(sensor.id)
        if heard is None:
            continue
        quiet = _quiet(facts, sensor)
        if not quiet and facts.standing(SILENT) is None:
            continue
        found.append(
            Finding(
                kind=SILENT,
                basis="device",
                sensor=sensor.id,
                flag="silent",
                since_us=heard,
                clock_us=facts.now_us,
                raised=quiet,
                cleared=not quiet,
                severity="warning",
                reason=(
                    f"Sensor {sensor.id} was last heard at {spoken(heard, facts.timezone)}. Its level alarms "
                    f"hold; silence says nothing about the establishment."
                ),
                clear_reason=f"heard again at {spoken(heard, facts.timezone)}",
            )
        )
    return found


def health_findings(facts: Facts, silent: frozenset[str]) -> list[Finding]:
    """Flags of the assessment; a level alarm holds while its sensor is silent."""
    one = facts.situation.assessment
    if one is None:
        return []
    found: list[Finding] = []
    present: set[tuple[str, str | None, str | None]] = set()
    key: tuple[str, str | None, str | None]
    for flag in one.health:
        known = _FLAGS.get(flag.flag)
        key = (known.kind if known else "", flag.sensor, flag.flag)
        if known is None or key in present:
            continue
        present.add(key)
        since = min(
            round(f.since_s * 1e6) for f in one.health if (f.flag, f.sensor) == (flag.flag, flag.sensor)
        )
        found.append(
            Finding(
                kind=known.kind,
                basis="device",
                sensor=flag.sensor,
                flag=flag.flag,
                since_us=since,
                clock_us=facts.now_us,
                raised=True,
                severity=known.severity,
                reason=known.reason,
            )
        )
    for alert in facts.situation.alerts:
        key = (alert.kind, alert.sensor, alert.flag)
        if alert.kind not in _KINDS or key in present or alert.sensor in silent:
            continue
        found.append(
            Finding(
                kind=alert.kind,
                basis="device",
                sensor=alert.sensor,
                flag=alert.flag,
                since_us=alert.since_us,
                clock_us=facts.now_us,
                cleared=True,
                clear_reason="the sensor is well again",
            )
        )
    return found


# ---- hot discharges ----------------------------------------------------------------------------------


def hot_findings(facts: Facts) -> list[Finding]:
    """One finding a probe: its newest group of hot discharges, those close to each other."""
    if not facts.situation.hot_discharges:
        return []
    by_sensor: dict[str, list[HotDischargeRecord]] = defaultdict(list)
    for record in facts.situation.hot_discharges:
        by_sensor[record.sensor].append(record)
    found = []
    for sensor, records in sorted(by_sensor.items()):
        group = newest_group(records, int(facts.policy.hot_group_s * 1e6))
        if _recent(facts, group) or facts.standing(HOT, group[0].id) is not None:
            found.append(_hot(facts, sensor, group))
    standing = {a.evidence.get("anchor"): a for a in facts.situation.alerts if a.kind == HOT}
    current = {one.anchor for one in found}
    for anchor, alert in standing.items():
        if anchor not in current:
            found.append(
                Finding(
                    kind=HOT,
                    basis="device",
                    sensor=alert.sensor,
                    anchor=str(anchor),
                    since_us=alert.since_us,
                    clock_us=facts.now_us,
                    cleared=True,
                    clear_reason="the episode is over",
                )
            )
    return found


def newest_group(records: list[HotDischargeRecord], within_us: int) -> list[HotDischargeRecord]:
    """The newest hot discharges of one probe that follow each other within ``within_us``, oldest first."""
    ordered = sorted(records, key=lambda r: (r.start_us, r.id))
    group = [ordered[-1]]
    for record in reversed(ordered[:-1]):
        end = record.end_us if record.end_us is not None else record.start_us
        if group[0].start_us - end > within_us:
            break
        group.insert(0, record)
    return group


def _quiet_since_us(group: list[HotDischargeRecord]) -> int:
    return max((r.end_us for r in group if r.end_us is not None), default=group[-1].start_us)


def _recent(facts: Facts, group: list[HotDischargeRecord]) -> bool:
    """Whether a group goes on, or ended less than the grouping time ago."""
    if group[-1].end_us is None:
        return True
    return facts.now_us - _quiet_since_us(group) < facts.policy.hot_group_s * 1e6


def _hot(facts: Facts, sensor: str, group: list[HotDischargeRecord]) -> Finding:
    last, keep = group[-1], int(facts.policy.hot_group_s * 1e6)
    ended = last.end_us is not None
    quiet_since = _quiet_since_us(group)
    peak = max(r.peak_c for r in group)
    lasted = sum(r.duration_s for r in group)
    confirmed = any(r.status == "confirmed" for r in group)
    limit = facts.rules.hot_limit_c
    above = "hotter than the limit" if limit is None else f"above {_fahrenheit(limit)}"
    times = "once" if len(group) == 1 else f"{len(group)} times"
    return Finding(
        kind=HOT,
        basis="device",
        sensor=sensor,
        anchor=group[0].id,
        since_us=group[0].start_us,
        clock_us=facts.now_us,
        raised=_recent(facts, group),
        cleared=ended,
        raised_us=last.start_us,
        cleared_us=quiet_since if ended else None,
        severity="warning" if confirmed else "info",
        reason=(
            f"Wastewater {above} entered the device {times} since "
            f"{spoken(group[0].start_us, facts.timezone)}: peak {_fahrenheit(peak)}, {spoken_span(lasted)} "
            f"in all, {'confirmed' if confirmed else 'possible'}. {pulse_remark(group, facts.version)}{ESTIMATE}"
        ),
        clear_reason=f"none since {spoken(quiet_since, facts.timezone)}",
        citation=facts.rules.hot_citation,
        keep_us=keep,
        evidence={
            "records": [r.id for r in group],
            "peak_c": peak,
            "duration_s": lasted,
            "regular_gap_s": regular_gap_s(group),
        },
    )


def _fahrenheit(celsius: float) -> str:
    return f"{celsius * 1.8 + 32:.0f} °F"
