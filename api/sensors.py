"""`quarterline sensor`: register a sensor, give it its password, list who there is."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.credentials import credentials, issue, new_password, username_of
from api.fleet_file import FleetError, Known, frequency_check, parse_object
from api.recording import instant_text
from api.serve import load_rules
from api.service import Fleet
from api.settings import Settings, load_settings
from api.work import UseError, put_fleet, the_store
from store.ports import Store
from store.records import Sensor

RESERVED = frozenset({"quarterline", "network-server"})  # users of the broker that are no sensors
EXAMPLE = '{"surface_mm": 1220, "fog_bottom_mm": 1101, "solids_top_mm": 140}'


@dataclass(frozen=True, slots=True)
class Issued:
    """A sensor's name and password, as they are shown once."""

    sensor: str
    username: str
    password: str
    topic: str
    broker: str
    port: int
    tls: bool
    api: str

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "id": self.sensor,
            "username": self.username,
            "password": self.password,
            "topic": self.topic,
            "mosquitto_pub": self.mosquitto_pub,
            "curl": self.curl,
        }

    @property
    def mosquitto_pub(self) -> str:
        """A line that publishes a first reading."""
        words = [
            "mosquitto_pub", "-h", self.broker, "-p", str(self.port), "-q", "1",
            *(["--tls-use-os-certs"] if self.tls else []),
            "-u", self.username, "-P", self.password, "-t", self.topic, "-m", EXAMPLE,
        ]  # fmt: skip
        return shlex.join(words)

    @property
    def curl(self) -> str:
        """A line that sends it by HTTP."""
        words = ["curl", "-u", f"{self.username}:{self.password}", "-d", EXAMPLE]
        return shlex.join([*words, f"{self.api}/api/v1/readings"])

    def in_words(self) -> list[str]:
        """For a person."""
        elsewhere = [f"(from another machine: this one's address in place of {self.broker})"]
        return [
            f"id        {self.sensor}",
            f"username  {self.username}",
            f"password  {self.password}    (shown this once; only hashes are kept)",
            f"topic     {self.topic}",
            "",
            "try it over MQTT:",
            f"  {self.mosquitto_pub}",
            "or over HTTP:",
            f"  {self.curl}",
            *(elsewhere if self.broker in {"127.0.0.1", "localhost", "::1"} else []),
        ]


def issued(sensor: str, password: str, settings: Settings, *, broker: str | None = None) -> Issued:
    """What to show of a sensor's new password."""
    mqtt = settings.mqtt
    return Issued(
        sensor=sensor,
        username=username_of(sensor),
        password=password,
        topic=f"quarterline/v1/{sensor}/readings",
        broker=broker or mqtt.host,
        port=mqtt.port,
        tls=mqtt.tls,
        api=settings.http.url,
    )


def add(body: Mapping[str, Any], config: Path | None) -> Issued:
    """Register a sensor as the fleet file would, and give it a password.

    Raises
    ------
    UseError
        The sensor is there already, or a value does not fit; the text names the option.
    """
    settings = load_settings(config)
    with the_store(settings) as store:
        wanted = str(body.get("id", "")).lower()
        if wanted in RESERVED | {settings.mqtt.username}:
            raise UseError(f"{wanted!r} is the user name of another at the broker: choose another id")
        if any(one.id == wanted for one in store.registry.sensors()):
            raise UseError(
                f"the sensor {wanted!r} is there already: `quarterline sensor password {wanted}` gives it a "
                "new password; `quarterline fleet import` changes it"
            )
        fleet = _parsed(body, settings, store)
        (sensor,) = fleet.sensors
        password = new_password()
        with store.transaction():
            put_fleet(store, fleet)
            issue(store.ledger, sensor.id, password=password, now_us=time.time_ns() // 1000)
    return issued(sensor.id, password, settings)


def _parsed(body: Mapping[str, Any], settings: Settings, store: Store) -> Fleet:
    rules = load_rules(settings)
    registry = store.registry
    known = Known(
        ordinances=rules.ordinances,
        profiles=rules.profiles,
        check_frequency=frequency_check(rules.ordinances, datetime.now(tz=UTC).date()),
        registered=Fleet(
            sites=tuple(registry.sites()),
            interceptors=tuple(registry.interceptors()),
            sensors=tuple(registry.sensors()),
        ),
    )
    try:
        return parse_object("sensors", dict(body), known)
    except FleetError as error:
        raise UseError("; ".join(error.messages)) from None


def renew(sensor: str, config: Path | None) -> Issued:
    """Give a sensor a new password; the old one is out of force for HTTP at once.

    Raises
    ------
    UseError
        There is no such sensor.
    """
    settings = load_settings(config)
    with the_store(settings) as store:
        identity = one_of(store, sensor).id
        password = new_password()
        with store.transaction():
            issue(store.ledger, identity, password=password, now_us=time.time_ns() // 1000)
    return issued(identity, password, settings)


def one_of(store: Store, sensor: str) -> Sensor:
    """The sensor of an id, whatever its case.

    Raises
    ------
    UseError
        There is none.
    """
    for one in store.registry.sensors():
        if one.id == sensor.lower():
            return one
    raise UseError(f"no sensor {sensor!r}: see `quarterline sensor list`, or `quarterline sensor add`")


def rows(config: Path | None) -> list[dict[str, Any]]:
    """The sensors of the fleet, with when each was last heard and whether it has a password."""
    with the_store(load_settings(config)) as store:
        heard, online = store.history.contacts(), store.history.connectivity()
        named = {one.sensor for one in credentials(store.ledger.keys())}
        return [
            {
                "id": one.id,
                "interceptor": one.interceptor,
                "compartment": one.compartment,
                "profile": one.profile,
                "heard": instant_text(heard[one.id]) if one.id in heard else None,
                "online": online[one.id][0] if one.id in online else None,
                "password": one.id in named,
            }
            for one in store.registry.sensors()
        ]
