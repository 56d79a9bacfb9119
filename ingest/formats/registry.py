"""Every format by name, and which of them reads a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ingest.formats import (
    aws,
    azure,
    esphome,
    generic,
    loriot,
    milesight,
    senml,
    sparkplug,
    tasmota,
    thingpark,
    zigbee2mqtt,
)
from ingest.formats.part import Format
from ingest.formats.template import Template, TemplateError, template

FORMATS: Final[dict[str, Format]] = {
    one.name: one
    for one in (
        sparkplug.FORMAT,
        senml.FORMAT,
        tasmota.FORMAT,
        zigbee2mqtt.FORMAT,
        aws.FORMAT,
        azure.FORMAT,
        loriot.FORMAT,
        thingpark.FORMAT,
        milesight.FORMAT,
        generic.JSON,
        generic.TEXT,
        esphome.FORMAT,  # last: its usual topics have the widest pattern
    )
}


def compiled(name: str, text: str) -> tuple[Format, Template]:
    """A format on a topic of one's own.

    Raises
    ------
    TemplateError
        There is no such format, or the topic is no template.
    """
    if name not in FORMATS:
        raise TemplateError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return FORMATS[name], template(text)


_USUAL: Final = [(one, template(text)) for one in FORMATS.values() for text in one.topics]


def usual_filters(names: Iterable[str]) -> tuple[str, ...]:
    """What to subscribe for the usual topics of these formats, each once."""
    wanted = set(names)
    return tuple(dict.fromkeys(one.filter for of, one in _USUAL if of.name in wanted))


class Router:
    """Finds the format of a topic: first among one's own topics, in their order, then among the usual ones."""

    def __init__(self, own: Sequence[tuple[str, str]] = ()) -> None:
        self._topics = [*(compiled(name, text) for name, text in own), *_USUAL]

    def find(self, topic: str) -> tuple[Format, dict[str, str]] | None:
        """The format, and what the topic names; None where nobody reads it."""
        for one, its in self._topics:
            names = its.match(topic)
            if names is not None:
                return one, names
        return None
