"""Hashing (key grouping, field grouping): every key on the one worker that its hash names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.kernel import kernel, mix, spread
from skewless.parameters import Count, Seed
from skewless.partitioners.base import Partitioner

__all__ = ["Hash"]


class HashState(NamedTuple):
    """Hashing remembers nothing."""


class Hash(Partitioner):
    """Send a tuple to the worker that its key hashes to.

    Use it when no key carries more than its fair share, or when a key must never leave its worker.
    Not when a few keys are heavy: the worker of the heaviest key gets that key's whole load.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    seed : int in [0, 9223372036854775807]
        Which hash function.

    Notes
    -----
    Guarantee: one worker per key, for ever. Cost: one mix and one product a tuple. State: 0 bytes.
    Deviations from the paper: none; the hash is XXH64 and not Murmur.

    Examples
    --------
    >>> Hash(4).route(Chunk(None, [1, 2, 3, 1])).tolist()
    [1, 1, 3, 1]

    References
    ----------
    M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section II (key grouping),
    doi:10.1109/ICDE.2015.7113279.
    """

    splits_keys = False
    moves_keys = False
    state: HashState

    def __init__(self, n_workers: Count, *, seed: Seed = 0) -> None:
        self._take(n_workers=n_workers, seed=seed)
        self.state = HashState()

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        _route(np.uint64(self.n_workers), np.uint64(self.seed), chunk.key, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 0: hashing keeps no state."""
        return 0


@kernel
def _route(
    n_workers: np.uint64, seed: np.uint64, keys: NDArray[np.uint64], out: NDArray[np.int32]
) -> None:
    for i in range(len(keys)):
        out[i] = spread(mix(keys[i], seed), n_workers)
