"""`quarterline quarantine`: what could not become a reading, listed, exported, tried again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from api.retry import Chosen, Tried, try_beside
from api.serve import load_rules
from api.settings import load_settings
from api.work import the_store
from ingest.decode import Decoder
from store.records import Quarantined


def rows(chosen: Chosen, config: Path | None, *, waiting_only: bool = False) -> Iterator[Quarantined]:
    """The chosen items."""
    with the_store(load_settings(config)) as store:
        yield from chosen.items(store, waiting_only=waiting_only)


def retry(chosen: Chosen, config: Path | None) -> list[Tried]:
    """Try the chosen items again, by the fleet and the device profiles as they now are."""
    settings = load_settings(config)
    rules = load_rules(settings)
    with the_store(settings) as store:
        sensors = {one.id: one for one in store.registry.sensors()}
        decoder = Decoder(sensors, rules.profiles, limits=rules.limits)
        lowered = replace(chosen, sensor=None if chosen.sensor is None else chosen.sensor.lower())
        return list(try_beside(store, decoder, lowered, time.time_ns() // 1000))
