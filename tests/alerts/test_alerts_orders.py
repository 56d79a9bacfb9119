"""Orders from proposed to closed: the whole story, the lying hauler, licences, time-outs, answers, papers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from alerts.orders import AnswerError, answer
from store.records import Hauler, Order

Make = Callable[..., Any]


def _exceedance(w: Any) -> Any:
    """Over the limit at 08:00 on 1 June, firing and offered at 09:00."""
    w.at("2026-06-01T08:00:00-07:00").level(0.27, 0.95).decide()
    w.later(1).level(0.27, 0.95).decide()
    return w


def _scheduled(w: Any) -> Any:
    _exceedance(w).later(0.5)
    w.answer("valley", "accepted", "2026-06-01T13:00:00-07:00")
    return w


# ---- the whole story ---------------------------------------------------------------------------------


def test_from_the_estimate_to_a_closed_order_by_paper_and_sensor(world: Make) -> None:
    w = _scheduled(world())
    order = w.order
    assert (order.reason, order.due, order.citation) == ("exceedance", "immediately", "IMC 10-223(4)(d)")
    w.at("2026-06-01T13:30:00-07:00").level(0.27, 0.95).decide()
    assert w.order.state == "scheduled"

    w.at("2026-06-01T14:30:00-07:00").level(0.005, 0.0).seen("2026-06-01T13:10:00-07:00").decide()
    assert (w.order.state, w.order.papers) == ("serviced", "due")
    w.at("2026-06-01T16:00:00-07:00").level(0.005, 0.0).paper("2026-06-01T13:15:00-07:00").decide()

    assert w.states() == ["proposed", "offered", "accepted", "scheduled", "serviced", "verified", "closed"]
    assert {o.id for one in w.decided for o in one.orders} == {order.id}
    closed = w.situation.orders[-1]
    assert (closed.papers, closed.manifest, closed.hauler) == ("complete", "m-M-1", "valley")
    assert closed.pump_out is not None
    w.later(3).level(0.006, 0.0).decide()
    assert w.alerts("over_limit") == ["pending", "firing", "recovering", "resolved"]
    assert w.situation.order is None


def test_the_offer_says_what_the_law_asks_at_the_service(world: Make) -> None:
    w = _exceedance(world())
    item = next(i for one in w.decided for i in one.outbox)
    assert (item.channel, item.target, item.type, item.state) == (
        "webhook",
        "valley",
        "order.offered",
        "waiting",
    )
    assert set(item.body) == {"type", "timestamp", "data"}
    assert (item.body["type"], item.body["timestamp"]) == ("order.offered", "2026-06-01T16:00:00Z")
    data = item.body["data"]
    assert data["order"] == w.order.id
    assert data["answer"] == f"/api/v1/orders/{w.order.id}/answers"
    assert data["answer_by"] == "2026-06-01T17:00:00Z"
    assert (data["due"], data["reason"], data["site"]["name"]) == ("immediately", "exceedance", "Luigi's")
    assert (data["volume_l"], data["volume_gal"]) == (3785.0, 1000)
    assert [one["citation"] for one in data["at_service"]] == [
        "IMC 10-223(4)",
        "IMC 10-223(4)",
        "IMC 10-223(4)(d)(i)",
    ]
    assert data["at_service"][0]["text"].startswith("Complete removal: wastewater, accumulated FOG")


# ---- paper against sensor ----------------------------------------------------------------------------


def test_the_lying_hauler_stays_unverified_and_the_order_says_why(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:00:00-07:00").level(0.271, 0.95).paper("2026-06-01T13:15:00-07:00").decide()
    assert (w.order.state, w.order.papers) == ("serviced", "complete")
    w.at("2026-06-01T15:59:00-07:00").level(0.272, 0.95).decide()
    assert w.alerts("pump_out_unverified") == []  # two hours after the paper came are not over

    w.at("2026-06-01T16:00:00-07:00").level(0.272, 0.95)
    decided = w.decide()
    alert = w.firing()["pump_out_unverified"]
    assert "the sensor still reads 27.2 % at 2026-06-01 16:00, and no drawdown was seen" in alert.reason
    assert "not a determination of violation" in alert.reason
    assert (alert.severity, alert.basis) == ("warning", "device")
    assert w.order.note.startswith(
        "Not verified: The manifest M-1 states a complete pump-out at 2026-06-01 13:15"
    )
    assert [i.type for i in decided.outbox] == ["order.unverified"]

    for _ in range(40):  # no passing of time verifies it
        w.later(24).level(0.3, 0.99).decide()
    assert w.states() == ["proposed", "offered", "accepted", "scheduled", "serviced", "serviced"]
    assert "pump_out_unverified" in w.firing()


def test_a_real_service_after_the_lie_closes_the_order(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:00:00-07:00").level(0.271, 0.95).paper("2026-06-01T13:15:00-07:00").decide()
    w.at("2026-06-01T17:00:00-07:00").level(0.272, 0.95).decide()
    w.at("2026-06-05T12:00:00-07:00").level(0.004, 0.0).seen("2026-06-05T10:00:00-07:00").decide()
    assert w.alerts("pump_out_unverified") == ["firing", "resolved"]
    assert w.order.state == "serviced"
    w.later(2).level(0.004, 0.0).paper("2026-06-05T10:00:00-07:00", number="M-2").decide()
    assert w.states()[-2:] == ["verified", "closed"]
    assert w.situation.orders[-1].manifest == "m-M-2"


def test_a_partial_pump_out_under_a_paper_that_says_complete(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:30:00-07:00").level(0.15, 0.0).seen(
        "2026-06-01T13:10:00-07:00", complete=False
    ).decide()
    assert w.order.state == "scheduled"  # an exceedance order closes by complete removal only
    assert w.firing()["pump_out_partial"].severity == "info"
    w.later(1).level(0.15, 0.0).paper("2026-06-01T13:15:00-07:00").decide()
    assert w.order.state == "serviced"
    assert "the sensor saw only a partial one" in w.order.note
    assert w.firing()["pump_out_partial"].severity == "warning"
    w.later(100).level(0.16, 0.0).decide()
    assert w.order.state == "serviced"


def test_a_paper_of_a_partial_pump_out_serves_no_order(world: Make) -> None:
    w = _scheduled(world(sensored=True))
    w.at("2026-06-01T14:30:00-07:00").level(0.27, 0.95).paper(
        "2026-06-01T13:10:00-07:00", complete=False
    ).decide()
    assert w.order.state == "scheduled"


def test_the_estimate_falling_again_never_closes_an_exceedance_order(world: Make) -> None:
    w = _scheduled(world())
    for _ in range(5):
        w.later(12).level(0.1, 0.0).decide()
    assert "over_limit" not in w.firing()
    assert w.order.state == "scheduled"


def test_without_a_sensor_the_manifest_alone_closes(world: Make) -> None:
    w = world(sensored=False, last_pump_out="2026-03-10").at("2026-06-01T09:00:00-07:00")
    w.decide()
    w.answer("valley", "accepted")
    w.later(30).paper("2026-06-02T10:00:00-07:00").decide()
    assert w.states() == ["proposed", "offered", "accepted", "serviced", "closed"]
    assert w.situation.orders[-1].note == "Closed by the manifest; no sensor could see the service."


def test_a_sensor_that_reads_nothing_left_does_not_contradict_the_paper(world: Make) -> None:
    w = world(last_pump_out="2026-03-10").at("2026-06-01T09:00:00-07:00").level(0.03, 0.0)
    w.decide()
    w.later(3).level(0.03, 0.0).paper("2026-06-01T10:00:00-07:00").decide()
    w.later(25).level(0.03, 0.0).decide()
    assert w.order.state == "serviced"  # what emptied it may yet be found
    w.later(1).level(0.03, 0.0).decide()
    assert w.situation.orders[-1].state == "closed"
    assert "does not contradict" in w.situation.orders[-1].note
    w.later(24 * 60).level(0.22, 0.0).decide()  # what has grown since says nothing about the service
    assert "pump_out_unverified" not in w.firing()


def test_a_silent_sensor_denies_nothing_and_the_paper_closes_after_a_week(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:00:00-07:00").level(0.271, 0.95, age_h=2).paper("2026-06-01T13:15:00-07:00").decide()
    w.later(24).level(0.271, 0.95, age_h=26).decide()
    assert (w.order.state, w.alerts("pump_out_unverified")) == ("serviced", [])
    w.later(24 * 7).level(0.271, 0.95, age_h=26 + 24 * 7).decide()
    assert w.situation.order is None
    assert "could not tell" in w.situation.orders[-1].note
    assert len(w.situation.orders) == 1  # the held alarm of a silent sensor asks for no second truck


def test_seen_but_never_documented_closes_with_papers_due_and_completes_later(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:30:00-07:00").level(0.005, 0.0).seen("2026-06-01T13:10:00-07:00").decide()
    w.at("2026-06-08T14:09:00-07:00").level(0.01, 0.0).decide()
    assert w.order.state == "serviced"
    w.at("2026-06-08T14:10:00-07:00").level(0.01, 0.0).decide()
    closed = w.situation.orders[-1]
    assert (closed.state, closed.papers) == ("closed", "due")
    w.later(48).level(0.01, 0.0).paper("2026-06-01T13:15:00-07:00").decide()
    closed = w.situation.orders[-1]
    assert (closed.state, closed.papers, closed.manifest) == ("closed", "complete", "m-M-1")
    assert w.states()[-2:] == ["closed", "closed"]


def test_an_observation_that_later_readings_withdraw_takes_the_service_back(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:30:00-07:00").level(0.005, 0.0).seen("2026-06-01T13:10:00-07:00").decide()
    gone = replace(w.situation.pump_outs[-1], complete=False, confidence=0.0)
    w.later(3).level(0.27, 0.95).change(pump_outs=(gone,)).decide()
    assert w.order.state == "scheduled"
    assert "withdrawn by later readings" in w.order.note


def test_a_service_before_the_core_sample_does_not_serve_its_order(world: Make) -> None:
    w = world().at("2026-06-01T12:00:00-07:00").level(0.02, 0.0).seen("2026-06-01T09:00:00-07:00")
    w.sample(0.3, 0.1, at="2026-06-01T11:30:00-07:00").decide()
    assert (w.order.reason, w.order.state) == ("exceedance", "offered")
    w.later(30).level(0.02, 0.0).seen("2026-06-02T15:00:00-07:00").decide()
    assert w.order.state == "serviced"
    assert "over_limit" not in w.firing()


# ---- one open order ----------------------------------------------------------------------------------


def test_an_exceedance_upgrades_the_open_order_and_tells_the_hauler(world: Make) -> None:
    w = world(last_pump_out="2026-03-10").at("2026-06-01T07:00:00-07:00").level(0.24, 0.4)
    w.decide()
    first = w.order
    assert (first.reason, first.due) == ("calendar", "2026-06-10")
    w.answer("valley", "accepted", "2026-06-08T09:00:00-07:00")
    w.later(1).level(0.27, 0.95).decide()
    w.later(1).level(0.27, 0.95)
    decided = w.decide()
    assert (w.order.id, w.order.reason, w.order.due, w.order.state) == (
        first.id,
        "exceedance",
        "immediately",
        "scheduled",
    )
    assert [i.type for i in decided.outbox] == ["order.updated"]


def test_a_sooner_forecast_pulls_a_calendar_order_forward(world: Make) -> None:
    w = world(last_pump_out="2026-03-10").at("2026-06-01T07:00:00-07:00").level(0.2, 0.02, p10_days=6)
    w.decide()
    assert w.order.due == "2026-06-10"
    w.later(6).level(0.2, 0.02, p10_days=6).decide()
    assert (w.order.reason, w.order.due) == ("forecast", "2026-06-07")
    w.later(24).level(0.2, 0.02, p10_days=4).decide()
    assert w.order.due == "2026-06-07"  # set once: a drifting forecast does not rewrite the order daily


def test_a_calendar_order_lapses_when_an_older_paper_turns_up(world: Make) -> None:
    w = world(sensored=False, last_pump_out="2026-03-10", dispatch="notify").at("2026-06-01T07:00:00-07:00")
    w.decide()
    w.later(5).paper("2026-05-20T10:00:00-07:00").decide()
    assert w.states() == ["proposed", "cancelled"]
    assert "due on 2026-08-20" in w.situation.orders[-1].note


def test_the_alert_still_coming_down_opens_no_second_order(world: Make) -> None:
    w = _scheduled(world())
    w.at("2026-06-01T14:30:00-07:00").level(0.26, 0.91).seen("2026-06-01T13:10:00-07:00")
    w.paper("2026-06-01T13:15:00-07:00").decide()
    assert w.situation.order is None
    w.later(12).level(0.26, 0.91).decide()
    assert w.situation.order is None
    w.later(24).level(0.26, 0.95).decide()  # a day later fresh readings still say so: it asks again
    assert w.order.state in {"offered", "proposed"}


# ---- offers ------------------------------------------------------------------------------------------


def test_without_standing_authorization_the_order_is_a_notice(world: Make) -> None:
    w = _exceedance(world(dispatch="notify"))
    assert w.states() == ["proposed"]
    item = next(i for one in w.decided for i in one.outbox)
    assert (item.channel, item.target, item.type) == ("log", "site:luigi", "order.notice")
    w.later(48).level(0.28, 0.97).decide()
    assert w.states() == ["proposed"]
    with pytest.raises(AnswerError, match="is not offered to valley"):
        w.answer("valley", "accepted")


def test_declined_goes_to_the_next_hauler_and_then_stays_proposed_with_a_note(world: Make) -> None:
    w = _exceedance(world())
    assert w.order.hauler == "valley"  # the preferred one first
    w.answer("valley", "declined")
    assert (w.order.state, w.order.hauler, w.order.declined) == ("offered", "able", ("valley",))
    w.answer("able", "declined")
    assert (w.order.state, w.order.hauler) == ("proposed", None)
    assert w.order.note == "No hauler can be offered this order; a person must find one. Asked: valley, able."
    w.later(1).level(0.27, 0.95)
    assert w.decide().orders == ()
    assert w.states() == ["proposed", "offered", "declined", "offered", "declined", "proposed"]


@pytest.mark.parametrize(("reason", "hours"), [("exceedance", 1.0), ("calendar", 4.0)])
def test_an_unanswered_offer_goes_on_at_its_time_out(world: Make, reason: str, hours: float) -> None:
    if reason == "exceedance":
        w = _exceedance(world())
    else:
        w = world(sensored=False, last_pump_out="2026-03-10").at("2026-06-01T07:00:00-07:00")
        w.decide()
    w.later(hours - 0.01).decide()
    assert w.order.hauler == "valley"
    w.later(0.01)
    decided = w.decide()
    assert (w.order.state, w.order.hauler) == ("offered", "able")
    assert [o.state for o in decided.orders] == ["declined", "offered"]
    assert [(i.target, i.type) for i in decided.outbox] == [
        ("valley", "order.withdrawn"),
        ("able", "order.offered"),
    ]
    with pytest.raises(AnswerError, match="no longer offered to valley"):
        w.answer("valley", "accepted")


def test_a_licence_that_ran_out_passes_a_hauler_over_and_says_so(world: Make) -> None:
    w = world(sensored=False, last_pump_out="2026-10-05").at("2026-12-31T09:00:00-08:00")
    w.decide()
    assert w.order.hauler == "valley"  # the last day counts
    w = world(sensored=False, last_pump_out="2026-10-05").at("2027-01-01T00:00:00-08:00")
    w.decide()
    assert (w.order.state, w.order.hauler) == ("proposed", None)
    assert "Valley Pumping: the city-business licence ran out on 2026-12-31 (IMC 10-220" in w.order.note


def test_sierra_madre_names_no_licences_but_a_lapsed_one_still_counts(world: Make) -> None:
    w = world(ordinance="sierra-madre", sensored=False, last_pump_out="2027-01-05", hauler="lapsed")
    bare = Hauler("bare", "Bare Pumping")
    lapsed = Hauler("lapsed", "Lapsed", ({"kind": "transport", "expires": "2027-01-31"},))
    w.change(haulers=(lapsed, bare)).at("2027-04-01T09:00:00-07:00").decide()
    assert w.order.hauler == "bare"
    assert "Lapsed: the transport licence ran out on 2027-01-31" in w.order.note
    item = next(i for one in w.decided for i in one.outbox)
    assert item.channel == "log"  # no webhook: a person takes it further


def test_a_licence_renewed_later_is_offered_then(world: Make, haulers: tuple[Hauler, ...]) -> None:
    w = world(sensored=False, last_pump_out="2026-03-10").change(haulers=()).at("2026-06-01T07:00:00-07:00")
    w.decide()
    assert w.order.state == "proposed"
    w.later(1).change(haulers=haulers).decide()
    assert w.order.state == "offered"


# ---- answers -----------------------------------------------------------------------------------------


def test_the_same_answer_again_changes_nothing(world: Make) -> None:
    w = _scheduled(world())
    again = w.answer("valley", "accepted", "2026-06-01T13:00:00-07:00")
    assert again.orders == ()
    moved = w.answer("valley", "accepted", "2026-06-01T15:00:00-07:00")
    assert [o.state for o in moved.orders] == ["scheduled"]


@pytest.mark.parametrize(
    ("hauler", "word", "scheduled", "message"),
    [
        ("able", "accepted", None, "is not offered to able"),
        ("valley", "maybe", None, "'maybe' is neither accepted nor declined"),
        ("valley", "accepted", "2020-01-01T00:00:00-08:00", "scheduled_at: 2020-01-01 lies before"),
    ],
)
def test_an_answer_that_cannot_be_taken(
    world: Make, hauler: str, word: str, scheduled: str | None, message: str
) -> None:
    w = _exceedance(world())
    before = w.order
    with pytest.raises(AnswerError, match=message):
        w.answer(hauler, word, scheduled)
    assert w.order == before


def test_answers_to_orders_that_are_not_there_or_are_over(world: Make) -> None:
    w = _scheduled(world())
    with pytest.raises(AnswerError, match="there is no such order"):
        answer(None, None, "valley", "accepted", None, w.now_us, w.policy)
    with pytest.raises(AnswerError, match="already scheduled"):
        w.answer("valley", "declined")
    w.at("2026-06-01T14:30:00-07:00").level(0.005, 0.0).seen("2026-06-01T13:10:00-07:00").decide()
    with pytest.raises(AnswerError, match="already serviced"):
        w.answer("valley", "accepted")


def test_an_answer_after_the_time_out_is_refused_even_before_the_next_instant(world: Make) -> None:
    w = _exceedance(world())
    w.later(1.5)
    with pytest.raises(AnswerError, match="ran out at 2026-06-01 10:00"):
        w.answer("valley", "accepted")


def test_order_ids_are_a_function_of_the_facts(world: Make) -> None:
    def ids() -> list[Order]:
        w = _scheduled(world())
        return [o for one in w.decided for o in one.orders]

    assert ids() == ids()
    assert ids()[0].id.startswith("or-")
