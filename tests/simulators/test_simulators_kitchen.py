"""Kitchens: meal times, weekdays, compound draws and the spread between sites."""

from __future__ import annotations

import numpy as np
import pytest

from simulators.kitchen import (
    DRAW_M3,
    DRAW_SHAPE,
    KINDS,
    SLOTS,
    WARMEST_DRAW_C,
    KitchenDay,
    Kitchens,
    day_shape,
    upset,
)
from simulators.plan import draw_plan

DAY_S = 86400.0
MONDAY_S = 1_788_134_400.0  # 2026-08-31 00:00 of a wall clock


def kitchens(count: int, kind: str = "full-service", *, flat: bool = False, purges: float = 0.0) -> Kitchens:
    chosen = KINDS[kind]
    one = np.ones(count)
    share = np.full(SLOTS, 1 / SLOTS) if flat else day_shape(chosen, 0.0)
    week = np.ones(7) if flat else np.array(chosen.weekday)
    return Kitchens(
        7.0 * one, np.tile(share, (count, 1)), np.tile(week, (count, 1)),
        0.4 * one, 0.15 * one, 39.0 * one, purges * one, 0 * one,
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_days_shape_is_whole_and_closed_at_night(name: str) -> None:
    share = day_shape(KINDS[name], 0.0)
    assert share.sum() == pytest.approx(1.0)
    assert share[:4].sum() == 0.0  # midnight to one
    assert share.min() >= 0.0


def test_full_service_peaks_at_dinner() -> None:
    assert 18.0 <= day_shape(KINDS["full-service"], 0.0).argmax() / 4 <= 20.0


def test_weekdays_differ_as_the_kind_says() -> None:
    day = KitchenDay(kitchens(3000), np.random.default_rng(3))
    totals = [
        sum(day.draw(MONDAY_S + d * DAY_S + s * 900.0, 900.0).volume_m3.mean() for s in range(SLOTS))
        for d in range(7)
    ]
    week = np.array(KINDS["full-service"].weekday)
    assert np.array(totals) / np.mean(totals) == pytest.approx(week / week.mean(), rel=0.03)


def test_draws_are_compound_poisson() -> None:
    """Mean λ·v and, between draws alone, variance λ·v²·(1 + 1/k): the day's mood is divided out."""
    day = KitchenDay(kitchens(20_000, flat=True), np.random.default_rng(4))
    day._busy[:] = 0.02  # an ordinary day for everybody
    day._day = int(MONDAY_S // DAY_S)
    volume = day.draw(MONDAY_S, 900.0).volume_m3
    season = 1.0 + 0.08 * np.sin(2 * np.pi * day._day / 365.25)
    mean = 7.0 / SLOTS * season
    assert volume.mean() == pytest.approx(mean, rel=0.02)
    assert volume.var() == pytest.approx(mean * DRAW_M3 * (1 + 1 / DRAW_SHAPE), rel=0.05)
    assert (volume == 0.0).mean() == pytest.approx(np.exp(-mean / DRAW_M3), abs=0.01)


def test_only_purges_pass_sixty_degrees() -> None:
    calm = KitchenDay(kitchens(500), np.random.default_rng(5))
    hot = KitchenDay(kitchens(500, purges=3.0), np.random.default_rng(5))
    seen = 0
    for slot in range(SLOTS):
        plain = calm.draw(MONDAY_S + slot * 900.0, 900.0)
        assert not plain.hot.any()
        assert np.nanmax(plain.pulse_c, initial=0.0) <= WARMEST_DRAW_C
        purged = hot.draw(MONDAY_S + slot * 900.0, 900.0)
        assert (purged.pulse_c[purged.hot] > 60.0).all()
        assert (purged.pulse_start_s[purged.hot] + purged.pulse_s[purged.hot] <= 900.0).all()
        seen += int(purged.hot.sum())
    assert seen / 500 == pytest.approx(3.0, rel=0.15)


def test_sites_of_one_kind_spread_lognormally() -> None:
    plan = draw_plan(np.random.default_rng(6), 1600, 1_788_246_000.0)
    homes = {item.site: item.load for item in plan.interceptors}
    logs = [np.log(load) for site, load in homes.items() if plan.sites[site].kitchen == "full-service"]
    assert len(logs) > 300
    assert np.std(logs) == pytest.approx(KINDS["full-service"].spread, rel=0.1)
    assert np.mean(logs) == pytest.approx(0.0, abs=0.06)


def test_a_closed_kitchen_draws_no_water_and_another_menu_carries_more() -> None:
    """Grease goes with the menu's ratio, solids with its root; who is not struck keeps every bit."""
    usual = KitchenDay(kitchens(4, flat=True, purges=50.0), np.random.default_rng(8)).draw(MONDAY_S, DAY_S)
    closed = np.array([False, True, False, True])
    menu = np.array([np.nan, np.nan, 2.25, 2.25])
    found = upset(usual, closed, menu)
    assert usual.volume_m3.min() > 0.0
    assert found.volume_m3[closed].tolist() == [0.0, 0.0]
    assert found.grease_m3[closed].tolist() == [0.0, 0.0]
    assert found.solids_kg[closed].tolist() == [0.0, 0.0]
    assert np.isnan(found.pulse_c[closed]).all()
    assert not found.hot[closed].any()
    assert found.grease_m3[2] == pytest.approx(2.25 * usual.grease_m3[2])
    assert found.solids_kg[2] == pytest.approx(1.5 * usual.solids_kg[2])
    assert found.volume_m3[2] == usual.volume_m3[2]
    for name in ("volume_m3", "grease_m3", "solids_kg", "mix_c", "pulse_c", "pulse_s"):
        assert getattr(found, name)[0] == getattr(usual, name)[0], name


def test_the_year_swings_by_eight_percent_each_way() -> None:
    day = KitchenDay(kitchens(4000, flat=True), np.random.default_rng(9))
    means = [day.draw(MONDAY_S + d * DAY_S, DAY_S).volume_m3.mean() for d in range(0, 364, 28)]
    ratio = np.array(means) / np.mean(means)
    assert ratio.max() - ratio.min() == pytest.approx(0.16, abs=0.04)
