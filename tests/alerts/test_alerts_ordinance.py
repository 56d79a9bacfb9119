"""Every row of the acceptance table of profile values, by key; the examples the profiles carry; bad files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from alerts.calendar import add_duration
from alerts.conditions import Subject
from alerts.examples import answers
from alerts.ordinance import KEYS, SHIPPED, Ordinance, OrdinanceError, load_ordinances, parse_ordinance

DAY = date(2026, 11, 30)
NONE: list[tuple[Any, str]] = []
SCOPE = ["wastewater", "accumulated FOG", "floating materials", "sludge", "solids"]
FIELDS = [
    "A hauling company",
    "B name and signature of the operator",
    "C full pump-out with volume of water and FOG removed",
    "D level of floating FOG and settleable solids",
    "E repairs required",
    "F disposal facility",
]
PAPERS = ["manifests", "receipts", "invoices", "disposal carrier", "disposal site location"]
NOT_BANNED = "not banned; fixtures of clean-up areas that are sources of FOG "
NOT_BANNED += "are connected to the interceptor"

# key: (Inglewood's, Sierra Madre's clauses), each (value, sections); "IMC 10-" and "SMMC 13.14" left out
TABLE: dict[str, tuple[list[tuple[Any, str]], list[tuple[Any, str]]]] = {
    "fill_limit": ([(0.25, "223(4)(a)")], [(0.25, ".150.E.1 .030 .070.J")]),
    "fill_base": (
        [("total liquid depth", "223(4)(a)")],
        [("total design hydraulic depth", ".150.E.1"), ("total operating depth", ".070.J")],
    ),
    "fill_applies_to": ([("interceptor", "223(4)")], [("interceptor", ".150.E .070.J")]),
    "standing_25_prohibition": (NONE, [(True, ".070.J")]),
    "on_exceed": (
        [("immediate service, complete removal", "223(4)(d)")],
        [("immediate service, complete removal", ".150.E.5")],
    ),
    "on_exceed_hours": (NONE, NONE),
    "max_interval": ([("P6M", "223(4)(b)")], [("P6M", ".150.E.2")]),
    "default_interval": ([("P3M", "223(4)(c)")], [("P3M", ".150.E.3")]),
    "min_interval": (NONE, NONE),
    "removal_scope": ([(SCOPE, "223(4)")], [(SCOPE, ".150.A")]),
    "removed_material": (
        [("disposed of off site", "223(4)(d)(i)"), ("none to the sewer", "221(2)(f)")],
        [("disposed of off site", ".150.F"), ("none to the sewer", ".070.I")],
    ),
    "no_pass_through": ([(True, "223(4)")], [(True, ".150.C")]),
    "frequency_approver": ([("City", "223(4) 222(2)(c)")], [("program manager", ".150.B")]),
    "frequency_request": (
        [(["in writing", "with reasons", "answered in writing"], "222(3)")],
        [(["at any time", "burden of proof on the establishment", "full compliance"], ".150.E.4")],
    ),
    "frequency_notice_min": ([(45, "222(3)")], NONE),
    "frequency_written_in": ([("permit", "223(4)(c)")], NONE),
    "hot_limit": ([(140, "221(2)(c)")], [(140, ".070.F")]),
    "hot_min_duration": (NONE, NONE),
    "sewer_temp_limit": (NONE, NONE),
    "trap_cleaning": (NONE, [("daily, or as often as required or necessary", ".140.C")]),
    "dishwasher_to_device": (
        [(NOT_BANNED, "221(5)")],
        [("banned", ".070.E"), ("banned for traps, food waste disposal units too", ".140.F")],
    ),
    "biological_additives": (
        [("only with the Director's written approval", "221(2)(d)")],
        [("only with prior authorization from the program manager", ".070.G")],
    ),
    "emulsifying_additives": (
        NONE,
        [("only with a specific written authorization from the program manager", ".070.C")],
    ),
    "grinder_removal": ([(180, "221(2)(a)")], [(180, ".070.B")]),
    "manifest_fields": ([(FIELDS, "223(4)(d)(i)")], NONE),
    "manifest_papers": (NONE, [(PAPERS, ".160.B")]),
    "retention_min": ([(4, "224(1)(d)(i) 224(2)(d)")], [(2, ".160.B .170.C")]),
    "hauler_licences": (
        [(["transport", "city-business"], "220 221(2)(g)")],
        [("under all applicable federal, state and local laws", ".150.F")],
    ),
    "incident_phone": (
        [("(310) 412-5333", "224(3)")],
        [
            ("immediately, at the number in the rules and regulations", ".190.A"),
            ("also the health department or county where a blockage or overflow may result", ".190.A"),
        ],
    ),
    "incident_written": ([(5, "224(3)(a)")], [(5, ".190.B")]),
    "planned_change_notice": ([(60, "224(4)")], [(60, ".200")]),
    "training": (
        [(180, "223(3)(e)"), (2, "223(3)(e)")],
        [(180, ".100"), (10, ".100"), (2, ".100")],
    ),
    "install_after_notice": ([(180, "221(5)(c)")], [(180, ".080.C")]),
    "variance_visual_monitoring": ([("P3M", "221(6)(c)")], [("P3M", ".080.E.2")]),
    "min_compartments": ([(2, "223(1)")], [(2, ".130.B")]),
    "manhole": ([(24, "223(1)"), ("sampling box", "223(1)")], [(24, ".130.D")]),
    "shared_site": (
        [
            ("the property owner is responsible", "221(7)"),
            ("copermittee where an establishment has no individual water meter", "221(7)"),
        ],
        [("the owner, where an interceptor serves several establishments on one parcel", ".110")],
    ),
}
UNITS = {
    "fill_limit": "ratio",
    "max_interval": "duration",
    "default_interval": "duration",
    "frequency_notice_min": "days",
    "hot_limit": "f",
    "grinder_removal": "days",
    "retention_min": "years",
    "incident_written": "working days",
    "planned_change_notice": "days",
    "install_after_notice": "days",
    "variance_visual_monitoring": "duration",
}
ADOPTED = {"max_interval", "default_interval"}
SECTION = re.compile(
    r"IMC 10-2(?:19|2[0-8])(?:\([0-9A-Za-z]+\))*|SMMC 13\.14\.\d{2}0(?:\.[A-Z](?:\.\d+)?)?", re.ASCII
)


@pytest.mark.parametrize("key", sorted(TABLE))
@pytest.mark.parametrize(
    ("city", "column", "prefix"), [("inglewood", 0, "IMC 10-"), ("sierra-madre", 1, "SMMC 13.14")]
)
def test_every_value_of_the_acceptance_table(
    ordinances: dict[str, Ordinance], key: str, city: str, column: int, prefix: str
) -> None:
    clauses = ordinances[city].at(DAY).values.get(key, ())
    expected = [
        (value, tuple(prefix + s for s in sections.split())) for value, sections in TABLE[key][column]
    ]
    assert [(c.value, c.sections) for c in clauses] == expected
    for clause in clauses:
        assert clause.read_on == date(2026, 11, 30)
        assert clause.adopted_reading is (key in ADOPTED)
        if key in UNITS:
            assert clause.unit == UNITS[key]


def test_the_table_knows_every_key_but_those_of_other_cities_and_one_that_only_decisions_cite() -> None:
    others = {
        key
        for one in load_ordinances().values()
        if one.id not in {"inglewood", "sierra-madre"}
        for key in one.at(DAY).values
    }
    assert set(TABLE) <= set(KEYS)
    assert set(KEYS) - set(TABLE) - others == {"frequency_shortened_on_exceed"}


@pytest.mark.parametrize("city", ["inglewood", "sierra-madre"])
def test_every_section_is_cited_in_the_codes_own_style(ordinances: dict[str, Ordinance], city: str) -> None:
    version = ordinances[city].at(DAY)
    cited = [s for clauses in version.values.values() for c in clauses for s in c.sections]
    cited += [s for kind in version.kinds.values() for s in kind.sections]
    assert cited
    assert [s for s in cited if SECTION.fullmatch(s) is None] == []


@pytest.mark.parametrize(
    ("city", "adopted"), [("inglewood", date(2010, 2, 23)), ("sierra-madre", date(2009, 6, 23))]
)
def test_the_effective_date_stays_empty_until_it_is_confirmed(
    ordinances: dict[str, Ordinance], city: str, adopted: date
) -> None:
    version = ordinances[city].at(DAY)
    assert (version.adopted_on, version.adopted_to_be_confirmed, version.effective_on) == (
        adopted,
        True,
        None,
    )
    assert version.note == f"applied from its adoption on {adopted}; effective date to be confirmed"
    with pytest.raises(OrdinanceError, match=r"no version of .* was in force on 2009-01-01"):
        ordinances[city].at(date(2009, 1, 1))


def _examples() -> list[Any]:
    return [
        pytest.param(one.id, example, id=f"{one.id}: {example['title']}")
        for one in load_ordinances().values()
        for example in one.examples
    ]


@pytest.mark.parametrize(("city", "example"), _examples())
def test_examples_of_the_profiles(
    ordinances: dict[str, Ordinance], city: str, example: Mapping[str, Any]
) -> None:
    said = answers(ordinances[city], example)
    assert said
    assert said == {key: example[key] for key in said}


@pytest.mark.parametrize("city", ["inglewood", "sierra-madre"])
def test_the_rules_of_traps_are_silent_where_the_law_is(ordinances: dict[str, Ordinance], city: str) -> None:
    trap = ordinances[city].at(DAY).rules_for(Subject("trap"))
    assert (trap.max_interval, trap.default_interval, trap.exceed_citation) == (None, None, None)
    assert trap.fill_binding is False
    assert trap.hot_limit_c == 60.0  # 140 degF is 60 degC exactly
    mapped = ordinances[city].at(DAY).kinds["hydromechanical"]
    assert (mapped.rules, mapped.adopted_reading) == ("interceptor", True)


def test_a_later_version_is_in_force_from_its_date() -> None:
    text = (SHIPPED / "inglewood.toml").read_text()
    start = text.index("[[versions]]")
    end = text.index("[[examples]]")
    later = text[start:end].replace(
        "adopted_on = 2010-02-23", "adopted_on = 2027-01-05\neffective_on = 2027-02-04"
    )
    later = later.replace("value = 0.25", "value = 0.20")
    profile = parse_ordinance(text[:end] + later, "two.toml")
    assert profile.at(date(2027, 2, 3)).rules_for(Subject("gravity")).fill_limit == 0.25
    assert profile.at(date(2027, 2, 4)).rules_for(Subject("gravity")).fill_limit == 0.20
    assert profile.at(date(2027, 2, 4)).note == "in force from 2027-02-04"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fill_limit]", "fill_limits]", r"values\.fill_limits: unknown key; did you mean 'fill_limit'\?"),
        ("read_on =", "readon =", r"readon: unknown key; did you mean 'read_on'\?"),
        ("value = 0.25", "value = 25", r"fill_limit\.value: expected a ratio or thickness .*, found 25"),
        (
            'value = "P6M"',
            'value = "6 months"',
            r"max_interval\.value: '6 months' is not an ISO 8601 duration",
        ),
        ('"IMC 10-223(4)(a)"', '"10-223(4)(a)"', r"sections: expected texts such as 'IMC …', found '10-223"),
        ('unit = "f"', 'unit = "m"', r'hot_limit\.value: expected a temperature with unit "c" or "f"'),
        ("[kinds.trap]", "[kinds.traps]", r"kinds\.traps: unknown key; did you mean 'trap'\?"),
        ("over = false", "ower = false", r"examples\[0\]\.ower: unknown key; did you mean 'over'\?"),
        ("adopted_on = 2010-02-23", 'adopted_on = "2010"', r"versions\[0\]\.adopted_on: expected a date"),
        ("[[versions]]", "[[versions", r"file: is not TOML"),
    ],
)
def test_a_mistake_in_a_profile_is_named(old: str, new: str, message: str) -> None:
    text = (SHIPPED / "inglewood.toml").read_text()
    assert old in text
    with pytest.raises(OrdinanceError, match=message) as caught:
        parse_ordinance(text.replace(old, new, 1), "city.toml")
    assert str(caught.value).startswith("city.toml: ")


def test_a_given_file_replaces_the_shipped_profile_of_its_id(tmp_path: Path) -> None:
    text = (SHIPPED / "inglewood.toml").read_text()
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('name = "City of Inglewood"', 'name = "Inglewood, as confirmed"'))
    assert load_ordinances([mine])["inglewood"].name == "Inglewood, as confirmed"
    assert load_ordinances([mine])["sierra-madre"].name == "City of Sierra Madre"
    with pytest.raises(OrdinanceError, match="already given"):
        load_ordinances([mine, mine])
    with pytest.raises(OrdinanceError, match="cannot be read"):
        load_ordinances([tmp_path / "absent.toml"])


def test_due_dates_of_an_interceptor_follow_the_default(ordinances: dict[str, Ordinance]) -> None:
    rules = ordinances["sierra-madre"].at(DAY).rules_for(Subject("gravity"))
    assert rules.default_interval is not None
    assert add_duration(date(2026, 11, 30), rules.default_interval) == date(2027, 2, 28)
