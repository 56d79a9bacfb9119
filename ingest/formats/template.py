"""Topics as people write them: ``tele/{sensor}/SENSOR``, with ``{sensor}``, ``{field}``, ``{event}``, ``+`` and ``#``.

A name stands for one whole level or a part of one (``tele/tasmota_{sensor}/SENSOR``); levels match exactly, empty
ones included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NAMES: Final = ("sensor", "field", "event")
_NAME: Final = re.compile(r"\{([^{}]*)\}")


class TemplateError(ValueError):
    """A topic template that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Template:
    """A topic template, compiled; ``filter`` is what to subscribe."""

    text: str
    filter: str
    pattern: re.Pattern[str]

    def match(self, topic: str) -> dict[str, str] | None:
        """The names in a topic, or None where it is another one."""
        found = self.pattern.fullmatch(topic)
        return None if found is None else found.groupdict()


def template(text: str) -> Template:
    """Compile one.

    Raises
    ------
    TemplateError
    """
    levels = text.split("/")
    if not text or len(text) > 512 or "\0" in text:
        raise TemplateError(f"{text!r}: expected a topic such as plant/{{sensor}}/level")
    seen = [name for level in levels for name in _NAME.findall(level)]
    wrong = [name for name in seen if name not in NAMES]
    if wrong:
        raise TemplateError(
            f"{text!r}: unknown {{{wrong[0]}}}; known are {{sensor}}, {{field}} and {{event}}"
        )
    if len(seen) != len(set(seen)):
        raise TemplateError(f"{text!r}: each of {{sensor}}, {{field}} and {{event}} may stand there once")
    if any(("+" in level and level != "+") or "#" in level for level in levels[:-1]):
        raise TemplateError(f"{text!r}: + is a whole level, and # the last one")
    if ("#" in levels[-1] and levels[-1] != "#") or ("+" in levels[-1] and levels[-1] != "+"):
        raise TemplateError(f"{text!r}: + is a whole level, and # the last one")
    return Template(
        text,
        "/".join("+" if _NAME.search(level) else level for level in levels),
        re.compile("/".join(_level(level) for level in levels), re.DOTALL),
    )


def _level(level: str) -> str:
    if level == "#":
        return ".*"
    if level == "+":
        return "[^/]*"
    parts = _NAME.split(level)  # text, name, text, …
    return "".join(f"(?P<{one}>[^/]+)" if place % 2 else re.escape(one) for place, one in enumerate(parts))
