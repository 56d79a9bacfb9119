"""Scenario files: what they may say, how errors name the place, and the scenarios that come along."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulators.faults import USUAL, FaultKind, FaultPlan
from simulators.scenario import Habits, Scenario
from simulators.scenariofile import ScenarioError, load, parse, shipped
from simulators.sensor import Principle

WHOLE = """
name = "all of it"
seed = 12
interceptors = 8
days = 90
start = 2026-10-01T00:00:00-07:00

[kitchens]
bakery = 1
cafe = 3

[principles]
echo = 2

[habits]
levels = [0.2, 0.3]
partial = 0.5

[quality]
lost = 0.1

[faults.silence]
share = 0.5
times_a_year = 12
days = [1, 2]

[faults.foam]
"""


def test_a_file_says_everything_and_what_it_leaves_out_is_usual() -> None:
    found = parse(WHOLE, "all.toml")
    assert (found.name, found.seed, found.count, found.days) == ("all of it", 12, 8, 90)
    assert found.start_s == 1_790_838_000.0  # 2026-10-01 07:00 UTC
    assert found.kitchens == {"bakery": 1.0, "cafe": 3.0}
    assert found.principles == {Principle.ECHO: 2.0}
    assert found.habits == Habits(levels=(0.2, 0.3), partial=0.5)
    assert (found.quality.lost, found.quality.twice) == (0.1, 0.003)
    assert found.faults == {
        FaultKind.SILENCE: FaultPlan(0.5, 12.0, (1.0, 2.0), USUAL[FaultKind.SILENCE].size),
        FaultKind.FOAM: USUAL[FaultKind.FOAM],
    }
    assert parse("", "empty.toml") == Scenario(name="empty")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("sed = 3", "x.toml:1: sed: unknown key; nearest is 'seed'", id="key"),
        pytest.param(
            "\n[habits]\nlevels = [0.2, 0.3]\npapers = 1",
            "x.toml:4: habits.papers: unknown key; nearest is 'paper'",
            id="key-of-a-table",
        ),
        pytest.param(
            "seed = 1\n[faults.coatin]",
            "x.toml:2: faults.coatin: unknown key; nearest is 'coating'",
            id="fault",
        ),
        pytest.param(
            "[faults.coating]\n# how many\nshar = 1",
            "x.toml:3: faults.coating.shar: unknown key; nearest is 'share'",
            id="key-of-a-fault",
        ),
        pytest.param(
            "[faults.coating]\nshare = 1.5",
            "x.toml:2: faults.coating.share: expected a number of at least 0 and at most 1, found 1.5",
            id="share",
        ),
        pytest.param(
            "[faults.coating]\ndays = [5, 2]",
            "x.toml:2: faults.coating.days: expected 0.01 <= least",
            id="pair",
        ),
        pytest.param("[faults.coating]\ndays = 5", "expected [least, largest], found 5", id="no-pair"),
        pytest.param(
            "interceptors = 0", "x.toml:1: interceptors: expected a whole number of at least 1", id="count"
        ),
        pytest.param("days = true", "x.toml:1: days: expected a whole number", id="boolean"),
        pytest.param("name = 3", "x.toml:1: name: expected text, found 3", id="name"),
        pytest.param("start = 2026-09-01", "x.toml:1: start: give date, time and offset", id="no-offset"),
        pytest.param(
            "start = 2026-09-01T00:05:00Z", "x.toml:1: start: must be a whole quarter of an hour", id="start"
        ),
        pytest.param(
            "[principles]\necko = 1", "x.toml:2: principles.ecko: unknown key; nearest is 'echo'", id="mix"
        ),
        pytest.param(
            "[kitchens]\ncafe = 0", "x.toml:1: kitchens: at least one weight must be above 0", id="weights"
        ),
        pytest.param("habits = 3", "x.toml:1: habits: expected a table, found 3", id="no-table"),
        pytest.param("seed = \ndays = 1", "x.toml: Invalid value (at line 1", id="no-toml"),
    ],
)
def test_what_does_not_fit_is_named_with_file_line_and_key(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "x.toml")
    assert message in str(caught.value)


def test_every_shipped_name_loads_under_its_name() -> None:
    names = shipped()
    assert {"clean", "mixed", "network", "people", "principles"} <= set(names)
    for name in names:
        assert load(name).name == name


def test_the_clean_city_has_no_faults_and_the_mixed_one_all() -> None:
    assert load("clean").faults == {}
    assert set(load("mixed").faults) == set(FaultKind)
    assert set(load("principles").principles) == set(Principle)


def test_a_fault_alone_and_a_principle_alone_are_the_clean_city_otherwise() -> None:
    one = load("fault:drift")
    assert set(one.faults) == {FaultKind.DRIFT}
    assert one.principles == load("clean").principles
    assert load("principle:echo").principles == {Principle.ECHO: 1.0}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("claen", "'clean'"),
        ("fault:coatings", "fault:'coatings' is not known; nearest is 'coating'"),
        ("principle:ecko", "principle:'ecko' is not known; nearest is 'echo'"),
        ("nowhere/x.toml", "nowhere/x.toml: No such file or directory"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(name)
    assert message in str(caught.value)


def test_a_file_is_loaded_by_its_path_and_named_after_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("seed = 9\n")
    assert load(str(file)).seed == 9
    assert load(str(file)).name == "mine"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(ScenarioError, match="is not UTF-8"):
        load(str(file))
