"""Which workers hold a key in a sliding window; see `skewless.windows.rows`.

A fragment is a key at a worker, as long as the worker got the key within the window. Each has one node
in the bucket of a slide. When that slide leaves the window, the node expires the fragment, or follows
it to the slide of its last tuple. This keeps the number of fragments exact, as the reference counts of
the Dalton paper's section 3.3 do, and visits a fragment once in a window and not once in a slide.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel
from skewless.windows.rows import (
    BOUND,
    CELLS,
    FRAGMENTS,
    LAST,
    MARK,
    NEVER,
    SHAPE,
    UNSEEN,
    VALUE,
    WORKER,
    Rows,
    release,
    release_dense,
)
from skewless.windows.values import elect, rank_all

__all__ = ["expire_slide", "forget_values", "holder", "replace_values", "seen", "touch"]

_SHIFT = 32


@inline_kernel
def seen(
    row: NDArray[np.int64], last: NDArray[np.int64], i: int, worker: int, slide: int, oldest: int
) -> int:
    """Do what `touch` does if `worker` holds the key in the window; else return -1."""
    shape = row[i, SHAPE]
    if shape <= -2:
        if last[-2 - shape, worker] < oldest:
            return -1
        last[-2 - shape, worker] = slide
        return worker
    cell = _cell_of(row, i, worker)
    if cell < 0 or row[i, LAST + 3 * cell] < oldest:
        return -1
    row[i, LAST + 3 * cell] = slide
    return cell


@inline_kernel
def touch(rows: Rows, i: int, worker: int, slide: int, oldest: int, home: int) -> int:
    """Note that `worker`, which does not hold the key of row `i`, got it in `slide`.

    `oldest` is the first slide of the window. Return the cell for `set_value`.
    """
    row = rows.row
    cell = worker if row[i, SHAPE] <= -2 else _cell_of(row, i, worker)
    if cell < 0:
        if row[i, SHAPE] == CELLS:
            _drop_stale(row, i, oldest)
        if row[i, SHAPE] == CELLS:
            _to_dense(rows, i, home)
            cell = worker
        else:
            cell = row[i, SHAPE]
            row[i, SHAPE] = cell + 1
            row[i, WORKER + 3 * cell] = worker
            row.view(np.float64)[i, VALUE + 3 * cell] = UNSEEN
    if row[i, SHAPE] <= -2:
        rows.last[-2 - row[i, SHAPE], worker] = slide
    else:
        row[i, LAST + 3 * cell] = slide
    row[i, FRAGMENTS] += 1
    node, slot = rows.free[1], slide % len(rows.bucket)
    rows.free[1] = rows.node[node, 1]
    rows.node[node, 0] = i << _SHIFT | worker
    rows.node[node, 1] = rows.bucket[slot]
    rows.bucket[slot] = node
    return cell


@inline_kernel
def _cell_of(row: NDArray[np.int64], i: int, worker: int) -> int:
    """Return the cell of `worker` in a row that is not dense, or -1."""
    for cell in range(row[i, SHAPE]):
        if row[i, WORKER + 3 * cell] == worker:
            return cell
    return -1


@lean_kernel
def _drop_stale(row: NDArray[np.int64], i: int, oldest: int) -> None:
    """Keep the cells that hold the key or have a value, in their order."""
    real, kept = row.view(np.float64), 0
    for cell in range(row[i, SHAPE]):
        if row[i, LAST + 3 * cell] >= oldest or real[i, VALUE + 3 * cell] != UNSEEN:
            for word in range(WORKER, VALUE + 1):
                row[i, word + 3 * kept] = row[i, word + 3 * cell]
            kept += 1
    row[i, SHAPE] = kept


@lean_kernel
def _to_dense(rows: Rows, i: int, home: int) -> None:
    row, dense = rows.row, rows.free[2]
    rows.free[2] = rows.last[dense, 0]
    rows.value[dense, :] = UNSEEN
    rows.last[dense, :] = NEVER
    rows.winner[dense, 0] = home
    for cell in range(CELLS):
        worker = row[i, WORKER + 3 * cell]
        rows.value[dense, worker] = row.view(np.float64)[i, VALUE + 3 * cell]
        rows.last[dense, worker] = row[i, LAST + 3 * cell]
    row[i, SHAPE] = -2 - dense
    rank_all(row, rows.value, rows.winner, i)


@lean_kernel
def _to_cells(rows: Rows, i: int, oldest: int) -> None:
    """Turn a dense row whose fragments fit into cells without values."""
    row, dense, kept = rows.row, -2 - rows.row[i, SHAPE], 0
    for worker in range(rows.last.shape[1]):
        if rows.last[dense, worker] >= oldest:
            row[i, WORKER + 3 * kept] = worker
            row[i, LAST + 3 * kept] = rows.last[dense, worker]
            kept += 1
    release_dense(row, rows.last, rows.free, i)
    row[i, SHAPE] = kept


@lean_kernel
def forget_values(rows: Rows, i: int, oldest: int) -> None:
    """Take mark and values of row `i` away; its fragments stay until they leave the window."""
    row = rows.row
    row[i, MARK] = -1
    if row[i, FRAGMENTS] == 0:
        release(row, rows.last, rows.free, i)
        return
    if row[i, SHAPE] <= -2:
        if row[i, FRAGMENTS] > CELLS // 2:
            rows.value[-2 - row[i, SHAPE], :] = UNSEEN
            rank_all(row, rows.value, rows.winner, i)
            return
        _to_cells(rows, i, oldest)
    for cell in range(row[i, SHAPE]):
        row.view(np.float64)[i, VALUE + 3 * cell] = UNSEEN
    row.view(np.float64)[i, BOUND] = UNSEEN
    _drop_stale(row, i, oldest)


@lean_kernel
def replace_values(rows: Rows, i: int, values: NDArray[np.float64], home: int, oldest: int) -> None:
    """Give every worker of row `i` its entry in `values`, which is `UNSEEN` if it was never tried."""
    row = rows.row
    real = row.view(np.float64)
    if row[i, SHAPE] >= 0:
        for cell in range(row[i, SHAPE]):
            real[i, VALUE + 3 * cell] = values[row[i, WORKER + 3 * cell]]
        _drop_stale(row, i, oldest)
        for worker in range(len(values)):
            if values[worker] == UNSEEN or _cell_of(row, i, worker) >= 0:
                continue
            cell = row[i, SHAPE]
            if cell == CELLS:
                _to_dense(rows, i, home)
                break
            row[i, WORKER + 3 * cell] = worker
            row[i, LAST + 3 * cell] = NEVER
            real[i, VALUE + 3 * cell] = values[worker]
            row[i, SHAPE] = cell + 1
    if row[i, SHAPE] <= -2:
        for worker in range(len(values)):
            rows.value[-2 - row[i, SHAPE], worker] = values[worker]
        rank_all(row, rows.value, rows.winner, i)
    elif row[i, SHAPE] > 0:
        elect(row, i, home)
    else:
        real[i, BOUND] = UNSEEN


@lean_kernel
def expire_slide(rows: Rows, slot: int, oldest: int) -> None:
    """Expire the fragments of a slide that has left the window; `oldest` is its first slide now."""
    row, nodes, bucket, free = rows.row, rows.node, rows.bucket, rows.free
    node = bucket[slot]
    bucket[slot] = -1
    while node >= 0:
        following = nodes[node, 1]
        i, worker = nodes[node, 0] >> _SHIFT, nodes[node, 0] & ((1 << _SHIFT) - 1)
        if row[i, SHAPE] <= -2:
            last = rows.last[-2 - row[i, SHAPE], worker]
        else:
            last = row[i, LAST + 3 * _cell_of(row, i, worker)]
        if last >= oldest:
            slot_now = last % len(bucket)
            nodes[node, 1] = bucket[slot_now]
            bucket[slot_now] = node
        else:
            nodes[node, 1] = free[1]
            free[1] = node
            row[i, FRAGMENTS] -= 1
            if row[i, FRAGMENTS] == 0 and row[i, MARK] < 0:
                release(row, rows.last, free, i)
        node = following


@lean_kernel
def holder(rows: Rows, i: int, rank: int, oldest: int) -> int:
    """Return the worker number `rank` (from 0, by id) of those that hold the key of row `i`."""
    row, shape = rows.row, rows.row[i, SHAPE]
    for worker in range(rows.value.shape[1]):
        if shape <= -2:
            holds = rows.last[-2 - shape, worker] >= oldest
        else:
            cell = _cell_of(row, i, worker)
            holds = cell >= 0 and row[i, LAST + 3 * cell] >= oldest
        if holds:
            rank -= 1
            if rank < 0:
                return worker
    return -1
