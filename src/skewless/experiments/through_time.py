"""Loads through time of one long stream, as PKG's simulations measure them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.histogram import Histogram
from skewless.partitioners import Partitioner
from skewless.planners import Planner
from skewless.policy import Policy

__all__ = ["destinations", "imbalance_through_time"]


def destinations(
    policy: Policy, keys: NDArray[np.uint64], times: NDArray[np.int64] | None = None
) -> NDArray[np.int32]:
    """Return the worker of each tuple; a planner knows the whole stream beforehand.

    Examples
    --------
    >>> from skewless.partitioners import Shuffle
    >>> destinations(Shuffle(2), np.array([7, 7, 7], np.uint64)).tolist()
    [0, 1, 0]
    """
    if isinstance(policy, Planner):
        return policy.plan(Histogram.of(keys)).route(keys)
    if not isinstance(policy, Partitioner):
        raise TypeError(f"destinations: policy must be a partitioner or a planner, got {policy!r}.")
    return policy.route(Chunk(times, keys))


def imbalance_through_time(
    workers: NDArray[np.int32], n_workers: int, n_points: int = 1_000
) -> NDArray[np.float64]:
    """Return max - mean of the loads since the start, at evenly spaced times: PKG's I(t).

    Parameters
    ----------
    workers
        Worker of each tuple.
    n_workers : int of at least 1
        Number of workers.
    n_points : int of at least 1
        How often it is looked at; the last time is the end of the stream.

    Examples
    --------
    >>> imbalance_through_time(np.array([0, 0, 0, 1], np.int32), 2, 4).tolist()
    [0.5, 1.0, 1.5, 1.0]
    """
    ends = np.unique(np.linspace(0, len(workers), n_points + 1).astype(np.int64)[1:])
    loads = np.zeros(n_workers, np.int64)
    found = np.empty(len(ends))
    start = 0
    for i, end in enumerate(ends.tolist()):
        loads += np.bincount(workers[start:end], minlength=n_workers)
        found[i] = loads.max() - loads.mean()
        start = end
    return found
