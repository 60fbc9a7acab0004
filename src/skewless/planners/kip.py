"""KIP, the Key Isolator Partitioner: heavy keys placed one by one, light ones by weighted hashing.

Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur: System-aware dynamic partitioning for batch and
streaming workloads, 2021.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram
from skewless.kernel import kernel
from skewless.parameters import Count, Positive, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, items_of, owners
from skewless.routing import Routing
from skewless.windows.tournament import play, play_all, width_for

__all__ = ["KIP"]


class KIP(Planner):
    """Keep each heavy key where it is while it fits, and let buckets give way to the heavy keys.

    Use it when a key must have one worker and its state moves with it: what need not move stays.
    Not above a heaviest key of a fair share: the key stays whole and sets the level that all other
    workers may reach. And not when a bucket may be heavy by itself: buckets count as equal.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers (N).
    scale : float above 0
        Heavy keys per worker (lambda): ``scale * n_workers`` keys are placed one by one.
    slack : float above 0
        What a worker may have above the ideal maximum, as a part of the total load (epsilon).
    hosts : int of at least 1
        Hosts per worker: parts of the light keys that move as one (H is ``hosts * n_workers``). A
        bucket of the routing is the smallest host there is.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: no key is split; a heavy key moves only if its worker would pass the level
    ``max(1 / n, heaviest key) + slack`` with it. No worker stays above the level, counting all hosts
    as equal, unless its heavy keys are or no worker has room for a host. Cost: none per tuple but
    the routing's own; a plan takes O((B + H) log n) for B heavy keys and H hosts, as a rule, after
    one pass over the histogram. State: 0 bytes.

    Ties go to the lower key hash and to the lowest worker; a worker's lowest host moves first.

    Deviations from the paper: a host is one bucket or several, so H is at most the number of buckets
    (2,048, or 16 a worker); a previous routing in which a host has several workers is read as if
    the host's first bucket spoke for all. All else follows Algorithm 1 line by line.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5], [30, 20, 20, 20, 10])
    >>> KIP(3).plan(counts).loads(counts).tolist()
    [40.0, 30.0, 30.0]

    References
    ----------
    Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur, System-aware dynamic partitioning for
    batch and streaming workloads, 2021, Algorithm 1, doi:10.48550/arXiv.2105.15023.
    """

    splits_keys = False
    scale: float
    slack: float
    hosts: int

    def __init__(
        self,
        n_workers: Count,
        *,
        scale: Positive = 2.0,
        slack: Positive = 0.001,
        hosts: Count = 100,
        seed: Seed = 0,
    ) -> None:
        self._take(n_workers=n_workers, scale=scale, slack=slack, hosts=hosts, seed=seed)

    def plan(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window.

        Parameters
        ----------
        histogram
            Weight of each key in the last window. An empty one changes nothing.
        previous
            The routing in force (KI). One for another number of workers, or over other buckets, is
            ignored: nothing of it could stay.
        """
        n, seed = self.n_workers, self.seed
        routing = comparable(previous, n, seed) or Routing.hashing(n, seed=seed)
        if histogram.total == 0:
            return routing
        n_heavy = max(1, int(min(self.scale * n, len(histogram)) + 0.5))
        items = items_of(histogram, n_heavy, n, seed)
        frequency = items.weight / histogram.total
        n_buckets = len(routing.buckets)
        n_hosts = min(self.hosts * n, n_buckets)
        host = np.arange(n_buckets) * n_hosts // n_buckets
        # The paper's HASH: the worker of a host's first bucket.
        host_worker = routing.buckets[np.searchsorted(host, np.arange(n_hosts))].astype(np.int64)
        heaviest = float(frequency[0]) if len(frequency) else 0.0
        level = max(1 / n, heaviest) + self.slack  # line 1
        # Line 2; from the weights, so that it is not below 0 by rounding.
        host_load = (histogram.total - int(items.weight.sum())) / histogram.total / n_hosts
        worker = owners(items.keys, items.bucket, routing)
        load = np.zeros(n)
        spare = np.zeros(n)
        home = host_worker[host[items.bucket]]
        _place_keys(frequency, home, level, spare, np.zeros(width_for(n), np.int32), worker)
        np.add.at(load, worker, frequency)  # line 12
        _move_hosts(host_load, level, load, host_worker)
        return Routing.from_arrays(
            n, items.keys, worker, np.ones(len(worker)), host_worker[host], seed=seed
        )


@kernel
def _place_keys(
    frequency: NDArray[np.float64],
    home: NDArray[np.int64],
    level: float,
    spare: NDArray[np.float64],
    winner: NDArray[np.int32],
    worker: NDArray[np.int64],
) -> None:
    """Do lines 3 to 10: `worker` holds KI(k) and is changed to the new one; spare is minus the load."""
    play_all(spare, winner, -1)
    for k in range(len(frequency)):
        f = frequency[k]
        at = worker[k]
        if not -spare[at] < level - f:  # line 5
            at = home[k]
            if not -spare[at] < level - f:  # line 8
                at = np.int64(winner[1]) if len(winner) > 1 else 0  # line 10
        worker[k] = at
        spare[at] -= f
        play(spare, winner, at, -1)


@kernel
def _move_hosts(
    host_load: float, level: float, heavy: NDArray[np.float64], host_worker: NDArray[np.int64]
) -> None:
    """Do lines 13 to 15: move hosts from overfull workers to the first that have room for one."""
    n = len(heavy)
    hosts = np.zeros(n, np.int64)
    for p in host_worker:
        hosts[p] += 1
    # The hosts of each worker, ascending: those of worker p start at start[p].
    mine = np.argsort(host_worker, kind="mergesort")
    start = np.zeros(n + 1, np.int64)
    start[1:] = np.cumsum(hosts)
    target = 0  # no worker below has room
    for p in range(n):
        number = start[p]
        while number < start[p + 1] and heavy[p] + host_load * hosts[p] > level:  # line 14
            while target < n and not (
                heavy[target] + host_load * hosts[target] < level - host_load
            ):
                target += 1
            if target == n:
                return
            host_worker[mine[number]] = target  # line 15
            hosts[p] -= 1
            hosts[target] += 1
            number += 1
        target = min(target, p)
