"""The least loaded of all workers in O(1) amortised, for loads that never fall.

`level` holds the least load when it was last looked for, and the number of workers that are known to
be above it: a cursor passes each worker once per value of the least load, and a value lasts at least
as many tuples as there are workers, on average.
"""

from __future__ import annotations

from numpy.typing import NDArray

from skewless.kernel import inline_kernel

__all__ = ["least_loaded"]


@inline_kernel
def least_loaded(load: NDArray, level: NDArray) -> int:  # type: ignore[type-arg]
    """Return the worker with the least load, the lowest of several."""
    least, worker = level[0], level[1]
    while worker < len(load) and load[worker] != least:
        worker += 1
    if worker == len(load):
        least, worker = load[0], 0
        for i in range(1, len(load)):
            if load[i] < least:
                least, worker = load[i], i
        level[0] = least
    level[1] = worker
    return int(worker)
