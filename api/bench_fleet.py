"""The fleet and the readings that the benchmarks of estimate and replay work on; seeded, the same every time."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from analysis.fleet import Fleet, Groups
from analysis.model import InterceptorModel, ReadingBatch, SensorModel

T0_S: Final = 1_767_225_600.0  # 2026-01-01T00:00:00Z
EVERY_S: Final = 900.0
STATIC_M: Final = 1.2
_MODELS: Final = 1000  # of them written out; a larger fleet repeats them
_SEED: Final = 20260901


def bench_fleet(interceptors: int) -> Fleet:
    """So many interceptors with one two-interface sensor each.

    Names and models of a fleet beyond a thousand repeat: its arrays are what the estimate works on.
    """
    count = min(interceptors, _MODELS)
    models = [
        InterceptorModel(f"gi-{n}", STATIC_M, STATIC_M, last_pump_out_s=T0_S - 86400.0 * (5 + n % 60))
        for n in range(count)
    ]
    few = Fleet.of(models, [SensorModel(f"s-{n}", f"gi-{n}", 1, interval_s=EVERY_S) for n in range(count)])
    return few if interceptors == count else _repeated(few, interceptors)


def _repeated(few: Fleet, count: int) -> Fleet:
    which = np.arange(count) % len(few.interceptors)
    rows = np.arange(count, dtype=np.int64)
    each = Groups(rows, np.arange(count + 1, dtype=np.int64))
    by_row = [f.name for f in fields(few) if isinstance(getattr(few, f.name), np.ndarray)]
    values: dict[str, Any] = {
        name: getattr(few, name)[which] for name in by_row
    }  # with one sensor each all are alike
    values |= {"sensor_interceptor": rows, "sensor_track": rows, "track_interceptor": rows}
    return replace(
        few,
        interceptors=tuple(few.interceptors[n] for n in which),
        sensors=tuple(few.sensors[n] for n in which),
        geometry=few.geometry.rows(which),
        sensors_of=each,
        tracks_of=each,
        **values,
    )


def rounds(interceptors: int, readings: int, start: int = 0) -> list[ReadingBatch]:
    """``readings`` batches, each with one reading of every interceptor, a quarter of an hour apart.

    Layers grow by about 3 mm a day; noise of a few millimetres, one reading in 500 is a wild spike.
    ``start`` is the number of the first round.
    """
    return [_round(interceptors, start + n) for n in range(readings)]


def _round(interceptors: int, number: int) -> ReadingBatch:
    rng = np.random.default_rng((_SEED, number))
    grown = (0.05 + 0.003 * number * EVERY_S / 86400.0) * (0.5 + (np.arange(interceptors) % 97) / 97)
    surface = STATIC_M + rng.normal(0.0, 0.002, interceptors)
    wild = np.where(rng.random(interceptors) < 0.002, 0.3, 0.0)
    return ReadingBatch(
        np.arange(interceptors, dtype=np.int64),
        T0_S + number * EVERY_S + (np.arange(interceptors) % 600).astype(np.float64),
        {
            "surface_m": surface,
            "fog_bottom_m": surface - 0.6 * grown - wild + rng.normal(0.0, 0.004, interceptors),
            "solids_top_m": 0.4 * grown + rng.normal(0.0, 0.004, interceptors),
            "inlet_c": 35.0 + rng.normal(0.0, 5.0, interceptors),
            "tank_c": 27.0 + rng.normal(0.0, 1.0, interceptors),
            "battery_v": np.full(interceptors, 3.6),
        },
    )


def joined(batches: list[ReadingBatch]) -> ReadingBatch:
    """All of them as one batch, in order of time."""
    names = batches[0].values
    return ReadingBatch(
        np.concatenate([one.sensor for one in batches]),
        np.concatenate([one.time_s for one in batches]),
        {name: np.concatenate([one.values[name] for one in batches]) for name in names},
    )


def nbytes(batch: ReadingBatch) -> int:
    """What a batch holds [bytes]."""
    return int(batch.sensor.nbytes + batch.time_s.nbytes + sum(v.nbytes for v in batch.values.values()))
