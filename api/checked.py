"""Taking typed values out of what a person wrote; every problem is collected, not only the first."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

from api.settings import nearest
from api.tomllines import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where (``path``), and what was expected."""

    path: Path
    expected: str

    @property
    def key(self) -> str:
        """The path as people write it: ``sensors[0].levels.fog``."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text


@dataclass(slots=True)
class Problems:
    """All problems of one document, in the order they were met."""

    found: list[Problem] = field(default_factory=list)

    def add(self, path: Path, expected: str) -> None:
        """Note one."""
        self.found.append(Problem(path, expected))


_MISSING: Final = object()


class Table:
    """One table of a document. Each ``take`` marks its key as known; :meth:`done` reports the others."""

    def __init__(self, data: Mapping[str, Any], path: Path, problems: Problems) -> None:
        self._data = data
        self._taken: set[str] = set()
        self.path = path
        self.problems = problems

    def at(self, key: str) -> Path:
        """The path of a key of this table."""
        return (*self.path, key)

    def wrong(self, key: str, expected: str) -> None:
        """Note a problem with one key."""
        self.problems.add(self.at(key), expected)

    def done(self) -> None:
        """Report every key that nobody asked for."""
        for key in self._data:
            if key not in self._taken:
                self.wrong(key, f"unknown key; {nearest(key, sorted(self._taken))}")

    def raw(self, key: str) -> str:
        """A text as it stands, unchecked; empty where there is none."""
        value = self._data.get(key)
        return value if isinstance(value, str) else ""

    def text(
        self, key: str, *, required: bool = False, pattern: str | None = None, what: str = "text"
    ) -> str | None:
        """A non-empty text, of a pattern where one is given."""
        value = self._take(key, required, what)
        if value is _MISSING:
            return None
        if not isinstance(value, str) or not value.strip():
            self.wrong(key, f"expected {what}, found {_show(value)}")
            return None
        if pattern is not None and re.fullmatch(pattern, value) is None:
            self.wrong(key, f"expected {what}, found {_show(value)}")
            return None
        return value

    def choice(
        self, key: str, known: Collection[str], *, default: str | None = None, required: bool = True
    ) -> str | None:
        """One of a few words; where there is a default, or ``required`` is false, it may be absent."""
        value = self._take(key, required and default is None, f"one of {', '.join(sorted(known))}")
        if value is _MISSING:
            return default
        if not isinstance(value, str) or value not in known:
            hint = nearest(value, sorted(known)) if isinstance(value, str) else ""
            hint = f"; {hint}" if hint.startswith("did") else ""
            self.wrong(key, f"expected one of {', '.join(sorted(known))}, found {_show(value)}{hint}")
            return default
        return value

    def number(
        self,
        key: str,
        *,
        required: bool = False,
        low: float = -math.inf,
        high: float = math.inf,
        above: float | None = None,
        unit: str = "",
    ) -> float | None:
        """A finite number within ``low`` … ``high``, greater than ``above`` where given."""
        value = self._take(key, required, "a number")
        if value is _MISSING:
            return None
        span = _span(low, high, above, unit)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.wrong(key, f"expected a number{span}, found {_show(value)}")
            return None
        if not low <= value <= high or (above is not None and value <= above):
            self.wrong(key, f"expected a number{span}, found {value}")
            return None
        return float(value)

    def whole(self, key: str, *, low: int, high: int, default: int | None = None) -> int | None:
        """A whole number within ``low`` … ``high``."""
        value = self._take(key, False, "a whole number")
        if value is _MISSING:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(key, f"expected a whole number of {low} … {high}, found {_show(value)}")
            return default
        return value

    def day(self, key: str) -> str | None:
        """A date, as a TOML date or an ISO text; returned as ISO text."""
        value = self._take(key, False, "a date")
        if value is _MISSING:
            return None
        if isinstance(value, str):
            try:
                value = date.fromisoformat(value)
            except ValueError:
                value = str(value)
        if not isinstance(value, date) or isinstance(value, datetime):
            self.wrong(key, f"expected a date such as 2026-09-01, found {_show(value)}")
            return None
        return value.isoformat()

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._take(key, False, "a list")
        if value is _MISSING:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.wrong(key, f'expected a list of texts such as ["fryer", "wok"], found {_show(value)}')
            return ()
        return tuple(value)

    def tables(self, key: str) -> tuple[Table, ...]:
        """A list of tables; their readers call ``done``."""
        value = self._take(key, False, "a list")
        if value is _MISSING:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.wrong(key, f"expected a list of tables, [{{ … }}, …], found {_show(value)}")
            return ()
        return tuple(Table(one, (*self.path, key, i), self.problems) for i, one in enumerate(value))

    def table(self, key: str) -> Table | None:
        """A table within this one; its reader calls ``done``."""
        value = self._take(key, False, "a table")
        if value is _MISSING:
            return None
        if not isinstance(value, dict):
            self.wrong(key, f"expected a table {{ … }}, found {_show(value)}")
            return None
        return Table(value, self.at(key), self.problems)

    def _take(self, key: str, required: bool, what: str) -> Any:
        self._taken.add(key)
        value = self._data.get(key, _MISSING)
        if value is None:  # JSON's way to leave a key out
            value = _MISSING
        if value is _MISSING and required:
            self.wrong(key, f"missing: expected {what}")
        return value


def _span(low: float, high: float, above: float | None, unit: str) -> str:
    words = f" [{unit}]" if unit else ""
    if above is not None:
        words += f" above {above:g}"
    elif low > -math.inf:
        words += f" of at least {low:g}"
    if high < math.inf:
        words += f" and at most {high:g}"
    return words


def _show(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "…")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return str(value)
