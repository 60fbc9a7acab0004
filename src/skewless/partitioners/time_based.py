"""TimeBased (time-based partitioning): a micro-batch is cut into blocks of equal time.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020 (a baseline there).
"""

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

__all__ = ["TimeBased"]


class TimeBasedState(NamedTuple):
    """Nothing: the time of a tuple says it all."""


class TimeBased(Partitioner):
    """Send a tuple to the block of the batch interval that it arrived in.

    Use it as the yardstick for `Prompt`: it is what micro-batch engines do that cut by time. Not for
    keyed work: a key is on every worker, and where the rate varies so do the loads.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of blocks in a batch.
    batch : int of at least 1
        Batch interval, in the unit of ``Chunk.time``; block b holds the times
        ``[b, b + 1) * batch / n_workers`` of it.

    Notes
    -----
    Guarantee: at a steady rate blocks differ by one tuple; none otherwise, and none on the fragments.
    Cost: a division a tuple. State: 0 bytes. Deviations from the paper: none; where the interval is no
    multiple of the blocks, their lengths differ by one unit of time.

    Examples
    --------
    >>> TimeBased(3, batch=6).route(Chunk([0, 1, 2, 5, 6, 9], [7] * 6)).tolist()
    [0, 0, 1, 2, 0, 1]

    References
    ----------
    SIGMOD 2020, section 2.2.1, doi:10.1145/3318464.3389713.
    """

    splits_keys = True
    moves_keys = False
    state: TimeBasedState
    batch: int

    def __init__(self, n_workers: Count, *, batch: Count = 1_000) -> None:
        self._take(n_workers=n_workers, batch=batch)
        self.state = TimeBasedState()

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        _route(self.n_workers, self.batch, chunk.time, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 0, however many keys there are."""
        return 0

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing that deals every key to all workers: times say nothing about keys."""
        return Routing.shuffling(self.n_workers)


@kernel
def _route(n_workers: int, batch: int, times: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    for i in range(len(times)):
        # Section 2.2.1: consecutive, non-overlapping periods of equal length.
        out[i] = times[i] % batch * n_workers // batch
