"""Counts per key in tumbling windows: the window that runs and the one before it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.histogram import Histogram
from skewless.kernel import lean_kernel, mix
from skewless.parameters import Count, check
from skewless.windows.table import (
    EMPTY,
    Table,
    capacity_for,
    empty_table,
    find,
    most_entries,
    refill,
)

__all__ = ["TumblingCounts"]

_WINDOW, _COUNT, _BEFORE = 1, 2, 3
_SEED = np.uint64(0)


class TumblingState(NamedTuple):
    """Two counts per key and a clock."""

    table: Table
    """Per key: number of its last window, tuples in that window, tuples in the one before that."""
    number: NDArray[np.int64]
    """int64, (1,): number of the window, ``time // window``."""
    total: NDArray[np.int64]
    """int64, (2,): tuples of the window so far, and of the window before it."""
    last: NDArray[np.int64]
    """int64, (2,): time of the latest tuple, and whether there was one."""


class TumblingCounts:
    """Count keys from one multiple of `window` to the next, and keep the window that closed last.

    Parameters
    ----------
    window : int of at least 1
        Length of the window, in the unit of ``Chunk.time``.

    Notes
    -----
    Exact. Cost: one look-up a tuple; nothing is cleared when a window closes. State: 32 bytes for
    each key of the two windows in a table that is at most 5/8 full. A window without tuples counts:
    after a gap the window that closed last is empty.

    Examples
    --------
    >>> counts = TumblingCounts(10)
    >>> counts.update(Chunk([1, 2, 9, 12], [7, 7, 5, 7]))
    >>> counts.count([5, 7]).tolist(), counts.total
    ([0, 1], 1)
    >>> counts.closed().counts.tolist()
    [2, 1]

    References
    ----------
    E. Zapridou et al., Dalton, PVLDB 16(3), 2022, section 3.3, doi:10.14778/3570690.3570699.
    """

    window: int
    state: TumblingState

    def __init__(self, window: Count) -> None:
        check("TumblingCounts", TumblingCounts.__init__, window=window)
        self.window = window
        self.state = TumblingState(
            empty_table(), np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
        )

    def __repr__(self) -> str:
        return f"TumblingCounts({self.window})"

    def update(self, chunk: Chunk) -> None:
        """Count the tuples of a chunk.

        Raises
        ------
        DataError
            The chunk begins before the latest tuple of the chunks before it.
        """
        if len(chunk) == 0:
            return
        self._advance(int(chunk.time[0]))
        done = 0
        while done < len(chunk):
            self._make_room()
            done = _update(self.state, self.window, chunk.time, chunk.key, done)
        self.state.last[0] = chunk.time[-1]

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
        """Return the counts of the window that runs."""
        entry = self.state.table.entry
        now = (entry[:, _WINDOW] == self.state.number[0]) & (entry[:, _COUNT] > 0)
        return Histogram(entry[now, 0].view(np.uint64), entry[now, _COUNT])

    def closed(self) -> Histogram:
        """Return the counts of the window before the one that runs."""
        entry, number = self.state.table.entry, self.state.number[0]
        count = np.where(entry[:, _WINDOW] == number, entry[:, _BEFORE], 0)
        count = np.where(entry[:, _WINDOW] == number - 1, entry[:, _COUNT], count)
        then = count > 0
        return Histogram(entry[then, 0].view(np.uint64), count[then])

    def merge(self, other: TumblingCounts) -> None:
        """Add the counts of another stream; the window is then the later one of the two.

        Raises
        ------
        DataError
            The other's windows have another length.
        """
        if other.window != self.window:
            raise DataError(
                f"TumblingCounts: cannot merge windows of {other.window} into windows of "
                f"{self.window}; count both with the same window."
            )
        if not other.state.last[1]:
            return
        time = int(other.state.last[0])
        if self.state.last[1]:
            time = max(time, int(self.state.last[0]))
        self._advance(time)
        back = int(self.state.number[0] - other.state.number[0])
        recent = [other.closed(), other.answer()]  # the windows -1 and 0 of the other
        for age in (1, 0):
            if 0 <= age - back <= 1:
                self._add(recent[1 - (age - back)], age)

    def _add(self, histogram: Histogram, age: int) -> None:
        done = 0
        while done < len(histogram):
            self._make_room()
            done = _add(self.state, age, histogram.keys, histogram.counts, done)

    def _advance(self, time: int) -> None:
        if self.state.last[1] and time < self.state.last[0]:
            raise DataError(
                f"TumblingCounts: time must not decrease from chunk to chunk, got {time} after "
                f"{self.state.last[0]}; number the tuples of a chunk on from the chunk before."
            )
        if not self.state.last[1]:
            self.state.number[0] = time // self.window
        _turn(self.state, time // self.window)
        self.state.last[:] = time, 1

    def _make_room(self) -> None:
        table = self.state.table
        if table.used[0] >= most_entries(len(table.entry)):
            live = table.entry[table.entry[:, _WINDOW] >= self.state.number[0] - 1]
            kept = empty_table(capacity_for(len(live), len(table.entry)))
            refill(kept, live, _SEED)
            self.state = self.state._replace(table=kept)


@lean_kernel
def _turn(state: TumblingState, number: int) -> None:
    gap = number - state.number[0]
    if gap > 0:
        state.total[1] = state.total[0] if gap == 1 else 0
        state.total[0] = 0
        state.number[0] = number


@lean_kernel
def _place(state: TumblingState, key: np.uint64) -> int:
    """Return the entry of `key`, brought to this window, or -1 if it is new and the table is full."""
    entry, number = state.table.entry, state.number[0]
    place = find(entry, mix(key, _SEED), key)
    then = entry[place, _WINDOW]
    if then == EMPTY:
        if state.table.used[0] >= most_entries(len(entry)):
            return -1
        state.table.used[0] += 1
        entry[place, 0] = np.int64(key)
    if then != number:
        before = entry[place, _COUNT] if then == number - 1 else 0
        entry[place, _BEFORE] = before
        entry[place, _WINDOW] = number
        entry[place, _COUNT] = 0
    return place


@lean_kernel
def _update(
    state: TumblingState,
    window: int,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
) -> int:
    """Count the tuples from `first` on; return the number of the tuple that finds no room."""
    start = state.number[0] * window
    for i in range(first, len(keys)):
        if times[i] - start >= window:
            _turn(state, times[i] // window)
            start = state.number[0] * window
        place = _place(state, keys[i])
        if place < 0:
            return i
        state.table.entry[place, _COUNT] += 1
        state.total[0] += 1
    return len(keys)


@lean_kernel
def _add(
    state: TumblingState,
    age: int,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    first: int,
) -> int:
    for i in range(first, len(keys)):
        place = _place(state, keys[i])
        if place < 0:
            return i
        state.table.entry[place, _BEFORE if age else _COUNT] += counts[i]
        state.total[age] += counts[i]
    return len(keys)


@lean_kernel
def _count(state: TumblingState, keys: NDArray[np.uint64], out: NDArray[np.int64]) -> None:
    for i in range(len(keys)):
        place = find(state.table.entry, mix(keys[i], _SEED), keys[i])
        now = state.table.entry[place, _WINDOW] == state.number[0]
        out[i] = state.table.entry[place, _COUNT] if now else 0
