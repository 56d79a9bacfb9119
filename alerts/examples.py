"""Worked examples of an ordinance profile: what a profile says of a case, held against what it should say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from alerts.calendar import DurationError, FrequencyError, check_frequency, due_date
from alerts.conditions import Subject
from alerts.reporting import last_day
from alerts.rules import Ordinance, Rules

#: What a case asks, and the keys it cannot do without.
ASKED: Final[dict[str, tuple[str, ...]]] = {
    "over": (),
    "hot": ("inlet_c",),
    "due": ("last_complete",),
    "no_due": ("last_complete",),
    "refused": ("frequency",),
    "last_day": ("report", "event"),
    "assumed": (),
}


def answers(ordinance: Ordinance, example: Mapping[str, Any]) -> dict[str, Any]:
    """What the profile says to each question of one example, by the question's key.

    Raises
    ------
    ValueError
        The example asks nothing, or lacks a key that a question needs.
    KeyError
        It names a kind of device, or a report, that the profile does not know.
    """
    rules = ordinance.at(example["on"]).rules_for(subject_of_example(example))
    asked = [key for key in ASKED if key in example]
    if not asked:
        raise ValueError(f"asks nothing; expected one of {', '.join(ASKED)}")
    for key in asked:
        for needed in ASKED[key]:
            if needed not in example:
                raise ValueError(f"{needed}: missing; {key} needs it")
    return {key: _answer(key, ordinance, rules, example) for key in asked}


def failures(ordinance: Ordinance) -> list[str]:
    """Every example that the profile does not meet, in words: its place, title, what was said and expected."""
    wrong: list[str] = []
    for n, example in enumerate(ordinance.examples):
        where = f"{ordinance.file}: examples[{n}] ({example.get('title', 'without a title')})"
        try:
            said = answers(ordinance, example)
        except (KeyError, ValueError) as error:
            text = f"no such {error}" if isinstance(error, KeyError) else str(error)
            wrong.append(f"{where}: {text}")
            continue
        wrong += [
            f"{where}: {key} is {value!r}, expected {example[key]!r}"
            for key, value in said.items()
            if value != example[key]
        ]
    return wrong


def subject_of_example(example: Mapping[str, Any]) -> Subject:
    """The facts of an example's device."""
    base_mm = example.get("base_depth_mm")
    return Subject(
        kind=example["kind"],
        place=example.get("place"),
        kitchen=example.get("kitchen", ""),
        equipment=tuple(example.get("equipment", ())),
        seats=example.get("seats"),
        volume_l=example.get("volume_l"),
        base_depth_m=None if base_mm is None else base_mm / 1000,
    )


def _answer(key: str, ordinance: Ordinance, rules: Rules, example: Mapping[str, Any]) -> Any:
    if key == "over":
        return rules.over_limit(_fraction(rules, example))
    if key == "hot":
        return rules.too_hot(example["inlet_c"])
    if key in {"due", "no_due"}:
        frequency = example.get("frequency") or rules.default_interval
        due = due_date(example["last_complete"], frequency, rules.max_interval)
        return due if key == "due" else due is None
    if key == "refused":
        return _refused(rules, example["frequency"])
    if key == "last_day":
        return _last_day(ordinance, rules, example)
    return bool(rules.assumed)


def _fraction(rules: Rules, example: Mapping[str, Any]) -> float:
    if "fraction" in example:
        return float(example["fraction"])
    for needed in ("fog_mm", "solids_mm", "base_depth_mm"):
        if needed not in example:
            raise ValueError(f"{needed}: missing; over needs a fraction, or both layers and the base depth")
    return rules.counted(
        example["fog_mm"] / 1000, example["solids_mm"] / 1000, example["base_depth_mm"] / 1000
    )


def _refused(rules: Rules, frequency: str) -> bool:
    try:
        check_frequency(frequency, rules.max_interval, rules.max_citation or "")
    except FrequencyError:
        return True
    except DurationError as error:
        raise ValueError(f"frequency: {error}") from None
    return False


def _last_day(ordinance: Ordinance, rules: Rules, example: Mapping[str, Any]) -> date:
    for report in rules.reports:
        if report.what == example["report"]:
            return last_day(report.clock, example["event"], ordinance.holidays)
    raise KeyError(f"report {example['report']!r}")
