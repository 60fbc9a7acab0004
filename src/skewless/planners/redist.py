"""Redist: of all heavy keys and workers, always the pair that buys the most balance per weight.

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

__all__ = ["Redist"]

#: A bound must be above the best by this part before its key is passed over: more than rounding.
_MARGIN = 1e-9


class Redist(Planner):
    """Place the heavy keys one by one, always the key and worker with the least utility per weight.

    Use it as a baseline: it is Scan with a free order of the keys. Not when a plan must be quick,
    and not for the best balance, since only heavy keys are placed and counted.

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
    tuple but the routing's own; a plan takes O(B * (B + D * n)) at worst and about O(B * (B + n)) as
    a rule, for B tracked keys of D different weights, after one pass over the histogram. State: 0
    bytes.

    The utility U = rho + gamma is that of `Scan`; the next pair is the one with the least U / weight.
    Ties go to the heavier key, then to the lower hash and the lowest worker.

    Deviations from the paper: keys that are not tracked follow the routing's buckets, where the
    paper has a ring of consistent hashing. A key that is tracked no longer weighs what the new
    histogram says. Keys whose utility is bounded above the best one found are passed over, which
    changes no plan.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5], [70, 60, 50, 40, 20])
    >>> sorted(Redist(3).plan(counts).loads(counts).tolist())
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
        _redist(tracked.weight, tracked.dropped, tracked.mean, self.theta, size, cost, worker)
        return Routing.from_arrays(n, tracked.keys, worker, np.ones(len(worker)), seed=seed)


@kernel
def _redist(
    weight: NDArray[np.float64],
    dropped: float,
    mean: float,
    theta: float,
    size: NDArray[np.float64],
    cost: NDArray[np.float64],
    worker: NDArray[np.int64],
) -> None:
    """Place the pair of least U / f next; `worker` holds the present workers and is changed."""
    n = len(size)
    placed = np.zeros(len(weight), np.bool_)
    size_total, cost_total, moved = 0.0, 0.0, dropped
    size_high, cost_high = 0.0, 0.0
    rho, away = np.empty(n), np.empty(n)
    for _ in range(len(weight)):
        size_low, cost_low = lowest_two(size), lowest_two(cost)
        best_key, best_worker, least = -1, 0, np.inf
        known, near = (
            0.0,
            0,
        )  # the weight that `rho` and `away` are filled for, and the best of `away`
        for k in range(len(weight)):
            if placed[k]:
                continue
            f, c = weight[k], weight[k] * weight[k]
            size_mean, cost_mean = (size_total + f) / n, (cost_total + c) / n
            if f != known:
                bound = imbalance(
                    _least_range(size_low, size_high, f),
                    _least_range(cost_low, cost_high, c),
                    size_mean,
                    cost_mean,
                    theta,
                )
                if (bound + moved / mean) / f > least * (1 + _MARGIN):
                    continue
                for w in range(n):
                    rho[w] = imbalance(
                        _range_at(w, size, size_low, size_high, f),
                        _range_at(w, cost, cost_low, cost_high, c),
                        size_mean,
                        cost_mean,
                        theta,
                    )
                    away[w] = (rho[w] + (moved + f) / mean) / f
                known, near = f, int(np.argmin(away))
            # Of a key's workers only its own differs from those of other keys with the same weight.
            at = worker[k]
            worth = (rho[at] + moved / mean) / f
            if away[near] < worth or (away[near] == worth and near < at):
                at, worth = near, away[near]
            if worth < least:
                best_key, best_worker, least = k, at, worth
        f = weight[best_key]
        placed[best_key] = True
        if best_worker != worker[best_key]:
            moved += f
            worker[best_key] = best_worker
        size_total += f
        cost_total += f * f
        size[best_worker] += f
        cost[best_worker] += f * f
        size_high = max(size_high, size[best_worker])
        cost_high = max(cost_high, cost[best_worker])


@kernel
def _least_range(lowest: tuple[int, float, float], highest: float, amount: float) -> float:
    """Return a bound of the range once `amount` is anywhere: high and low as good as can be."""
    _, low, following = lowest
    return max(max(highest, low + amount) - min(following, low + amount), 0.0)


@kernel
def _range_at(
    w: int,
    load: NDArray[np.float64],
    lowest: tuple[int, float, float],
    highest: float,
    amount: float,
) -> float:
    """Return the range of the loads once `amount` is on worker w."""
    at, low, following = lowest
    return max(highest, load[w] + amount) - min(following if w == at else low, load[w] + amount)
