"""Scan: the heavy keys in one pass, each where balance and migration are best at that moment.

B. Gedik: Partitioning functions for stateful data parallelism in stream processing, VLDB Journal
23(4), 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram
from skewless.kernel import kernel
from skewless.parameters import Count, Positive, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, default_hot_keys
from skewless.planners.utility import imbalance, lowest_two, track
from skewless.routing import Routing

__all__ = ["Scan"]


class Scan(Planner):
    """Place the heavy keys one by one, the heaviest first, where the utility is lowest just then.

    Use it as a baseline that weighs balance against migration in one quick pass. Not for the best
    balance: only heavy keys are placed and counted, and the hash deals all others whatever a worker
    has already; `KIP` counts them.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers (N).
    hot_keys : int of at least 1, or None
        Keys that are tracked, that is placed one by one. None means the larger of ``2 * n_workers``
        and 64.
    theta : float above 0
        Allowed range of the loads, as a part of the mean load: the smaller, the more balance counts
        against migration.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: no key is split, and a key that is not tracked follows plain hashing. Cost: none per
    tuple but the routing's own; a plan takes O(B n) for B tracked keys, after one pass over the
    histogram. State: 0 bytes.

    The utility U = rho + gamma is minimised. rho is the geometric mean over memory, processing and
    communication of (highest - lowest load) / (theta * mean load); a key of weight f loads them by
    f, f * f and f. gamma is the weight of all that has changed its worker, over the mean load of all
    tracked keys, old and new. Ties go to the lowest worker, and to the lower key hash first.

    Deviations from the paper: keys that are not tracked follow the routing's buckets, where the
    paper has a ring of consistent hashing. A key that is tracked no longer weighs what the new
    histogram says.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5], [70, 60, 50, 40, 20])
    >>> sorted(Scan(3).plan(counts).loads(counts).tolist())
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
        size, cost = np.zeros(n), np.zeros(n)
        _scan(tracked.weight, tracked.dropped, tracked.mean, self.theta, size, cost, worker)
        return Routing.from_arrays(n, tracked.keys, worker, np.ones(len(worker)), seed=seed)


@kernel
def _scan(
    weight: NDArray[np.float64],
    dropped: float,
    mean: float,
    theta: float,
    size: NDArray[np.float64],
    cost: NDArray[np.float64],
    worker: NDArray[np.int64],
) -> None:
    """Place each key on argmin U; `worker` holds the present workers and is changed."""
    n = len(size)
    size_total, cost_total, moved = 0.0, 0.0, dropped
    size_high, cost_high = 0.0, 0.0
    for k in range(len(weight)):
        f, c = weight[k], weight[k] * weight[k]
        size_total += f
        cost_total += c
        size_at, size_low, size_next = lowest_two(size)
        cost_at, cost_low, cost_next = lowest_two(cost)
        best, least = 0, np.inf
        for w in range(n):
            low = min(size_next if w == size_at else size_low, size[w] + f)
            size_range = max(size_high, size[w] + f) - low
            low = min(cost_next if w == cost_at else cost_low, cost[w] + c)
            cost_range = max(cost_high, cost[w] + c) - low
            rho = imbalance(size_range, cost_range, size_total / n, cost_total / n, theta)
            gamma = (moved if w == worker[k] else moved + f) / mean
            if rho + gamma < least:
                best, least = w, rho + gamma
        if best != worker[k]:
            moved += f
            worker[k] = best
        size[best] += f
        cost[best] += c
        size_high, cost_high = max(size_high, size[best]), max(cost_high, cost[best])
