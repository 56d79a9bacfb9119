"""A small world around one interceptor: what is known, decided again and again on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest

from alerts.decide import Decision, Situation, after, decide
from alerts.orders import answer
from alerts.ordinance import Ordinance, load_ordinances
from alerts.policy import Policy
from analysis.model import Assessment, CompartmentAssessment, HealthFlag
from store.records import (
    Alert,
    CoreSample,
    Hauler,
    HotDischargeRecord,
    Interceptor,
    Manifest,
    Order,
    PumpOutRecord,
    Sensor,
    Site,
)

HOUR_US = 3_600_000_000
BASE_M = 1.22


def us(text: str) -> int:
    """An ISO instant with offset as microseconds since the epoch."""
    return round(datetime.fromisoformat(text).timestamp()) * 1_000_000


@dataclass
class World:
    """One interceptor's situation, and everything that was decided about it."""

    situation: Situation
    policy: Policy = field(default_factory=Policy)
    now_us: int = us("2026-06-01T08:00:00-07:00")
    decided: list[Decision] = field(default_factory=list)

    # ---- the clock -----------------------------------------------------------------------------------

    def at(self, text: str) -> World:
        self.now_us = us(text)
        return self

    def later(self, hours: float) -> World:
        self.now_us += round(hours * HOUR_US)
        return self

    # ---- what becomes known --------------------------------------------------------------------------

    def level(
        self,
        fraction: float,
        p: float,
        *,
        p10_days: float | None = None,
        own: bool = True,
        age_h: float = 0.0,
        health: tuple[HealthFlag, ...] = (),
    ) -> World:
        """The sensor's estimate, from a reading ``age_h`` hours old; the p10 crossing ``p10_days`` ahead."""
        last_s = self.now_us / 1e6 - age_h * 3600
        p10 = None if p10_days is None else self.now_us / 1e6 + p10_days * 86_400
        p50 = None if p10 is None else p10 + 5 * 86_400
        compartment = CompartmentAssessment(1, 0.2, 0.01, 0.1, 0.01, fraction, 0.01, p)
        one = Assessment(
            interceptor="gi1",
            time_s=self.now_us / 1e6,
            compartment=1,
            fog_m=0.2,
            fog_sd_m=0.01,
            solids_m=0.1,
            solids_sd_m=0.01,
            fraction=fraction,
            fraction_sd=0.01,
            p_over_limit=p,
            rate_m_per_day=0.003,
            rate_sd_m_per_day=0.0005,
            crossing_s=(p10, p10, p50, None, None),
            health=health,
            compartments=(compartment,),
            own_evidence=own,
            last_reading_s=last_s,
            since_s=None,
        )
        self.situation = replace(
            self.situation,
            assessment=one,
            contacts={s.id: round(last_s * 1e6) for s in self.situation.sensors},
        )
        return self

    def seen(self, at: str, *, complete: bool = True, hours: float = 1.0, **layers: Any) -> World:
        """The sensor saw a pump-out."""
        start = us(at)
        record = PumpOutRecord(
            id=f"po-{start}",
            interceptor="gi1",
            start_us=start,
            end_us=start + round(hours * HOUR_US),
            complete=complete,
            confidence=0.95,
            before=tuple(layers.get("before", ({"compartment": 1, "fog_m": 0.2, "solids_m": 0.1},))),
            after=tuple(layers.get("after", ({"compartment": 1, "fog_m": 0.004, "solids_m": 0.002},))),
        )
        others = tuple(p for p in self.situation.pump_outs if p.id != record.id)
        self.situation = replace(self.situation, pump_outs=(*others, record))
        return self

    def paper(self, at: str, *, complete: bool = True, hauler: str = "valley", number: str = "M-1") -> World:
        """A manifest came in now."""
        manifest = Manifest(
            id=f"m-{number}",
            interceptor="gi1",
            pumped_us=us(at),
            received_us=self.now_us,
            complete=complete,
            number=number,
            hauler=hauler,
        )
        self.situation = replace(self.situation, manifests=(*self.situation.manifests, manifest))
        return self

    def sample(self, fog_m: float, solids_m: float, at: str | None = None) -> World:
        """A core sample was taken."""
        taken = self.now_us if at is None else us(at)
        one = CoreSample(f"cs-{taken}", "gi1", 1, taken, self.now_us, fog_m, solids_m, "inspector")
        self.situation = replace(self.situation, core_samples=(*self.situation.core_samples, one))
        return self

    def hot(self, start: str, end: str | None, *, peak_c: float = 70.0, status: str = "confirmed") -> World:
        """A hot discharge, as far as it is known."""
        begun = us(start)
        ended = None if end is None else us(end)
        record = HotDischargeRecord(
            id=f"hd-{begun}",
            interceptor="gi1",
            sensor="d-1",
            start_us=begun,
            end_us=ended,
            peak_c=peak_c,
            duration_s=0.0 if ended is None else (ended - begun) / 1e6,
            status=status,
        )
        others = tuple(h for h in self.situation.hot_discharges if h.id != record.id)
        self.situation = replace(self.situation, hot_discharges=(*others, record))
        return self

    def change(self, **parts: Any) -> World:
        self.situation = replace(self.situation, **parts)
        return self

    # ---- decisions -----------------------------------------------------------------------------------

    def decide(self) -> Decision:
        """Decide now and apply it; deciding again must change nothing."""
        one = decide(self.situation, self.now_us, self.policy)
        self.situation = after(self.situation, one)
        again = decide(self.situation, self.now_us, self.policy)
        assert again == Decision(), "deciding again at the same instant changed something"
        self.decided.append(one)
        return one

    def answer(self, hauler: str, word: str, scheduled: str | None = None) -> Decision:
        """A hauler answers the open order."""
        when = None if scheduled is None else us(scheduled)
        one = answer(self.situation, self.situation.order, hauler, word, when, self.now_us, self.policy)
        self.situation = after(self.situation, one)
        self.decided.append(one)
        return one

    @property
    def order(self) -> Order:
        """The open order."""
        assert self.situation.order is not None
        return self.situation.order

    def states(self) -> list[str]:
        """Every order transition so far."""
        return [order.state for one in self.decided for order in one.orders]

    def alerts(self, kind: str) -> list[str]:
        """Every transition of one kind of alert so far."""
        return [alert.state for one in self.decided for alert in one.alerts if alert.kind == kind]

    def firing(self) -> dict[str, Alert]:
        """The firing alerts by kind."""
        return {alert.kind: alert for alert in self.situation.alerts if alert.state == "firing"}


@pytest.fixture(scope="session")
def ordinances() -> dict[str, Ordinance]:
    return load_ordinances()


@pytest.fixture
def haulers() -> tuple[Hauler, ...]:
    secret = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
    licensed = (
        {"kind": "transport", "number": "T-1", "expires": "2027-06-30"},
        {"kind": "city-business", "number": "B-1", "expires": "2026-12-31"},
    )
    return (
        Hauler("able", "Able Pumping", licensed, "https://able.example/hook", None, secret),
        Hauler("valley", "Valley Pumping", licensed, "https://valley.example/hook", None, secret),
    )


@pytest.fixture
def world(ordinances: dict[str, Ordinance], haulers: tuple[Hauler, ...]) -> Callable[..., World]:
    """Makes a world; by default a gravity interceptor with a sensor, pumped on 1 May, haulers authorized."""

    def make(
        *, ordinance: str = "inglewood", sensored: bool = True, policy: Policy | None = None, **keys: Any
    ) -> World:
        interceptor = Interceptor(
            **{
                "id": "gi1",
                "site": "luigi",
                "kind": "gravity",
                "base_depth_m": BASE_M,
                "static_level_m": BASE_M,
                "volume_m3": 3.785,
                "last_pump_out": "2026-05-01",
                "hauler": "valley",
                "dispatch": "authorized",
                **keys,
            }
        )
        situation = Situation(
            interceptor=interceptor,
            site=Site("luigi", "Luigi's", ordinance, "America/Los_Angeles"),
            ordinance=ordinances[ordinance],
            sensors=(Sensor("d-1", "gi1"),) if sensored else (),
            haulers=haulers,
        )
        return World(situation, policy or Policy())

    return make
