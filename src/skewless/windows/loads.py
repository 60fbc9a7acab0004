"""Load of each worker in a sliding window, by Subtract-on-Evict: one block of counts per slide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import lean_kernel

__all__ = ["SlidingLoads", "no_loads", "turn_loads"]


class SlidingLoads(NamedTuple):
    """Tuples sent to each worker in the window, and in each of its slides."""

    slides: NDArray[np.int64]
    """int64, (slides in a window, n_workers): tuples by slide modulo the slides in a window; those
    of the slide that has begun are `window` less `before`."""
    window: NDArray[np.int64]
    """int64, (n_workers,): tuples in the window."""
    before: NDArray[np.int64]
    """int64, (n_workers,): tuples in the window when the slide began."""
    total: NDArray[np.int64]
    """int64, (1,): tuples in the window at all workers."""


def no_loads(n_slides: int, n_workers: int) -> SlidingLoads:
    """Return the loads before the first tuple.

    Examples
    --------
    >>> no_loads(60, 8).slides.shape
    (60, 8)
    """
    slides, window = np.zeros((n_slides, n_workers), np.int64), np.zeros(n_workers, np.int64)
    return SlidingLoads(slides, window, window.copy(), np.zeros(1, np.int64))


@lean_kernel
def turn_loads(loads: SlidingLoads, slide: int, gap: int) -> None:
    """End `slide`, and subtract the slides that leave the window when it moves on by `gap` slides."""
    window, before, n_slides = loads.window, loads.before, len(loads.slides)
    ended = loads.slides[slide % n_slides]
    for worker in range(len(window)):
        ended[worker] = window[worker] - before[worker]
    for step in range(1, min(gap, n_slides) + 1):
        leaves = loads.slides[(slide + step) % n_slides]
        for worker in range(len(window)):
            window[worker] -= leaves[worker]
            leaves[worker] = 0
    total = 0
    for worker in range(len(window)):
        before[worker] = window[worker]
        total += window[worker]
    loads.total[0] = total
