"""What an ordinance says, as types: clauses with sections, versions by date, rules for one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from alerts.calendar import length_days
from alerts.conditions import Subject, When, choose
from alerts.ordinancekeys import LENGTHS
from alerts.reporting import Clock, parse_clock
from analysis.units import to_si

USUAL_LIMIT: Final = 0.25  # what estimates are held against where an ordinance has no limit of its own
_KNOWN_RULES: Final = 4096  # subjects whose rules one version remembers


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
    when: When | None = None
    conditions: tuple[str, ...] = ()  # what it hangs on and no register holds: leave in writing, a method
    of: str = ""  # which of several things: the log, the ticket, the notice
    after: str = ""  # the event its clock starts from
    secondary: bool = False  # read in a source that is not the authority itself

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
class Report:
    """Something that must reach the city in time after an event."""

    what: str
    after: str
    clock: Clock
    citation: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What one version of an ordinance asks of one device.

    ``fill_limit`` is the ratio of ``fill_base`` that estimates are held against, of FOG and solids or of FOG
    alone as ``fill_counts`` says; where ``fill_binding`` is false the law does not speak of it for this device.
    A breach is strictly above it, or at it where ``fill_reaches``. ``hot_limit_c`` [degC], a breach is strictly
    above. Intervals are ISO 8601 durations. None: the text is silent for this device. ``assumed`` names what
    was taken strictly because facts are not on file.
    """

    kind: str
    rule_set: str
    fill_limit: float
    fill_binding: bool
    fill_base: str
    fill_counts: str
    fill_reaches: bool
    fill_citation: str | None
    fill_advice: float | None
    advice_citation: str | None
    exceed_citation: str | None
    max_interval: str | None
    max_citation: str | None
    default_interval: str | None
    default_citation: str | None
    variance_interval: str | None
    variance_citation: str | None
    hot_limit_c: float | None
    hot_citation: str | None
    removal_scope: tuple[str, ...]
    removal_citation: str | None
    no_pass_through_citation: str | None
    licences: tuple[str, ...]
    licence_citation: str | None
    approver_citation: str | None
    frequency_citation: str | None
    shorten_citation: str | None
    notice_days: int | None
    notice_citation: str | None
    manifest_required: bool
    reports: tuple[Report, ...] = ()
    assumed: tuple[str, ...] = ()

    def over_limit(self, fraction: float) -> bool:
        """Whether a fraction breaches the limit, where the law speaks of it."""
        above = fraction >= self.fill_limit if self.fill_reaches else fraction > self.fill_limit
        return self.fill_binding and above

    def counted(self, fog_m: float, solids_m: float, base_depth_m: float) -> float:
        """What the limit is held against, of measured layers [m]; 1e-9 is rounded away, so that 25 % is 25 %."""
        layers = fog_m if self.fill_counts == "fog" else fog_m + solids_m
        return round(layers / base_depth_m, 9)

    def too_hot(self, inlet_c: float) -> bool:
        """Whether wastewater entering the device [degC] is above the limit, strictly."""
        return self.hot_limit_c is not None and inlet_c > self.hot_limit_c


@dataclass(frozen=True, slots=True)
class Version:
    """An ordinance as it stands from one date on."""

    adopted_on: date | None
    adopted_to_be_confirmed: bool
    effective_on: date | None
    repealed_on: date | None
    sections: tuple[str, ...]
    values: Mapping[str, tuple[Clause, ...]]
    kinds: Mapping[str, KindRule]
    _known: dict[Subject, Rules] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def in_force_from(self) -> date:
        """The effective date; until the city confirms one, the adoption; always, where neither was seen."""
        return self.effective_on or self.adopted_on or date.min

    @property
    def note(self) -> str:
        """How the date of this version is to be read."""
        if self.effective_on is not None:
            return f"in force from {self.effective_on}"
        if self.adopted_on is None:
            return "dates of adoption and effect not seen: applied as read"
        return f"applied from its adoption on {self.adopted_on}; effective date to be confirmed"

    def clause(self, key: str) -> Clause | None:
        """The first clause of a key; None where the text is silent."""
        clauses = self.values.get(key)
        return clauses[0] if clauses else None

    def citation(self, key: str) -> str | None:
        """Every section a key was read from; None where the text is silent."""
        return cite(self.values.get(key))

    def rules_for(self, subject: Subject) -> Rules:
        """The rules for one device.

        Raises
        ------
        KeyError
            The profile maps no such kind.
        """
        known = self._known.get(subject)
        if known is None:
            known = build_rules(self.values, subject, self.kinds[subject.kind].rules)
            if len(self._known) >= _KNOWN_RULES:
                self._known.clear()
            self._known[subject] = known
        return known


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
    secondary: bool = False
    holidays: tuple[date, ...] = ()

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


def build_rules(values: Mapping[str, tuple[Clause, ...]], subject: Subject, rule_set: str) -> Rules:
    """What the values of one version ask of one device; ``rule_set`` is the one its kind falls under."""
    ask = _Asking(values, subject)
    bound = _Asking(values if rule_set == "interceptor" else {}, subject)
    fill, hot, licences = ask("fill_limit", _ratio(subject)), ask("hot_limit"), ask("hauler_licences")
    notice, scope = ask("frequency_notice_min"), ask("removal_scope")
    longest, usual = bound("max_interval", _days), bound("default_interval", _days)
    leave, advice = bound("variance_interval", _days), ask("fill_advice", _number)
    return Rules(
        kind=subject.kind,
        rule_set=rule_set,
        fill_limit=USUAL_LIMIT if fill.clause is None else _ratio(subject)(fill.clause),
        fill_binding=fill.clause is not None and ask("fill_applies_to").value == rule_set,
        fill_base=str(ask("fill_base").value or "liquid depth"),
        fill_counts=str(ask("fill_counts").value or "fog and solids"),
        fill_reaches=bool(ask("fill_reaches").value),
        fill_citation=fill.clause.citation if fill.clause else None,
        fill_advice=advice.value,
        advice_citation=advice.citation,
        exceed_citation=bound("on_exceed").citation,
        max_interval=longest.value,
        max_citation=longest.citation,
        default_interval=usual.value,
        default_citation=usual.citation,
        variance_interval=leave.value,
        variance_citation=leave.citation,
        hot_limit_c=None if hot.clause is None else _celsius(hot.clause),
        hot_citation=hot.clause.citation if hot.clause else None,
        removal_scope=tuple(scope.value or ()),
        removal_citation=scope.citation,
        no_pass_through_citation=bound("no_pass_through").citation,
        licences=tuple(licences.value) if isinstance(licences.value, list) else (),
        licence_citation=licences.citation,
        approver_citation=bound("frequency_approver").citation,
        frequency_citation=bound("frequency_adjusted_when").citation,
        shorten_citation=bound("frequency_shortened_on_exceed").citation,
        notice_days=None if notice.value is None else int(notice.value),
        notice_citation=notice.citation,
        manifest_required="manifest_fields" in values or "manifest_papers" in values,
        reports=tuple(
            Report(one.of, one.after, parse_clock(one.value), one.citation)
            for one in values.get("reports", ())
            if one.when is None or one.when.holds(subject) is not False
        ),
        assumed=tuple(dict.fromkeys(ask.assumed + bound.assumed)),
    )


@dataclass(frozen=True, slots=True)
class _Said:
    """What a key says to one device."""

    clause: Clause | None
    citation: str | None

    @property
    def value(self) -> Any:
        return None if self.clause is None else self.clause.value


class _Asking:
    """Asks the values of one version on behalf of one device; ``assumed`` gathers what was taken strictly."""

    def __init__(self, values: Mapping[str, tuple[Clause, ...]], subject: Subject) -> None:
        self._values, self._subject = values, subject
        self.assumed: list[str] = []

    def __call__(self, key: str, strictness: Callable[[Clause], Any] | None = None) -> _Said:
        clauses = self._values.get(key, ())
        chosen, missing = choose(clauses, self._subject, strictness)
        if chosen is None:
            return _Said(None, None)
        if missing:
            self.assumed.append(f"{key}: {', '.join(missing)} not on file; {chosen.value} is assumed")
        same = [chosen] if chosen.when is not None else [c for c in clauses if c.when is None]
        return _Said(chosen, cite(same))


def _days(clause: Clause) -> float:
    return length_days(clause.value)


def _number(clause: Clause) -> float:
    return float(clause.value)


def _celsius(clause: Clause) -> float:
    return round(to_si(float(clause.value), clause.unit or "c"), 9)


def _ratio(subject: Subject) -> Callable[[Clause], float]:
    """A limit as a ratio of the base depth; a thickness is divided by this device's."""

    def of(clause: Clause) -> float:
        if clause.unit not in LENGTHS:
            return float(clause.value)
        if subject.base_depth_m is None:
            raise ValueError("base_depth_m: needed where the limit is a thickness")
        return float(clause.value) * LENGTHS[clause.unit] / subject.base_depth_m

    return of
