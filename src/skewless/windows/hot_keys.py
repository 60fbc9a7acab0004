"""Which keys are hot: exact counts in tumbling statistics windows, against the load of the last one.

Definition 3.3 and section 3.3 of the Dalton paper: a key is hot from the tuple on that brings its count
in this statistics window to 1/n of the tuples of the window before, until the end of the next window.
The row of a hot key (`skewless.windows.rows`) carries the window it was last hot in as its mark.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, kernel, lean_kernel, mix
from skewless.windows.fragments import forget_values, touch
from skewless.windows.rows import MARK, Rows, is_row_of, new_row
from skewless.windows.table import (
    EMPTY,
    SMALLEST,
    Table,
    capacity_for,
    empty_table,
    find,
    most_entries,
    refill,
)

__all__ = [
    "LINK",
    "HotKeys",
    "count_key",
    "fetch",
    "heat",
    "hot_keys_bytes_bound",
    "is_heavy",
    "no_hot_keys",
    "row_of",
    "turn_statistics",
    "with_room_for_keys",
]

#: Word of an entry: the last slide in which a key without a row went to its home, or -1 if none, or
#: -2 - (its row), which may be dead.
LINK = 3
_WINDOW, _COUNT = 1, 2


class HotKeys(NamedTuple):
    """Counts of this statistics window, and the keys that are hot in it."""

    table: Table
    """Per key: statistics window of the count, count, link."""
    hot: NDArray[np.int64]
    """int64, (2, rows): rows that became hot in the even and in the odd statistics windows."""
    n_hot: NDArray[np.int64]
    """int64, (2,): how many rows each list of `hot` holds."""
    total: NDArray[np.int64]
    """int64, (2,): tuples of the statistics window so far, and of the one before."""
    number: NDArray[np.int64]
    """int64, (1,): statistics window, counted from the first tuple's."""
    start: NDArray[np.int64]
    """int64, (1,): when it began, in the unit of time."""


def no_hot_keys(n_rows: int) -> HotKeys:
    """Return the state before the first tuple, for as many rows as there is room for.

    Examples
    --------
    >>> no_hot_keys(16).hot.shape
    (2, 16)
    """
    hot = np.zeros((2, n_rows), np.int64)
    zeros = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64)
    return HotKeys(empty_table(), hot, *zeros, np.zeros(1, np.int64))


def with_room_for_keys(keys: HotKeys, rows: Rows, oldest: int, seed: np.uint64) -> HotKeys:
    """Return the same statistics with room for all `rows`, and without stale entries if full."""
    table = keys.table
    if table.used[0] >= most_entries(len(table.entry)):
        live = _live(table.entry, rows.row, int(keys.number[0]), oldest)
        table = empty_table(capacity_for(int(live.sum()), len(table.entry)))
        refill(table, keys.table.entry[live], seed)
    hot = np.zeros((2, len(rows.row)), np.int64)
    hot[:, : keys.hot.shape[1]] = keys.hot
    return keys._replace(table=table, hot=hot)


def hot_keys_bytes_bound(n_keys: int) -> int:
    """Return the bytes of the state when at most `n_keys` keys matter at one time.

    Examples
    --------
    >>> hot_keys_bytes_bound(100)
    36024
    """
    return 32 * capacity_for(n_keys, SMALLEST) + 16 * max(16, 2 * n_keys) + 56


@kernel
def _live(
    entry: NDArray[np.int64], row: NDArray[np.int64], number: int, oldest: int
) -> NDArray[np.bool_]:
    """Mark the entries that count in this statistics window, or whose key is in the window."""
    live = np.zeros(len(entry), np.bool_)
    for place in range(len(entry)):
        link = entry[place, LINK]
        if entry[place, _WINDOW] == number:
            live[place] = True
        elif entry[place, _WINDOW] != EMPTY and link <= -2:
            live[place] = is_row_of(row, -2 - link, np.uint64(entry[place, 0]))
        else:
            live[place] = link >= max(oldest, 0)
    return live


@lean_kernel
def fetch(
    entry: NDArray[np.int64],
    row: NDArray[np.int64],
    seed: np.uint64,
    keys: NDArray[np.uint64],
    mixed: NDArray[np.uint64],
    link: NDArray[np.int64],
) -> None:
    """Mix some keys, and read their entries and rows so that the cache holds them.

    The loops are short, so that the processor has many reads under way at a time.
    """
    mask = np.uint64(len(entry) - 1)
    for i in range(len(keys)):
        mixed[i] = mix(keys[i], seed)
    for i in range(len(keys)):
        link[i] = entry[mixed[i] & mask, LINK]
    for i in range(len(keys)):
        if -len(row) <= link[i] + 1 < 0:
            link[i] = row[-2 - link[i], MARK]


@inline_kernel
def count_key(keys: HotKeys, mixed: np.uint64, key: np.uint64) -> int:
    """Count a tuple; return the key's entry, or -1 if the key is new and the table full."""
    entry, used, number = keys.table.entry, keys.table.used, keys.number[0]
    place: int = find(entry, mixed, key)
    if entry[place, _WINDOW] == EMPTY:
        if used[0] >= most_entries(len(entry)):
            return -1
        used[0] += 1
        entry[place, 0] = np.int64(key)
        entry[place, LINK] = -1
    if entry[place, _WINDOW] != number:
        entry[place, _WINDOW] = number
        entry[place, _COUNT] = 0
    entry[place, _COUNT] += 1
    keys.total[0] += 1
    return place


@inline_kernel
def is_heavy(keys: HotKeys, place: int, n_workers: int) -> bool:
    """Say whether the key has reached 1/n of the last window's load (0 in the first window)."""
    before = keys.total[1]
    return bool(before > 0 and keys.table.entry[place, _COUNT] * n_workers >= before)


@inline_kernel
def row_of(entry: NDArray[np.int64], row: NDArray[np.int64], place: int, key: np.uint64) -> int:
    """Return the key's row, or -1."""
    i = -2 - entry[place, LINK]
    return int(i) if i >= 0 and is_row_of(row, i, key) else -1


@inline_kernel
def heat(
    keys: HotKeys, rows: Rows, place: int, key: np.uint64, i: int, home: int, oldest: int
) -> int:
    """Make a heavy key hot; `i` is its row or -1. Return its row."""
    row, entry, number = rows.row, keys.table.entry, keys.number[0]
    if i < 0:
        cold = entry[place, LINK]
        i = new_row(row, rows.free, key)
        entry[place, LINK] = -2 - i
        if cold >= max(oldest, 0):  # a cold tuple of this window is at the home
            touch(rows, i, home, cold, oldest, home)
    if row[i, MARK] != number:
        row[i, MARK] = number
        keys.hot[number & 1, keys.n_hot[number & 1]] = i
        keys.n_hot[number & 1] += 1
    return i


@lean_kernel
def turn_statistics(keys: HotKeys, rows: Rows, length: int, now: int, oldest: int) -> None:
    """Begin the statistics window that `now` lies in; keys that were hot long ago are forgotten."""
    gap = (now - keys.start[0]) // length
    keys.start[0] += gap * length
    keys.number[0] += gap
    keys.total[1] = keys.total[0] if gap == 1 else 0
    keys.total[0] = 0
    for parity in range(2):
        if gap == 1 and parity != keys.number[0] & 1:
            continue  # hot in the window that has just closed: still hot in this one
        for nth in range(keys.n_hot[parity]):
            i = keys.hot[parity, nth]
            if 0 <= rows.row[i, MARK] < keys.number[0] - 1:
                forget_values(rows, i, oldest)
        keys.n_hot[parity] = 0
