"""Ordinance profiles: the rules of one jurisdiction as dated, cited data.

A profile is a TOML file. Every value carries the sections it was read from and the day it was read; what the
text is silent about is absent. Code holds only the closed set of keys and what each may be.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from alerts.calendar import DurationError, parse_duration
from alerts.rules import Clause, KindRule, Ordinance, OrdinanceError, Rules, Version, build_rules

__all__ = [
    "Clause",
    "KindRule",
    "Ordinance",
    "OrdinanceError",
    "Rules",
    "Version",
    "load_ordinances",
    "parse_ordinance",
    "read_ordinance",
]

SHIPPED: Final = Path(__file__).parent / "ordinances"
KINDS: Final = ("gravity", "hydromechanical", "trap")
RULE_SETS: Final = ("interceptor", "trap")

#: Every key of a profile and the form of its value.
KEYS: Final[dict[str, str]] = {
    "fill_limit": "ratio",
    "fill_base": "text",
    "fill_applies_to": "rule set",
    "standing_25_prohibition": "flag",
    "on_exceed": "text",
    "on_exceed_hours": "number",
    "max_interval": "duration",
    "default_interval": "duration",
    "min_interval": "duration",
    "removal_scope": "texts",
    "removed_material": "text",
    "no_pass_through": "flag",
    "frequency_approver": "text",
    "frequency_request": "texts",
    "frequency_adjusted_when": "text",
    "frequency_shortened_on_exceed": "flag",
    "frequency_notice_min": "number",
    "frequency_written_in": "text",
    "hot_limit": "temperature",
    "hot_min_duration": "number",
    "sewer_temp_limit": "temperature",
    "trap_cleaning": "text",
    "dishwasher_to_device": "text",
    "biological_additives": "text",
    "emulsifying_additives": "text",
    "grinder_removal": "number",
    "manifest_fields": "texts",
    "manifest_papers": "texts",
    "retention_min": "number",
    "hauler_licences": "text or texts",
    "incident_phone": "text",
    "incident_written": "number",
    "planned_change_notice": "number",
    "training": "number",
    "install_after_notice": "number",
    "variance_visual_monitoring": "duration",
    "min_compartments": "number",
    "manhole": "number or text",
    "shared_site": "text",
}
_REQUIRED: Final = ("fill_limit", "fill_base", "fill_applies_to", "hot_limit", "on_exceed", "removal_scope")
_TOP_KEYS: Final = ("id", "name", "cite", "source", "read_on", "kinds", "versions", "examples")
_VERSION_KEYS: Final = (
    "adopted_on",
    "adopted_to_be_confirmed",
    "effective_on",
    "repealed_on",
    "sections",
    "values",
)
_CLAUSE_KEYS: Final = ("value", "unit", "sections", "read_on", "adopted_reading", "note")
_KIND_KEYS: Final = ("rules", "sections", "adopted_reading", "note")
_EXAMPLE_KEYS: Final = (
    "title",
    "kind",
    "on",
    "fraction",
    "over",
    "inlet_c",
    "hot",
    "last_complete",
    "frequency",
    "due",
    "no_due",
    "refused",
)


def load_ordinances(paths: Sequence[Path] = ()) -> dict[str, Ordinance]:
    """The shipped profiles and those of ``paths`` by id; a given file replaces a shipped profile of its id.

    Raises
    ------
    OrdinanceError
        A file cannot be read or is not a profile; the text names file, key and what was expected.
    """
    found: dict[str, Ordinance] = {}
    for path in sorted(SHIPPED.glob("*.toml")):
        one = read_ordinance(path)
        found[one.id] = one
    given: dict[str, Path] = {}
    for path in paths:
        one = read_ordinance(path)
        if one.id in given:
            raise OrdinanceError(str(path), "id", f"{one.id!r} is already given by {given[one.id]}")
        given[one.id] = path
        found[one.id] = one
    return found


def read_ordinance(path: Path) -> Ordinance:
    """Read one profile.

    Raises
    ------
    OrdinanceError
        The file cannot be read or is not a profile.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OrdinanceError(path.name, "file", f"cannot be read: {error}") from None
    return parse_ordinance(text, path.name)


def parse_ordinance(text: str, file: str) -> Ordinance:
    """Read one profile from its text; ``file`` names it in errors.

    Raises
    ------
    OrdinanceError
        The text is not a profile.
    """
    try:
        top = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OrdinanceError(file, "file", f"is not TOML: {error}") from None
    return _Reader(file, top).ordinance()


class _Reader:
    """Turns one parsed file into a profile, naming file and key of whatever is wrong."""

    def __init__(self, file: str, top: dict[str, Any]) -> None:
        self._file = file
        self._top = top
        self._cite = ""
        self._read_on = date.min

    def ordinance(self) -> Ordinance:
        self._known("", self._top, _TOP_KEYS)
        self._cite = self._take("", self._top, "cite", str, "the code's short name, such as IMC")
        self._read_on = self._day("", self._top, "read_on")
        kinds = self._kinds(self._take("", self._top, "kinds", dict, "a table of device kinds"))
        listed = self._take("", self._top, "versions", list, "an array of tables [[versions]]")
        versions = sorted(
            (self._version(f"versions[{n}]", one, kinds) for n, one in enumerate(listed)),
            key=lambda one: one.in_force_from,
        )
        if not versions:
            raise self._wrong("versions", "expected at least one version")
        examples = self._top.get("examples", [])
        for n, example in enumerate(examples):
            self._known(f"examples[{n}]", example, _EXAMPLE_KEYS)
        return Ordinance(
            id=self._take("", self._top, "id", str, "an id such as inglewood"),
            name=self._take("", self._top, "name", str, "the jurisdiction's name"),
            cite=self._cite,
            source=self._take("", self._top, "source", str, "what was read"),
            read_on=self._read_on,
            versions=tuple(versions),
            examples=tuple(examples),
            file=self._file,
        )

    def _kinds(self, table: dict[str, Any]) -> dict[str, KindRule]:
        self._known("kinds", table, KINDS)
        for kind in KINDS:
            if kind not in table:
                raise self._wrong(f"kinds.{kind}", "missing; every kind of device needs a rule set")
        return {kind: self._kind(f"kinds.{kind}", one) for kind, one in table.items()}

    def _kind(self, where: str, table: dict[str, Any]) -> KindRule:
        self._known(where, table, _KIND_KEYS)
        rules = self._take(where, table, "rules", str, "interceptor or trap")
        if rules not in RULE_SETS:
            raise self._wrong(f"{where}.rules", f"{rules!r} is none of {', '.join(RULE_SETS)}")
        return KindRule(
            rules, self._sections(where, table), bool(table.get("adopted_reading")), table.get("note", "")
        )

    def _version(self, where: str, table: dict[str, Any], kinds: dict[str, KindRule]) -> Version:
        self._known(where, table, _VERSION_KEYS)
        raw = self._take(where, table, "values", dict, "a table of values")
        self._known(f"{where}.values", raw, tuple(KEYS))
        values = {key: self._clauses(f"{where}.values.{key}", key, one) for key, one in raw.items()}
        for key in _REQUIRED:
            if key not in values:
                raise self._wrong(f"{where}.values.{key}", "missing; no decision can do without it")
        adopted = self._day(where, table, "adopted_on")
        return Version(
            adopted_on=adopted,
            adopted_to_be_confirmed=bool(table.get("adopted_to_be_confirmed", False)),
            effective_on=self._day(where, table, "effective_on") if "effective_on" in table else None,
            repealed_on=self._day(where, table, "repealed_on") if "repealed_on" in table else None,
            sections=self._sections(where, table),
            values=values,
            kinds=kinds,
            rules={kind: build_rules(values, kind, one.rules) for kind, one in kinds.items()},
        )

    def _clauses(self, where: str, key: str, raw: Any) -> tuple[Clause, ...]:
        listed = raw if isinstance(raw, list) else [raw]
        if not listed or not all(isinstance(one, dict) for one in listed):
            raise self._wrong(where, "expected a table with value and sections")
        return tuple(self._clause(where, key, one) for one in listed)

    def _clause(self, where: str, key: str, table: dict[str, Any]) -> Clause:
        self._known(where, table, _CLAUSE_KEYS)
        if "value" not in table:
            raise self._wrong(f"{where}.value", "missing; leave the whole key out where the text is silent")
        value, unit = table["value"], table.get("unit")
        self._check(f"{where}.value", KEYS[key], value, unit)
        return Clause(
            value=value,
            sections=self._sections(where, table),
            read_on=self._day(where, table, "read_on") if "read_on" in table else self._read_on,
            unit=unit,
            adopted_reading=bool(table.get("adopted_reading", False)),
            note=table.get("note", ""),
        )

    def _check(self, where: str, form: str, value: Any, unit: Any) -> None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        text = isinstance(value, str) and bool(value)
        texts = isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
        fits = {
            "ratio": number and 0 < value <= 1,
            "number": number and value > 0,
            "temperature": number and unit in {"c", "f"},
            "flag": isinstance(value, bool),
            "text": text,
            "texts": texts,
            "text or texts": text or texts,
            "number or text": text or (number and value > 0),
            "rule set": value in RULE_SETS,
            "duration": text,
        }[form]
        if not fits:
            hint = ' with unit "c" or "f"' if form == "temperature" else ""
            raise self._wrong(where, f"expected a {form}{hint}, found {value!r}")
        if form == "duration":
            try:
                parse_duration(value)
            except DurationError as error:
                raise self._wrong(where, str(error)) from None

    def _sections(self, where: str, table: dict[str, Any]) -> tuple[str, ...]:
        sections = self._take(where, table, "sections", list, "the sections it was read from")
        for section in sections:
            if not isinstance(section, str) or not section.startswith(f"{self._cite} "):
                raise self._wrong(
                    f"{where}.sections", f"expected texts such as '{self._cite} …', found {section!r}"
                )
        if not sections:
            raise self._wrong(f"{where}.sections", "empty; every value needs the section it was read from")
        return tuple(sections)

    def _day(self, where: str, table: dict[str, Any], key: str) -> date:
        return self._take(where, table, key, date, "a date such as 2026-11-30")  # type: ignore[no-any-return]

    def _take(self, where: str, table: dict[str, Any], key: str, kind: type, what: str) -> Any:
        path = f"{where}.{key}" if where else key
        if key not in table:
            raise self._wrong(path, f"missing; expected {what}")
        if not isinstance(table[key], kind):
            raise self._wrong(path, f"expected {what}, found {table[key]!r}")
        return table[key]

    def _known(self, where: str, table: Any, known: Sequence[str]) -> None:
        if not isinstance(table, dict):
            raise self._wrong(where, f"expected a table, found {table!r}")
        for key in table:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
                raise self._wrong(f"{where}.{key}" if where else key, f"unknown key{hint}")

    def _wrong(self, key: str, what: str) -> OrdinanceError:
        return OrdinanceError(self._file, key, what)
