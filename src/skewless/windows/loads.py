"""Load of each worker in a sliding window, by Subtract-on-Evict: one block of counts per slide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import lean_kernel

__all__ = ["SlidingLoads", "evict_load", "no_loads"]


class SlidingLoads(NamedTuple):
    """Tuples sent to each worker in the window, and in each of its slides."""

    slides: NDArray[np.int64]
    """int64, (slides in a window, n_workers): tuples by slide modulo the slides in a window."""
    window: NDArray[np.int64]
    """int64, (n_workers,): tuples in the window, the sum of `slides`."""
    total: NDArray[np.int64]
    """int64, (1,): tuples in the window at all workers."""


def no_loads(n_slides: int, n_workers: int) -> SlidingLoads:
    """Return the loads before the first tuple.

    Examples
    --------
    >>> no_loads(60, 8).slides.shape
    (60, 8)
    """
    slides = np.zeros((n_slides, n_workers), np.int64)
    return SlidingLoads(slides, np.zeros(n_workers, np.int64), np.zeros(1, np.int64))


@lean_kernel
def evict_load(loads: SlidingLoads, slot: int) -> None:
    """Subtract the slide that leaves the window and clear its block for the slide that begins."""
    for worker in range(len(loads.window)):
        gone = loads.slides[slot, worker]
        loads.window[worker] -= gone
        loads.total[0] -= gone
        loads.slides[slot, worker] = 0
