"""The scorer: a perfect output, and outputs that are wrong by a known amount."""

from __future__ import annotations

import math
from pathlib import Path

import judged
import msgspec
import pytest
from judged import DAY, HOUR, T0, Line, alarm, fault, hot, perfect, service

from simulators.heard import read_fleet
from simulators.recorded import Scenario, simulate
from simulators.score import Score, score
from simulators.table import Table
from simulators.truth import iso, seconds

YEAR_DAYS = 365.25
ZERO = ("fog_mae", "solids_mae", "fraction_beyond_3_sd", "over_limit_false", "over_limit_false_below_23")
ONE = (
    "depths_known",
    "fraction_coverage_90",
    "crossing_coverage_90",
    "crossing_known",
    "pump_out_recall_complete",
    "pump_out_recall_partial",
    "pump_out_precision",
    "hot_recall",
    "hot_recall_confirmed",
    "hot_precision",
    "hot_precision_confirmed",
    "over_limit_recall",
)


@pytest.fixture
def truth() -> list[Line]:
    return judged.one_rod()


def assert_perfect(table: Table, group: str = "all") -> None:
    for metric in ZERO:
        assert table.value(metric, group) == pytest.approx(0.0), metric
    for metric in ONE:
        assert table.value(metric, group) == 1.0, metric


def test_a_perfect_output(truth: list[Line]) -> None:
    table = score(truth, perfect(truth))
    assert_perfect(table)
    assert_perfect(table, "rod")
    assert_perfect(table, "clean")
    assert table.row("fog_mae").count == 31
    assert table.row("crossing_coverage_90").count == 1  # five forecasts, one cycle
    assert table.row("hot_recall").count == 1  # the short one is no failure
    assert table.value("over_limit_delay_median") == pytest.approx(600 / DAY)
    assert table.value("over_limit_excess_median") == pytest.approx(600 / DAY, rel=1e-3)  # 1 point a day
    assert table.kinds == ()


def test_a_perfect_output_meets_every_target_that_can_be_judged(truth: list[Line]) -> None:
    table = score(truth, perfect(truth, sd=0.0))
    wrong = {row.metric for row in table.missed}
    assert wrong == {"fraction_coverage_90"}  # all inside: too wide for a nominal 90 %
    assert table.row("crossing_coverage_90", "rod").met is None  # one cycle of the 200 it takes
    assert table.row("fog_mae", "rod").target == "<= 10"
    assert table.row("fog_mae", "rod").met is True
    assert table.row("pump_out_precision", "rod").met is True


def test_a_simulated_truth_scores_perfectly_too(tmp_path: Path) -> None:
    files = simulate(Scenario(seed=4, days=24, count=12), tmp_path)
    lines = [msgspec.json.decode(line) for line in files.truth.read_bytes().splitlines()]
    messages = (msgspec.json.decode(line) for line in files.messages.read_bytes().splitlines())
    table = score(lines, perfect(lines), read_fleet(files.fleet.read_text()), messages)
    for metric in ("fog_mae", "solids_mae", "fraction_beyond_3_sd", "over_limit_false"):
        assert table.value(metric) == pytest.approx(0.0), metric
    for metric in ("crossing_coverage_90", "pump_out_recall_complete", "pump_out_precision", "hot_recall"):
        assert table.value(metric) == 1.0, metric
    assert table.row("crossing_coverage_90").count >= 3
    assert table.row("pump_out_precision").count >= 2
    gain = table.row("crossing_pinball_gain")
    assert gain.value is not None
    assert gain.value > 0.9  # an hour's error beside days
    assert gain.oracle is not None
    assert gain.oracle < gain.value
    mae = table.row("solids_mae")
    assert mae.line is not None
    assert mae.oracle is not None
    assert mae.oracle < mae.line


def test_depths_wrong_by_thirty_millimetres(truth: list[Line]) -> None:
    table = score(truth, perfect(truth, shift_mm=30.0, sd=0.005))
    assert table.value("fog_mae") == pytest.approx(30.0)
    assert table.value("solids_mae", "rod") == pytest.approx(30.0)
    assert table.value("fraction_coverage_90") == 0.0
    assert table.value("fraction_beyond_3_sd") == 1.0
    assert {"fog_mae", "solids_mae", "fraction_beyond_3_sd"} <= {row.metric for row in table.missed}


def test_intervals_too_narrow(truth: list[Line]) -> None:
    """5 mm of 1000 are half a point: 2.5 deviations of 0.2 points, so outside of 1.645 and within 3."""
    table = score(truth, perfect(truth, shift_mm=5.0, sd=0.002))
    assert table.value("fraction_coverage_90") == 0.0
    assert table.value("fraction_beyond_3_sd") == 0.0
    output = perfect(truth)
    for line in output:
        if line.get("crossing"):
            line["crossing"] |= judged.quantiles(T0 + 5.5 * DAY, width_s=11 * HOUR) or {}
    assert score(truth, output).value("crossing_coverage_90") == 0.0  # an hour too late at its earliest


def test_everything_three_hours_late(truth: list[Line]) -> None:
    table = score(truth, perfect(truth, late_s=3 * HOUR))
    assert table.value("crossing_coverage_90") == 0.0
    assert table.value("crossing_error_median") == pytest.approx(3 / 24)
    assert table.value("pump_out_recall_complete") == 0.0
    assert table.value("pump_out_recall_partial") == 0.0
    assert table.value("pump_out_precision") == 0.0
    assert table.value("pump_out_invented") == pytest.approx(2 * YEAR_DAYS / 30)
    assert table.value("hot_recall") == 0.0
    assert table.value("hot_precision") == 0.0
    assert table.value("over_limit_delay_median") == pytest.approx((3 * HOUR + 600) / DAY)
    assert table.value("over_limit_excess_median") == pytest.approx((3 * HOUR + 600) / DAY, rel=1e-3)


def test_an_alarm_three_days_late_is_three_points_late(truth: list[Line]) -> None:
    output = [line for line in perfect(truth) if line["type"] != "alert"] + [alarm(T0 + 8 * DAY)]
    table = score(truth, output)
    assert table.value("over_limit_excess_median") == pytest.approx(3.0)
    assert table.value("over_limit_excess_p95", "rod") == pytest.approx(3.0)
    assert table.row("over_limit_excess_median", "rod").met is False  # 1.5
    assert table.row("over_limit_excess_p95", "rod").met is True  # 3.5
    assert table.value("over_limit_false") == 0.0


def test_the_wrong_kind_of_pump_out_is_no_recall(truth: list[Line]) -> None:
    output = [
        {**line, "complete": not line["complete"]} if line["type"] == "pump_out" else line
        for line in perfect(truth)
    ]
    table = score(truth, output)
    assert table.value("pump_out_recall_complete") == 0.0
    assert table.value("pump_out_precision") == 1.0  # something was pumped then


def test_the_last_line_of_an_id_counts(truth: list[Line]) -> None:
    output = perfect(truth)
    wrong = [{**line, "complete": not line["complete"]} for line in output if line["type"] == "pump_out"]
    assert score(truth, [*wrong, *output]).value("pump_out_recall_complete") == 1.0


def test_an_invented_pump_out_costs_precision(truth: list[Line]) -> None:
    invented = judged.told(service(4, complete=True), 0.0)
    table = score(truth, [*perfect(truth), *invented])
    assert table.value("pump_out_precision") == pytest.approx(2 / 3)
    assert table.value("pump_out_invented") == pytest.approx(YEAR_DAYS / 30)
    assert table.value("pump_out_recall_complete") == 1.0


def test_a_pump_out_without_a_visible_fall_is_counted_apart(truth: list[Line]) -> None:
    lines = [*truth, service(24, complete=False, fall_mm=24.0)]
    output = [line for line in perfect(lines) if line.get("id") != f"p{seconds(lines[-1]['at'])}"]
    table = score(lines, output)
    assert table.value("pump_out_recall_partial") == 1.0
    assert table.value("pump_out_recall_no_visible_fall") == 0.0


def test_false_alarms_are_counted_by_interceptor_and_year(truth: list[Line]) -> None:
    table = score(truth, [*perfect(truth), alarm(T0 + 2 * DAY)])  # at 22 %
    assert table.row("over_limit_false").count == 1
    assert table.value("over_limit_false") == pytest.approx(YEAR_DAYS / 30)
    assert table.row("over_limit_false_below_23").count == 1
    assert table.value("over_limit_excess_median") == pytest.approx(-3.0)
    at_24 = score(truth, [*perfect(truth), alarm(T0 + 4 * DAY)])
    assert (at_24.row("over_limit_false").count, at_24.row("over_limit_false_below_23").count) == (1, 0)
    assert at_24.row("over_limit_false").met is False


def test_alarms_on_paper_are_not_the_estimates(truth: list[Line]) -> None:
    paper = alarm(T0 + 2 * DAY, basis="core_sample")
    assert score(truth, [*perfect(truth), paper]).row("over_limit_false").count == 0


def test_an_alarm_never_raised_and_a_pump_out_never_seen(truth: list[Line]) -> None:
    table = score(truth, [line for line in perfect(truth) if line["type"] == "assessment"])
    assert table.value("over_limit_recall") == 0.0
    assert table.value("over_limit_excess_median") == pytest.approx(7.0)  # where it stood when it was pumped
    assert table.value("pump_out_recall_complete") == 0.0
    assert table.value("pump_out_precision") is None


def test_a_hot_discharge_that_the_guard_band_covers_is_not_asked_for(truth: list[Line]) -> None:
    lines = [*truth, hot(30, 60.0, peak_c=63.2), hot(40, 60.0, peak_c=63.4)]  # 146 degF is 63.33 degC
    output = [line for line in perfect(lines) if line["type"] != "hot_discharge"]
    assert score(lines, output).row("hot_recall").count == 2
    possible = [line | {"status": "possible"} for line in perfect(lines) if line["type"] == "hot_discharge"]
    table = score(lines, output + possible)
    assert table.value("hot_recall") == 1.0
    assert table.value("hot_recall_confirmed") == 0.0
    assert table.value("hot_precision_confirmed") is None


def test_null_quantiles_are_later_than_any_instant(truth: list[Line]) -> None:
    output = perfect(truth)
    for line in output:
        if line.get("crossing"):
            line["crossing"] |= {"p90": None, "p95": None}
    assert score(truth, output).value("crossing_coverage_90") == 1.0
    for line in output:
        if line.get("crossing"):
            line["crossing"] |= {"p05": None, "p10": None, "p50": None}
    assert score(truth, output).value("crossing_coverage_90") == 0.0


def test_the_passage_of_lower_levels_is_judged_from_depth_and_rate() -> None:
    """1 point a day of a tank 1 m deep is 10 mm a day."""
    truth = [*judged.one_rod(), judged.crossing(21.5, 0.10)]
    told = perfect(truth)
    for line in told:
        if line["type"] == "assessment":
            line |= {"rate_mm_per_day": 10.0, "rate_sd_mm_per_day": 0.5, "fraction_sd": 0.002}
    table = score(truth, told)
    assert table.value("passage_coverage_90_at_10") == 1.0
    assert table.value("passage_coverage_90_at_25") == 1.0
    assert table.row("passage_coverage_90_at_10").count == 1
    for line in told:
        if line["type"] == "assessment":
            line |= {"rate_mm_per_day": 20.0}
    assert score(truth, told).value("passage_coverage_90_at_25") == 0.0


def test_another_limit_is_judged_by_its_own_passages() -> None:
    truth = [*judged.one_rod(), judged.crossing(21.5, 0.10)]
    told = [line for line in perfect(truth) if line["type"] != "alert"]
    for line in told:
        if line["type"] == "assessment":
            line["crossing"] = judged.quantiles(T0 + 21.5 * DAY)
    gathered = Score(limit=0.10)
    gathered.add(truth, [*told, alarm(T0 + 22.5 * DAY), alarm(T0 + 21 * DAY)])
    table = gathered.table()
    assert (table.value("crossing_coverage_90"), table.row("crossing_coverage_90").count) == (1.0, 1)
    assert table.value("over_limit_excess_median") == pytest.approx(-0.5)  # the first alarm: at 9.5 %
    assert table.row("over_limit_false").count == 1
    assert table.row("over_limit_false_below_23").count == 0


def test_unknown_depths_are_counted_as_unknown(truth: list[Line]) -> None:
    nulls = {"fog_mm": None, "solids_mm": None, "fraction": None, "fraction_sd": None, "crossing": None}
    output = [{**line, **nulls} for line in perfect(truth) if line["type"] == "assessment"]
    table = score(truth, output)
    assert table.value("depths_known") == 0.0
    assert table.value("fog_mae") is None
    assert table.row("fraction_coverage_90").count == 0
    assert table.value("crossing_known") == 0.0


def test_another_compartment_leading_does_not_hide_the_monitored_one(truth: list[Line]) -> None:
    names = ("compartment", "fog_mm", "solids_mm", "fraction", "fraction_sd")
    output = []
    for line in perfect(truth):
        if line["type"] == "assessment":
            own = {name: line[name] for name in names}
            line = {**line, "compartment": 2, "fog_mm": 0.0, "compartments": [own]}
        output.append(line)
    assert score(truth, output).value("fog_mae") == pytest.approx(0.0)


def test_faults_are_told_apart(truth: list[Line]) -> None:
    """A drift from day 3 to day 8, and the day after it: six midnights, one cycle, six days of watching."""
    truth.append(fault("drift", 3, 8))
    invented = judged.told(service(4, complete=True), 0.0)
    table = score(truth, [*perfect(truth), *invented])
    assert table.kinds == ("drift",)
    for group in ("faulty", "drift"):
        assert table.row("fog_mae", group).count == 6
        assert table.row("crossing_coverage_90", group).count == 1
        assert table.value("pump_out_precision", group) == 0.0
        assert table.value("pump_out_invented", group) == pytest.approx(YEAR_DAYS / 6)
        assert table.row("pump_out_invented", group).met is False  # 0.2
    assert table.row("fog_mae", "clean").count == 25
    assert table.row("fog_mae", "rod").count == 25  # principles: what no fault touched
    assert table.value("pump_out_precision", "clean") == 1.0
    assert table.value("pump_out_precision") == pytest.approx(2 / 3)
    assert "Under faults" in table.as_text()


def test_several_sensors_in_one_interceptor_are_a_principle_of_their_own(truth: list[Line]) -> None:
    truth.insert(1, {**truth[0], "sensor": "s2", "principle": "echo", "tau_s": None})
    table = score(truth, perfect(truth))
    assert table.principles == ("echo+rod",)
    assert table.value("hot_recall", "echo+rod") == 1.0  # one of them has a probe


def test_a_skim_may_be_told_as_a_partial_pump_out_and_never_as_complete(truth: list[Line]) -> None:
    truth.append(fault("skim", 4.4, 4.5))
    for complete, precision in ((False, 1.0), (True, 2 / 3)):
        told = judged.told(service(4, complete=complete), 0.0)
        table = score(truth, [*perfect(truth), *told])
        assert table.value("pump_out_precision") == pytest.approx(precision)


def test_scenarios_are_pooled_and_their_interceptors_told_apart(truth: list[Line]) -> None:
    gathered = Score()
    gathered.add(truth, perfect(truth))
    gathered.add(truth, perfect(truth, shift_mm=30.0))
    row = gathered.table().row("fog_mae")
    assert (row.value, row.count) == (pytest.approx(15.0), 62)
    assert (row.low, row.high) == (0.0, 30.0)  # two clusters: both may be the same


def test_lost_items_are_counted(truth: list[Line]) -> None:
    summary = {"at": iso(T0), "type": "summary", "interceptor": None, "received": 100, "stored": 90}
    summary |= {"duplicate": 3, "quarantined": 2, "retained": 1, "heartbeat": 3, "messages": 100}
    row = score(truth, [*perfect(truth), summary]).row("items_unaccounted")
    assert (row.value, row.met) == (1.0, False)


def test_strangers_are_left_out_and_the_table_can_be_read(truth: list[Line]) -> None:
    stranger = {**perfect(truth)[0], "interceptor": "elsewhere"}
    table = score(truth, [*perfect(truth), stranger])
    assert_perfect(table)
    text = table.as_text()
    assert "fog_mae [mm]" in text
    assert text.splitlines()[-1] == "34 of 37 targets met"
    assert msgspec.json.decode(msgspec.json.encode(table.as_json())) == table.as_json()
    with pytest.raises(KeyError, match="beauty"):
        table.value("beauty")


def test_a_line_that_is_no_truth_is_named() -> None:
    with pytest.raises(ValueError, match="rumour"):
        score([{"at": iso(T0), "type": "rumour", "interceptor": "a"}], [])
    assert math.isfinite(seconds(iso(T0)))
