"""OffGreedy: every key whole, by decreasing weight, to the least loaded worker (Off-Greedy).

M. A. U. Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini: The Power of
Both Choices, ICDE 2015, section V. The rule is Graham's Longest Processing Time of 1969.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram
from skewless.kernel import kernel
from skewless.parameters import Count, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, default_hot_keys, items_of
from skewless.routing import Routing
from skewless.windows.tournament import play, play_all, width_for

__all__ = ["OffGreedy"]


class OffGreedy(Planner):
    """Place every key whole, the heaviest first, each on the worker that has the least so far.

    Use it when a key must have one worker and the keys' weights are known: it is the yardstick for
    all that do not split. Not when moving a key costs: each plan starts from nothing, and most keys
    change their worker. And not above a heaviest key of a fair share, which is then the maximum.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    hot_keys : int of at least 1, or None
        Keys that are placed one by one; all others are placed by bucket. None means the larger of
        ``2 * n_workers`` and 64.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: no key is split; the maximum load is at most 4/3 - 1/(3 n) times the least that whole
    keys and buckets allow (Graham 1969). Cost: none per tuple but the routing's own; a plan takes
    O((B + H) log n) for B hot keys and H buckets, after one pass over the histogram. State: 0 bytes.

    Ties go to the hot key before the bucket, to the lower hash or bucket number, and to the lowest
    worker. Buckets of weight 0 stay where plain hashing has them.

    Deviations from the paper: light keys are placed by bucket, many at a time. With `hot_keys` as
    large as the number of keys, nothing deviates.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5], [70, 60, 50, 40, 20])
    >>> OffGreedy(3).plan(counts).loads(counts).tolist()
    [70.0, 80.0, 90.0]

    References
    ----------
    M. A. U. Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini, The Power
    of Both Choices: Practical Load Balancing for Distributed Stream Processing Engines, ICDE 2015,
    section V, doi:10.1109/ICDE.2015.7113279. R. L. Graham, Bounds on Multiprocessing Timing
    Anomalies, SIAM Journal on Applied Mathematics 17(2), 1969, doi:10.1137/0117039.
    """

    splits_keys = False
    hot_keys: int | None

    def __init__(self, n_workers: Count, *, hot_keys: Count | None = None, seed: Seed = 0) -> None:
        self._take(n_workers=n_workers, hot_keys=hot_keys, seed=seed)

    def plan(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window.

        Parameters
        ----------
        histogram
            Weight of each key in the last window. An empty one changes nothing.
        previous
            The routing in force; read only if the histogram is empty.
        """
        n, seed = self.n_workers, self.seed
        hashing = Routing.hashing(n, seed=seed)
        if histogram.total == 0:
            return comparable(previous, n, seed) or hashing
        items = items_of(histogram, self.hot_keys or default_hot_keys(n), n, seed)
        n_hot = len(items.keys)
        weight = np.concatenate((items.weight, items.tail))
        order = np.argsort(-weight, kind="stable")
        worker = np.concatenate((np.zeros(n_hot, np.int64), hashing.buckets.astype(np.int64)))
        _place(weight, order, np.zeros(n), np.zeros(width_for(n), np.int32), worker)
        return Routing.from_arrays(
            n, items.keys, worker[:n_hot], np.ones(n_hot), worker[n_hot:], seed=seed
        )


@kernel
def _place(
    weight: NDArray[np.int64],
    order: NDArray[np.int64],
    spare: NDArray[np.float64],
    winner: NDArray[np.int32],
    worker: NDArray[np.int64],
) -> None:
    """Give each item to the worker with the most to spare (less than nothing, when it has a load)."""
    play_all(spare, winner, -1)
    for item in order:
        if weight[item] == 0:
            break
        at = np.int64(winner[1]) if len(winner) > 1 else 0
        worker[item] = at
        spare[at] -= weight[item]
        play(spare, winner, at, -1)
