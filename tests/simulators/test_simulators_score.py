"""The scorer: a perfect output, and outputs that are wrong by a known amount."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulators.people import Habits
from simulators.recorded import Scenario, simulate
from simulators.score import Table, score
from simulators.truth import iso, seconds

Line = dict[str, Any]
T0 = 1_788_246_000.0
DAY = 86400.0
HOUR = 3600.0


def midnight(day: int, fraction: float) -> Line:
    return {
        "at": iso(T0 + day * DAY),
        "type": "depths",
        "interceptor": "a",
        "compartment": 1,
        "fog_mm": 500 * fraction,
        "solids_mm": 500 * fraction,
        "fraction": fraction,
        "compartments": [],
    }


@pytest.fixture
def truth() -> list[Line]:
    """One rod for 30 days: 1 point a day from 20 %, over the limit on day 5, pumped on day 12 and 20."""
    days = [midnight(day, 0.20 + 0.01 * day) for day in range(12)]
    days += [midnight(day, 0.005 + 0.01 * (day - 12)) for day in range(13, 30)]
    services = [
        {
            "at": iso(T0 + day * DAY + 9.5 * HOUR),
            "type": "pump_out",
            "interceptor": "a",
            "start": iso(T0 + day * DAY + 9 * HOUR),
            "end": iso(T0 + day * DAY + 9.5 * HOUR),
            "complete": complete,
            "fall_mm": 900.0,
        }
        for day, complete in ((12, True), (20, False))
    ]
    return [
        {
            "at": iso(T0),
            "type": "sensor",
            "interceptor": "a",
            "sensor": "s",
            "compartment": 1,
            "principle": "rod",
            "tau_s": 10.0,
        },
        *days,
        {"at": iso(T0 + 5 * DAY), "type": "crossing", "interceptor": "a", "compartment": 1, "level": 0.25},
        *services,
        {
            "at": iso(T0 + HOUR),
            "type": "hot_discharge",
            "interceptor": "a",
            "start": iso(T0 + HOUR),
            "end": iso(T0 + HOUR + 60),
            "peak_c": 70.0,
            "duration_s": 60.0,
        },
        {  # too short for the probe to be held to it
            "at": iso(T0 + 9 * HOUR),
            "type": "hot_discharge",
            "interceptor": "a",
            "start": iso(T0 + 9 * HOUR),
            "end": iso(T0 + 9 * HOUR + 15),
            "peak_c": 70.0,
            "duration_s": 15.0,
        },
    ]


def quantiles(when: float | None) -> Line | None:
    """A narrow forecast around ``when``; None where nothing is crossed in this cycle."""
    if when is None:
        return None
    early, late = iso(when - HOUR), iso(when + HOUR)
    return {"p05": early, "p10": early, "p50": iso(when), "p90": late, "p95": late}


def assessment(line: Line, passages: list[float], shift_mm: float, late_s: float, sd: float) -> Line:
    ahead = [at_s + late_s for at_s in passages if at_s > seconds(line["at"])]
    return {
        "at": line["at"],
        "type": "assessment",
        "interceptor": line["interceptor"],
        "compartment": 1,
        "fog_mm": line["fog_mm"] + shift_mm,
        "solids_mm": line["solids_mm"] - shift_mm,
        "fraction": line["fraction"] + shift_mm / 1000,
        "fraction_sd": sd,
        "crossing": quantiles(min(ahead, default=None)),
        "compartments": [],
    }


def told(line: Line, late_s: float) -> list[Line]:
    """What a service would write of one line of truth that is no depth."""
    at_s = seconds(line["at"])
    mine = {"at": iso(at_s + late_s), "interceptor": line["interceptor"]}
    if line["type"] == "pump_out":
        pumped = iso(seconds(line["start"]) + late_s)
        own = {"type": "pump_out", "id": f"p{at_s}", "pumped_at": pumped, "complete": line["complete"]}
        return [mine | own]
    if line["type"] == "hot_discharge":
        span = {"start": iso(at_s + late_s), "end": iso(seconds(line["end"]) + late_s)}
        return [mine | span | {"type": "hot_discharge", "id": f"h{at_s}", "status": "confirmed"}]
    if line["type"] == "crossing" and line["level"] == 0.25:
        fired = {"at": iso(at_s + late_s + 600.0), "type": "alert", "id": f"a{at_s}"}
        return [mine | fired | {"kind": "over_limit", "state": "firing", "basis": "estimate"}]
    return []


def perfect(truth: list[Line], *, shift_mm: float = 0.0, late_s: float = 0.0, sd: float = 0.01) -> list[Line]:
    """What a service would write that knows the truth, off by the given amounts."""
    out: list[Line] = []
    for line in truth:
        if line["type"] != "depths":
            out += told(line, late_s)
            continue
        passages = [
            seconds(one["at"])
            for one in truth
            if one["type"] == "crossing"
            and one["level"] == 0.25
            and one["interceptor"] == line["interceptor"]
        ]
        out.append(assessment(line, passages, shift_mm, late_s, sd))
    return out


def assert_perfect(table: Table, principle: str = "all") -> None:
    for metric in ("fog_mae", "solids_mae", "fraction_beyond_3_sd"):
        assert table.value(metric, principle) == pytest.approx(0.0)
    for metric in (
        "depths_known",
        "fraction_coverage_90",
        "crossing_coverage_90",
        "pump_out_recall_complete",
        "pump_out_recall_partial",
        "pump_out_precision",
        "hot_recall",
        "hot_recall_confirmed",
        "hot_precision",
        "hot_precision_confirmed",
        "over_limit_recall",
    ):
        assert table.value(metric, principle) == 1.0, metric
    assert table.row("over_limit_false").count == 0


def test_a_perfect_output(truth: list[Line]) -> None:
    table = score(truth, perfect(truth))
    assert_perfect(table)
    assert_perfect(table, "rod")
    assert table.row("fog_mae").count == 29
    assert table.row("crossing_coverage_90").count == 1  # five forecasts, one cycle
    assert table.row("hot_recall").count == 1  # the short one is no failure
    assert table.value("over_limit_delay_median") == pytest.approx(600 / DAY)
    assert table.value("over_limit_excess_median") == pytest.approx(600 / DAY, rel=1e-3)  # 1 point a day


def test_a_simulated_truth_scores_perfectly_too(tmp_path: Path) -> None:
    habits = Habits(levels=(0.25, 0.28), partial=0.3)
    files = simulate(Scenario(seed=4, days=24, count=16, habits=habits), tmp_path)
    lines = [msgspec.json.decode(line) for line in files.truth.read_bytes().splitlines()]
    table = score(lines, perfect(lines))
    assert_perfect(table)
    assert table.row("crossing_coverage_90").count >= 3
    assert table.row("pump_out_recall_complete").count >= 1
    assert table.row("pump_out_precision").count >= 3


def test_depths_wrong_by_thirty_millimetres(truth: list[Line]) -> None:
    table = score(truth, perfect(truth, shift_mm=30.0, sd=0.005))
    assert table.value("fog_mae") == pytest.approx(30.0)
    assert table.value("solids_mae", "rod") == pytest.approx(30.0)
    assert table.value("fraction_coverage_90") == 0.0
    assert table.value("fraction_beyond_3_sd") == 1.0


def test_everything_three_hours_late(truth: list[Line]) -> None:
    table = score(truth, perfect(truth, late_s=3 * HOUR))
    assert table.value("crossing_coverage_90") == 0.0
    assert table.value("crossing_error_median") == pytest.approx(3 / 24)
    assert table.value("pump_out_recall_complete") == 0.0
    assert table.value("pump_out_recall_partial") == 0.0
    assert table.value("pump_out_precision") == 0.0
    assert table.value("hot_recall") == 0.0
    assert table.value("over_limit_delay_median") == pytest.approx((3 * HOUR + 600) / DAY)
    assert table.value("over_limit_excess_median") == pytest.approx((3 * HOUR + 600) / DAY, rel=1e-3)


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


def test_false_alarms_are_counted_by_interceptor_and_year(truth: list[Line]) -> None:
    early = {
        "at": iso(T0 + 2 * DAY),
        "type": "alert",
        "interceptor": "a",
        "id": "x",
        "kind": "over_limit",
        "state": "firing",
        "basis": "estimate",
    }
    table = score(truth, [*perfect(truth), early])
    assert table.row("over_limit_false").count == 1
    assert table.value("over_limit_false") == pytest.approx(365.25 / 29)
    assert table.row("over_limit_recall").count == 0  # that cycle is spent on a false alarm


def test_an_alarm_never_raised_and_a_pump_out_never_seen(truth: list[Line]) -> None:
    table = score(truth, [line for line in perfect(truth) if line["type"] == "assessment"])
    assert table.value("over_limit_recall") == 0.0
    assert table.value("pump_out_recall_complete") == 0.0
    assert table.value("pump_out_precision") is None


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


def test_unknown_depths_are_counted_as_unknown(truth: list[Line]) -> None:
    nulls = {"fog_mm": None, "solids_mm": None, "fraction": None, "fraction_sd": None, "crossing": None}
    output = [{**line, **nulls} for line in perfect(truth) if line["type"] == "assessment"]
    table = score(truth, output)
    assert table.value("depths_known") == 0.0
    assert table.value("fog_mae") is None
    assert table.row("fraction_coverage_90").count == 0


def test_another_compartment_leading_does_not_hide_the_monitored_one(truth: list[Line]) -> None:
    output = []
    for line in perfect(truth):
        if line["type"] == "assessment":
            own = {
                name: line[name] for name in ("compartment", "fog_mm", "solids_mm", "fraction", "fraction_sd")
            }
            line = {**line, "compartment": 2, "fog_mm": 0.0, "compartments": [own]}
        output.append(line)
    assert score(truth, output).value("fog_mae") == pytest.approx(0.0)


def test_strangers_are_left_out_and_the_table_can_be_read(truth: list[Line]) -> None:
    stranger = {**perfect(truth)[0], "interceptor": "elsewhere"}
    table = score(truth, [*perfect(truth), stranger, {"at": iso(T0), "type": "summary", "interceptor": None}])
    assert_perfect(table)
    text = table.as_text()
    assert "fog_mae [mm]" in text
    assert "0.000 (29)" in text
    assert msgspec.json.decode(msgspec.json.encode(table.as_json())) == table.as_json()
    with pytest.raises(KeyError, match="beauty"):
        table.value("beauty")


def test_a_line_that_is_no_truth_is_named() -> None:
    with pytest.raises(ValueError, match="rumour"):
        score([{"at": iso(T0), "type": "rumour", "interceptor": "a"}], [])
    assert math.isfinite(seconds(iso(T0)))
