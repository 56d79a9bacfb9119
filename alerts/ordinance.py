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

from alerts.conditions import KINDS, LISTED, PLACES, WHEN_KEYS, Subject, When, subject_of
from alerts.ordinancekeys import KEYS, NEEDED_WITH, RULE_SETS, misfit
from alerts.rules import Clause, KindRule, Ordinance, OrdinanceError, Rules, Version

__all__ = [
    "KEYS",
    "Clause",
    "KindRule",
    "Ordinance",
    "OrdinanceError",
    "Rules",
    "Subject",
    "Version",
    "load_ordinances",
    "parse_ordinance",
    "read_ordinance",
    "subject_of",
]

SHIPPED: Final = Path(__file__).parent / "ordinances"
_TOP_KEYS: Final = (
    "id",
    "name",
    "cite",
    "source",
    "read_on",
    "secondary",
    "holidays",
    "kinds",
    "versions",
    "examples",
)
_VERSION_KEYS: Final = (
    "adopted_on",
    "adopted_to_be_confirmed",
    "effective_on",
    "repealed_on",
    "sections",
    "values",
)
_CLAUSE_KEYS: Final = (
    "value",
    "unit",
    "sections",
    "read_on",
    "adopted_reading",
    "note",
    "when",
    "conditions",
    "of",
    "after",
    "secondary",
)
_KIND_KEYS: Final = ("rules", "sections", "adopted_reading", "note")
_EXAMPLE_KEYS: Final = (
    "title",
    "kind",
    "place",
    "kitchen",
    "equipment",
    "seats",
    "volume_l",
    "base_depth_mm",
    "on",
    "fraction",
    "fog_mm",
    "solids_mm",
    "over",
    "inlet_c",
    "hot",
    "last_complete",
    "frequency",
    "due",
    "no_due",
    "refused",
    "event",
    "report",
    "last_day",
    "assumed",
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
            secondary=self._flag("", self._top, "secondary"),
            holidays=self._days("holidays"),
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
            rules,
            self._sections(where, table),
            self._flag(where, table, "adopted_reading"),
            self._text(where, table, "note"),
        )

    def _version(self, where: str, table: dict[str, Any], kinds: dict[str, KindRule]) -> Version:
        self._known(where, table, _VERSION_KEYS)
        raw = self._take(where, table, "values", dict, "a table of values")
        self._known(f"{where}.values", raw, tuple(KEYS))
        values = {key: self._clauses(f"{where}.values.{key}", key, one) for key, one in raw.items()}
        for key, needed in NEEDED_WITH.items():
            for other in needed:
                if key in values and other not in values:
                    raise self._wrong(f"{where}.values.{other}", f"missing; {key} needs it")
        return Version(
            adopted_on=self._day(where, table, "adopted_on") if "adopted_on" in table else None,
            adopted_to_be_confirmed=self._flag(where, table, "adopted_to_be_confirmed"),
            effective_on=self._day(where, table, "effective_on") if "effective_on" in table else None,
            repealed_on=self._day(where, table, "repealed_on") if "repealed_on" in table else None,
            sections=self._sections(where, table),
            values=values,
            kinds=kinds,
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
        wrong = misfit(KEYS[key], value, unit)
        if wrong is not None:
            raise self._wrong(f"{where}.value", wrong)
        if key == "reports":
            for needed, what in (("of", "what is reported"), ("after", "the event its clock starts from")):
                self._take(where, table, needed, str, what)
        return Clause(
            value=value,
            sections=self._sections(where, table),
            read_on=self._day(where, table, "read_on") if "read_on" in table else self._read_on,
            unit=unit,
            adopted_reading=self._flag(where, table, "adopted_reading"),
            note=self._text(where, table, "note"),
            when=self._when(f"{where}.when", table["when"]) if "when" in table else None,
            conditions=self._texts(where, table, "conditions"),
            of=self._text(where, table, "of"),
            after=self._text(where, table, "after"),
            secondary=self._flag(where, table, "secondary"),
        )

    def _when(self, where: str, table: Any) -> When:
        self._known(where, table, WHEN_KEYS)
        if not table:
            raise self._wrong(where, f"empty; expected one of {', '.join(WHEN_KEYS)}, or leave it out")
        given: dict[str, Any] = {}
        for key in table:
            if key in LISTED:
                given[key] = self._texts(where, table, key)
                for allowed, words in ((KINDS, "kind"), (PLACES, "place")):
                    odd = [one for one in given[key] if key == words and one not in allowed]
                    if odd:
                        raise self._wrong(f"{where}.{key}", f"{odd[0]!r} is none of {', '.join(allowed)}")
            elif isinstance(table[key], int | float) and not isinstance(table[key], bool) and table[key] >= 0:
                given[key] = float(table[key])
            else:
                raise self._wrong(f"{where}.{key}", f"expected a number, found {table[key]!r}")
        return When(**given)

    def _flag(self, where: str, table: dict[str, Any], key: str) -> bool:
        return bool(self._take(where, table, key, bool, "true or false")) if key in table else False

    def _text(self, where: str, table: dict[str, Any], key: str) -> str:
        return str(self._take(where, table, key, str, "a text")) if key in table else ""

    def _texts(self, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
        found = self._take(where, table, key, list, "an array of texts") if key in table else []
        if key in table and (not found or not all(isinstance(one, str) and one for one in found)):
            raise self._wrong(f"{where}.{key}", f"expected an array of texts, found {found!r}")
        return tuple(found)

    def _days(self, key: str) -> tuple[date, ...]:
        found = self._take("", self._top, key, list, "an array of dates") if key in self._top else []
        if not all(isinstance(one, date) for one in found):
            raise self._wrong(key, f"expected an array of dates, found {found!r}")
        return tuple(found)

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
