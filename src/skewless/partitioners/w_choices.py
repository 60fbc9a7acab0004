"""W-Choices (W = all workers): two choices for the tail, all workers for the head.

M. A. U. Nasir, G. De Francisci Morales, N. Kourtellis, M. Serafini: When Two Choices Are not Enough:
Balancing at Scale in Distributed Stream Processing, ICDE 2016.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.kernel import lean_kernel, mix, spread
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.sketches.slot_index import chains_for
from skewless.sketches.space_saving import SpaceSavingState, no_counts, offer
from skewless.windows.water_level import least_loaded

__all__ = ["WChoices"]


class WChoicesState(NamedTuple):
    """Frequencies and loads, as this source sees them."""

    counts: SpaceSavingState
    """Most frequent keys since the start."""
    load: NDArray[np.int64]
    """int64, (n_workers,): tuples sent to each worker since the start."""
    level: NDArray[np.int64]
    """int64, (2,): least load, workers below this one exceed it."""


class WChoices(Partitioner):
    """Send a head key to the least loaded of all workers, any other to the better of two.

    Use it when the heaviest keys are above two fair shares and merging their fragments is cheap. Not
    where each fragment has its price: every head key is sooner or later on every worker.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    theta : float in (0, 1], optional
        Share of the tuples from which a key is head; by default ``1 / (5 * n_workers)``.
    capacity : int in [1, 1073741824], optional
        Keys that the SpaceSaving summary monitors; by default ``10 * n_workers``.
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    Guarantee: what is routed as head has at least a share of theta of the tuples so far; a key that has
    ``theta + 1 / capacity`` is always head. A key that never reaches theta has at most two workers.

    Cost: two hashes, a look-up in the summary, and O(1) amortised for the least loaded worker: flat in
    the number of workers. State: 48 bytes a slot of the summary at most, 8 a worker.

    Deviations from the paper: a key is judged by the lower bound of its count, where the authors'
    programs add the error to a count that includes it already. The two candidates are always
    distinct. Ties go to the first candidate, among all workers to the lowest.

    Examples
    --------
    >>> WChoices(4).route(Chunk(None, [7] * 6)).tolist()
    [0, 1, 2, 3, 0, 1]

    References
    ----------
    ICDE 2016, section IV, doi:10.1109/ICDE.2016.7498273.
    """

    splits_keys = True
    moves_keys = False
    theta: float | None
    capacity: int | None
    state: WChoicesState

    def __init__(
        self,
        n_workers: Count,
        *,
        theta: Annotated[float, Range(0, 1, low_open=True)] | None = None,
        capacity: Annotated[int, Range(1, 2**30)] | None = None,
        seed: Seed = 0,
    ) -> None:
        self._take(n_workers=n_workers, theta=theta, capacity=capacity, seed=seed)
        self.state = WChoicesState(
            no_counts(capacity or 10 * n_workers),
            np.zeros(n_workers, np.int64),
            np.zeros(2, np.int64),
        )

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.zeros(len(chunk), np.int32)
        theta = float(self.theta or 1 / (5 * self.n_workers))
        if self.n_workers > 1:
            _route(self.state, theta, np.uint64(self.seed), chunk.key, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the bytes of the summary and of the loads, however many keys there are."""
        capacity = self.capacity or 10 * self.n_workers
        return 32 * capacity + 4 * chains_for(capacity) + 32 + 8 * self.n_workers + 16


@lean_kernel
def _route(
    state: WChoicesState,
    theta: float,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> None:
    counts, load = state.counts, state.load
    n = np.uint64(len(load))
    for i in range(len(keys)):
        mixed = mix(keys[i], seed)
        slot = offer(counts, keys[i], mixed, 1)
        slot = slot if slot >= 0 else -1 - slot
        # Section IV-A: the head is { k : p_k >= theta }.
        if counts.counts[slot] - counts.errors[slot] >= theta * counts.least[3]:
            chosen = least_loaded(load, state.level)
        else:
            first = spread(mixed, n)
            second = spread(mix(keys[i], seed + np.uint64(1)), n - np.uint64(1))
            second += second >= first
            chosen = int(second if load[second] < load[first] else first)
        load[chosen] += 1
        out[i] = chosen
