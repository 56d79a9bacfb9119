"""Where a decision would change nothing: `at_rest` must never say so of one that would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.policy import Policy
from alerts.rest import at_rest
from store.records import Alert, Manifest, Order

DAY_US = 86_400_000_000
NOW_US = 1_788_246_000_000_000
WINDOW_US = 7_200_000_000
POLICY = Policy()
ALERT = Alert(
    id="al-1", interceptor="gi1", kind="over_limit", state="firing", severity="critical", reason="",
    citation=None, basis="estimate", sensor=None, flag=None, since_us=0, changed_us=0,
    evidence={"anchor": ""},
)  # fmt: skip
ORDER = Order(
    id="or-1", interceptor="gi1", reason="exceedance", state="accepted", due="immediately", opened_us=0,
    changed_us=0, citation=None,
)  # fmt: skip


def rests(
    *alerts: Alert, order: Order | None = None, papers: tuple[Manifest, ...] = (), p: float = 0.5, **more: Any
) -> bool:
    return at_rest(
        alerts, order, papers, more.get("least", p), more.get("most", p), NOW_US, WINDOW_US, POLICY
    )


def test_a_quiet_interceptor_rests_below_the_threshold() -> None:
    assert rests(p=0.89)
    assert not rests(p=0.9)  # the policy raises at 0.9
    assert not rests(least=0.1, most=0.95)  # one of two compartments
    assert rests(p=np.nan)  # unknown: nothing to raise


def test_a_firing_exceedance_rests_while_its_order_is_under_way_and_the_estimate_stays_high() -> None:
    assert rests(ALERT, order=ORDER, p=0.99)
    assert not rests(ALERT, order=ORDER, p=POLICY.p_clear)
    assert not rests(ALERT, order=None, p=0.99)  # an order has to be proposed
    assert not rests(ALERT, order=replace(ORDER, reason="calendar"), p=0.99)  # … or upgraded


@pytest.mark.parametrize("state", ["pending", "recovering"])
def test_what_ripens_or_recovers_does_not_rest(state: str) -> None:
    assert not rests(replace(ALERT, state=state), order=ORDER, p=0.99)


@pytest.mark.parametrize("state", ["offered", "declined", "serviced", "verified"])
def test_an_order_that_waits_for_a_clock_or_a_sensor_does_not_rest(state: str) -> None:
    assert not rests(order=replace(ORDER, state=state), p=0.1)


@pytest.mark.parametrize(
    "kind",
    ["sensor_silent", "sensor_fault", "hot_discharge", "pump_out_unverified", "pump_out_partial", "tamper"],
)
def test_alerts_of_devices_and_papers_do_not_rest(kind: str) -> None:
    assert not rests(replace(ALERT, kind=kind, basis="device"), order=ORDER, p=0.1)


def test_a_missing_record_alone_rests() -> None:
    missing = replace(ALERT, kind="overdue", basis="calendar", evidence={"anchor": "no-record"})
    assert rests(missing, p=0.1)


def test_a_recent_paper_does_not_rest() -> None:
    paper = Manifest(
        id="m-1", interceptor="gi1", pumped_us=NOW_US - 3 * DAY_US, received_us=NOW_US - 3 * DAY_US,
        complete=True, number="1", hauler="valley", volume_m3=None, fog_m=None, solids_m=None,
    )  # fmt: skip
    assert not rests(papers=(paper,), p=0.1)
    old = replace(paper, pumped_us=NOW_US - 4 * DAY_US, received_us=NOW_US - 4 * DAY_US)
    assert rests(papers=(old,), p=0.1)


@given(
    kind=st.sampled_from(["over_limit", "approaching_limit", "calendar_due", "overdue", "sensor_fault"]),
    state=st.sampled_from(["pending", "firing", "recovering"]),
    order=st.sampled_from(
        ["proposed", "offered", "accepted", "scheduled", "declined", "serviced", "verified"]
    ),
    reason=st.sampled_from(["exceedance", "forecast", "calendar"]),
)
def test_only_firing_alerts_with_an_order_under_way_ever_rest(
    kind: str, state: str, order: str, reason: str
) -> None:
    alert = replace(ALERT, kind=kind, state=state)
    if rests(alert, order=replace(ORDER, state=order, reason=reason), p=0.5):
        assert (state, kind != "sensor_fault") == ("firing", True)
        assert order in {"proposed", "accepted", "scheduled"}
