"""How a join is dealt out: hot keys as grids of cells, all other keys by bucket.

A hot key of l left and r right rows becomes a grid of a x b cells. A left row goes to one of the a
rows of the grid and is copied to its b cells, a right row to one of the b columns and is copied to its a
cells, so each pair of rows meets in exactly one cell. With b = 1 only the left side is cut and only the
right side is copied (fragment and replicate); the general grid is that of A. Okcan, M. Riedewald,
Processing Theta-Joins using MapReduce, SIGMOD 2011, doi:10.1145/1989323.1989423, section 4.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.errors import DataError, ParameterError
from skewless.histogram import bucket_of
from skewless.routing import EVERY_WORKER, Routing

__all__ = ["JoinCounts", "JoinPlan", "plan_join", "plan_of_routing"]

#: A cell is at most this part of a fair share, so that longest-first placing stays within 1.5.
_CELL = 0.5
#: A whole key of more than this part of a fair share is placed by itself, not with its bucket.
_LISTED = 0.05


class JoinCounts(NamedTuple):
    """Rows of both sides of a join, by key."""

    keys: NDArray[np.uint64]
    """Hashes of the keys with the most work, distinct."""
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    """Rows of each of them."""
    tail: NDArray[np.float64]
    """Work of all other keys, per bucket of `skewless.histogram.bucket_of`."""
    pairs: bool = True
    """Whether the pairs of rows are work too; not for semi and anti joins."""

    @property
    def work(self) -> NDArray[np.float64]:
        """Rows in, and rows out, of each listed key."""
        left, right = self.left.astype(np.float64), self.right.astype(np.float64)
        return left + right + (left * right if self.pairs else 0.0)


class JoinPlan(NamedTuple):
    """Where the rows of a join go."""

    n_workers: int
    keys: NDArray[np.uint64]
    """Keys that are cut, or placed by themselves, H of them; the heaviest first."""
    rows: NDArray[np.int32]
    """a of each: parts of its left rows."""
    columns: NDArray[np.int32]
    """b of each: parts of its right rows."""
    start: NDArray[np.int32]
    """Place of its first cell in `cells`."""
    cells: NDArray[np.int32]
    """Worker of each cell; cell (i, j) of a key is at ``start + i * b + j``."""
    codes: Routing
    """Routes a key to its worker, and listed key number h to ``n_workers + h``."""
    loads: NDArray[np.float64]
    """Work of each worker."""
    hashed: NDArray[np.float64]
    """Work of each worker if all keys were hashed."""
    copied_left: int
    """Left rows shipped above one copy."""
    copied_right: int

    @property
    def max_over_mean(self) -> float:
        """Work of the fullest worker over the mean."""
        return _ratio(self.loads)

    @property
    def hashed_max_over_mean(self) -> float:
        """The same under plain hashing."""
        return _ratio(self.hashed)


def plan_join(
    counts: JoinCounts,
    n_workers: int,
    *,
    copy_left: bool = True,
    copy_right: bool = True,
    seen_left: bool = False,
    seen_right: bool = False,
) -> JoinPlan:
    """Cut what exceeds half a fair share of the work, and place cells, keys and buckets, heaviest first.

    Parameters
    ----------
    counts
        Rows by key.
    n_workers
        Number of workers, at least 1.
    copy_left, copy_right
        Whether rows of a side may be copied, that is, whether the other side may be cut.
    seen_left, seen_right
        Whether a side's rows may be copied only where the other side has rows of the key.

    Notes
    -----
    A key of work w gets the grid of at least 2 w / fair cells (but at most `n_workers`) that ships the
    fewest rows. Items are then placed longest first on the emptiest worker (R. L. Graham, 1969).
    O(B log n) for B keys and buckets.

    Examples
    --------
    >>> hot = JoinCounts(np.array([7], np.uint64), np.array([900]), np.array([1]), np.full(16, 12.5))
    >>> plan = plan_join(hot, 4)
    >>> plan.rows.tolist(), plan.columns.tolist(), plan.copied_right
    ([4], [1], 3)
    >>> round(plan.max_over_mean, 2), round(plan.hashed_max_over_mean, 2)
    (1.0, 3.7)
    """
    if n_workers < 1:
        raise ParameterError(f"plan_join: n_workers must be at least 1, got {n_workers}.")
    work = counts.work
    fair = (float(work.sum()) + float(counts.tail.sum())) / n_workers
    hashed = np.bincount(bucket_of(counts.keys, len(counts.tail)), work, minlength=len(counts.tail))
    owners = np.arange(len(counts.tail)) * n_workers // len(counts.tail)
    by_hash = np.bincount(owners, hashed + counts.tail, minlength=n_workers).astype(np.float64)
    cut = []
    for h in np.argsort(-work, kind="stable").tolist():
        left, right = int(counts.left[h]), int(counts.right[h])
        a, b = _grid(
            left,
            right,
            float(work[h]) / fair if fair > 0 else 0.0,
            n_workers,
            may_cut_left=copy_right and (not seen_right or left > 0),
            may_cut_right=copy_left and (not seen_left or right > 0),
        )
        if a * b > 1 or work[h] > _LISTED * fair:
            cut.append((h, a, b))
    return _placed(counts, n_workers, cut, by_hash)


def plan_of_routing(routing: Routing, *, cut_left: bool = True) -> JoinPlan:
    """Cut the keys that a routing splits, on one side, for rows that cannot be counted before.

    Parameters
    ----------
    routing
        Says of each hot key how many workers share it; its rows are dealt to them evenly.
    cut_left
        Whether the left side's rows are dealt and the right side's copied, or the other way round.

    Raises
    ------
    DataError
        The routing deals a bucket of cold keys to all workers: then every row had to be copied.

    Notes
    -----
    Nothing is known of the rows, so `loads` and `hashed` are 0, and so are the numbers of copies.

    Examples
    --------
    >>> plan = plan_of_routing(Routing(4, {7: {0: 1, 2: 1, 3: 2}, 9: {1: 1}}))
    >>> plan.rows.tolist(), plan.columns.tolist(), plan.cells.tolist()
    ([3, 1], [1, 1], [0, 2, 3, 1])
    """
    if (routing.buckets == EVERY_WORKER).any():
        raise DataError(
            "join: policy deals cold keys to all workers, so each row of the other side would be "
            "copied to all of them; give a routing that splits hot keys only."
        )
    parts = np.diff(routing.offsets).astype(np.int32)
    whole = np.ones(len(parts), np.int32)
    n, n_keys = routing.n_workers, len(parts)
    codes = Routing.from_arrays(
        n + n_keys,
        routing.keys,
        n + np.arange(n_keys),
        np.ones(n_keys),
        routing.buckets,
        seed=routing.seed,
    )
    return JoinPlan(
        n,
        routing.keys,
        parts if cut_left else whole,
        whole if cut_left else parts,
        routing.offsets[:-1].astype(np.int32),
        routing.workers,
        codes,
        np.zeros(n),
        np.zeros(n),
        0,
        0,
    )


def _grid(
    left: int,
    right: int,
    shares: float,
    n_workers: int,
    *,
    may_cut_left: bool,
    may_cut_right: bool,
) -> tuple[int, int]:
    """Return the parts of the left and of the right rows."""
    if shares <= _CELL or n_workers == 1:
        return 1, 1
    wanted = min(n_workers, math.ceil(shares / _CELL))
    most_a = min(left, n_workers) if may_cut_left else 1
    most_b = min(right, n_workers) if may_cut_right else 1
    best = (math.inf, 1, 1)
    for a in range(1, max(most_a, 1) + 1):
        b = min(-(-wanted // a), max(most_b, 1))
        # Too few cells cost as much as all rows once more for each that is missing.
        missing = max(0, wanted - a * b)
        shipped = b * left + a * right + missing * (left + right)
        if a * b <= max(n_workers, wanted):
            best = min(best, (shipped, a, b))
    return best[1], best[2]


def _placed(
    counts: JoinCounts,
    n_workers: int,
    cut: list[tuple[int, int, int]],
    by_hash: NDArray[np.float64],
) -> JoinPlan:
    sizes = [a * b for _, a, b in cut]
    start = np.cumsum([0, *sizes])[:-1].astype(np.int32)
    cells = np.zeros(sum(sizes), np.int32)
    taken = {h for h, _, _ in cut}
    tail = counts.tail.copy()
    whole = np.array([h not in taken for h in range(len(counts.keys))], np.bool_)
    work = counts.work
    buckets = bucket_of(counts.keys[whole], len(tail))
    tail += np.bincount(buckets, work[whole], minlength=len(tail))
    items: list[tuple[float, int, int]] = []  # work, place in cells or -1, bucket or -1
    copied_left = copied_right = 0
    for (h, a, b), first in zip(cut, start.tolist(), strict=True):
        left, right = int(counts.left[h]), int(counts.right[h])
        each = left / a + right / b + (left * right / (a * b) if counts.pairs else 0.0)
        items += [(each, first + c, -1) for c in range(a * b)]
        copied_left += (b - 1) * left
        copied_right += (a - 1) * right
    items += [(float(w), -1, bucket) for bucket, w in enumerate(tail.tolist())]
    items.sort(key=lambda item: -item[0])
    loads, owner = _longest_first(items, n_workers, cells, len(tail))
    keys = counts.keys[[h for h, _, _ in cut]]
    codes = Routing.from_arrays(
        n_workers + len(keys),
        keys,
        n_workers + np.arange(len(keys)),
        np.ones(len(keys)),
        owner,
    )
    return JoinPlan(
        n_workers,
        keys,
        np.array([a for _, a, _ in cut], np.int32),
        np.array([b for _, _, b in cut], np.int32),
        start,
        cells,
        codes,
        loads,
        by_hash,
        copied_left,
        copied_right,
    )


def _longest_first(
    items: list[tuple[float, int, int]], n_workers: int, cells: NDArray[np.int32], n_buckets: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    heap = [(0.0, worker) for worker in range(n_workers)]
    owner = np.arange(n_buckets, dtype=np.int64) * n_workers // n_buckets
    loads = np.zeros(n_workers)
    for work, cell, bucket in items:
        if work == 0.0 and cell < 0:
            break  # a bucket that holds nothing stays where plain hashing has it
        load, worker = heapq.heappop(heap)
        if cell >= 0:
            cells[cell] = worker
        else:
            owner[bucket] = worker
        loads[worker] = load + work
        heapq.heappush(heap, (load + work, worker))
    return loads, owner


def _ratio(loads: NDArray[np.float64]) -> float:
    mean = float(loads.mean())
    return float(loads.max()) / mean if mean > 0 else 1.0
