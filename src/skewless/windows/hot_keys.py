"""Which keys are hot: exact counts in tumbling statistics windows, against the load of the last one.

Definition 3.3 and section 3.3 of the Dalton paper: a key is hot from the tuple on that brings its count
in this statistics window to 1/n of the tuples of the window before, until the end of the next window.
The row of a hot key (`skewless.windows.rows`) carries the window it was last hot in as its mark.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix
from skewless.windows.cold_log import ColdLog, last_cold
from skewless.windows.fragments import forget_values, touch
from skewless.windows.rows import DEAD, KEY, MARK, SHAPE, Rows, is_row_of, new_row
from skewless.windows.table import (
    SMALLEST,
    Table,
    capacity_for,
    empty_table,
    most_entries,
    refill,
)

__all__ = [
    "COUNT",
    "LINK",
    "NEVER_HEAVY",
    "HotKeys",
    "adopt",
    "close_statistics",
    "cold_counts",
    "count_key",
    "counts_of",
    "fetch_rows",
    "find_row",
    "heat",
    "hot_keys_bytes_bound",
    "no_hot_keys",
    "row_of",
    "turn_statistics",
    "with_room_for_keys",
]

#: Words of an entry. An entry of another statistics window is an empty place. The link is the last
#: slide in which the key, without a row, went to its home in this statistics window, or -1 if none, or
#: -2 - (its row), which may be dead.
_KEY, _WINDOW, COUNT, LINK = 0, 1, 2, 3
#: The count that makes a key hot when the window before had no tuples.
NEVER_HEAVY = np.int64(2**62)


class HotKeys(NamedTuple):
    """Counts of this statistics window, and the keys that are hot in it."""

    table: Table
    """Per key of this statistics window: the window, count, link."""
    place: NDArray[np.int64]
    """int64, (4 rows, 2): key, its row, which may be dead, or -1; open addressing."""
    n_placed: NDArray[np.int64]
    """int64, (1,): keys in `place`."""
    hot: NDArray[np.int64]
    """int64, (2, rows): rows that became hot in the even and in the odd statistics windows."""
    n_hot: NDArray[np.int64]
    """int64, (2,): how many rows each list of `hot` holds."""
    total: NDArray[np.int64]
    """int64, (2,): tuples of the statistics window so far, and of the one before."""
    heavy: NDArray[np.int64]
    """int64, (1,): the count that makes a key hot in this statistics window, or `NEVER_HEAVY`."""
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
    return HotKeys(
        empty_table(),
        np.full((4 * n_rows, 2), -1, np.int64),
        np.zeros(1, np.int64),
        np.zeros((2, n_rows), np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        np.array([NEVER_HEAVY]),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )


def with_room_for_keys(keys: HotKeys, rows: Rows, seed: np.uint64) -> HotKeys:
    """Return the same statistics with room for all `rows`, and in a larger table if it is full."""
    table, n_rows = keys.table, len(rows.row)
    if table.used[0] >= most_entries(len(table.entry)):
        live = table.entry[table.entry[:, _WINDOW] == keys.number[0]]
        table = empty_table(capacity_for(len(live), len(table.entry)))
        refill(table, live, seed)
    if n_rows > keys.hot.shape[1]:
        hot = np.zeros((2, n_rows), np.int64)
        hot[:, : keys.hot.shape[1]] = keys.hot
        place = np.full((4 * n_rows, 2), -1, np.int64)
        _place_all(place, keys.n_placed, rows.row, seed)
        keys = keys._replace(hot=hot, place=place)
    return keys._replace(table=table)


def hot_keys_bytes_bound(n_keys: int) -> int:
    """Return the bytes of the state when at most `n_keys` keys matter at one time.

    Examples
    --------
    >>> hot_keys_bytes_bound(100)
    48840
    """
    return 32 * capacity_for(n_keys, SMALLEST) + 80 * max(16, 2 * n_keys) + 72


@lean_kernel
def fetch_rows(
    place_of: NDArray[np.int64],
    row: NDArray[np.int64],
    mixed: NDArray[np.uint64],
    link: NDArray[np.int64],
) -> None:
    """Read the rows of some keys, so that their cache misses overlap."""
    mask = np.uint64(len(place_of) - 1)
    for j in range(len(mixed)):
        link[j] = place_of[mixed[j] & mask, 1]
    for j in range(len(mixed)):
        if link[j] >= 0:
            link[j] = row[np.uint64(link[j]), MARK]


@inline_kernel
def count_key(
    entry: NDArray[np.int64],
    used: NDArray[np.int64],
    place_of: NDArray[np.int64],
    row: NDArray[np.int64],
    number: int,
    mixed: np.uint64,
    key: np.uint64,
) -> np.uint64:
    """Count a tuple; return the key's entry, or `len(entry)` if the key is new and the table full."""
    mask, wanted = np.uint64(len(entry) - 1), np.int64(key)
    place = mixed & mask
    while entry[place, _WINDOW] == number:
        if entry[place, _KEY] == wanted:
            entry[place, COUNT] += 1
            return place
        place = (place + np.uint64(1)) & mask
    if used[0] >= most_entries(len(entry)):
        return np.uint64(len(entry))
    used[0] += 1
    entry[place, _KEY] = wanted
    entry[place, _WINDOW] = number
    entry[place, COUNT] = 1
    i = place_of[_find_place(place_of, mixed, key), 1]
    entry[place, LINK] = -2 - i if i >= 0 and is_row_of(row, i, key) else -1
    return place


@inline_kernel
def _find_place(place_of: NDArray[np.int64], mixed: np.uint64, key: np.uint64) -> np.uint64:
    mask, wanted = np.uint64(len(place_of) - 1), np.int64(key)
    place = mixed & mask
    while place_of[place, 1] >= 0 and place_of[place, 0] != wanted:
        place = (place + np.uint64(1)) & mask
    return place


@lean_kernel
def _place_all(
    place_of: NDArray[np.int64],
    n_placed: NDArray[np.int64],
    row: NDArray[np.int64],
    seed: np.uint64,
) -> None:
    """Put all rows that live into an empty table."""
    n_placed[0] = 0
    for i in range(len(row)):
        if row[i, SHAPE] != DEAD:
            key = np.uint64(row[i, KEY])
            place = _find_place(place_of, mix(key, seed), key)
            place_of[place, 0] = row[i, KEY]
            place_of[place, 1] = i
            n_placed[0] += 1


@inline_kernel
def row_of(
    entry: NDArray[np.int64], row: NDArray[np.int64], place: np.uint64, key: np.uint64
) -> int:
    """Return the key's row, or -1."""
    i = -2 - entry[place, LINK]
    return int(i) if i >= 0 and is_row_of(row, i, key) else -1


@lean_kernel
def heat(
    keys: HotKeys,
    rows: Rows,
    log: ColdLog,
    place: np.uint64,
    key: np.uint64,
    mixed: np.uint64,
    seed: np.uint64,
    i: int,
    home: int,
    oldest: int,
) -> int:
    """Make a heavy key hot; `i` is its row or -1. Return its row."""
    row, number = rows.row, keys.number[0]
    if i < 0:
        cold = keys.table.entry[place, LINK]
        if cold == -1:  # its first tuple in this statistics window
            cold = last_cold(log, mixed, key)
        i = _give_row(keys, rows, key, mixed, seed, cold, home, oldest)
        keys.table.entry[place, LINK] = -2 - i
    if row[i, MARK] != number:
        row[i, MARK] = number
        keys.hot[number & 1, keys.n_hot[number & 1]] = i
        keys.n_hot[number & 1] += 1
    return i


@lean_kernel
def adopt(
    keys: HotKeys,
    rows: Rows,
    log: ColdLog,
    key: np.uint64,
    mixed: np.uint64,
    seed: np.uint64,
    home: int,
    oldest: int,
) -> int:
    """Return the row of a key, seen here or not; make it if there is none. The log is indexed."""
    entry = keys.table.entry
    i = find_row(keys, rows.row, mixed, key)
    if i >= 0:
        return i
    place = _entry_of(entry, keys.number[0], mixed, key)
    counted = entry[place, _WINDOW] == keys.number[0]
    cold = entry[place, LINK] if counted else last_cold(log, mixed, key)
    i = _give_row(keys, rows, key, mixed, seed, cold, home, oldest)
    if counted:
        entry[place, LINK] = -2 - i
    return int(i)


@inline_kernel
def find_row(keys: HotKeys, row: NDArray[np.int64], mixed: np.uint64, key: np.uint64) -> int:
    """Return the row of a key, seen in this statistics window or not, or -1."""
    i = keys.place[_find_place(keys.place, mixed, key), 1]
    return int(i) if i >= 0 and is_row_of(row, i, key) else -1


@inline_kernel
def _give_row(
    keys: HotKeys,
    rows: Rows,
    key: np.uint64,
    mixed: np.uint64,
    seed: np.uint64,
    cold: int,
    home: int,
    oldest: int,
) -> int:
    """Make the row of a key that was last at its home in slide `cold`, if that is not negative."""
    i = new_row(rows.row, rows.free, key)
    if 2 * keys.n_placed[0] >= len(keys.place):
        keys.place[:] = -1
        _place_all(keys.place, keys.n_placed, rows.row, seed)
    found = _find_place(keys.place, mixed, key)
    if keys.place[found, 1] < 0:
        keys.n_placed[0] += 1
    keys.place[found, 0] = np.int64(key)
    keys.place[found, 1] = i
    if cold >= max(oldest, 0):  # a cold tuple of this window is at the home
        touch(rows, i, home, cold, oldest, home)
    return i


@inline_kernel
def _entry_of(entry: NDArray[np.int64], number: int, mixed: np.uint64, key: np.uint64) -> np.uint64:
    """Return the entry of a key, or the place where it would be."""
    mask, wanted = np.uint64(len(entry) - 1), np.int64(key)
    place = mixed & mask
    while entry[place, _WINDOW] == number and entry[place, _KEY] != wanted:
        place = (place + np.uint64(1)) & mask
    return place


@lean_kernel
def counts_of(
    keys: HotKeys, wanted: NDArray[np.uint64], seed: np.uint64, out: NDArray[np.int64]
) -> None:
    """Write the tuples of each wanted key in this statistics window."""
    entry, number = keys.table.entry, keys.number[0]
    for j in range(len(wanted)):
        place = _entry_of(entry, number, mix(wanted[j], seed), wanted[j])
        out[j] = entry[place, COUNT] if entry[place, _WINDOW] == number else 0


@lean_kernel
def cold_counts(
    keys: HotKeys, row: NDArray[np.int64], names: NDArray[np.uint64], counts: NDArray[np.int64]
) -> int:
    """Write the keys of this statistics window that are not hot, and their tuples; say how many."""
    entry, number, n = keys.table.entry, keys.number[0], 0
    for place in range(len(entry)):
        if entry[place, _WINDOW] == number:
            key = np.uint64(entry[place, _KEY])
            own = row_of(entry, row, np.uint64(place), key)
            if own < 0 or row[own, MARK] < 0:
                names[n], counts[n] = key, entry[place, COUNT]
                n += 1
    return n


def close_statistics(keys: HotKeys) -> None:
    """Begin a statistics window whose hot keys somebody else decides on: all counts are 0.

    Examples
    --------
    >>> keys = no_hot_keys(16)
    >>> close_statistics(keys)
    >>> keys.number.tolist()
    [1]
    """
    keys.number[0] += 1
    keys.total[:] = 0
    keys.table.used[0] = 0
    keys.n_hot[:] = 0


@lean_kernel
def turn_statistics(
    keys: HotKeys, rows: Rows, length: int, n_workers: int, now: int, oldest: int
) -> None:
    """Begin the statistics window that `now` lies in; keys that were hot long ago are forgotten."""
    gap = (now - keys.start[0]) // length
    keys.start[0] += gap * length
    keys.number[0] += gap
    keys.total[1] = keys.total[0] if gap == 1 else 0
    keys.total[0] = 0
    keys.heavy[0] = -(-keys.total[1] // n_workers) if keys.total[1] > 0 else NEVER_HEAVY
    keys.table.used[0] = 0
    for parity in range(2):
        if gap == 1 and parity != keys.number[0] & 1:
            continue  # hot in the window that has just closed: still hot in this one
        for nth in range(keys.n_hot[parity]):
            i = keys.hot[parity, nth]
            if 0 <= rows.row[i, MARK] < keys.number[0] - 1:
                forget_values(rows, i, oldest)
        keys.n_hot[parity] = 0
