"""Scenario files (TOML), and the scenarios that come with the package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Final

from simulators.faults import USUAL, FaultKind, FaultPlan
from simulators.kitchen import KINDS, SLOT_S
from simulators.network import Quality
from simulators.scenario import Habits, Scenario
from simulators.sensor import Principle

TOP: Final = (
    "name",
    "seed",
    "interceptors",
    "days",
    "start",
    "kitchens",
    "principles",
    "habits",
    "quality",
    "faults",
)
FOLDER: Final = "scenarios"
ONE_FAULT, ONE_PRINCIPLE = "fault:", "principle:"


class ScenarioError(ValueError):
    """A scenario cannot be used; the text names file, line, key and fix."""


def shipped() -> list[str]:
    """Names that :func:`load` knows: the files of the package, each fault alone, each principle alone."""
    files = resources.files("simulators").joinpath(FOLDER).iterdir()
    names = sorted(item.name.removesuffix(".toml") for item in files if item.name.endswith(".toml"))
    return [
        *names,
        *(f"{ONE_FAULT}{kind}" for kind in FaultKind),
        *(f"{ONE_PRINCIPLE}{principle}" for principle in Principle),
    ]


def load(name: str) -> Scenario:
    """Load a scenario by name, or from a file.

    Parameters
    ----------
    name
        ``clean``, ``mixed`` … as :func:`shipped` lists them; ``fault:<kind>`` is the clean city with that one
        fault, ``principle:<principle>`` the clean city with sensors of that one principle; or a file's path.

    Raises
    ------
    ScenarioError
        No such name or file, or its content does not fit.
    """
    if name.startswith(ONE_FAULT):
        kind = FaultKind(_known(name.removeprefix(ONE_FAULT), list(FaultKind), ONE_FAULT))
        return replace(load("clean"), name=name, faults={kind: replace(USUAL[kind], share=0.5)})
    if name.startswith(ONE_PRINCIPLE):
        principle = Principle(_known(name.removeprefix(ONE_PRINCIPLE), list(Principle), ONE_PRINCIPLE))
        return replace(load("clean"), name=name, principles={principle: 1.0})
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        try:
            return parse(path.read_text(encoding="utf-8"), name)
        except OSError as error:
            raise ScenarioError(f"{name}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ScenarioError(f"{name}: is not UTF-8 text") from None
    known = _known(name, shipped(), "scenario ")
    return parse(resources.files("simulators").joinpath(FOLDER, f"{known}.toml").read_text("utf-8"), name)


def parse(text: str, source: str) -> Scenario:
    """Read the text of a scenario file; ``source`` is its name in errors.

    Raises
    ------
    ScenarioError
        The text is no TOML, or a key or value does not fit.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{source}: {error}") from None
    return _Reader(source, text).scenario(data)


def _known(word: str, names: Iterable[str], what: str) -> str:
    names = [str(name) for name in names]
    if word in names:
        return word
    raise ScenarioError(f"{what}{word!r} is not known{_nearest(word, names)}")


def _nearest(word: str, names: list[str]) -> str:
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; nearest is {close[0]!r}" if close else f"; known are {', '.join(names)}"


class _Reader:
    """Takes values by key and type; ``where`` is a tuple of keys."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._lines = text.splitlines()

    def scenario(self, data: Mapping[str, Any]) -> Scenario:
        self._keys(data, TOP, ())
        plain = Scenario()
        return Scenario(
            name=self._text(data, "name", Path(self._source).stem),
            seed=int(self._number(data, (), "seed", plain.seed, 0, whole=True)),
            count=int(self._number(data, (), "interceptors", plain.count, 1, whole=True)),
            days=int(self._number(data, (), "days", plain.days, 1, whole=True)),
            start_s=self._start(data, plain.start_s),
            kitchens=self._weights(data, "kitchens", list(KINDS)),
            principles={
                Principle(name): weight
                for name, weight in self._weights(data, "principles", list(Principle)).items()
            },
            habits=self._habits(self._table(data, (), "habits")),
            quality=self._quality(self._table(data, (), "quality")),
            faults=self._faults(self._table(data, (), "faults")),
        )

    def _habits(self, table: Mapping[str, Any]) -> Habits:
        here, plain = ("habits",), Habits()
        self._keys(table, [item.name for item in fields(Habits)], here)
        return Habits(
            levels=self._pair(table, here, "levels", plain.levels, 0.0, 1.0),
            longest_days=self._number(table, here, "longest_days", plain.longest_days, 1.0),
            partial=self._number(table, here, "partial", plain.partial, 0.0, 1.0),
            paper=self._number(table, here, "paper", plain.paper, 0.0, 1.0),
            cores_a_month=self._number(table, here, "cores_a_month", plain.cores_a_month, 0.0),
        )

    def _quality(self, table: Mapping[str, Any]) -> Quality:
        here, plain = ("quality",), Quality()
        self._keys(table, [item.name for item in fields(Quality)], here)
        return Quality(
            lost=self._number(table, here, "lost", plain.lost, 0.0, 1.0),
            twice=self._number(table, here, "twice", plain.twice, 0.0, 1.0),
        )

    def _faults(self, table: Mapping[str, Any]) -> dict[FaultKind, FaultPlan]:
        self._keys(table, list(FaultKind), ("faults",))
        found = {}
        for name in table:
            kind, here = FaultKind(name), ("faults", name)
            one, plain = self._table(table, ("faults",), name), USUAL[FaultKind(name)]
            self._keys(one, [item.name for item in fields(FaultPlan)], here)
            found[kind] = FaultPlan(
                share=self._number(one, here, "share", plain.share, 0.0, 1.0),
                times_a_year=self._number(one, here, "times_a_year", plain.times_a_year, 0.0),
                days=self._pair(one, here, "days", plain.days, 0.01),
                size=self._pair(one, here, "size", plain.size),
            )
        return found

    def _start(self, data: Mapping[str, Any], usual: float) -> float:
        when = data.get("start")
        if when is None:
            return usual
        if not isinstance(when, datetime) or when.tzinfo is None:
            raise self._wrong((), "start", "give date, time and offset: 2026-09-01T00:00:00-07:00")
        if when.timestamp() % SLOT_S:
            raise self._wrong((), "start", "must be a whole quarter of an hour")
        return when.timestamp()

    def _weights(self, data: Mapping[str, Any], key: str, names: list[str]) -> dict[str, float]:
        table = self._table(data, (), key)
        self._keys(table, names, (key,))
        weights = {str(name): self._number(table, (key,), name, 0.0, 0.0) for name in table}
        if weights and sum(weights.values()) <= 0.0:
            raise self._wrong((), key, "at least one weight must be above 0")
        return weights

    def _text(self, data: Mapping[str, Any], key: str, usual: str) -> str:
        value = data.get(key, usual)
        if not isinstance(value, str):
            raise self._wrong((), key, f"expected text, found {value!r}")
        return value

    def _number(
        self,
        table: Mapping[str, Any],
        here: tuple[str, ...],
        key: str,
        usual: float,
        low: float,
        high: float = float("inf"),
        *,
        whole: bool = False,
    ) -> float:
        value = table.get(key, usual)
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            most = "" if high == float("inf") else f" and at most {high:g}"
            sort = "a whole number" if whole else "a number"
            raise self._wrong(here, key, f"expected {sort} of at least {low:g}{most}, found {value!r}")
        return float(value) if not whole else value

    def _pair(
        self,
        table: Mapping[str, Any],
        here: tuple[str, ...],
        key: str,
        usual: tuple[float, float],
        low: float = float("-inf"),
        high: float = float("inf"),
    ) -> tuple[float, float]:
        value = table.get(key, list(usual))
        fits = isinstance(value, list) and len(value) == 2
        if not fits or not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in value):
            raise self._wrong(here, key, f"expected [least, largest], found {value!r}")
        if not low <= value[0] <= value[1] <= high:
            raise self._wrong(here, key, f"expected {low:g} <= least <= largest <= {high:g}, found {value!r}")
        return float(value[0]), float(value[1])

    def _table(self, data: Mapping[str, Any], here: tuple[str, ...], key: str) -> Mapping[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(here, key, f"expected a table, found {value!r}")
        return value

    def _keys(self, table: Mapping[str, Any], names: Iterable[str], here: tuple[str, ...]) -> None:
        known = [str(name) for name in names]
        for key in table:
            if key not in known:
                raise self._wrong(here, key, f"unknown key{_nearest(key, known)}")

    def _wrong(self, here: tuple[str, ...], key: str, text: str) -> ScenarioError:
        return ScenarioError(f"{self._source}:{self._line(here, key)}: {'.'.join((*here, key))}: {text}")

    def _line(self, here: tuple[str, ...], key: str) -> int:
        """The line of ``key`` in table ``here``, or of that table, or 1."""
        at: tuple[str, ...] = ()
        best = 1
        for number, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[([^\[\]]+)\]", line)
            if header:
                at = tuple(part.strip().strip("\"'") for part in header[1].split("."))
                if at == (*here, key):
                    return number
                best = number if at == here else best
            elif at == here and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
                return number
        return best
