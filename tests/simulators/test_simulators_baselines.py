"""What a simple reader hears, and what the line and the oracle make of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import judged
import numpy as np
import pytest
from judged import DAY, HOUR, T0, Line, perfect

from simulators.baselines import line_forecasts, oracle_forecasts
from simulators.heard import Gauge, listen, read_fleet
from simulators.score import score
from simulators.truth import iso, seconds
from simulators.truthbook import read_truth, slot

FLEET = """
[[interceptors]]
id = "a"
site = "x"
kind = "gravity"
volume_l = 3785
base_depth_mm = 1000
static_level_mm = 950

[[sensors]]
id = "S-1"
interceptor = "a"
compartment = 1
profile = "native"
interval_s = 900
mount_height_mm = 1400
sonar_height_mm = 500
pitch_mm = 50
levels = { air = 0.05, fog = 0.25, water = 1.0, solids = 0.7 }
"""


@pytest.fixture
def fleet() -> dict[str, Gauge]:
    return read_fleet(FLEET)


def message(at_s: float, received_s: float | None = None, **payload: Any) -> Line:
    return {
        "received_at": iso(at_s + 1.0 if received_s is None else received_s),
        "topic": "quarterline/v1/s-1/readings",
        "payload": {"time": iso(at_s), **payload},
    }


def depth_at(at_s: float, truth: list[Line]) -> float:
    """Either layer [mm] of the truth, straight between midnights of a cycle."""
    days = [one for one in truth if one["type"] == "depths"]
    for first, last in pairwise(days):
        begin = seconds(first["at"])
        if begin <= at_s <= begin + DAY and last["fog_mm"] > first["fog_mm"]:
            part = (at_s - begin) / DAY
            return float(first["fog_mm"] * (1 - part) + last["fog_mm"] * part)
    return 2.5


def readings(
    truth: list[Line], off_mm: float = 0.0, gaps: tuple[tuple[float, float], ...] = ()
) -> list[Line]:
    """A message every 15 minutes of the 30 days, but in the gaps [days]."""
    out = []
    for at_s in np.arange(T0, T0 + 30 * DAY, 900.0).tolist():
        if any(first <= (at_s - T0) / DAY < last for first, last in gaps):
            continue
        mm = depth_at(at_s, truth) + off_mm
        out.append(message(at_s, fog_depth_mm=mm, solids_depth_mm=mm, inlet_max_c=30.0))
    return out


@pytest.mark.parametrize(
    ("payload", "fog_mm", "solids_mm"),
    [
        ({"surface_mm": 950, "fog_bottom_mm": 850, "solids_top_mm": 120}, 100, 120),
        ({"distance_mm": 450, "fog_bottom_in": 850 / 25.4}, 100, None),
        ({"fog_bottom_mm": 850}, 100, None),  # at its static level
        ({"fog_depth_in": 2, "solids_depth_cm": 3}, 50.8, 30),
        ({"echo_fog_us": 100, "echo_solids_us": 500}, 72.0, 129.5),  # 1440 and 1482 m/s, there and back
        ({"profile": [0.7, 0.71, 1.0, 1.0, 1.0, 0.62, 0.25, 0.24, 0.05, 0.06]}, 125, 100),
        ({"profile": [1.0, None, 1.0, 0.25, 0.05]}, 50, 0),
        ({"pressure_kpa": 9.1, "tank_c": 25}, None, None),
    ],
)
def test_depths_taken_at_the_devices_word(
    fleet: dict[str, Gauge], payload: Line, fog_mm: float | None, solids_mm: float | None
) -> None:
    heard = listen(fleet, [message(T0, **payload)])["a"]
    for found, expected in ((heard.fog_m, fog_mm), (heard.solids_m, solids_mm)):
        if expected is None:
            assert np.isnan(found[0])
        else:
            assert found[0] * 1e3 == pytest.approx(expected)


def test_every_form_of_message_is_read_or_passed_over(fleet: dict[str, Gauge]) -> None:
    lines = [
        message(T0, fog_depth_mm=1),
        message(T0 + 60, fog_depth_mm=1) | {"retain": True},
        message(T0 + 120, rumour=1),
        message(T0 + 180, fog_depth_mm=1) | {"topic": "quarterline/v1/other/readings"},
        message(T0 + 240, fog_depth_mm=1) | {"topic": "quarterline/v1/s-1/status"},
        message(T0 + 300) | {"payload": f'[{{"time": {T0 + 300}, "inlet_max_f": 120}}, 7]'},
        message(T0 + 360) | {"payload": "broken"},
        message(T0 + 420, fog_depth_mm=1) | {"payload": {"time": (T0 + 420) * 1e6, "inlet_c": 20}},
        message(T0 + 480) | {"payload": {"time": "1970-01-01T00:00:00Z", "fog_depth_mm": 1}},  # clock reset
    ]
    heard = listen(fleet, lines)["a"]
    assert heard.at_s.tolist() == [T0, T0 + 300, T0 + 420, T0 + 481]
    assert heard.maximum_s.tolist() == [T0 + 300]
    assert heard.probed == {"s-1"}
    assert heard.around(T0 + 200, T0 + 430) == (2, T0, T0 + 481)
    assert heard.around(T0 + 310, T0 + 400)[0] == 0


def test_the_line_through_readings_without_error_finds_the_passage(fleet: dict[str, Gauge]) -> None:
    """1 point a day from 1.5 % on day 13: with a week seen, 25 % comes on day 36.5 (truth: 0.5 % at 12.0)."""
    truth = judged.one_rod()
    lines = list(line_forecasts(read_truth(truth), listen(fleet, readings(truth))))
    last = next(line for line in lines if line["at"] == iso(T0 + 30 * DAY))
    assert last["fog_mm"] == pytest.approx(92.5, abs=0.2)
    assert last["crossing"]["p05"] == last["crossing"]["p95"]
    assert (seconds(last["crossing"]["p50"]) - T0) / DAY == pytest.approx(36.5, abs=0.1)
    early = next(line for line in lines if line["at"] == iso(T0 + 3 * DAY))
    assert early["crossing"] is None  # two days of readings make no line
    over = next(line for line in lines if line["at"] == iso(T0 + 10 * DAY))
    assert over["crossing"]["p50"] == over["at"]


def test_the_oracle_knows_the_bias_and_the_pump_outs(fleet: dict[str, Gauge]) -> None:
    truth = judged.one_rod()
    table = score(truth, perfect(truth), fleet, readings(truth, off_mm=40.0))
    row = table.row("fog_mae")
    assert row.line == pytest.approx(40.0, abs=1.5)
    assert row.oracle is not None
    assert row.oracle < 1.5


def test_the_oracles_deviation_is_that_of_its_error(fleet: dict[str, Gauge]) -> None:
    """White errors of 20 mm, forty times: nine tenths of the 90 % intervals of the first cycle hold the truth."""
    truth = judged.one_rod()
    book = read_truth(truth)
    true = {
        iso(at_s): book.records["a"].depths[slot(at_s)].fraction for at_s in book.records["a"].midnights_s
    }
    rng = np.random.default_rng(5)
    inside, off = [], []
    for _ in range(40):
        noon = [(T0 + (day + 0.5) * DAY, 100.0 + rng.normal(0.0, 20.0, 2)) for day in range(30)]
        messages = [
            message(
                at_s, fog_depth_mm=depth_at(at_s, truth) + fog, solids_depth_mm=depth_at(at_s, truth) + solids
            )
            for at_s, (fog, solids) in noon
        ]
        for line in list(oracle_forecasts(book, listen(fleet, messages)))[:12]:
            off.append(line["fraction"] - true[line["at"]])
            inside.append(abs(off[-1]) <= 1.645 * line["fraction_sd"])
    assert 0.82 <= np.mean(inside) <= 0.98
    assert np.sqrt(np.mean(np.square(off))) < 0.02  # a reading alone, two layers of 20 mm each: 0.028


def test_a_baseline_knows_only_what_had_come_by_then(fleet: dict[str, Gauge]) -> None:
    truth = judged.one_rod()
    messages = [
        message(T0 + 2.2 * DAY, fog_depth_mm=60, solids_depth_mm=60),
        message(T0 + 2.6 * DAY, T0 + 3.5 * DAY, fog_depth_mm=90, solids_depth_mm=90),  # a late batch
    ]
    book = read_truth(truth)
    found = {line["at"]: line["fog_mm"] for line in line_forecasts(book, listen(fleet, messages))}
    assert iso(T0 + 2 * DAY) not in found
    assert found[iso(T0 + 3 * DAY)] == pytest.approx(60.0)


def test_a_device_that_sees_no_layer_has_no_baseline(fleet: dict[str, Gauge]) -> None:
    truth = judged.one_rod()
    messages = [message(T0 + hour * HOUR, pressure_pa=9000, tank_c=20) for hour in range(700)]
    row = score(truth, perfect(truth), fleet, messages).row("fog_mae")
    assert (row.line, row.oracle) == (None, None)


def test_a_pump_out_between_messages_is_judged_by_the_gap(fleet: dict[str, Gauge]) -> None:
    """Nothing was heard from day 12.2 to day 13.1; the service began on day 12.375."""
    truth = judged.one_rod()
    messages = readings(truth, gaps=((12.2, 13.1),))
    for day, right in ((12.25, 1.0), (13.05, 1.0), (13.4, 0.0)):
        told = [line for line in perfect(truth) if line["type"] != "pump_out"]
        one = {"at": iso(T0 + 13.2 * DAY), "type": "pump_out", "interceptor": "a", "id": "p"}
        told.append(one | {"pumped_at": iso(T0 + day * DAY), "complete": True})
        table = score(truth, told, fleet, messages)
        assert table.value("pump_out_hidden_complete") == right
        assert table.value("pump_out_recall_complete") is None
        assert table.value("pump_out_precision") == right


def test_a_hot_discharge_whose_message_was_lost_is_not_asked_for(fleet: dict[str, Gauge]) -> None:
    truth = judged.one_rod()  # hot at 1:00
    table = score(truth, perfect(truth), fleet, readings(truth))
    assert table.row("hot_recall").count == 1
    lost = score(truth, perfect(truth), fleet, readings(truth, gaps=((0.04, 0.06),)))
    assert lost.row("hot_recall").count == 0


def test_a_tank_probe_alone_may_confirm_nothing(fleet: dict[str, Gauge]) -> None:
    truth = judged.one_rod()
    messages = [message(T0 + hour * HOUR, fog_depth_mm=50, tank_c=40) for hour in range(700)]
    row = score(truth, perfect(truth), fleet, messages).row("hot_confirmed_by_tank_probe")
    assert (row.value, row.met) == (2.0, False)
    probed = score(truth, perfect(truth), fleet, readings(truth))
    assert probed.row("hot_confirmed_by_tank_probe").value is None
