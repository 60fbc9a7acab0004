"""Readj: heavy keys moved and swapped between workers for as long as that lowers the imbalance.

B. Gedik: Partitioning functions for stateful data parallelism in stream processing, VLDB Journal
23(4), 2014.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram
from skewless.kernel import kernel
from skewless.parameters import Count, Positive, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, default_hot_keys
from skewless.planners.utility import imbalance, track
from skewless.routing import Routing

__all__ = ["Readj"]

#: A key takes part in so many moves and swaps at most.
_MOST_CHANGES = 6


class Readj(Planner):
    """Start from the plan in force, and apply the best move or swap of heavy keys again and again.

    Use it as a baseline that changes what it finds, where Scan and Redist place the heavy keys anew.
    Not for the best balance: only heavy keys are moved and counted.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers (N).
    hot_keys : int of at least 1, or None
        Keys that are tracked, that is moved one by one. None means the larger of ``2 * n_workers``
        and 64.
    theta : float above 0
        Allowed range of the loads, as a part of the mean load: the smaller, the more balance counts
        against migration.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: no key is split; a key that is not tracked follows plain hashing; the imbalance of the
    tracked keys is never above that of the plan in force. Cost: none per tuple but the routing's
    own; a plan takes O(B * (B + n)) per change at worst, for B tracked keys and at most 6 changes a
    key, after one pass over the histogram. State: 0 bytes.

    rho and gamma are those of `Scan`. Of all moves and swaps that lower rho, the one with the highest
    gain is applied: what U = rho + gamma falls by, over the weight that changes sides. It ends when
    none is left. Ties go to the heavier key first, then to moves, the lowest worker, and the swap
    with the heavier key.

    Deviations from the paper: keys that are not tracked follow the routing's buckets, where the
    paper has a ring of consistent hashing. A key that is tracked no longer weighs what the new
    histogram says. Changes between two workers that both have neither a highest nor a lowest load
    are not looked at: they cannot lower rho.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5], [70, 60, 50, 40, 20])
    >>> sorted(Readj(3).plan(counts).loads(counts).tolist())
    [70.0, 80.0, 90.0]

    References
    ----------
    B. Gedik, Partitioning functions for stateful data parallelism in stream processing, VLDB
    Journal 23(4), 2014, doi:10.1007/s00778-013-0335-9.
    """

    splits_keys = False
    hot_keys: int | None
    theta: float

    def __init__(
        self,
        n_workers: Count,
        *,
        hot_keys: Count | None = None,
        theta: Positive = 0.2,
        seed: Seed = 0,
    ) -> None:
        self._take(n_workers=n_workers, hot_keys=hot_keys, theta=theta, seed=seed)

    def plan(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window.

        Parameters
        ----------
        histogram
            Weight of each key in the last window. An empty one changes nothing.
        previous
            The routing in force. One for another number of workers, or over other buckets, is
            ignored: nothing of it could stay.
        """
        n, seed = self.n_workers, self.seed
        if histogram.total == 0:
            return comparable(previous, n, seed) or Routing.hashing(n, seed=seed)
        tracked = track(histogram, previous, self.hot_keys or default_hot_keys(n), n, seed)
        worker = tracked.worker.copy()
        if len(worker):
            size = np.bincount(worker, tracked.weight, n).astype(np.float64)
            cost = np.bincount(worker, tracked.weight**2, n).astype(np.float64)
            keys = _Keys(tracked.weight, tracked.worker, worker, np.zeros(len(worker), np.int64))
            _readjust(keys, size, cost, tracked.dropped, tracked.mean, self.theta)
        return Routing.from_arrays(n, tracked.keys, worker, np.ones(len(worker)), seed=seed)


class _Loads(NamedTuple):
    """Loads of the workers, and what a change is judged by."""

    size: NDArray[np.float64]
    """float64, (n_workers,): sum of the weights."""
    cost: NDArray[np.float64]
    """float64, (n_workers,): sum of the squared weights."""
    size_rank: NDArray[np.int64]
    """int64, (2, 3): `_extremes` of `size`."""
    cost_rank: NDArray[np.int64]
    """int64, (2, 3): `_extremes` of `cost`."""
    mean: NDArray[np.float64]
    """float64, (2,): mean of `size` and of `cost`."""


class _Keys(NamedTuple):
    """The tracked keys, heaviest first."""

    weight: NDArray[np.float64]
    """float64, (B,): weight."""
    before: NDArray[np.int64]
    """int64, (B,): worker in the plan in force."""
    worker: NDArray[np.int64]
    """int64, (B,): worker now."""
    changes: NDArray[np.int64]
    """int64, (B,): moves and swaps so far."""


@kernel
def _readjust(
    keys: _Keys,
    size: NDArray[np.float64],
    cost: NDArray[np.float64],
    dropped: float,
    mean: float,
    theta: float,
) -> None:
    """Apply the best change until none lowers rho."""
    outer = np.zeros(len(size), np.bool_)
    near = np.empty(len(keys.weight), np.int64)
    means = np.array([size.sum() / len(size), cost.sum() / len(cost)])
    moved = dropped
    while True:
        loads = _Loads(size, cost, _extremes(size), _extremes(cost), means)
        outer[:] = False
        for rank in (loads.size_rank, loads.cost_rank):
            outer[rank[0, 0]] = outer[rank[1, 0]] = True
        n_near = 0
        for k in range(len(near)):
            if outer[keys.worker[k]]:
                near[n_near] = k
                n_near += 1
        rho = _rho_after(loads, theta, 0, 0, 0.0, 0.0)
        first, second, target, best = -1, -1, -1, -np.inf
        for k in range(len(near)):
            if keys.changes[k] < _MOST_CHANGES:
                gain, to = _best_move(k, keys, loads, outer, rho, moved, mean, theta)
                if gain > best:
                    first, second, target, best = k, -1, to, gain
                gain, to = _best_swap(k, keys, loads, outer, near[:n_near], rho, moved, mean, theta)
                if gain > best:
                    first, second, target, best = k, to, keys.worker[to], gain
        if first < 0:
            return
        source = keys.worker[first]
        moved += _move(first, target, keys, size, cost)
        if second >= 0:
            moved += _move(second, source, keys, size, cost)


@kernel
def _best_move(
    k: int,
    keys: _Keys,
    loads: _Loads,
    outer: NDArray[np.bool_],
    rho: float,
    moved: float,
    mean: float,
    theta: float,
) -> tuple[float, int]:
    """Return the highest gain of moving key k, and the worker that it goes to."""
    i, f = keys.worker[k], keys.weight[k]
    best, target = -np.inf, -1
    for j in range(len(loads.size)):
        if j == i or not (outer[i] or outer[j]):
            continue
        after = _rho_after(loads, theta, i, j, f, f * f)
        if after < rho:
            total = moved + _migration(f, i, j, keys.before[k])
            gain = ((rho + moved / mean) - (after + total / mean)) / f
            if gain > best:
                best, target = gain, j
    return best, target


@kernel
def _best_swap(
    k: int,
    keys: _Keys,
    loads: _Loads,
    outer: NDArray[np.bool_],
    near: NDArray[np.int64],
    rho: float,
    moved: float,
    mean: float,
    theta: float,
) -> tuple[float, int]:
    """Return the highest gain of swapping key k with one after it, and that key.

    `near` are the keys of the outer workers: the only ones that count if k is not with one itself.
    """
    i, f = keys.worker[k], keys.weight[k]
    best, partner = -np.inf, -1
    for at in range(len(keys.weight) - k - 1 if outer[i] else len(near)):
        other = k + 1 + at if outer[i] else near[at]
        j, g = keys.worker[other], keys.weight[other]
        if other <= k or j == i or g == f or keys.changes[other] >= _MOST_CHANGES:
            continue
        after = _rho_after(loads, theta, i, j, f - g, f * f - g * g)
        if after < rho:
            total = moved + _migration(f, i, j, keys.before[k])
            total += _migration(g, j, i, keys.before[other])
            gain = ((rho + moved / mean) - (after + total / mean)) / (f - g)
            if gain > best:
                best, partner = gain, other
    return best, partner


@kernel
def _rho_after(loads: _Loads, theta: float, i: int, j: int, f: float, c: float) -> float:
    """Return rho once a weight of f, and a cost of c, have gone from worker i to worker j."""
    return imbalance(
        _range(loads.size, loads.size_rank, i, j, f),
        _range(loads.cost, loads.cost_rank, i, j, c),
        loads.mean[0],
        loads.mean[1],
        theta,
    )


@kernel
def _extremes(load: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the workers with the three highest and the three lowest loads, (2, 3); -1 for none."""
    found = np.full((2, 3), -1, np.int64)
    for w in range(len(load)):
        for side in range(2):
            sign = 1.0 if side == 0 else -1.0
            new = w
            for place in range(3):
                old = found[side, place]
                if old < 0 or sign * load[new] > sign * load[old]:
                    found[side, place] = new
                    new = old
                    if old < 0:
                        break
    return found


@kernel
def _range(
    load: NDArray[np.float64], rank: NDArray[np.int64], i: int, j: int, amount: float
) -> float:
    """Return highest - lowest load once `amount` has gone from worker i to worker j."""
    one, two = load[i] - amount, load[j] + amount
    high, low = max(one, two), min(one, two)
    for place in range(3):
        w = rank[0, place]
        if w >= 0 and w not in (i, j):
            high = max(high, load[w])
            break
    for place in range(3):
        w = rank[1, place]
        if w >= 0 and w not in (i, j):
            low = min(low, load[w])
            break
    return high - low


@kernel
def _migration(f: float, source: int, target: int, before: int) -> float:
    """Return what the migrated weight grows by if a key goes from source to target."""
    return (f if target != before else 0.0) - (f if source != before else 0.0)


@kernel
def _move(
    k: int, target: int, keys: _Keys, size: NDArray[np.float64], cost: NDArray[np.float64]
) -> float:
    """Move key k, and return what the migrated weight grows by."""
    source, f = keys.worker[k], keys.weight[k]
    size[source] -= f
    cost[source] -= f * f
    size[target] += f
    cost[target] += f * f
    keys.worker[k] = target
    keys.changes[k] += 1
    return _migration(f, source, target, keys.before[k])
