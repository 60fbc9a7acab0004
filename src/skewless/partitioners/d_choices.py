"""D-Choices (d choices, d as small as balance allows): two for the tail, d for the head.

M. A. U. Nasir, G. De Francisci Morales, N. Kourtellis, M. Serafini: When Two Choices Are not Enough:
Balancing at Scale in Distributed Stream Processing, ICDE 2016.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.kernel import inline_kernel, kernel, lean_kernel, mix, spread
from skewless.parameters import Count, Positive, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.sketches.slot_index import chains_for
from skewless.sketches.space_saving import SpaceSavingState, no_counts, offer
from skewless.windows.water_level import least_loaded

__all__ = ["DChoices"]

#: Tuples before d is solved for the first time, at most.
_FIRST = 64


class DChoicesState(NamedTuple):
    """Frequencies and loads, as this source sees them, and the d in force."""

    counts: SpaceSavingState
    """Most frequent keys since the start."""
    load: NDArray[np.int64]
    """int64, (n_workers,): tuples sent to each worker since the start."""
    level: NDArray[np.int64]
    """int64, (2,): least load of all workers, workers below this one exceed it."""
    walk: NDArray[np.int64]
    """int64, (capacity, 5): of the key in a slot: least load of its candidates, candidates before
    this one exceed it, which worker this one is, for which d, candidates until the walk closes."""
    plan: NDArray[np.int64]
    """int64, (2,): candidates of a head key; number of tuples at which to solve for them anew."""


class DChoices(Partitioner):
    """Send a head key to the least loaded of its d candidates, any other to the better of two.

    Use it when the heaviest keys are above two fair shares and their fragments should be few. Not for
    a stream whose distribution changes: frequencies and loads are those since the start.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    epsilon : float above 0
        Imbalance that d may leave: by how much a worker's share of all tuples may exceed ``1 / n``.
    theta : float in (0, 1], optional
        Share of the tuples from which a key is head; by default ``1 / (5 * n_workers)``.
    capacity : int in [1, 1073741824], optional
        Keys that the SpaceSaving summary monitors; by default ``10 * n_workers``.
    stats_window : int of at least 1, optional
        Tuples between two solutions for d; by default 10,000, but at least ``8 * n_workers``.
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    Guarantee: what is routed as head has at least a share of theta of the tuples so far. d is the least
    number, from ``p_1 * n`` on, for which the expected load of the candidates of the h heaviest keys
    stays within epsilon, for every h (the paper's constraints). A key that never reaches theta has
    at most two workers. Where no d below n is enough, the head goes to the least loaded of all workers.

    Cost: two hashes and a look-up in the summary. The least loaded candidate is found by a cursor that
    passes each candidate at most twice per value of their least load, so a head key with d candidates
    and a share p pays ``min(d, d / (p * n))`` steps a tuple or so. State: 88 bytes a slot of the summary
    at most, 8 a worker.

    Deviations from the paper: d is solved for once per `stats_window` (at first after 64 tuples, then
    each time their number has doubled), not for each tuple; before that it is 2. A key is judged by the
    lower bound of its count. The candidates of a key are distinct: two hashes give the first and the
    second, and the others follow at the same distance around the workers (double hashing), shifted by
    one when the round closes. Ties go to the first candidate, among all workers to the lowest.

    Examples
    --------
    >>> keys = np.where(np.arange(10_000) % 4 == 0, 7, np.arange(10_000))
    >>> partitioner = DChoices(16)
    >>> workers = partitioner.route(Chunk(None, keys))
    >>> partitioner.d, len(np.unique(workers[keys == 7]))
    (7, 7)

    References
    ----------
    ICDE 2016, section IV, doi:10.1109/ICDE.2016.7498273. Double hashing balances like independent hashes:
    M. Mitzenmacher, Balanced Allocations and Double Hashing, SPAA 2014.
    """

    splits_keys = True
    moves_keys = False
    epsilon: float
    theta: float | None
    capacity: int | None
    stats_window: int | None
    state: DChoicesState

    def __init__(
        self,
        n_workers: Count,
        *,
        epsilon: Positive = 1e-4,
        theta: Annotated[float, Range(0, 1, low_open=True)] | None = None,
        capacity: Annotated[int, Range(1, 2**30)] | None = None,
        stats_window: Count | None = None,
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers,
            epsilon=epsilon,
            theta=theta,
            capacity=capacity,
            stats_window=stats_window,
            seed=seed,
        )
        slots = capacity or 10 * n_workers
        self.state = DChoicesState(
            no_counts(slots),
            np.zeros(n_workers, np.int64),
            np.zeros(2, np.int64),
            np.zeros((slots, 5), np.int64),
            np.array([2, min(_FIRST, self._window())], np.int64),
        )

    @property
    def d(self) -> int:
        """Candidates of a head key now."""
        return min(int(self.state.plan[0]), self.n_workers)

    def _window(self) -> int:
        return self.stats_window or max(10_000, 8 * self.n_workers)

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.zeros(len(chunk), np.int32)
        if self.n_workers == 1:
            return out
        theta, seed = float(self.theta or 1 / (5 * self.n_workers)), np.uint64(self.seed)
        plan, least, done = self.state.plan, self.state.counts.least, 0
        while done < len(chunk):
            until = min(len(chunk), done + int(plan[1] - least[3]))
            _route(self.state, theta, seed, chunk.key[done:until], out[done:until])
            done = until
            if least[3] == plan[1]:
                plan[0] = _solve(self.state.counts, self.n_workers, theta, float(self.epsilon))
                plan[1] += min(int(least[3]), self._window())
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the bytes of the summary and of the loads, however many keys there are."""
        slots = self.capacity or 10 * self.n_workers
        return (32 + 40) * slots + 4 * chains_for(slots) + 32 + 8 * self.n_workers + 32


@kernel
def _solve(counts: SpaceSavingState, n: int, theta: float, epsilon: float) -> int:
    """Return the least d that meets the constraints of section IV-B, or n."""
    total = counts.least[3]
    lower = (counts.counts - counts.errors)[: counts.least[0]]
    p = -np.sort(-lower[lower >= theta * total]) / total  # the head, p_1 >= p_2 >= ...
    if len(p) == 0:
        return 2
    d = max(2, int(np.ceil(p[0] * n)))
    while d < n and not _balanced(p, n, d, epsilon):
        d += 1
    return min(d, n)


@kernel
def _balanced(p: NDArray[np.float64], n: int, d: int, epsilon: float) -> bool:
    """Say whether the candidates of the h heaviest keys get no more than they should, for all h."""
    head = 0.0
    for share in p:
        head += share
    prefix = 0.0
    for h in range(1, len(p) + 1):
        prefix += p[h - 1]
        # b_h: expected number of workers among the candidates of h keys.
        b = n - n * ((n - 1) / n) ** float(h * d)
        room = b * (1.0 / n + epsilon)
        if room > 1.000001:
            return True  # nor can any longer prefix exceed its room
        if prefix + (b / n) ** float(d) * (head - prefix) + (b / n) ** 2.0 * (1.0 - head) > room:
            return False
    return True


@lean_kernel
def _walk(
    load: NDArray[np.int64], walk: NDArray[np.int64], d: int, first: int, second: int
) -> None:
    """Move the cursor of a key to the first of its d least loaded candidates."""
    n = len(load)
    step = second - first if second > first else second - first + n
    if walk[3] != d:
        a, b = n, step
        while b > 0:
            a, b = b, a % b
        walk[0], walk[1], walk[2], walk[3], walk[4] = -1, d, first, d, n // a
    least, j, worker, period = walk[0], walk[1], walk[2], walk[4]
    left = period - j % period
    while j < d and load[worker] != least:
        j, worker, left = j + 1, worker + step, left - 1
        if left == 0:
            worker, left = worker + 1, period
        if worker >= n:
            worker -= n
    if j == d:
        least, at, best = load[first], 0, first
        worker, left = first, period
        for j in range(1, d):
            worker, left = worker + step, left - 1
            if left == 0:
                worker, left = worker + 1, period
            if worker >= n:
                worker -= n
            if load[worker] < least:
                least, at, best = load[worker], j, worker
        walk[0], j, worker = least, at, best
    walk[1], walk[2] = j, worker


@inline_kernel
def _second(key: np.uint64, seed: np.uint64, n: np.uint64, first: int) -> int:
    second = spread(mix(key, seed + np.uint64(1)), n - np.uint64(1))
    return int(second + (second >= first))


@lean_kernel
def _route(
    state: DChoicesState,
    theta: float,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> None:
    counts, load, walk, d = state.counts, state.load, state.walk, state.plan[0]
    n = np.uint64(len(load))
    for i in range(len(keys)):
        mixed = mix(keys[i], seed)
        slot = offer(counts, keys[i], mixed, 1)
        if slot < 0:
            slot = -1 - slot
            walk[slot, 3] = 0  # the walk was another key's
        # Section IV-A: the head is { k : p_k >= theta }.
        head = counts.counts[slot] - counts.errors[slot] >= theta * counts.least[3]
        if head and d >= len(load):
            chosen = least_loaded(load, state.level)
        elif head:
            chosen = walk[slot, 2]
            if walk[slot, 3] != d or load[chosen] != walk[slot, 0]:
                first = int(spread(mixed, n))
                _walk(load, walk[slot], d, first, _second(keys[i], seed, n, first))
                chosen = walk[slot, 2]
        else:
            first = int(spread(mixed, n))
            second = _second(keys[i], seed, n, first)
            chosen = second if load[second] < load[first] else first
        load[chosen] += 1
        out[i] = chosen
