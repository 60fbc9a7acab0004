"""One row per key that a learner looks after: who holds the key in the window, and what it is worth.

A row keeps, for every worker that matters, a cell with the last slide in which the worker got the key
(`skewless.windows.fragments`) and the value learned for it (`skewless.windows.values`). All other
workers hold nothing and have the value `UNSEEN`. The cell of the highest value comes first, in the
row's first cache line. A row that needs more than `CELLS` cells becomes dense: an entry per worker in
arrays of its own. So the time and the memory of a key do not grow with the number of workers, but
with the number of those that got it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel
from skewless.windows.table import aligned
from skewless.windows.tournament import width_for

__all__ = [
    "BOUND",
    "CELLS",
    "DEAD",
    "FRAGMENTS",
    "KEY",
    "LAST",
    "MARK",
    "NEVER",
    "SHAPE",
    "UNSEEN",
    "VALUE",
    "WORKER",
    "Rows",
    "has_room",
    "is_row_of",
    "new_row",
    "no_rows",
    "release",
    "release_dense",
    "rows_bytes_bound",
    "with_room",
]

#: Value of a worker that was never tried.
UNSEEN = -2.0
#: Workers that a row holds before it becomes dense.
CELLS = 9

#: Words of a row: its key; the owner's mark, -1 for none; how many workers hold the key; how many
#: cells it has, or -2 - (its dense row), or `DEAD`; and a float that no value but the best exceeds.
#: A row lives while it has a mark or a fragment. The key of a dead row is the next dead row.
KEY, MARK, FRAGMENTS, SHAPE, BOUND = 0, 1, 2, 3, 4
#: Words of cell 0; those of cell c are 3 c further. The value is a float.
WORKER, LAST, VALUE = 5, 6, 7
DEAD = -1
#: The last slide of a worker that never got the key.
NEVER = np.int64(-(2**62))

_WORDS = 5 + 3 * CELLS


class Rows(NamedTuple):
    """Rows, dense rows, and the fragments by the slide in which they may expire."""

    row: NDArray[np.int64]
    """int64, (R, 32): words and cells of each row; the floats among them by ``view(float64)``."""
    node: NDArray[np.int64]
    """int64, (N, 2): ``row << 32 | worker`` of a fragment, next node of its bucket or -1."""
    bucket: NDArray[np.int64]
    """int64, (slides in a window,): first node by slide modulo the slides in a window, or -1."""
    value: NDArray[np.float64]
    """float64, (D, n_workers): value per worker of the dense rows."""
    last: NDArray[np.int64]
    """int64, (D, n_workers): last slide per worker of the dense rows; the next free one in column 0."""
    winner: NDArray[np.int32]
    """int32, (D, power of two): tournament of the dense rows, the home in column 0."""
    free: NDArray[np.int64]
    """int64, (3,): first free row, node and dense row, or -1."""


def no_rows(n_slides: int, n_workers: int) -> Rows:
    """Return the state before the first key.

    Examples
    --------
    >>> no_rows(60, 8).bucket.shape
    (60,)
    """
    return with_room(
        Rows(
            np.empty((0, _WORDS), np.int64),
            np.empty((0, 2), np.int64),
            np.full(n_slides, -1, np.int64),
            np.empty((0, n_workers), np.float64),
            np.empty((0, n_workers), np.int64),
            np.empty((0, width_for(n_workers)), np.int32),
            np.full(3, -1, np.int64),
        )
    )


def with_room(rows: Rows) -> Rows:
    """Return the same rows with every pool doubled that `has_room` finds exhausted."""
    free = rows.free.copy()
    if free[0] < 0:
        old = len(rows.row)
        row = aligned(max(16, 2 * old), _WORDS)
        row[:old] = rows.row
        row[old:, MARK], row[old:, SHAPE] = -1, DEAD
        row[old:, KEY] = [*range(old + 1, len(row)), -1]
        rows, free[0] = rows._replace(row=row), old
    if free[1] < 0 or rows.node[free[1], 1] < 0:
        old = len(rows.node)
        node = _longer(rows.node, max(64, 2 * old))
        node[old:, 1] = [*range(old + 1, len(node)), free[1]]
        rows, free[1] = rows._replace(node=node), old
    if free[2] < 0 and rows.value.shape[1] > CELLS:
        old = len(rows.value)
        longer = {
            name: _longer(getattr(rows, name), max(1, 2 * old))
            for name in ("value", "last", "winner")
        }
        longer["last"][old:, 0] = [*range(old + 1, len(longer["last"])), -1]
        rows, free[2] = rows._replace(**longer), old
    return rows._replace(free=free)


def _longer(array: NDArray, length: int) -> NDArray:  # type: ignore[type-arg]
    grown = np.empty((length, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def rows_bytes_bound(n_keys: int, n_slides: int, n_workers: int) -> int:
    """Return the bytes of the state when at most `n_keys` keys have a row at one time.

    Examples
    --------
    >>> rows_bytes_bound(100, 60, 8)
    77336
    """
    n_dense = max(1, 2 * n_keys) if n_workers > CELLS else 0
    n_nodes = max(64, 2 * n_keys * n_workers + 2)
    dense = n_dense * (16 * n_workers + 4 * width_for(n_workers))
    return 8 * _WORDS * max(16, 2 * n_keys) + 16 * n_nodes + 8 * n_slides + dense + 24


@inline_kernel
def has_room(rows: Rows) -> bool:
    """Say whether one more key and two more fragments fit without `with_room`."""
    free, node = rows.free, rows.free[1]
    dense = free[2] >= 0 or rows.value.shape[1] <= CELLS
    return bool(free[0] >= 0 and node >= 0 and rows.node[node, 1] >= 0 and dense)


@inline_kernel
def new_row(row: NDArray[np.int64], free: NDArray[np.int64], key: np.uint64) -> int:
    """Take a free row for `key`, without a mark, fragments or values."""
    new: int = free[0]
    free[0] = row[new, KEY]
    row[new, KEY] = np.int64(key)
    row[new, MARK] = -1
    row[new, FRAGMENTS] = 0
    row[new, SHAPE] = 0
    row.view(np.float64)[new, BOUND] = UNSEEN
    return new


@inline_kernel
def is_row_of(row: NDArray[np.int64], i: int, key: np.uint64) -> bool:
    """Say whether row `i` still lives and belongs to `key`."""
    return bool(row[i, KEY] == np.int64(key) and row[i, SHAPE] != DEAD)


@lean_kernel
def release_dense(
    row: NDArray[np.int64], last: NDArray[np.int64], free: NDArray[np.int64], i: int
) -> None:
    """Give the dense row of row `i` back."""
    dense = -2 - row[i, SHAPE]
    last[dense, 0] = free[2]
    free[2] = dense


@inline_kernel
def release(
    row: NDArray[np.int64], last: NDArray[np.int64], free: NDArray[np.int64], i: int
) -> None:
    """Give row `i` back."""
    if row[i, SHAPE] <= -2:
        release_dense(row, last, free, i)
    row[i, SHAPE] = DEAD
    row[i, KEY] = free[0]
    free[0] = i
