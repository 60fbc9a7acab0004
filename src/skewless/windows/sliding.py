"""Counts per key in a sliding window: one look-up a tuple, and a slide expires key by key.

The counts of each slide lie in a journal, the oldest slide first; the table holds their sum over the
window (Subtract-on-Evict), and for each key its place in the journal of the slide that runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.kernel import lean_kernel, mix
from skewless.parameters import Count, check
from skewless.windows.table import (
    EMPTY,
    Table,
    aligned,
    capacity_for,
    empty_table,
    find,
    most_entries,
    refill,
)

__all__ = ["SlidingCounts"]

_SERIAL, _COUNT = 1, 2
_SEED = np.uint64(0)


class SlidingState(NamedTuple):
    """Counts per key, and per key and slide."""

    table: Table
    """Per key: number of its latest journal record, tuples in the window."""
    journal: NDArray[np.int64]
    """int64, (power of two, 2): key, tuples in one slide; record r is at r modulo the length."""
    first: NDArray[np.int64]
    """int64, (slides in a window,): first record of each slide, by slide modulo their number."""
    ends: NDArray[np.int64]
    """int64, (2,): oldest record in the window, and the next one to be written."""
    number: NDArray[np.int64]
    """int64, (1,): number of the slide, ``time // slide``."""
    total: NDArray[np.int64]
    """int64, (1,): tuples in the window."""
    last: NDArray[np.int64]
    """int64, (2,): time of the latest tuple, and whether there was one."""


class SlidingCounts:
    """Count keys in the last `window`, which moves on by whole slides.

    Parameters
    ----------
    window : int of at least 1
        Length of the window, in the unit of ``Chunk.time``; rounded up to whole slides.
    slide : int of at least 1
        Step of the window, at most `window`.

    Notes
    -----
    Exact. The window is made of the slide that runs and of those before it, ``ceil(window / slide)``
    in all. Cost: one look-up a tuple; a slide that expires costs one look-up for each of its keys.
    State: 32 bytes for each key of the window in a table that is at most 5/8 full, 16 bytes for each
    key of each slide in a journal that is at least a quarter full, 8 bytes a slide.

    Examples
    --------
    >>> counts = SlidingCounts(20, 10)
    >>> counts.update(Chunk([1, 2, 9, 12], [7, 7, 5, 7]))
    >>> counts.count([5, 7]).tolist()
    [1, 3]
    >>> counts.update(Chunk([20], [5]))
    >>> counts.count([5, 7]).tolist(), counts.total
    ([1, 1], 2)

    References
    ----------
    E. Zapridou et al., Dalton, PVLDB 16(3), 2022, section 3.3, doi:10.14778/3570690.3570699.
    """

    window: int
    slide: int
    state: SlidingState

    def __init__(self, window: Count, slide: Count) -> None:
        check("SlidingCounts", SlidingCounts.__init__, window=window, slide=slide)
        if slide > window:
            raise ParameterError(
                f"SlidingCounts: slide must be at most the window of {window}, got {slide}; tuples "
                f"between two windows would belong to none."
            )
        self.window, self.slide = window, slide
        self.state = SlidingState(
            empty_table(),
            np.zeros((64, 2), np.int64),
            np.zeros(-(-window // slide), np.int64),
            np.zeros(2, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(2, np.int64),
        )

    def __repr__(self) -> str:
        return f"SlidingCounts({self.window}, {self.slide})"

    def update(self, chunk: Chunk) -> None:
        """Count the tuples of a chunk.

        Raises
        ------
        DataError
            The chunk begins before the latest tuple of the chunks before it.
        """
        if len(chunk):
            ones = np.broadcast_to(np.int64(1), len(chunk))
            self._update(chunk.time, chunk.key, np.ascontiguousarray(ones))

    def count(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Return the tuples of each key in the window, int64."""
        hashes = Chunk(None, keys).key
        out = np.empty(len(hashes), np.int64)
        _count(self.state, hashes, out)
        return out

    @property
    def total(self) -> int:
        """Tuples in the window."""
        return int(self.state.total[0])

    def keys(self) -> NDArray[np.uint64]:
        """Return the keys of the window, uint64, ascending."""
        return np.sort(self.answer().keys)

    def answer(self) -> Histogram:
        """Return the counts of the window."""
        live = self._live()
        return Histogram(live[:, 0].view(np.uint64), live[:, _COUNT])

    def merge(self, other: SlidingCounts) -> None:
        """Add the counts of another stream; the window is then the later one of the two.

        Raises
        ------
        DataError
            The other's windows or slides have another length.
        """
        if (other.window, other.slide) != (self.window, self.slide):
            raise DataError(
                f"SlidingCounts: cannot merge windows of {other.window} by {other.slide} into windows "
                f"of {self.window} by {self.slide}; count both with the same window and slide."
            )
        time, key, count = (
            np.concatenate(columns)
            for columns in zip(self._records(), other._records(), strict=True)
        )
        latest = [int(c.state.last[0]) for c in (self, other) if c.state.last[1]]
        merged = SlidingCounts(self.window, self.slide)
        if len(key):
            order = np.argsort(time, kind="stable")
            merged._update(time[order], key[order], count[order])
        if latest:
            merged._advance(max(latest))
        self.state = merged.state

    def _records(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
        """Return the start of the slide, the key and the count of each record in the window."""
        state, n_slides = self.state, len(self.state.first)
        serial = np.arange(state.ends[0], state.ends[1])
        slides = np.arange(state.number[0] - n_slides + 1, state.number[0] + 1)
        starts = state.first[slides % n_slides]
        slide = slides[np.searchsorted(starts, serial, side="right") - 1]
        record = state.journal[serial & (len(state.journal) - 1)]
        return slide * self.slide, record[:, 0].copy().view(np.uint64), record[:, 1].copy()

    def _live(self) -> NDArray[np.int64]:
        entry = self.state.table.entry
        live: NDArray[np.int64] = entry[(entry[:, _SERIAL] != EMPTY) & (entry[:, _COUNT] > 0)]
        return live

    def _update(
        self, times: NDArray[np.int64], keys: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> None:
        self._advance(int(times[0]))
        done = 0
        while done < len(keys):
            self._make_room()
            done = _update(self.state, self.slide, times, keys, counts, done)
        self.state.last[0] = times[-1]

    def _advance(self, time: int) -> None:
        if self.state.last[1] and time < self.state.last[0]:
            raise DataError(
                f"SlidingCounts: time must not decrease from chunk to chunk, got {time} after "
                f"{self.state.last[0]}; number the tuples of a chunk on from the chunk before."
            )
        if not self.state.last[1]:
            self.state.number[0] = time // self.slide
        _turn(self.state, time // self.slide)
        self.state.last[:] = time, 1

    def _make_room(self) -> None:
        state = self.state
        if state.table.used[0] >= most_entries(len(state.table.entry)):
            live = self._live()
            kept = empty_table(capacity_for(len(live), len(state.table.entry)))
            refill(kept, live, _SEED)
            self.state = self.state._replace(table=kept)
        if state.ends[1] - state.ends[0] == len(state.journal):
            journal = aligned(2 * len(state.journal), 2)
            serial = np.arange(state.ends[0], state.ends[1])
            records = state.journal[serial & (len(state.journal) - 1)]
            journal[serial & (len(journal) - 1)] = records
            self.state = self.state._replace(journal=journal)


@lean_kernel
def _turn(state: SlidingState, number: int) -> None:
    """Begin the slide `number`: expire the slides that leave the window."""
    n_slides, gap = len(state.first), number - state.number[0]
    if gap <= 0:
        return
    keep = state.ends[1] if gap >= n_slides else state.first[(number + 1) % n_slides]
    mask = len(state.journal) - 1
    for serial in range(state.ends[0], keep):
        key = np.uint64(state.journal[serial & mask, 0])
        place = find(state.table.entry, mix(key, _SEED), key)
        state.table.entry[place, _COUNT] -= state.journal[serial & mask, 1]
        state.total[0] -= state.journal[serial & mask, 1]
    state.ends[0] = max(state.ends[0], keep)
    for step in range(min(gap, n_slides)):
        state.first[(number - step) % n_slides] = state.ends[1]
    state.number[0] = number


@lean_kernel
def _update(
    state: SlidingState,
    slide: int,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    first: int,
) -> int:
    """Count the tuples from `first` on; return the number of the tuple that finds no room."""
    entry, journal, ends = state.table.entry, state.journal, state.ends
    mask, most = len(journal) - 1, most_entries(len(entry))
    start = state.number[0] * slide
    begun = state.first[state.number[0] % len(state.first)]
    for i in range(first, len(keys)):
        if times[i] - start >= slide:
            _turn(state, times[i] // slide)
            start = state.number[0] * slide
            begun = ends[1]
        place = find(entry, mix(keys[i], _SEED), keys[i])
        if entry[place, _SERIAL] == EMPTY and state.table.used[0] >= most:
            return i
        if entry[place, _SERIAL] < begun:
            if ends[1] - ends[0] > mask:
                return i
            if entry[place, _SERIAL] == EMPTY:
                state.table.used[0] += 1
                entry[place, 0] = np.int64(keys[i])
                entry[place, _COUNT] = 0
            entry[place, _SERIAL] = ends[1]
            journal[ends[1] & mask, 0] = np.int64(keys[i])
            journal[ends[1] & mask, 1] = 0
            ends[1] += 1
        entry[place, _COUNT] += counts[i]
        journal[entry[place, _SERIAL] & mask, 1] += counts[i]
        state.total[0] += counts[i]
    return len(keys)


@lean_kernel
def _count(state: SlidingState, keys: NDArray[np.uint64], out: NDArray[np.int64]) -> None:
    for i in range(len(keys)):
        place = find(state.table.entry, mix(keys[i], _SEED), keys[i])
        known = state.table.entry[place, _SERIAL] != EMPTY
        out[i] = state.table.entry[place, _COUNT] if known else 0
