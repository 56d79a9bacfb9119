"""`quarterline demo --lan`: the demo's broker open to the local network, for devices that have a password."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from api.credentials import hashes_of, issue, new_password
from api.sensors import issued
from api.settings import Settings
from ingest.broker import User
from store.ports import Store

ANY: Final = "0.0.0.0"  # the user asked for it, and nobody gets in without a password
SENSOR: Final = "my-device"
_SERVICE: Final = "quarterline"
_CITY: Final = "city"
_FLEET: Final = f"""
[[sites]]
id = "your-site"
name = "Your device"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"

[[interceptors]]
id = "your-tank"
site = "your-site"
kind = "gravity"
volume_l = 3785
base_depth_mm = 1220

[[sensors]]
id = "{SENSOR}"
interceptor = "your-tank"
interval_s = 604800  # the clock runs fast: seven of its days are half a minute
"""


@dataclass(frozen=True, slots=True)
class Lan:
    """The passwords of one run, and what they open."""

    address: str
    service_password: str = field(default_factory=new_password)
    city_password: str = field(default_factory=new_password)
    device_password: str = field(default_factory=new_password)

    @property
    def users(self) -> tuple[User, ...]:
        """Who may connect: the service, the simulated city, and the device under its own id."""
        sensors = ("quarterline/v1/+/readings", "quarterline/v1/+/status")
        own = tuple(one.replace("+", SENSOR) for one in sensors)
        return (
            User(_SERVICE, _hash(self.service_password)),
            User(_CITY, _hash(self.city_password), publish=sensors),
            User(SENSOR, _hash(self.device_password), publish=own, subscribe=own),
        )

    @property
    def fleet(self) -> str:
        """The device's site, interceptor and sensor, for the fleet file."""
        return _FLEET

    def service_lines(self, folder: Path) -> str:
        """What the service's configuration says under ``[mqtt]``."""
        path = _secret(folder / "service.password", self.service_password)
        return f'username = "{_SERVICE}"\npassword_file = "{path.name}"\n'

    def city_words(self, folder: Path) -> list[str]:
        """How the simulated city signs in."""
        path = _secret(folder / "city.password", self.city_password)
        return ["--username", _CITY, "--password-file", str(path)]

    def register(self, store: Store) -> None:
        """Let the device speak by HTTP too. Call it in a transaction of the store."""
        issue(store.ledger, SENSOR, password=self.device_password, now_us=time.time_ns() // 1000)

    def tell(self, settings: Settings, config: Path, say: Callable[[str], None]) -> None:
        """Say how the device gets in, and how to see what becomes of what it sends."""
        say("A device of yours may speak, as your-tank on the dashboard, with this name and password:")
        access = issued(SENSOR, self.device_password, settings, broker=self.address)
        for line in access.in_words():
            say(f"  {line}" if line else "")
        say(f"What it sends becomes: quarterline sensor check {SENSOR} --follow -c {config}")


def lan_address() -> str:
    """This machine's address on the network that its default route leads to; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _hash(password: str) -> str:
    return hashes_of(password).bcrypt


def _secret(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="utf-8")
    return path
