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
from skewless.windows.hot_keys import HotKeys, adopt, counted, find_row
from skewless.windows.hot_window import HasWindow
from skewless.windows.rows import (
    DEAD,
    FRAGMENTS,
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
    "heaviest",
    "hot_rows",
    "hot_values",
    "indexed",
    "take_over",
]


def heaviest(keys: HotKeys, n: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the `n` most frequent keys of the statistics window and their counts; lower keys first.

    Examples
    --------
    >>> from skewless.windows.hot_keys import no_hot_keys
    >>> len(heaviest(no_hot_keys(16), 3)[0])
    0
    """
    names, counts = counted(keys)
    if len(names) <= n:
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
def hot_values(rows: Rows, which: NDArray[np.intp], out: NDArray[np.float64]) -> None:
    """Write the value of every worker of some rows; `out` has a row for each."""
    row = rows.row
    real = row.view(np.float64)
    for j in range(len(which)):
        i = which[j]
        if row[i, SHAPE] <= -2:
            for worker in range(out.shape[1]):
                out[j, worker] = rows.value[-2 - row[i, SHAPE], worker]
            continue
        out[j, :] = UNSEEN
        for cell in range(row[i, SHAPE]):
            out[j, row[i, WORKER + 3 * cell]] = real[i, VALUE + 3 * cell]


@lean_kernel
def forget_rows(rows: Rows, which: NDArray[np.intp], oldest: int) -> None:
    """Make the keys of some rows cold."""
    for j in range(len(which)):
        forget_values(rows, which[j], oldest)


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
