"""The partitioning methods of the paper's section 5, and streams to compare them on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram
from skewless.planners import KIP, Mixed, Readj, Redist, Scan, WrapAround
from skewless.routing import Routing

__all__ = ["METHODS", "balance", "renamed", "shifted_zipf"]

Method = Callable[[int, Histogram, "Routing | None"], Routing]


def _hash(n: int, _histogram: Histogram, _previous: Routing | None) -> Routing:
    return Routing.hashing(n)


def _mixed(n: int, histogram: Histogram, previous: Routing | None) -> Routing:
    """Take the bound that turns out best, as the paper optimises it beforehand."""
    plans = [
        Mixed(n, table_keys=2 * n + 1, theta=theta).plan(histogram, previous)
        for theta in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    ]
    return min(plans, key=lambda plan: float(plan.loads(histogram).max()))


#: Methods by name: (partitions, histogram, routing in force) to a routing. All track 2 keys a partition.
METHODS: dict[str, Method] = {
    "hash": _hash,
    "readj": lambda n, h, old: Readj(n, hot_keys=2 * n).plan(h, old),
    "redist": lambda n, h, old: Redist(n, hot_keys=2 * n).plan(h, old),
    "scan": lambda n, h, old: Scan(n, hot_keys=2 * n).plan(h, old),
    "mixed": _mixed,
    "kip": lambda n, h, old: KIP(n, scale=2.0).plan(h, old),
    "wrap_around": lambda n, h, old: WrapAround(n, hot_keys=2 * n).plan(h, old),
}


def shifted_zipf(n_keys: int, exponent: float, shift: float) -> NDArray[np.float64]:
    """Return probabilities that fall with a power of the rank plus `shift`.

    Examples
    --------
    >>> shifted_zipf(2, 1.0, 0.0).round(2).tolist()
    [0.67, 0.33]
    """
    weight = (np.arange(1, n_keys + 1) + shift) ** -exponent
    return np.asarray(weight / weight.sum())


def renamed(n_keys: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return new names of keys, all different."""
    names = np.unique(rng.integers(0, 2**64, n_keys + 16, np.uint64))
    return rng.permutation(names)[:n_keys]


def balance(routing: Routing, histogram: Histogram) -> float:
    """Return max / mean of the loads."""
    loads = routing.loads(histogram)
    return float(loads.max() / loads.mean())
