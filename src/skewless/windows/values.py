"""The value of each worker in a row, and the best of them; see `skewless.windows.rows`.

Of equal values the home wins, then the worker with the lowest number. A row knows its best worker and
a bound that no other value exceeds, so that most changes need one comparison.

A kernel that runs for every tuple takes the arrays that it needs: a tuple of arrays would be copied
for each call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel
from skewless.windows.rows import BOUND, SHAPE, UNSEEN, VALUE, WORKER
from skewless.windows.tournament import play, play_all, runner_up

__all__ = ["best_worker", "elect", "rank_all", "set_value", "value_of"]


@inline_kernel
def best_worker(row: NDArray[np.int64], winner: NDArray[np.int32], i: int, home: int) -> int:
    """Return the worker of the highest value."""
    shape = row[i, SHAPE]
    if shape <= -2:
        return int(winner[-2 - shape, 1])
    if shape == 0 or row.view(np.float64)[i, VALUE] <= UNSEEN:
        return home  # nothing is above a worker that was never tried
    return int(row[i, WORKER])


@inline_kernel
def value_of(row: NDArray[np.int64], value: NDArray[np.float64], i: int, cell: int) -> float:
    """Return the value at the cell that `seen` or `touch` found."""
    shape = row[i, SHAPE]
    return float(
        value[-2 - shape, cell] if shape <= -2 else row.view(np.float64)[i, VALUE + 3 * cell]
    )


@inline_kernel
def set_value(
    row: NDArray[np.int64],
    value: NDArray[np.float64],
    winner: NDArray[np.int32],
    i: int,
    cell: int,
    home: int,
    now: float,
) -> None:
    """Change the value at the cell that `seen` or `touch` found."""
    real, shape = row.view(np.float64), row[i, SHAPE]
    if shape <= -2:
        dense = -2 - shape
        value[dense, cell] = now
        if cell != winner[dense, 1] or now <= real[i, BOUND]:
            real[i, BOUND] = _rank(value[dense], winner[dense], cell, home, real[i, BOUND])
        return
    real[i, VALUE + 3 * cell] = now
    if cell > 0:
        champion = real[i, VALUE]
        if _beats(now, row[i, WORKER + 3 * cell], champion, row[i, WORKER], home):
            _lead(row, i, cell)
            real[i, BOUND] = champion
        elif now > real[i, BOUND]:
            real[i, BOUND] = now
    elif now <= real[i, BOUND]:
        elect(row, i, home)


@inline_kernel
def _beats(value: float, worker: int, other: float, rival: int, home: int) -> bool:
    if value != other:
        return value > other
    return worker == home or (rival != home and worker < rival)


@inline_kernel
def _lead(row: NDArray[np.int64], i: int, cell: int) -> None:
    """Exchange a cell with the first one."""
    for word in range(WORKER, VALUE + 1):
        held = row[i, word]
        row[i, word] = row[i, word + 3 * cell]
        row[i, word + 3 * cell] = held


@lean_kernel
def elect(row: NDArray[np.int64], i: int, home: int) -> None:
    """Find the best and the second best cell after the first one fell, or all changed."""
    real = row.view(np.float64)
    best, bound = 0, UNSEEN
    for cell in range(1, row[i, SHAPE]):
        now, champion = real[i, VALUE + 3 * cell], real[i, VALUE + 3 * best]
        if _beats(now, row[i, WORKER + 3 * cell], champion, row[i, WORKER + 3 * best], home):
            best, bound = cell, champion
        elif now > bound:
            bound = now
    _lead(row, i, best)
    real[i, BOUND] = bound


@lean_kernel
def _rank(
    value: NDArray[np.float64], winner: NDArray[np.int32], worker: int, home: int, bound: float
) -> float:
    """Enter the changed value of a worker of a dense row; return the bound."""
    before = winner[1]
    champion = value[before]
    play(value, winner, worker, home)
    if before == worker:
        return runner_up(value, winner, UNSEEN)
    return float(champion if winner[1] == worker else max(bound, value[worker]))


@lean_kernel
def rank_all(
    row: NDArray[np.int64], value: NDArray[np.float64], winner: NDArray[np.int32], i: int
) -> None:
    """Rank the workers of a dense row anew; its home is in column 0 of the tournament."""
    dense = -2 - row[i, SHAPE]
    play_all(value[dense], winner[dense], np.int64(winner[dense, 0]))
    row.view(np.float64)[i, BOUND] = runner_up(value[dense], winner[dense], UNSEEN)
