"""What a decision rests on, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from alerts.rules import Ordinance
from analysis.model import Assessment
from store.records import (
    Alert,
    CoreSample,
    FrequencyDecision,
    FrequencyProposal,
    Hauler,
    HotDischargeRecord,
    Interceptor,
    Manifest,
    Order,
    OutboxItem,
    PumpOutRecord,
    Sensor,
    Site,
)

#: States in which an order is over: the interceptor may have another one.
OVER: frozenset[str] = frozenset({"closed", "declined", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything known about one interceptor at one instant of the service's clock.

    ``alerts`` are those not resolved; ``order`` is the open order; ``orders`` are all of them; ``contacts``
    maps a sensor to when it was last heard [us].
    """

    interceptor: Interceptor
    site: Site
    ordinance: Ordinance
    sensors: tuple[Sensor, ...] = ()
    assessment: Assessment | None = None
    alerts: tuple[Alert, ...] = ()
    order: Order | None = None
    orders: tuple[Order, ...] = ()
    pump_outs: tuple[PumpOutRecord, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    core_samples: tuple[CoreSample, ...] = ()
    hot_discharges: tuple[HotDischargeRecord, ...] = ()
    decisions: tuple[FrequencyDecision, ...] = ()
    proposals: tuple[FrequencyProposal, ...] = ()
    haulers: tuple[Hauler, ...] = ()
    contacts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be written: alerts that changed, order transitions in order, proposals, and what to send."""

    alerts: tuple[Alert, ...] = ()
    orders: tuple[Order, ...] = ()
    proposals: tuple[FrequencyProposal, ...] = ()
    outbox: tuple[OutboxItem, ...] = ()
