"""What an ordinance says, as types: clauses with sections, versions by date, rules by kind of device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from analysis.units import to_si


class OrdinanceError(ValueError):
    """A profile is not as it must be; ``file`` and ``key`` say where, the text what was expected."""

    def __init__(self, file: str, key: str, what: str) -> None:
        super().__init__(f"{file}: {key}: {what}")
        self.file = file
        self.key = key


@dataclass(frozen=True, slots=True)
class Clause:
    """One value of a profile as one place of the text states it."""

    value: Any
    sections: tuple[str, ...]
    read_on: date
    unit: str | None = None
    adopted_reading: bool = False
    note: str = ""

    @property
    def citation(self) -> str:
        """The sections as people cite them."""
        return "; ".join(self.sections)


@dataclass(frozen=True, slots=True)
class KindRule:
    """Which rule set a kind of device falls under, and by what section."""

    rules: str
    sections: tuple[str, ...]
    adopted_reading: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one version of an ordinance asks of one kind of device.

    ``fill_limit`` is the ratio that estimates are held against; where ``fill_binding`` is false the law does
    not speak of it for this kind. ``hot_limit_c`` [degC]. Breaches are strictly above. Intervals are ISO 8601
    durations, None where the text is silent for this kind.
    """

    kind: str
    rule_set: str
    fill_limit: float
    fill_binding: bool
    fill_base: str
    fill_citation: str
    exceed_citation: str | None
    max_interval: str | None
    max_citation: str | None
    default_interval: str | None
    default_citation: str | None
    hot_limit_c: float
    hot_citation: str
    removal_scope: tuple[str, ...]
    removal_citation: str
    no_pass_through_citation: str | None
    licences: tuple[str, ...]
    licence_citation: str | None
    approver_citation: str | None
    frequency_citation: str | None
    shorten_citation: str | None
    notice_days: int | None
    notice_citation: str | None
    manifest_required: bool

    def over_limit(self, fraction: float) -> bool:
        """Whether a fraction breaches the limit: strictly above it, and only where the law speaks of it."""
        return self.fill_binding and fraction > self.fill_limit

    def too_hot(self, inlet_c: float) -> bool:
        """Whether wastewater entering the device [degC] is above the limit, strictly."""
        return inlet_c > self.hot_limit_c


@dataclass(frozen=True, slots=True)
class Version:
    """An ordinance as it stands from one date on."""

    adopted_on: date
    adopted_to_be_confirmed: bool
    effective_on: date | None
    repealed_on: date | None
    sections: tuple[str, ...]
    values: Mapping[str, tuple[Clause, ...]]
    kinds: Mapping[str, KindRule]
    rules: Mapping[str, Rules]

    @property
    def in_force_from(self) -> date:
        """The effective date; until the city confirms one, the date of adoption."""
        return self.effective_on or self.adopted_on

    @property
    def note(self) -> str:
        """How the date of this version is to be read."""
        if self.effective_on is not None:
            return f"in force from {self.effective_on}"
        return f"applied from its adoption on {self.adopted_on}; effective date to be confirmed"

    def clause(self, key: str) -> Clause | None:
        """The first clause of a key; None where the text is silent."""
        clauses = self.values.get(key)
        return clauses[0] if clauses else None

    def citation(self, key: str) -> str | None:
        """Every section a key was read from; None where the text is silent."""
        return cite(self.values.get(key))

    def rules_for(self, kind: str) -> Rules:
        """The rules for one kind of device.

        Raises
        ------
        KeyError
            The profile maps no such kind.
        """
        return self.rules[kind]


@dataclass(frozen=True, slots=True)
class Ordinance:
    """One jurisdiction's profile: its versions in order of their dates, and worked examples."""

    id: str
    name: str
    cite: str
    source: str
    read_on: date
    versions: tuple[Version, ...]
    examples: tuple[Mapping[str, Any], ...]
    file: str

    def at(self, day: date) -> Version:
        """The version in force on a local date.

        Raises
        ------
        OrdinanceError
            No version was in force that day.
        """
        for version in reversed(self.versions):
            if version.in_force_from <= day and (version.repealed_on is None or day < version.repealed_on):
                return version
        raise OrdinanceError(self.file, "versions", f"no version of {self.name} was in force on {day}")


def cite(clauses: Sequence[Clause] | None) -> str | None:
    """Every section these clauses were read from, each once; None without clauses."""
    if not clauses:
        return None
    return "; ".join(dict.fromkeys(s for clause in clauses for s in clause.sections))


def build_rules(values: Mapping[str, tuple[Clause, ...]], kind: str, rule_set: str) -> Rules:
    """What the values of one version ask of one kind of device.

    Raises
    ------
    KeyError
        A value that no decision can do without is missing.
    """
    bound = rule_set == "interceptor"
    bound_values = values if bound else {}
    fill, hot = values["fill_limit"][0], values["hot_limit"][0]
    licences = _first(values, "hauler_licences")
    notice = _first(values, "frequency_notice_min")
    return Rules(
        kind=kind,
        rule_set=rule_set,
        fill_limit=float(fill.value),
        fill_binding=values["fill_applies_to"][0].value == rule_set,
        fill_base=str(values["fill_base"][0].value),
        fill_citation=fill.citation,
        exceed_citation=cite(bound_values.get("on_exceed")),
        max_interval=_first(bound_values, "max_interval"),
        max_citation=cite(bound_values.get("max_interval")),
        default_interval=_first(bound_values, "default_interval"),
        default_citation=cite(bound_values.get("default_interval")),
        hot_limit_c=round(to_si(float(hot.value), hot.unit or "c"), 9),
        hot_citation=hot.citation,
        removal_scope=tuple(values["removal_scope"][0].value),
        removal_citation=values["removal_scope"][0].citation,
        no_pass_through_citation=cite(bound_values.get("no_pass_through")),
        licences=tuple(licences) if isinstance(licences, list) else (),
        licence_citation=cite(values.get("hauler_licences")),
        approver_citation=cite(bound_values.get("frequency_approver")),
        frequency_citation=cite(bound_values.get("frequency_adjusted_when")),
        shorten_citation=cite(bound_values.get("frequency_shortened_on_exceed")),
        notice_days=None if notice is None else int(notice),
        notice_citation=cite(values.get("frequency_notice_min")),
        manifest_required="manifest_fields" in values or "manifest_papers" in values,
    )


def _first(values: Mapping[str, tuple[Clause, ...]], key: str) -> Any:
    clauses = values.get(key)
    return clauses[0].value if clauses else None
