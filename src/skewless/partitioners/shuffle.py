"""Shuffling (shuffle grouping, round robin): every tuple to the next worker, whatever its key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.histogram import Histogram
from skewless.kernel import kernel
from skewless.parameters import Count
from skewless.partitioners.base import Partitioner
from skewless.routing import Routing

__all__ = ["Shuffle"]


class ShuffleState(NamedTuple):
    """Whose turn it is."""

    turn: NDArray[np.int64]
    """int64, (1,): the worker that the next tuple goes to."""


class Shuffle(Partitioner):
    """Send each tuple to the next worker in turn.

    Use it when a key's state is cheap to merge, or when there is no state. Not when there are many
    keys: each becomes up to `n_workers` fragments that must be built, shipped and merged.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.

    Notes
    -----
    Guarantee: loads differ by at most one tuple. Cost: an increment a tuple. State: 8 bytes.
    Deviations from the paper: none.

    Examples
    --------
    >>> Shuffle(3).route(Chunk(None, [5, 5, 5, 5])).tolist()
    [0, 1, 2, 0]

    References
    ----------
    M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section II (shuffle grouping),
    doi:10.1109/ICDE.2015.7113279.
    """

    splits_keys = True
    moves_keys = False
    state: ShuffleState

    def __init__(self, n_workers: Count) -> None:
        self._take(n_workers=n_workers)
        self.state = ShuffleState(np.zeros(1, np.int64))

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        _route(self.state, self.n_workers, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 8: one counter, however many keys there are."""
        return 8

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing that deals every key to all workers: there is nothing to learn."""
        return Routing.shuffling(self.n_workers)


@kernel
def _route(state: ShuffleState, n_workers: int, out: NDArray[np.int32]) -> None:
    turn = state.turn[0]
    for i in range(len(out)):
        out[i] = turn
        turn = turn + 1 if turn + 1 < n_workers else 0
    state.turn[0] = turn
