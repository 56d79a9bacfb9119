"""One interceptor's memory as bytes, for the store: what a fold knew at the border of thinned readings."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.fold import Fleet, FleetState, as_arrays, from_arrays, initial_state, put
from analysis.model import InterceptorModel, SensorModel
from store.records import KeptState

_Array = tuple[str, list[int], bytes]
_decoder = msgspec.msgpack.Decoder(dict[str, _Array])


def fingerprint(interceptor: InterceptorModel, sensors: Sequence[SensorModel]) -> str:
    """Names the geometry that a memory belongs to; limits of the law are no part of it."""
    tank = (interceptor.id, interceptor.base_depth_m, interceptor.static_level_m, interceptor.compartments)
    text = repr((tank, interceptor.last_pump_out_s, list(sensors)))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def alone(fleet: Fleet, who: int) -> Fleet:
    """The fleet of one interceptor, its rows in the order that they have in the whole."""
    sensors = [fleet.sensors[row] for row in fleet.sensors_of[who]]
    return Fleet.of([fleet.interceptors[who]], sensors, fleet.prior)


def packed(state: FleetState) -> bytes:
    """A state as bytes; :func:`unpacked` is the inverse."""
    arrays = {
        name: (array.dtype.str, list(array.shape), array.tobytes())
        for name, array in as_arrays(state).items()
    }
    return zlib.compress(msgspec.msgpack.encode(arrays))


def unpacked(data: bytes, fleet: Fleet) -> FleetState | None:
    """The state for this fleet; None where it comes from another version of the estimate."""
    try:
        arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(raw, dtype=np.dtype(kind)).reshape(shape).copy()
            for name, (kind, shape, raw) in _decoder.decode(zlib.decompress(data)).items()
        }
        state = from_arrays(arrays)
    except (KeyError, ValueError, TypeError, zlib.error, msgspec.DecodeError):
        return None
    like = as_arrays(initial_state(fleet))
    mine = as_arrays(state)
    fits = all(
        mine[name].shape == array.shape and mine[name].dtype == array.dtype for name, array in like.items()
    )
    return state if fits else None


def with_kept(fleet: Fleet, kept: Iterable[KeptState]) -> tuple[FleetState, dict[int, float]]:
    """The state before any reading, but for interceptors whose memory was kept; of those, the newest reading [s].

    A memory of another geometry or version is passed over: its interceptor is folded from what readings are left.
    """
    who: list[int] = []
    parts: list[dict[str, NDArray[Any]]] = []
    newest_s: dict[int, float] = {}
    for one in kept:
        row = fleet.interceptor_index.get(one.interceptor)
        state = None if row is None else fitting(alone(fleet, row), one)
        if row is not None and state is not None:
            who.append(row)
            parts.append(as_arrays(state))
            newest_s[row] = -np.inf if one.newest_us is None else one.newest_us / 1e6
    state = initial_state(fleet)
    if not who:
        return state, newest_s
    merged = from_arrays({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    return put(state, fleet, who, merged), newest_s


def fitting(single: Fleet, kept: KeptState | None) -> FleetState | None:
    """A kept memory for the fleet of its interceptor alone; None where there is none, or it is of another one."""
    if kept is None or kept.fingerprint != fingerprint(single.interceptors[0], single.sensors):
        return None
    return unpacked(kept.state, single)
