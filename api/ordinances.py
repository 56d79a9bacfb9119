"""`quarterline ordinance`: what the profiles say, whether a file is one, and what changed between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from alerts.examples import failures
from alerts.ordinance import Clause, Ordinance, OrdinanceError, Version, read_ordinance
from api.serve import load_rules
from api.settings import load_settings, nearest
from api.work import UseError


def show(identity: str | None, on: str | None, config: Path | None) -> list[dict[str, Any]]:
    """Every value of an ordinance, or of all, as it stands on a local date (today), with its section.

    Raises
    ------
    UseError
        There is no such ordinance, or no such date.
    OrdinanceError
        No version was in force that day.
    """
    known = load_rules(load_settings(config)).ordinances
    if identity is not None and identity not in known:
        raise UseError(f"no ordinance {identity!r}; {nearest(identity, sorted(known))}")
    day = _day(on)
    chosen = [known[identity]] if identity is not None else list(known.values())
    return [row for one in chosen for row in _rows(one, one.at(day))]


def check(path: Path) -> tuple[Ordinance | None, list[str]]:
    """A file as a profile, and what is wrong with it: its form, or its own examples."""
    try:
        one = read_ordinance(path)
    except OrdinanceError as error:
        return None, [str(error)]
    return one, failures(one)


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs between two profiles; None where it is absent."""

    key: str
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {"key": self.key, "before": self.before, "after": self.after}


def diff(first: str, second: str, on: str | None, config: Path | None) -> list[Change]:
    """What differs between two profiles, each an id or a file, on a local date (today).

    Raises
    ------
    UseError
        One of them is neither an ordinance nor a file.
    OrdinanceError
        A file is no profile, or no version was in force that day.
    """
    day = _day(on)
    before, after = (_one(name, config).at(day) for name in (first, second))
    return [
        Change(key, old, new)
        for key in dict.fromkeys([*_keys(before), *_keys(after)])
        if (old := _said(before, key)) != (new := _said(after, key))
    ]


def in_words(row: dict[str, Any]) -> str:
    """A row of :func:`show` for a person."""
    marks = [
        *(["adopted reading"] if row["adopted_reading"] else []),
        *(["not from the authority itself"] if row["secondary"] else []),
    ]
    parts = [f"{row['ordinance']}  {row['key']}: {row['value']}"]
    parts += [f" {row['unit']}"] if row["unit"] else []
    parts += [f" where {row['when']}"] if row["when"] else []
    parts += [f" for the {row['of']}"] if row["of"] else []
    parts += [f" after {row['after']}"] if row["after"] else []
    parts += [f" if {', '.join(row['conditions'])}"] if row["conditions"] else []
    parts += [f"  [{row['sections']}, read {row['read_on']}]"]
    return "".join(parts + ([f" ({', '.join(marks)})"] if marks else []))


def _one(name: str, config: Path | None) -> Ordinance:
    known = load_rules(load_settings(config)).ordinances
    if name in known:
        return known[name]
    if not Path(name).exists():
        raise UseError(f"{name!r} is neither a file nor an ordinance; known are {', '.join(sorted(known))}")
    return read_ordinance(Path(name))


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(tz=UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UseError(f"--on: expected a date such as 2026-12-07, found {text!r}") from None


def _keys(version: Version) -> Sequence[str]:
    return ("in force", *(f"kind {kind}" for kind in version.kinds), *version.values)


def _said(version: Version, key: str) -> str | None:
    if key == "in force":
        return version.note
    if key.startswith("kind "):
        rule = version.kinds.get(key.removeprefix("kind "))
        return None if rule is None else f"{rule.rules} rules [{'; '.join(rule.sections)}]"
    clauses = version.values.get(key)
    return None if clauses is None else "; ".join(_clause(one) for one in clauses)


def _clause(one: Clause) -> str:
    value = ", ".join(one.value) if isinstance(one.value, list) else str(one.value)
    unit = f" {one.unit}" if one.unit else ""
    when = f" where {one.when.words}" if one.when is not None else ""
    conditions = f" if {', '.join(one.conditions)}" if one.conditions else ""
    return f"{value}{unit}{when}{conditions} [{one.citation}]"


def _rows(ordinance: Ordinance, version: Version) -> Iterator[dict[str, Any]]:
    for key, clauses in version.values.items():
        for clause in clauses:
            plain = isinstance(clause.value, int | float | str | bool)
            yield {
                "ordinance": ordinance.id,
                "key": key,
                "value": clause.value if plain else ", ".join(clause.value),
                "unit": clause.unit,
                "sections": clause.citation,
                "adopted_reading": clause.adopted_reading,
                "read_on": clause.read_on.isoformat(),
                "note": clause.note,
                "when": clause.when.words if clause.when is not None else None,
                "conditions": list(clause.conditions),
                "of": clause.of,
                "after": clause.after,
                "secondary": clause.secondary or ordinance.secondary,
            }
