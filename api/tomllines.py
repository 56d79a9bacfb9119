"""Where in a TOML text each key stands, so that an error can name the line.

`tomllib` parses and checks; this scanner only walks a text that is known to be valid.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}\n#]*")
_BASIC: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^']*'")
_LONG_BASIC: Final = re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL)
_WHERE: Final = re.compile(r"\(at line (\d+), column \d+\)")


class TomlSyntaxError(Exception):
    """The text is no TOML; ``line`` is where the parser stopped."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML text: its data, and the line of every key, array element and table header."""

    data: dict[str, Any]
    lines: dict[Path, int]

    def line(self, path: Path) -> int:
        """The line of this path, or of the nearest enclosing one that has a line."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return 1


def parse(text: str) -> Document:
    """Parse TOML and locate its keys.

    Raises
    ------
    TomlSyntaxError
        The text is not TOML 1.0.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = _WHERE.search(said)
        line = int(found.group(1)) if found else text.count("\n") + 1
        raise TomlSyntaxError(line, _WHERE.sub("", said).strip()) from None
    return Document(data, _Scanner(text.replace("\r\n", "\n")).scan())


class _Scanner:
    """One walk over a valid text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [i for i, char in enumerate(text) if char == "\n"]
        self._lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}  # arrays of tables: index of the newest element

    def scan(self) -> dict[Path, int]:
        here: Path = ()
        while self._skip_space() < len(self._text):
            if self._text[self._at] == "[":
                here = self._header()
            else:
                self._pair(here)
        return self._lines

    def _header(self) -> Path:
        line = self._line()
        double = self._text.startswith("[[", self._at)
        self._at += 2 if double else 1
        keys = self._key()
        self._skip_space()
        self._at += 2 if double else 1
        path: Path = ()
        for key in keys[:-1]:
            self._lines.setdefault((*path, key), line)
            path = self._newest((*path, key))
        path = (*path, keys[-1])
        if double:
            self._tables[path] = self._tables.get(path, -1) + 1
            self._lines.setdefault(path, line)
        path = self._newest(path)
        self._lines.setdefault(path, line)
        return path

    def _newest(self, path: Path) -> Path:
        return (*path, self._tables[path]) if path in self._tables else path

    def _pair(self, here: Path) -> None:
        line = self._line()
        path = here
        for key in self._key():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._skip_space()
        self._at += 1  # the equals sign
        self._skip_space()
        self._value(path)

    def _key(self) -> list[str]:
        keys = []
        while True:
            self._skip_space()
            if self._text[self._at] in "\"'":
                start = self._at
                self._string()
                keys.append(str(tomllib.loads(f"k = {self._text[start : self._at]}")["k"]))
            else:
                found = self._take(_BARE)
                keys.append(found)
            self._skip_space()
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, path: Path) -> None:
        first = self._text[self._at]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline(path)
        elif first in "\"'":
            self._string()
        else:
            self._take(_SCALAR)

    def _array(self, path: Path) -> None:
        self._at += 1
        index = 0
        while self._text[self._skip_space()] != "]":
            self._lines[(*path, index)] = self._line()
            self._value((*path, index))
            index += 1
            if self._text[self._skip_space()] == ",":
                self._at += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while self._text[self._skip_space()] != "}":
            self._pair(path)
            if self._text[self._skip_space()] == ",":
                self._at += 1
        self._at += 1

    def _string(self) -> None:
        if self._text.startswith('"""', self._at):
            self._take(_LONG_BASIC)
        elif self._text.startswith("'''", self._at):
            self._take(_LONG_LITERAL)
        else:
            self._take(_BASIC if self._text[self._at] == '"' else _LITERAL)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None or found.end() == self._at:
            raise AssertionError(f"not the TOML that was parsed, at offset {self._at}")
        self._at = found.end()
        return found.group()

    def _skip_space(self) -> int:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1
