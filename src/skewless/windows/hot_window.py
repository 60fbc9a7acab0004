"""The window of a partitioner that learns about hot keys: statistics, fragments, loads and the clock.

The kernels take any NamedTuple of arrays with the fields of `HotWindow`, so that a partitioner may put
fields of its own beside them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import lean_kernel
from skewless.windows import cold_log, hot_keys, rows
from skewless.windows.cold_log import ColdLog
from skewless.windows.fragments import expire_slide
from skewless.windows.hot_keys import HotKeys
from skewless.windows.loads import SlidingLoads, no_loads, turn_loads
from skewless.windows.rows import Rows, has_room, no_rows

__all__ = [
    "HasWindow",
    "HotWindow",
    "begin_window",
    "hot_window_bytes_bound",
    "no_hot_window",
    "turn_window",
    "window_has_room",
    "with_room",
]


class HotWindow(NamedTuple):
    """Statistics of the keys, rows of the hot ones, loads, clock."""

    keys: HotKeys
    """Frequencies of all keys, and which are hot (Dalton, Definition 3.3)."""
    cold: ColdLog
    """Fragments of the keys that have no row, in case that they become hot."""
    rows: Rows
    """Per hot key: a value per worker, and the workers that hold it (Dalton, Definition 3.2)."""
    loads: SlidingLoads
    """Tuples per worker in the window (Dalton, Definition 3.1)."""
    slide: NDArray[np.int64]
    """int64, (1,): slide, counted from the first tuple's; -1 before it."""
    start: NDArray[np.int64]
    """int64, (1,): when the slide began, in the unit of time."""
    last: NDArray[np.int64]
    """int64, (1,): time of the latest tuple."""


class HasWindow(Protocol):
    """What the kernels read; a NamedTuple with at least these fields."""

    @property
    def keys(self) -> HotKeys:
        """Frequencies, and which keys are hot."""
        ...

    @property
    def cold(self) -> ColdLog:
        """Fragments of the keys without a row."""
        ...

    @property
    def rows(self) -> Rows:
        """Values and fragments of the others."""
        ...

    @property
    def loads(self) -> SlidingLoads:
        """Tuples per worker."""
        ...

    @property
    def slide(self) -> NDArray[np.int64]:
        """Number of the slide."""
        ...

    @property
    def start(self) -> NDArray[np.int64]:
        """When it began."""
        ...


def no_hot_window(n_slides: int, n_workers: int) -> HotWindow:
    """Return the state before the first tuple.

    Examples
    --------
    >>> no_hot_window(60, 8).loads.window.shape
    (8,)
    """
    fresh = no_rows(n_slides, n_workers)
    return HotWindow(
        keys=hot_keys.no_hot_keys(len(fresh.row)),
        cold=cold_log.no_cold(),
        rows=fresh,
        loads=no_loads(n_slides, n_workers),
        slide=np.full(1, -1, np.int64),
        start=np.zeros(1, np.int64),
        last=np.zeros(1, np.int64),
    )


def hot_window_bytes_bound(n_keys: int, n_slides: int, n_workers: int) -> int:
    """Return the bytes of the state when at most `n_keys` keys matter at one time."""
    loads = 8 * (n_slides + 2) * n_workers + 8
    learned = rows.rows_bytes_bound(n_keys, n_slides, n_workers)
    cold = cold_log.cold_log_bytes_bound(n_keys)
    return hot_keys.hot_keys_bytes_bound(n_keys) + cold + learned + loads + 24


def with_room(state: HasWindow, seed: np.uint64) -> tuple[HotKeys, ColdLog, Rows]:
    """Return keys, cold log and rows with room for more keys and fragments."""
    larger, cold = rows.with_room(state.rows), state.cold
    keys = hot_keys.with_room_for_keys(state.keys, larger, seed)
    if cold_log.log_is_full(cold):
        cold = cold_log.with_room_for_cold(cold, seed)
    if keys.heavy[0] == 1 and cold.ends[0] < cold.ends[1] and len(cold.latest) == 0:
        cold = cold_log.with_index(cold)
        cold_log.index_cold(cold.entry, cold.ends, cold.latest, seed)
    return keys, cold, larger


@lean_kernel
def begin_window(state: HasWindow, slide: int, stats_window: int, now: int) -> None:
    """Begin the first slide and the first statistics window."""
    state.slide[0] = 0
    state.start[0] = now // slide * slide
    state.keys.start[0] = now // stats_window * stats_window


@lean_kernel
def turn_window(
    state: HasWindow, slide: int, stats_window: int, n_workers: int, seed: np.uint64, now: int
) -> None:
    """Begin the statistics window and the slide that `now` lies in."""
    keys, cold, n_slides = state.keys, state.cold, len(state.loads.slides)
    if now - keys.start[0] >= stats_window:
        oldest = state.slide[0] - n_slides + 1
        hot_keys.turn_statistics(keys, state.rows, stats_window, n_workers, now, oldest)
    gap = (now - state.start[0]) // slide
    if gap > 0:
        before = state.slide[0]
        state.start[0] += gap * slide
        state.slide[0] += gap
        oldest = state.slide[0] - n_slides + 1
        turn_loads(state.loads, before, gap)
        cold_log.expire_cold(cold, oldest)
        for step in range(1, min(gap, n_slides) + 1):
            expire_slide(state.rows, (before + step) % n_slides, oldest)
    if keys.heavy[0] == 1 and len(cold.latest) > 0:
        cold_log.index_cold(cold.entry, cold.ends, cold.latest, seed)


@lean_kernel
def window_has_room(state: HasWindow) -> bool:
    """Say whether one more tuple of any key fits, but for its entry, without `with_room`."""
    cold = state.cold
    asked = state.keys.heavy[0] == 1 and cold.ends[0] < cold.ends[1] and len(cold.latest) == 0
    return has_room(state.rows) and not cold_log.log_is_full(cold) and not asked
