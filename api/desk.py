"""The writer's desk: what is open about each interceptor, kept in memory beside the ledger.

Only the writer's thread uses it. Everything it puts goes to the ledger inside the transaction under way
and is seen in memory at once; when the transaction fails, the memory is read anew from the ledger.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from alerts.lines import alert_line, hot_discharge_line, order_line, proposal_line, pump_out_line
from store.ports import Store
from store.records import (
    Alert,
    CoreSample,
    FrequencyDecision,
    FrequencyProposal,
    HotDischargeRecord,
    JournalEntry,
    Json,
    Manifest,
    Order,
    OutboxItem,
    PumpOutRecord,
)

_OVER = frozenset({"closed", "declined", "cancelled"})


@dataclass(slots=True)
class Folder:
    """One interceptor's papers: open alerts by id, the open order, and its records by id."""

    alerts: dict[str, Alert] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    pump_outs: dict[str, PumpOutRecord] = field(default_factory=dict)
    hot_discharges: dict[str, HotDischargeRecord] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    core_samples: dict[str, CoreSample] = field(default_factory=dict)
    decisions: dict[str, FrequencyDecision] = field(default_factory=dict)
    proposals: dict[str, FrequencyProposal] = field(default_factory=dict)

    @property
    def open_order(self) -> Order | None:
        """The one open order, if there is one."""
        return next((o for o in self.orders.values() if o.state not in _OVER), None)


class Desk:
    """Ledger writes and their mirror."""

    def __init__(self, store: Store, written: Callable[[list[JournalEntry]], None]) -> None:
        self._store = store
        self._written = written
        self._folders: dict[str, Folder] = defaultdict(Folder)
        self._entries: list[JournalEntry] = []
        self._after: list[Callable[[], None]] = []
        self._depth = 0
        #: Whose papers and samples are not yet in the estimate: the oldest time they speak of [s].
        self.filed: dict[str, float] = {}
        self._load()

    def folder(self, interceptor: str) -> Folder:
        """What is on the desk about one interceptor."""
        return self._folders[interceptor]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction of the store; memory and listeners follow after the commit."""
        if self._depth:
            yield
            return
        self._entries, self._after = [], []
        self._depth += 1
        try:
            with self._store.transaction():
                yield
        except BaseException:
            self._folders.clear()
            self._load()
            raise
        finally:
            self._depth -= 1
        for follow in self._after:
            follow()
        if self._entries:
            self._written(self._entries)

    def after_commit(self, follow: Callable[[], None]) -> None:
        """Do this when the transaction under way has been committed; never when it fails."""
        self._after.append(follow)

    def journal(self, at_us: int, kind: str, interceptor: str | None, body: Json) -> None:
        """Append one line to the journal."""
        self._entries.append(self._store.ledger.append(at_us, kind, interceptor, body))

    def put_alert(self, alert: Alert, at_us: int) -> None:
        """Write an alert's transition."""
        self._store.ledger.put_alert(alert)
        self.journal(at_us, "alert", alert.interceptor, alert_line(alert))
        if alert.interceptor is not None:
            shelf = self._folders[alert.interceptor].alerts
            if alert.state == "resolved":
                shelf.pop(alert.id, None)
            else:
                shelf[alert.id] = alert

    def put_order(self, order: Order, at_us: int) -> None:
        """Write an order's transition."""
        self._store.ledger.put_order(order)
        self.journal(at_us, "order", order.interceptor, order_line(order))
        self._folders[order.interceptor].orders[order.id] = order

    def put_pump_out(self, record: PumpOutRecord, at_us: int) -> None:
        """Write an observed pump-out, or its correction."""
        self._store.ledger.put_pump_out(record)
        self.journal(at_us, "pump_out", record.interceptor, pump_out_line(record))
        self._folders[record.interceptor].pump_outs[record.id] = record

    def put_hot_discharge(self, record: HotDischargeRecord, at_us: int, *, tell: bool) -> None:
        """Write a hot discharge; ``tell`` where it ended or its status rose."""
        self._store.ledger.put_hot_discharge(record)
        if tell:
            self.journal(at_us, "hot_discharge", record.interceptor, hot_discharge_line(record))
        self._folders[record.interceptor].hot_discharges[record.id] = record

    def put_proposal(self, proposal: FrequencyProposal, at_us: int) -> None:
        """Write a frequency proposal."""
        self._store.ledger.put_frequency_proposal(proposal)
        self.journal(at_us, "frequency_proposal", proposal.interceptor, proposal_line(proposal))
        self._folders[proposal.interceptor].proposals[proposal.id] = proposal

    def put_manifest(self, manifest: Manifest) -> None:
        """File a hauler's paper."""
        shelf = self._folders[manifest.interceptor].manifests
        known = shelf.get(manifest.id)
        self._store.ledger.put_manifest(manifest)
        shelf[manifest.id] = manifest
        self._file(manifest.interceptor, [one.pumped_us for one in (known, manifest) if one is not None])

    def put_core_sample(self, sample: CoreSample) -> None:
        """File a hand measurement."""
        shelf = self._folders[sample.interceptor].core_samples
        known = shelf.get(sample.id)
        self._store.ledger.put_core_sample(sample)
        shelf[sample.id] = sample
        self._file(sample.interceptor, [one.sampled_us for one in (known, sample) if one is not None])

    def _file(self, interceptor: str, times_us: list[int]) -> None:
        self.filed[interceptor] = min(
            [self.filed.get(interceptor, math.inf), *(at_us / 1e6 for at_us in times_us)]
        )

    def put_decision(self, decision: FrequencyDecision) -> None:
        """File a person's frequency decision."""
        self._store.ledger.put_frequency_decision(decision)
        self._folders[decision.interceptor].decisions[decision.id] = decision

    def enqueue(self, item: OutboxItem) -> None:
        """Put something into the outbox."""
        self._store.ledger.enqueue(item)

    def _load(self) -> None:
        ledger = self._store.ledger
        for alert in ledger.alerts(open_only=True):
            if alert.interceptor is not None:
                self._folders[alert.interceptor].alerts[alert.id] = alert
        for order in reversed(ledger.orders()):
            self._folders[order.interceptor].orders[order.id] = order
        for pump_out in ledger.pump_outs():
            self._folders[pump_out.interceptor].pump_outs[pump_out.id] = pump_out
        for hot in ledger.hot_discharges():
            self._folders[hot.interceptor].hot_discharges[hot.id] = hot
        for manifest in ledger.manifests():
            self._folders[manifest.interceptor].manifests[manifest.id] = manifest
        for sample in ledger.core_samples():
            self._folders[sample.interceptor].core_samples[sample.id] = sample
        for decision in ledger.frequency_decisions():
            self._folders[decision.interceptor].decisions[decision.id] = decision
        for proposal in ledger.frequency_proposals():
            self._folders[proposal.interceptor].proposals[proposal.id] = proposal
