"""The candidate workers of a key: distinct, drawn one after the other without replacement.

Candidate j is a hash of the key into the workers that the candidates before it left. Independent hashes
would coincide for one key in n, and leave it a single worker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, mix, spread

__all__ = ["next_candidate"]


@inline_kernel
def next_candidate(
    key: np.uint64, seed: np.uint64, j: int, n_workers: np.uint64, taken: NDArray[np.int64]
) -> int:
    """Return candidate `j` of a key, given the earlier ones, ascending, in `taken`; put it there."""
    c = spread(mix(key, seed + np.uint64(j)), n_workers - np.uint64(j))
    for at in range(j):
        c += c >= taken[at]
    # Insert it in order, without a branch that depends on the key.
    higher = c
    for at in range(j):
        lower = min(taken[at], higher)
        higher = max(taken[at], higher)
        taken[at] = lower
    taken[j] = higher
    return int(c)
