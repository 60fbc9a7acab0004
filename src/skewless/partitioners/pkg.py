"""Partial Key Grouping (PKG, Greedy-d): each key has d candidate workers, each tuple the less loaded.

M. A. U. Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini: The Power of
Both Choices: Practical Load Balancing for Distributed Stream Processing Engines, ICDE 2015.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.kernel import kernel, mix, spread
from skewless.parameters import Count, Seed
from skewless.partitioners.base import Partitioner

__all__ = ["PKG"]


class PKGState(NamedTuple):
    """What this source has sent so far: PKG's local load estimate."""

    load: NDArray[np.int64]
    """int64, (n_workers,): tuples sent to each worker since the start."""


class PKG(Partitioner):
    """Send a tuple to the least loaded of its key's `d` candidate workers.

    Use it when the heaviest key carries less than ``d / n_workers`` of the tuples and no statistics
    can be kept. Not above that share: d workers then carry the key alone, and all others idle.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    d : int of at least 1
        Candidates per key; at most `n_workers` are used. 2 is PKG, more is Greedy-d.
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    Guarantee: at most d workers per key; for d >= 2 and a heaviest share of at most ``1/(5 n)`` the
    imbalance stays O(m/n) over m tuples (Theorem 4.2). Cost: d hashes and d reads a tuple. State: 8
    bytes a worker, the tuples that this source has sent (local load estimation, section III-B).

    Deviations from the paper: the candidates of a key are always distinct (candidate j is drawn from
    the workers that are left), where independent hashes coincide once in n keys and leave such a key
    unsplit. Ties go to the first candidate.

    Examples
    --------
    >>> PKG(4).route(Chunk(None, [7, 7, 7, 7])).tolist()
    [3, 1, 3, 1]

    References
    ----------
    ICDE 2015, sections III and IV, doi:10.1109/ICDE.2015.7113279.
    """

    splits_keys = True
    moves_keys = False
    state: PKGState
    d: int

    def __init__(self, n_workers: Count, *, d: Count = 2, seed: Seed = 0) -> None:
        self._take(n_workers=n_workers, d=d, seed=seed)
        if d > 64:
            raise ParameterError(
                f"PKG: d must be at most 64, got {d}; use Shuffle to spread further."
            )
        self.state = PKGState(np.zeros(n_workers, np.int64))

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        n, seed, d = np.uint64(self.n_workers), np.uint64(self.seed), min(self.d, self.n_workers)
        if d == 2:
            _route_two(self.state, n, seed, chunk.key, out)
        else:
            _route_many(self.state, n, seed, d, chunk.key, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 8 bytes a worker, however many keys there are."""
        return 8 * self.n_workers


@kernel
def _route_two(
    state: PKGState,
    n_workers: np.uint64,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> None:
    load = state.load
    others = n_workers - np.uint64(1)
    for i in range(len(keys)):
        first = spread(mix(keys[i], seed), n_workers)
        second = spread(mix(keys[i], seed + np.uint64(1)), others)
        second += second >= first
        # Section III: P_t(k) = argmin of the load over H_1(k), H_2(k).
        chosen = second if load[second] < load[first] else first
        load[chosen] += 1
        out[i] = chosen


@kernel
def _route_many(
    state: PKGState,
    n_workers: np.uint64,
    seed: np.uint64,
    d: int,
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> None:
    load = state.load
    taken = np.empty(d, np.int64)  # the candidates so far, ascending
    for i in range(len(keys)):
        chosen = np.int64(-1)
        for j in range(d):
            c = spread(mix(keys[i], seed + np.uint64(j)), n_workers - np.uint64(j))
            at = 0
            while at < j and c >= taken[at]:
                c += 1
                at += 1
            for k in range(j, at, -1):
                taken[k] = taken[k - 1]
            taken[at] = c
            if chosen < 0 or load[c] < load[chosen]:
                chosen = c
        load[chosen] += 1
        out[i] = chosen
