"""Two usual ways to the same estimate, as peers: a filter object a device (filterpy), and pandas' groupby-apply.

Both are development packages only: where one is missing, that is said instead. Both are slow, so they work
on a part of the readings, and their rate is taken to hold for all: their cost a device does not depend on the others.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from analysis.model import ReadingBatch
from api.bench_result import Peer, seconds

MISSING = "not installed: pip install 'quarterline[dev]'"


def _module(name: str) -> Any | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        return None


def filterpy_loop(batches: list[ReadingBatch], devices: int) -> Peer:
    """Two filters on [depth, rate] a device, told every reading one by one."""
    kalman = _module("filterpy.kalman")
    if kalman is None:
        return Peer("filterpy", None, MISSING)
    devices = min(devices, len(batches[0].sensor))
    fog = [(one.values["surface_m"] - one.values["fog_bottom_m"])[:devices].tolist() for one in batches]
    solids = [one.values["solids_top_m"][:devices].tolist() for one in batches]
    times = [(one.time_s[:devices] / 86400.0).tolist() for one in batches]
    filters = [(_filter(kalman), _filter(kalman)) for _ in range(devices)]
    last = list(times[0])

    def work() -> None:
        for at, *layers in zip(times, fog, solids, strict=True):
            for device in range(devices):
                dt = at[device] - last[device]
                last[device] = at[device]
                step = np.array([[1.0, dt], [0.0, 1.0]])
                for one, values in zip(filters[device], layers, strict=True):
                    one.predict(F=step, Q=np.diag([1e-6 * dt, 1e-10 * dt]))
                    one.update(values[device])

    took = seconds(work)
    count = devices * len(batches)
    return Peer("filterpy", count / took, f"a filter object a device and layer; {count:,} readings measured")


def _filter(kalman: Any) -> Any:
    one = kalman.KalmanFilter(dim_x=2, dim_z=1)
    one.x = np.array([[0.1], [0.002]])
    one.P = np.diag([0.01, 1e-5])
    one.H = np.array([[1.0, 0.0]])
    one.R = np.array([[3e-5]])
    return one


def pandas_apply(batches: list[ReadingBatch], devices: int) -> Peer:
    """Groupby a device, then a function on its table: median filter, straight line of both layers, gaps, stuck."""
    pandas = _module("pandas")
    if pandas is None:
        return Peer("pandas", None, MISSING)
    devices = min(devices, len(batches[0].sensor))
    table = pandas.DataFrame(
        {
            "sensor": np.concatenate([one.sensor[:devices] for one in batches]),
            "day": np.concatenate([one.time_s[:devices] for one in batches]) / 86400.0,
            "fog": np.concatenate(
                [(one.values["surface_m"] - one.values["fog_bottom_m"])[:devices] for one in batches]
            ),
            "solids": np.concatenate([one.values["solids_top_m"][:devices] for one in batches]),
        }
    )

    def one_device(rows: Any) -> Any:
        told = {"gap": rows["day"].diff().max(), "stuck": (rows["fog"].diff() == 0).sum()}
        day = rows["day"] - rows["day"].iloc[0]
        for layer in ("fog", "solids"):
            value = rows[layer]
            median = value.rolling(7, min_periods=1).median()
            spread = (value - median).abs().rolling(7, min_periods=1).median()
            good = (value - median).abs() <= (5.9 * spread).clip(lower=0.012)
            told[layer], told[layer + "_rate"] = value[good].iloc[-1], _slope(day[good], value[good])
        return pandas.Series(told)

    took = seconds(lambda: table.groupby("sensor")[["day", "fog", "solids"]].apply(one_device))
    return Peer(
        "pandas",
        len(table) / took,
        f"groupby-apply over {len(batches)} readings a device; {len(table):,} readings measured",
    )


def _slope(day: Any, value: Any) -> float:
    x = day - day.mean()
    square = float((x * x).sum())
    return float((x * value).sum()) / square if square else 0.0
