"""What a learner tells others about its hot keys, and how it takes over what they tell.

The kernels take any NamedTuple of arrays with the fields of `skewless.windows.hot_window.HotWindow`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import lean_kernel, mix, spread
from skewless.windows import cold_log
from skewless.windows.cold_log import ColdLog
from skewless.windows.fragments import forget_values, holder, replace_values
from skewless.windows.hot_keys import HotKeys, adopt, cold_counts, counts_of, find_row
from skewless.windows.hot_window import HasWindow
from skewless.windows.rows import (
    DEAD,
    FRAGMENTS,
    KEY,
    MARK,
    SHAPE,
    UNSEEN,
    VALUE,
    WORKER,
    Rows,
    has_room,
)

__all__ = [
    "forget_rows",
    "forwards",
    "heaviest_cold",
    "hot_rows",
    "hot_values",
    "indexed",
    "keep_hot",
    "take_over",
]


def heaviest_cold(
    keys: HotKeys, rows: Rows, n: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the `n` most frequent keys of the statistics window that are not hot, and their counts.

    Of equally frequent keys those with the lowest numbers.

    Examples
    --------
    >>> from skewless.windows.hot_keys import no_hot_keys
    >>> from skewless.windows.rows import no_rows
    >>> len(heaviest_cold(no_hot_keys(16), no_rows(60, 8), 3)[0])
    0
    """
    names = np.empty(keys.table.used[0], np.uint64)
    counts = np.empty(len(names), np.int64)
    cold = cold_counts(keys, rows.row, names, counts)
    names, counts = names[:cold], counts[:cold]
    if cold <= n:
        return names, counts
    least = np.partition(counts, -n)[-n]
    sure, equal = np.flatnonzero(counts > least), np.flatnonzero(counts == least)
    taken = np.concatenate((sure, equal[np.argsort(names[equal])[: n - len(sure)]]))
    return names[taken], counts[taken]


def hot_rows(rows: Rows) -> NDArray[np.intp]:
    """Return the rows of hot keys.

    Examples
    --------
    >>> from skewless.windows.rows import no_rows
    >>> hot_rows(no_rows(60, 8)).tolist()
    []
    """
    return np.flatnonzero((rows.row[:, SHAPE] != DEAD) & (rows.row[:, MARK] >= 0))


@lean_kernel
def hot_values(
    keys: HotKeys,
    rows: Rows,
    which: NDArray[np.intp],
    seed: np.uint64,
    names: NDArray[np.uint64],
    counts: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Write key, tuples in this statistics window and value of every worker of some rows."""
    row = rows.row
    real = row.view(np.float64)
    for j in range(len(which)):
        i = which[j]
        names[j] = np.uint64(row[i, KEY])
        if row[i, SHAPE] <= -2:
            for worker in range(out.shape[1]):
                out[j, worker] = rows.value[-2 - row[i, SHAPE], worker]
            continue
        out[j, :] = UNSEEN
        for cell in range(row[i, SHAPE]):
            out[j, row[i, WORKER + 3 * cell]] = real[i, VALUE + 3 * cell]
    counts_of(keys, names, seed, counts)


@lean_kernel
def forget_rows(rows: Rows, which: NDArray[np.intp], oldest: int) -> None:
    """Make the keys of some rows cold."""
    for j in range(len(which)):
        forget_values(rows, which[j], oldest)


@lean_kernel
def keep_hot(state: HasWindow, names: NDArray[np.uint64], seed: np.uint64) -> bool:
    """Make all keys cold that are not in `names`, ascending; say whether each of these has a row."""
    rows, row, have_rows = state.rows, state.rows.row, True
    oldest = state.slide[0] - len(state.loads.slides) + 1
    for i in range(len(row)):
        if row[i, SHAPE] != DEAD and row[i, MARK] >= 0:
            key, low, high = np.uint64(row[i, KEY]), 0, len(names)
            while low < high:
                middle = (low + high) >> 1
                if names[middle] < key:
                    low = middle + 1
                else:
                    high = middle
            if low == len(names) or names[low] != key:
                forget_values(rows, i, oldest)
    for j in range(len(names)):
        have_rows = have_rows and find_row(state.keys, row, mix(names[j], seed), names[j]) >= 0
    return have_rows


def indexed(log: ColdLog, seed: np.uint64) -> ColdLog:
    """Return the same log with an index of all its entries.

    Examples
    --------
    >>> len(indexed(cold_log.no_cold(), np.uint64(0)).latest)
    32768
    """
    if len(log.latest) == 0:
        log = cold_log.with_index(log)
    cold_log.index_cold(log.entry, log.ends, log.latest, seed)
    return log


@lean_kernel
def take_over(
    state: HasWindow,
    keys: NDArray[np.uint64],
    values: NDArray[np.float64],
    marks: NDArray[np.int64],
    seed: np.uint64,
    first: int,
) -> int:
    """Make keys hot, from number `first` on, with the values given; return the one without room.

    The log of cold keys is indexed if some key has no row.
    """
    rows = state.rows
    oldest = state.slide[0] - len(state.loads.slides) + 1
    n_workers = np.uint64(len(state.loads.window))
    for j in range(first, len(keys)):
        if not has_room(rows):
            return j
        mixed = mix(keys[j], seed)
        home = int(spread(mixed, n_workers))
        i = adopt(state.keys, rows, state.cold, keys[j], mixed, seed, home, oldest)
        rows.row[i, MARK] = marks[j]
        replace_values(rows, i, values[j], home, oldest)
    return len(keys)


@lean_kernel
def forwards(
    state: HasWindow,
    keys: NDArray[np.uint64],
    seed: np.uint64,
    at_home: bool,
    out: NDArray[np.bool_],
) -> None:
    """Clear `out` where a key is hot or has two workers in the window, or one that is not its home.

    The last only if `at_home`: others may have sent tuples of the key to the home.
    """
    rows, row = state.rows, state.rows.row
    oldest = state.slide[0] - len(state.loads.slides) + 1
    for j in range(len(keys)):
        mixed = mix(keys[j], seed)
        i = find_row(state.keys, row, mixed, keys[j])
        if i < 0:
            continue
        if row[i, MARK] >= 0 or row[i, FRAGMENTS] > 1:
            out[j] = False
        elif at_home and row[i, FRAGMENTS] == 1:
            home = int(spread(mixed, np.uint64(len(state.loads.window))))
            out[j] = out[j] and holder(rows, i, 0, oldest) == home
