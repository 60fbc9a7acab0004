"""Mixed: a small table of exceptions to the hash, by moving and swapping keys of overfull workers.

J. Fang, R. Zhang, T. Z. J. Fu, Z. Zhang, A. Zhou, J. Zhu: Parallel stream processing against workload
skewness and variance, 2016.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.kernel import kernel
from skewless.parameters import Count, Positive, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, owners
from skewless.routing import Routing

__all__ = ["Mixed"]

#: What theta is multiplied by when no placement is found.
_GROWTH = 1.25
#: Candidates that are placed in one attempt, per worker and in any case, before it is given up.
_STEPS_PER_WORKER, _STEPS = 16, 1_000


class _Lists(NamedTuple):
    """The keys of each worker, heaviest first, as linked lists; the keys are numbered by weight."""

    head: NDArray[np.int64]
    """int64, (n_workers,): first key of each worker, -1 for none."""
    after: NDArray[np.int64]
    """int64, (K,): next key of the same worker, -1 at the end."""
    worker: NDArray[np.int64]
    """int64, (K,): worker of each key, -1 while it waits for one."""
    load: NDArray[np.int64]
    """int64, (n_workers,): weight of the keys and of the tail."""


class Mixed(Planner):
    """Bring every worker below a bound, with as few keys as fit a table; all others follow the hash.

    Use it when a key must have one worker, the whole histogram is at hand, and the table of
    exceptions must be short. Not when the keys are too many to look at each, nor above a heaviest
    key of a fair share: the bound must be above it.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers (N).
    table_keys : int of at least 1, or None
        Keys that the table may hold (A_max). None means ``2 * n_workers + 1``.
    theta : float above 0
        What a worker may have above the mean, as a part of it (theta_max). It is raised by a quarter
        for as long as no placement is found.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: no key is split; no worker's load is above ``(1 + theta)`` times the mean, for the
    first theta of the series that a placement is found for; the table holds at most `table_keys`
    keys. Cost: none per tuple but the routing's own; a plan takes O(K log K) for K keys, and O(K)
    per key that is placed anew at worst. State: 0 bytes.

    1. Some of the lightest table entries go back to their hash, none at first.
    2. Every worker above the bound gives up its heaviest keys, one by one, until it is not.
    3. The heaviest key that waits tries the workers by ascending load. Where it fits, it stays. Else
       the worker may give up lighter keys, consecutive ones by weight starting with the heaviest
       that is lighter, as soon as they make up for the excess; these wait then.
    4. While the table is too long by some keys, all begins again with that many more in step 1.

    Ties go to the lower key hash and to the lowest worker.

    Deviations from the paper: keys of the same weight are not swapped, which would change nothing.
    The number of entries in step 1 adds up over the attempts. Table keys without a weight are
    dropped. theta is raised until a placement is found, where the authors give it. What the
    histogram knows by bucket only weighs on the workers of plain hashing and does not move.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5], [70, 60, 50, 40, 20])
    >>> sorted(Mixed(3, theta=0.2).plan(counts).loads(counts).tolist())
    [70.0, 80.0, 90.0]

    References
    ----------
    J. Fang, R. Zhang, T. Z. J. Fu, Z. Zhang, A. Zhou, J. Zhu, Parallel stream processing against
    workload skewness and variance, 2016, doi:10.48550/arXiv.1610.05121.
    """

    splits_keys = False
    table_keys: int | None
    theta: float

    def __init__(
        self,
        n_workers: Count,
        *,
        table_keys: Count | None = None,
        theta: Positive = 0.1,
        seed: Seed = 0,
    ) -> None:
        self._take(n_workers=n_workers, table_keys=table_keys, theta=theta, seed=seed)

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
        hashing = Routing.hashing(n, seed=seed)
        routing = comparable(previous, n, seed) or hashing
        if histogram.total == 0:
            return routing
        n_buckets = bucket_count(n)
        fixed = np.zeros(n, np.int64)
        if histogram.tail is not None:
            histogram.top(0, n_buckets, seed=seed)  # refuses a tail over other buckets
            fixed = np.bincount(hashing.buckets, histogram.tail, n).astype(np.int64)
        n_keys = np.count_nonzero(histogram.counts)
        keys, weight = histogram.keys[:n_keys], histogram.counts[:n_keys]
        bucket = bucket_of(keys, n_buckets, seed)
        home = hashing.buckets[bucket].astype(np.int64)
        start = home.copy()
        place = np.searchsorted(routing.keys, keys)
        listed = np.flatnonzero(place < len(routing.keys))
        listed = listed[routing.keys[place[listed]] == keys[listed]]
        start[listed] = owners(keys[listed], bucket[listed], routing)
        room = self.table_keys or 2 * n + 1
        theta = self.theta
        worker = np.empty(n_keys, np.int64)
        while True:
            most = (1 + theta) * histogram.total / n
            if int(histogram.counts[:1].sum()) <= most and _attempts(
                weight, home, start, fixed, most, room, worker
            ):
                break
            theta *= _GROWTH
        table = np.flatnonzero(worker != home)
        return Routing.from_arrays(n, keys[table], worker[table], np.ones(len(table)), seed=seed)


@kernel
def _attempts(
    weight: NDArray[np.int64],
    home: NDArray[np.int64],
    start: NDArray[np.int64],
    fixed: NDArray[np.int64],
    most: float,
    room: int,
    worker: NDArray[np.int64],
) -> bool:
    """Repeat with ever more table entries sent home, until the table is short enough."""
    listed = np.flatnonzero(start != home)
    back = 0
    while True:
        worker[:] = start
        for k in listed[len(listed) - min(back, len(listed)) :]:
            worker[k] = home[k]
        if not _balance(weight, fixed, most, worker):
            return False
        excess = np.count_nonzero(worker != home) - room
        if excess <= 0:
            return True
        if back >= len(listed):
            return False
        back += excess


@kernel
def _balance(
    weight: NDArray[np.int64], fixed: NDArray[np.int64], most: float, worker: NDArray[np.int64]
) -> bool:
    """Do steps 2 and 3; say whether every key found a place."""
    n = len(fixed)
    lists = _Lists(np.full(n, -1), np.full(len(worker), -1), worker, fixed.copy())
    for k in range(len(worker) - 1, -1, -1):
        at = worker[k]
        lists.after[k] = lists.head[at]
        lists.head[at] = k
        lists.load[at] += weight[k]
    # Keys that wait, in ascending order of weight: the heaviest is the last.
    queue = np.empty(len(worker), np.int64)
    waiting = 0
    for w in range(n):
        while lists.load[w] > most and lists.head[w] >= 0:
            waiting = _wait(_remove(lists.head[w], weight, lists), queue, waiting)
        if lists.load[w] > most:
            return False
    for _ in range(_STEPS + _STEPS_PER_WORKER * n):
        if waiting == 0:
            return True
        waiting -= 1
        k = queue[waiting]
        placed = False
        for w in np.argsort(lists.load, kind="mergesort"):
            excess = lists.load[w] + weight[k] - most
            first = -1
            if excess > 0:
                first = _enough(k, excess, lists.head[w], weight, lists.after)
                if first < 0:
                    continue
            while excess > 0 and first >= 0:
                following = lists.after[first]
                excess -= weight[first]
                waiting = _wait(_remove(first, weight, lists), queue, waiting)
                first = following
            _insert(k, w, weight, lists)
            placed = True
            break
        if not placed:
            return False
    return waiting == 0


@kernel
def _enough(
    k: int, excess: float, head: int, weight: NDArray[np.int64], after: NDArray[np.int64]
) -> int:
    """Return the first key of a list that is lighter than k, if all from it on make up the excess."""
    first = head
    while first >= 0 and weight[first] >= weight[k]:
        first = after[first]
    total, at = 0, first
    while at >= 0 and total < excess:
        total += weight[at]
        at = after[at]
    return first if total >= excess else -1


@kernel
def _wait(k: int, queue: NDArray[np.int64], waiting: int) -> int:
    """Put key k into the queue, in its place by number, and return the new length."""
    at = waiting
    while at > 0 and queue[at - 1] < k:
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = k
    return waiting + 1


@kernel
def _remove(k: int, weight: NDArray[np.int64], lists: _Lists) -> int:
    """Take key k from its worker, and return it."""
    w = lists.worker[k]
    if lists.head[w] == k:
        lists.head[w] = lists.after[k]
    else:
        at = lists.head[w]
        while lists.after[at] != k:
            at = lists.after[at]
        lists.after[at] = lists.after[k]
    lists.worker[k] = -1
    lists.load[w] -= weight[k]
    return k


@kernel
def _insert(k: int, w: int, weight: NDArray[np.int64], lists: _Lists) -> None:
    """Give key k to worker w."""
    at = lists.head[w]
    if at < 0 or at > k:
        lists.after[k] = at
        lists.head[w] = k
    else:
        while lists.after[at] >= 0 and lists.after[at] < k:
            at = lists.after[at]
        lists.after[k] = lists.after[at]
        lists.after[at] = k
    lists.worker[k] = w
    lists.load[w] += weight[k]
