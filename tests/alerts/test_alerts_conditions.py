"""To whom a clause speaks, what is assumed where facts are missing, and thickness, advice and "reaches"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pytest

from alerts.conditions import Subject, When, choose
from alerts.ordinance import SHIPPED, Ordinance, OrdinanceError, parse_ordinance

DAY = date(2026, 12, 7)


@dataclass(frozen=True)
class _Clause:
    value: int
    when: When | None = None


@pytest.mark.parametrize(
    ("when", "subject", "holds"),
    [
        (When(kind=("trap",)), Subject("trap"), True),
        (When(kind=("trap",)), Subject("gravity"), False),
        (When(place=("under-sink",)), Subject("trap"), None),
        (When(place=("under-sink", "in-floor")), Subject("trap", place="in-floor"), True),
        (When(equipment=("wok", "fryer")), Subject("trap", equipment=("oven", "fryer")), True),
        (When(equipment=("wok", "fryer")), Subject("trap", equipment=("oven",)), False),
        (When(equipment=("wok",)), Subject("trap"), None),
        (When(seats_from=40), Subject("trap", seats=40), True),
        (When(seats_below=40), Subject("trap", seats=40), False),
        (When(volume_l_from=100, volume_l_below=1000), Subject("trap", volume_l=999.9), True),
        (When(volume_l_from=100), Subject("trap"), None),
        (When(kind=("trap",), seats_from=40), Subject("gravity"), False),  # one that fails decides
    ],
)
def test_conditions_hold_fail_or_are_not_known(when: When, subject: Subject, holds: bool | None) -> None:
    assert when.holds(subject) is holds
    assert bool(when.unknown(subject)) is (holds is None)


def test_the_first_that_applies_is_chosen_and_a_gap_in_the_register_relaxes_nothing() -> None:
    woks, plain = _Clause(20, When(equipment=("wok",))), _Clause(45)
    later = _Clause(5)
    listed = (woks, plain, later)

    def days(one: _Clause) -> int:
        return one.value

    assert choose(listed, Subject("trap", equipment=("wok",)), days) == (woks, ())
    assert choose(listed, Subject("trap", equipment=("oven",)), days) == (plain, ())
    assert choose(listed, Subject("trap"), days) == (woks, ("equipment",))
    # a looser clause that may apply does not win either
    assert choose((_Clause(90, When(seats_below=40)), plain), Subject("trap"), days) == (plain, ("seats",))
    assert choose((woks,), Subject("trap", equipment=("oven",)), days) == (None, ())


def test_two_inches_are_a_ratio_of_this_devices_depth(ordinances: dict[str, Ordinance]) -> None:
    version = ordinances["abilene"].at(DAY)
    rules = version.rules_for(Subject("trap", place="under-sink", base_depth_m=0.4))
    assert rules.fill_limit == pytest.approx(0.127)  # 50.8 mm of 400 mm
    assert rules.counted(0.0508, 0.2, 0.4) == 0.127  # FOG alone
    assert rules.over_limit(0.127)  # reaches
    with pytest.raises(ValueError, match="base_depth_m: needed where the limit is a thickness"):
        version.rules_for(Subject("trap", place="under-sink"))
    silent = version.rules_for(Subject("gravity", place="in-ground", base_depth_m=1.22))
    assert (silent.fill_binding, silent.fill_limit) == (False, 0.25)


def test_the_recommended_point_stands_beside_the_maximum(ordinances: dict[str, Ordinance]) -> None:
    rules = ordinances["mount-vernon"].at(DAY).rules_for(Subject("gravity"))
    assert (rules.fill_limit, rules.fill_advice) == (0.50, 0.30)
    assert rules.advice_citation == "MVC 16A"
    assert rules.hot_limit_c is None
    assert not rules.too_hot(99.0)


def test_what_is_assumed_is_said(ordinances: dict[str, Ordinance]) -> None:
    rules = ordinances["beachwood"].at(DAY).rules_for(Subject("gravity"))
    assert rules.assumed == ("max_interval: seats not on file; P1M is assumed",)
    known = ordinances["beachwood"].at(DAY).rules_for(Subject("gravity", seats=12))
    assert (known.max_interval, known.assumed) == ("P3M", ())


def test_a_variance_has_its_conditions(ordinances: dict[str, Ordinance]) -> None:
    rules = ordinances["toronto"].at(DAY).rules_for(Subject("gravity"))
    assert (rules.max_interval, rules.variance_interval) == ("P4W", "P8W")
    clause = ordinances["toronto"].at(DAY).clause("variance_interval")
    assert clause is not None
    assert clause.conditions == ("leave in writing", "daily readings by the owner")
    assert ordinances["toronto"].secondary


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "seats_from = 40",
            "seats = 40",
            r"max_interval\.when\.seats: unknown key; did you mean 'seats_",
        ),
        ("seats_from = 40", 'seats_from = "40"', r"when\.seats_from: expected a number, found '40'"),
        ("when = { seats_from = 40 }", "when = { }", r"when: empty; expected one of kind, place"),
        ("seats_from = 40", 'kind = ["gravty"]', r"when\.kind: 'gravty' is none of gravity, hydromechanical"),
        ("seats_from = 40", 'place = ["cellar"]', r"when\.place: 'cellar' is none of in-ground"),
    ],
)
def test_a_mistake_in_a_condition_is_named(old: str, new: str, message: str) -> None:
    text = (SHIPPED / "beachwood.toml").read_text()
    assert old in text
    with pytest.raises(OrdinanceError, match=message):
        parse_ordinance(text.replace(old, new, 1), "city.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('of = "notice"\n', "", r"reports\[?0?\]?.*\.of: missing; expected what is reported"),
        ('value = "PT24H"', 'value = "soon"', r"'soon' is not a clock"),
    ],
)
def test_a_mistake_in_a_clock_is_named(old: str, new: str, message: str) -> None:
    text = (SHIPPED / "greenville.toml").read_text()
    assert old in text
    with pytest.raises(OrdinanceError, match=message):
        parse_ordinance(text.replace(old, new, 1), "city.toml")


def test_records_are_kept_for_years() -> None:
    text = (SHIPPED / "apex.toml").read_text().replace('unit = "years"', 'unit = "months"')
    with pytest.raises(OrdinanceError, match=r'retention_min\.value: expected a years .*unit "years"'):
        parse_ordinance(text, "city.toml")


def test_a_limit_needs_its_base(ordinances: dict[str, Ordinance]) -> None:
    text = (SHIPPED / "kirkland.toml").read_text()
    begin, end = text.index("[versions.values.fill_base]"), text.index("[versions.values.fill_applies_to]")
    with pytest.raises(OrdinanceError, match=r"values\.fill_base: missing; fill_limit needs it"):
        parse_ordinance(text[:begin] + text[end:], "city.toml")
