"""A service, a broker and a load, and what must hold after whatever was done to them.

After every fault: each reading that the broker acknowledged to its sensor is stored, once, with its values; each
item received has exactly one outcome; the store is whole; and nobody had to restart anything by hand.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from load import T0_S, sensor_name
from processes import Service, until, with_fleet

from store import open_store

LOAD = Path(__file__).with_name("load.py")


@dataclass(frozen=True)
class Sent:
    """A reading that the broker acknowledged, at a moment of the monotonic clock [s]."""

    sensor: str
    number: int
    moment_s: float


@dataclass
class Load:
    """A load generator under way."""

    child: subprocess.Popen[bytes]
    record: Path
    log: Path

    def acknowledged(self) -> list[Sent]:
        if not self.record.exists():
            return []
        # the last line may be half written
        lines = self.record.read_text().split("\n")[:-1]
        return [Sent(sensor, int(n), float(at)) for sensor, n, at in (line.split() for line in lines)]

    def running(self) -> bool:
        return self.child.poll() is None

    def end(self, *, now: bool = False, limit_s: float = 120.0) -> None:
        """Wait until everything is acknowledged; ``now``: begin no more readings."""
        if now and self.running():
            self.child.send_signal(signal.SIGTERM)
        assert self.child.wait(limit_s) == 0, (
            "not everything was acknowledged\n" + self.log.read_text()[-2000:]
        )

    def close(self) -> None:
        if self.running():
            self.child.kill()
            self.child.wait(10)


@dataclass
class Rig:
    """Everything of one test of the suite."""

    folder: Path
    service: Service
    broker_port: int
    sensors: int
    loads: list[Load] = field(default_factory=list)
    first: int = 0

    def load(self, each: int, per_second: float, *, limit_s: float = 300.0) -> Load:
        """Start a load of ``each`` readings of every sensor, ``per_second`` in all; numbers go on from the last."""
        record, log = (self.folder / f"load-{len(self.loads)}.{kind}" for kind in ("sent", "log"))
        words = {"port": self.broker_port, "sensors": self.sensors, "first": self.first, "each": each,
                 "per-second": per_second, "limit": limit_s, "record": record}  # fmt: skip
        with log.open("wb") as out:
            command = [sys.executable, str(LOAD), *(f"--{name}={value}" for name, value in words.items())]
            load = Load(subprocess.Popen(command, stdout=out, stderr=out), record, log)
        self.loads.append(load)
        self.first += each
        return load

    def sent(self) -> list[Sent]:
        return [one for load in self.loads for one in load.acknowledged()]

    def stored(self) -> int:
        return self.service.counters()["stored"]

    def wait_stored(self, count: int, limit_s: float = 90.0) -> None:
        until(lambda: self.stored() >= count, f"{count} stored", limit_s)
        until(lambda: self.service.counters()["pending"] == 0, "nothing pending", limit_s)

    def wait_caught_up(self) -> None:
        """Until everything acknowledged up to now is stored, while the load goes on."""
        goal = len(self.sent())
        until(lambda: self.stored() >= goal, f"{goal} stored", 90.0)

    def check(
        self, *, quarantined: int = 0, again: bool = False, lost: Callable[[Sent], bool] = lambda _: False
    ) -> Counter[str]:
        """Everything that must hold, once the loads have ended; ``lost``: readings that a fault may have taken;
        ``again``: junk may have come again, and is quarantined again, since it has no identity to know it by.

        Returns how many items had which outcome.
        """
        sent = {(one.sensor, one.number): one for one in self.sent()}
        assert sent, "there was no load"
        excused = {key for key, one in sent.items() if lost(one)}
        self.wait_stored(len(sent) - len(excused))
        self.service.end(signal.SIGTERM)
        assert self.service.child is not None
        assert self.service.child.returncode == 0, self.service.log[-3000:]
        store = open_store(self.service.data)
        try:
            names = [sensor_name(n) for n in range(self.sensors)]
            rows = store.history.readings(names, since_us=0, until_us=2**62)
            found = Counter((row.sensor, row.time_us // 1_000_000 - T0_S) for row in rows)
            missing = sorted(key for key in sent if key not in found and key not in excused)
            assert not missing, f"{len(missing)} acknowledged readings are missing, such as {missing[:3]}"
            assert max(found.values()) == 1
            # what was on its way when its broker died may have arrived without the broker saying so
            strangers = [(s, n) for s, n in found if not 0 <= n < self.first]
            assert not strangers
            for row in rows:
                number = row.time_us // 1_000_000 - T0_S
                assert round(row.values["surface_m"] * 1e6) == (1000 + number % 100) * 1000
                assert row.values["inlet_c"] == 20 + number % 50
            totals = store.history.totals()
            outcomes = Counter(
                stored=totals.stored, duplicate=totals.duplicate, quarantined=totals.quarantined,
                retained=totals.retained, heartbeat=totals.heartbeat,
            )  # fmt: skip
            assert totals.received == outcomes.total()
            assert totals.stored == len(rows)
            kept = Counter((one.reason, one.topic) for one in store.history.quarantine(limit=10_000))
            extra = totals.quarantined - quarantined
            assert extra == 0 or (again and extra > 0 and len(kept) == 1), kept.most_common(5)
            assert store.integrity() == "ok"
            return outcomes
        finally:
            store.close()

    def close(self) -> None:
        for load in self.loads:
            load.close()
        self.service.close()


def make_rig(
    folder: Path, broker_port: int, http_port: int, *, sensors: int = 8, through: int | None = None,
    mqtt: str = "", before: tuple[str, ...] = (), data: Path | None = None,
) -> Rig:  # fmt: skip
    """A rig not yet started; ``through``: the port that the service connects to, where it is not the broker's."""
    folder.mkdir(parents=True, exist_ok=True)
    data = data or folder / "data"
    with_fleet(data, [sensor_name(n) for n in range(sensors)])
    service = Service(folder, data, through or broker_port, http_port, mqtt=mqtt, before=before)
    return Rig(folder, service, broker_port, sensors)
