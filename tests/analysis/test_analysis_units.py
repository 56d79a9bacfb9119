"""Units: literal values of their definitions, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.units import COLUMNS, QUANTITIES, UNITS, field, from_si, to_si


@pytest.mark.parametrize(
    ("value", "unit", "si"),
    [
        (140.0, "f", 60.0),  # the ordinances' limit, exact
        (135.0, "f", 57.22222222222222),
        (1.0, "in", 0.0254),  # international inch
        (1.0, "ft", 0.3048),
        (1.0, "psi", 6894.757293168361),  # lbf/in²
        (1.0, "inh2o", 249.08891),  # conventional inch of water
        (1.0, "mh2o", 9806.65),
        (25.0, "mbar", 2500.0),
        (300.15, "k", 27.0),
    ],
)
def test_units_have_their_defined_values(value: float, unit: str, si: float) -> None:
    assert to_si(value, unit) == pytest.approx(si, rel=1e-12)


@given(st.sampled_from(sorted(UNITS)), st.floats(-1e6, 1e6))
def test_there_and_back_again(unit: str, value: float) -> None:
    assert from_si(to_si(value, unit), unit) == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(st.sampled_from(sorted(QUANTITIES)), st.sampled_from(sorted(UNITS)))
def test_a_field_name_is_a_quantity_and_a_fitting_unit(name: str, unit: str) -> None:
    quantity = QUANTITIES[name]
    found = field(f"{name}_{unit}")
    if quantity.unit is None and UNITS[unit].dimension == quantity.dimension:
        assert found == (quantity, unit)
    else:
        assert found is None


def test_names_that_carry_their_unit_are_quantities_of_their_own() -> None:
    assert field("echo_fog_us") == (QUANTITIES["echo_fog_us"], "us")
    assert field("inlet_over_s") == (QUANTITIES["inlet_over_s"], "s")
    assert field("surface") == (QUANTITIES["surface"], None)
    assert field("rubbish_mm") is None
    assert field("profile") == (QUANTITIES["profile"], None)
    assert "profile" not in COLUMNS
