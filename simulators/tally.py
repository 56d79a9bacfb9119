"""Samples of scores: what was judged, of which interceptor, by which principle and under which faults."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ALL: Final = "all"
CLEAN: Final = "clean"
FAULTY: Final = "faulty"


@dataclass(frozen=True, slots=True)
class Samples:
    """One metric's samples, arrays of shape (n,): a cluster number each, ``top``, and ``bottom``."""

    cluster: Ints
    top: Floats
    bottom: Floats

    @property
    def size(self) -> int:
        """How many."""
        return int(self.cluster.size)


class _Columns:
    def __init__(self) -> None:
        self.cluster, self.principle, self.faults = array("q"), array("q"), array("q")
        self.top, self.bottom = array("d"), array("d")


class Tally:
    """Gathers samples. Interceptors of several scenarios are told apart by ``begin``."""

    def __init__(self) -> None:
        self._metrics: dict[str, _Columns] = {}
        self._principles: list[str] = []
        self._kinds: list[str] = []
        self._clusters: dict[tuple[str, str], int] = {}
        self._run = ""

    def begin(self, run: str) -> None:
        """Let what follows belong to the scenario ``run``."""
        self._run = run

    def add(
        self,
        metric: str,
        interceptor: str,
        principle: str,
        faults: Iterable[str],
        top: float,
        bottom: float = 1.0,
    ) -> None:
        """Add one sample: ``top`` of ``bottom``, under the kinds of fault ``faults``."""
        columns = self._metrics.setdefault(metric, _Columns())
        columns.cluster.append(self._clusters.setdefault((self._run, interceptor), len(self._clusters)))
        columns.principle.append(_number(self._principles, principle))
        columns.faults.append(sum(1 << _number(self._kinds, kind) for kind in faults))
        columns.top.append(top)
        columns.bottom.append(bottom)

    @property
    def principles(self) -> list[str]:
        """Those seen, by name."""
        return sorted(name for name in self._principles if name)

    @property
    def kinds(self) -> list[str]:
        """Kinds of fault seen, by name."""
        return sorted(self._kinds)

    def groups(self) -> Iterator[str]:
        """Everything together; then what no fault touched, whole and by principle; then by fault."""
        yield ALL
        yield CLEAN
        yield from self.principles
        if self._kinds:
            yield FAULTY
            yield from self.kinds

    def of(self, metric: str, group: str) -> Samples:
        """The samples of a metric in a group, in order of entry."""
        columns = self._metrics.get(metric, _Columns())
        faults = np.array(columns.faults, dtype=np.int64)
        if group == ALL:
            chosen = np.ones(faults.size, dtype=bool)
        elif group == CLEAN:
            chosen = faults == 0
        elif group == FAULTY:
            chosen = faults != 0
        elif group in self._principles:
            here = np.array(columns.principle, dtype=np.int64) == self._principles.index(group)
            chosen = here & (faults == 0)
        else:
            chosen = (faults >> self._kinds.index(group)) & 1 == 1
        return Samples(
            np.array(columns.cluster, dtype=np.int64)[chosen],
            np.array(columns.top, dtype=np.float64)[chosen],
            np.array(columns.bottom, dtype=np.float64)[chosen],
        )


def _number(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)
