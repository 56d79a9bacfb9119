"""Films on rods: built from the geometry by hand, so that the layer behind them is known."""

import numpy as np
import pytest

from analysis.films import filmed, see_through
from analysis.rods import rod_layers

LEVELS = np.array([[0.7, 1.0, 0.25, 0.05]])
STATIC = np.array([1.2])
FIRST = np.array([0.025])


def _rod(fog: float, film: float, pitch: float, thins: float = 0.1) -> np.ndarray:
    """Electrodes that are the mean of what they touch, and a film that thins away from the grease."""
    height = 0.025 + np.arange(int(1.4 / pitch)) * pitch
    low, high = height - pitch / 2, height + pitch / 2
    bottom, surface = 1.2 - fog, 1.2
    grease = np.clip(np.minimum(high, surface) - np.maximum(low, bottom), 0, None) / pitch
    air = np.clip(high - np.maximum(low, surface), 0, None) / pitch
    value = 1.0 - 0.75 * grease - 0.95 * air
    away = np.maximum(np.maximum(bottom - high, low - surface), 0.0)
    return (value + film * np.exp(-away / thins) * (0.25 - value))[None, :]


def _both(profile: np.ndarray, pitch: float):
    step = np.array([pitch])
    raw = rod_layers(profile, LEVELS, step, FIRST, STATIC)
    return raw, see_through(raw, profile, LEVELS, step, FIRST, STATIC)


@pytest.mark.parametrize("pitch", [0.025, 0.05])
@pytest.mark.parametrize("film", [0.4, 0.7])
def test_grease_behind_a_film_lies_in_the_interval_told(film: float, pitch: float) -> None:
    raw, found = _both(_rod(0.08, film, pitch), pitch)
    assert abs(found.depth[0, 0] - 0.08) < found.half[0, 0] < 0.05
    assert abs(found.depth[0, 0] - 0.08) < raw.depth[0, 0] - 0.08 or film == 0.4
    assert found.surface[0] <= 1.2


def test_a_ripe_film_no_longer_makes_a_thin_layer_thick() -> None:
    raw, found = _both(_rod(0.03, 0.9, 0.025), 0.025)
    assert raw.depth[0, 0] > 0.10
    assert abs(found.depth[0, 0] - 0.03) < 1.645 / np.sqrt(3) * found.half[0, 0] + 0.005


@pytest.mark.parametrize("fog", [0.0, 0.02, 0.075, 0.11, 0.3])
def test_a_clean_rod_is_left_as_it_was_read(fog: float) -> None:
    for pitch in (0.025, 0.05):
        raw, found = _both(_rod(fog, 0.0, pitch), pitch)
        for before, after in zip(raw, found, strict=True):
            np.testing.assert_array_equal(before, after)


def test_while_the_liquid_is_drawn_down_no_film_is_seen() -> None:
    profile = np.where(np.arange(28) < 8, 1.0, np.where(np.arange(28) < 12, 0.6, 0.05))[None, :]
    raw, found = _both(profile, 0.05)
    np.testing.assert_array_equal(raw.surface, found.surface)


def test_the_answer_does_not_depend_on_the_padding() -> None:
    profile = _rod(0.08, 0.6, 0.05)
    padded = np.pad(profile, ((0, 0), (0, 9)), constant_values=np.nan)
    for one, other in zip(_both(profile, 0.05)[1], _both(padded, 0.05)[1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_grease_between_two_electrodes_is_no_film() -> None:
    share = np.array([[0.0] * 20 + [0.4, 1.1, 1.27, 1.27]])
    height = 0.025 + np.arange(24)[None, :] * 0.05
    assert not filmed(share, height, np.array([0.05]), np.array([1.1]))[0]
