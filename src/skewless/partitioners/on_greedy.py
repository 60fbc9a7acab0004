"""OnGreedy (On-Greedy): a key's first tuple takes the least loaded of all workers, for ever.

M. A. U. Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini: The Power of
Both Choices: Practical Load Balancing for Distributed Stream Processing Engines, ICDE 2015 (a baseline
there).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.kernel import lean_kernel, mix
from skewless.parameters import Count
from skewless.partitioners.base import Partitioner
from skewless.windows.owners import OWNER, more_owners, no_owners, owners_bytes_bound, set_owner
from skewless.windows.table import EMPTY, Table, find
from skewless.windows.water_level import least_loaded

__all__ = ["OnGreedy"]

#: Of the table's mixer. Where a key lies in the table decides nothing.
_SEED = np.uint64(0)


class OnGreedyState(NamedTuple):
    """What each worker got so far, and who has which key."""

    load: NDArray[np.int64]
    """int64, (n_workers,): tuples sent to each worker since the start."""
    level: NDArray[np.int64]
    """int64, (2,): least load, workers below this one exceed it."""
    owners: Table
    """Per key: its worker."""


class OnGreedy(Partitioner):
    """Give a new key to the least loaded of all workers; it stays there for ever.

    Use it as the yardstick for what keeps keys whole and does not know their weights: `OffGreedy` is
    the same with the weights known. Not for a heavy key: it stays whole, and the keys that came
    before it stay with it. Not for an endless supply of keys either.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.

    Notes
    -----
    Guarantee: one worker per key; a new key never goes to a worker above the mean load. If all keys had
    their weight at their first tuple, the maximum would be at most 2 - 1/n times the best possible
    (Graham's list scheduling). Cost: one hash and one look-up a tuple; the least loaded worker is found
    in at most two steps a tuple on average, however many workers there are. State: 8 bytes a worker,
    and a table of all keys since the start, 26 to 52 bytes a key, 16 KiB at least.

    Deviations from the paper: none; it leaves ties open, here they go to the lowest worker.

    Examples
    --------
    >>> OnGreedy(3).route(Chunk(None, [7, 8, 7, 9, 5, 7])).tolist()
    [0, 1, 0, 2, 1, 0]

    References
    ----------
    ICDE 2015, section V (Q1), doi:10.1109/ICDE.2015.7113279.
    """

    splits_keys = False
    moves_keys = False
    state: OnGreedyState

    def __init__(self, n_workers: Count) -> None:
        self._take(n_workers=n_workers)
        self.state = OnGreedyState(
            np.zeros(n_workers, np.int64), np.zeros(2, np.int64), no_owners()
        )

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        done = _route(self.state, chunk.key, 0, out)
        while done < len(chunk):
            self.state = self.state._replace(owners=more_owners(self.state.owners, _SEED))
            done = _route(self.state, chunk.key, done, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 8 bytes a worker, and the table of `n_keys` keys since the start."""
        return 8 * self.n_workers + 16 + owners_bytes_bound(n_keys)


@lean_kernel
def _route(
    state: OnGreedyState,
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
) -> int:
    """Route from tuple `first` on; return the number of the tuple whose key finds no room."""
    load, entry = state.load, state.owners.entry
    for i in range(first, len(keys)):
        place = find(entry, mix(keys[i], _SEED), keys[i])
        worker = entry[place, OWNER]
        if worker == EMPTY:
            # Section V: "picks the least loaded worker to handle a new key".
            worker = least_loaded(load, state.level)
            if not set_owner(state.owners, place, keys[i], worker):
                return i
        load[np.uint64(worker)] += 1
        out[i] = worker
    return len(keys)
