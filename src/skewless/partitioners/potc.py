"""PoTC (PoTC, the power of two choices, static): a key's first tuple chooses its worker for ever.

M. A. U. Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini: The Power of
Both Choices: Practical Load Balancing for Distributed Stream Processing Engines, ICDE 2015 (a baseline
there).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.kernel import lean_kernel, mix
from skewless.parameters import Count, Seed
from skewless.partitioners.base import Partitioner
from skewless.windows.candidates import next_candidate
from skewless.windows.owners import OWNER, more_owners, no_owners, owners_bytes_bound, set_owner
from skewless.windows.table import EMPTY, Table, find

__all__ = ["PoTC"]


class PoTCState(NamedTuple):
    """What each worker got so far, and who has which key."""

    load: NDArray[np.int64]
    """int64, (n_workers,): tuples sent to each worker since the start."""
    owners: Table
    """Per key: its worker."""


class PoTC(Partitioner):
    """Give a new key to the less loaded of its `d` candidate workers; it stays there for ever.

    Use it as the yardstick for `PKG`: the same two choices, without splitting a key. Or where a key
    must keep its worker, and its worker may be looked up. Not for a heavy key: it stays whole, and what
    a key will weigh is not known when it is placed. Not for an endless supply of keys either.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    d : int of at least 1
        Candidates per key; at most `n_workers` are used.
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    Guarantee: one worker per key, one of the candidates that `PKG` would have. As long as all tuples
    have different keys, the fullest worker exceeds the mean by O(log log n) with d = 2; with heavy keys
    nothing holds. Cost: one hash and one look-up a tuple, d more hashes for a new key. State: 8 bytes a
    worker, and a table of all keys since the start, 26 to 52 bytes a key, 16 KiB at least.

    Deviations from the paper: a key's candidates are always distinct. Ties go to the first candidate.
    The table belongs to one source; the paper's would have to agree on it.

    Examples
    --------
    >>> PoTC(4).route(Chunk(None, [7, 7, 7, 8, 9, 7])).tolist()
    [3, 3, 3, 1, 0, 3]

    References
    ----------
    ICDE 2015, sections III-A (static PoTC) and V (Q1), doi:10.1109/ICDE.2015.7113279.
    """

    splits_keys = False
    moves_keys = False
    state: PoTCState
    d: int

    def __init__(self, n_workers: Count, *, d: Count = 2, seed: Seed = 0) -> None:
        self._take(n_workers=n_workers, d=d, seed=seed)
        if d > 64:
            raise ParameterError(
                f"PoTC: d must be at most 64, got {d}; use OnGreedy to choose among all workers."
            )
        self.state = PoTCState(np.zeros(n_workers, np.int64), no_owners())

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        seed, taken = np.uint64(self.seed), np.empty(min(self.d, self.n_workers), np.int64)
        done = _route(self.state, seed, chunk.key, 0, out, taken)
        while done < len(chunk):
            self.state = self.state._replace(owners=more_owners(self.state.owners, seed))
            done = _route(self.state, seed, chunk.key, done, out, taken)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 8 bytes a worker, and the table of `n_keys` keys since the start."""
        return 8 * self.n_workers + owners_bytes_bound(n_keys)


@lean_kernel
def _choose(
    load: NDArray[np.int64], key: np.uint64, seed: np.uint64, taken: NDArray[np.int64]
) -> int:
    # Section III: P_t(k) = argmin of the load over H_1(k), ..., H_d(k).
    chosen = next_candidate(key, seed, 0, np.uint64(len(load)), taken)
    for j in range(1, len(taken)):
        c = next_candidate(key, seed, j, np.uint64(len(load)), taken)
        if load[c] < load[chosen]:
            chosen = c
    return chosen


@lean_kernel
def _route(
    state: PoTCState,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    taken: NDArray[np.int64],
) -> int:
    """Route from tuple `first` on; return the number of the tuple whose key finds no room."""
    load, entry = state.load, state.owners.entry
    for i in range(first, len(keys)):
        place = find(entry, mix(keys[i], seed), keys[i])
        worker = entry[place, OWNER]
        if worker == EMPTY:
            worker = _choose(load, keys[i], seed, taken)
            if not set_owner(state.owners, place, keys[i], worker):
                return i
        load[np.uint64(worker)] += 1
        out[i] = worker
    return len(keys)
