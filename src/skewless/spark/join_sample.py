"""The rows of both sides of a join per key, estimated from a sample and counted where it matters.

To count every key of both sides takes longer than many a join: where most keys differ, nothing is
combined before it is shuffled. A weighted sample of both sides (`skewless.spark.sampling`) takes one scan
and no shuffle. It finds each key that may need more than a small part of a fair share; the rows of these
few are then counted exactly, and nothing is counted if there are none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.histogram import bucket_count, bucket_of
from skewless.join_plan import JoinCounts
from skewless.spark.join_counts import count_keys, key_hashes, listed
from skewless.spark.join_keys import JoinKeys
from skewless.spark.sampling import Sampled, sample, sampled

__all__ = ["Estimate", "estimate_pairs"]

#: A key that may need more than this part of a fair share is counted.
_COUNTED = 0.05
#: And that at least so many rows of the sample have: fewer say nothing of its pairs.
_MET = 4


class Estimate(NamedTuple):
    """What a sample tells of the keys of a join."""

    counts: JoinCounts
    """Exact for the keys that are listed; for all, if no row was left out."""
    rows: tuple[int, int]
    """Left and right rows with a key."""
    null_rows: tuple[int, int]
    """Those whose key matches nothing, because it is null."""
    tasks: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Left and right tasks in which rows of each listed key were met."""
    sampled: int
    """Rows of the sample; 0 if no row was left out."""
    counted: int
    """Keys that were counted after it."""


class _Keys(NamedTuple):
    """Rows by key, one entry per key that is not null."""

    hashes: NDArray[np.uint64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    met: NDArray[np.int64]
    """Rows of the sample."""
    tasks: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Left and right tasks that they lay in."""
    one: NDArray[np.bool_]
    """Whether all rows met have one second hash."""


def estimate_pairs(
    left: DataFrame, right: DataFrame, keys: JoinKeys, how: str, n_workers: int
) -> Estimate:
    """Estimate the rows of both sides per key, and count them where they may matter.

    Notes
    -----
    Rows, and pairs of rows, are estimated without bias: a row stands for one over its chance to be
    taken, and the sides are sampled apart. A key's pairs are taken for its own only if it is counted;
    those of all others are spread by their rows, since few rows do not tell which of them has the pairs.
    """
    found = _sample(left, right, keys, n_workers)
    null_rows, by_key = _by_key(found)
    exists = how in ("semi", "anti")
    hot: list[int] = []
    if not found.complete:
        hot = _candidates(by_key, n_workers, pairs=not exists)
        by_key = _corrected(by_key, hot, count_keys(left, right, keys, hot) if hot else {})
    # Of a semi join's right side a key is taken once: see `join_rows`.
    once = exists and not keys.residual
    dealt = np.minimum(by_key.right, 1.0) if once else by_key.right
    pairs = np.zeros(len(dealt)) if exists else by_key.left * by_key.right
    rows = by_key.left + dealt
    sure = by_key.one
    if not found.complete:
        sure = sure & np.isin(by_key.hashes, np.array(hot, np.int64).view(np.uint64))
    order = np.lexsort((by_key.hashes.view(np.int64), -rows - pairs))
    order = order[sure[order]][: listed(n_workers)]
    rest = np.ones(len(rows), np.bool_)
    rest[order] = False
    n_buckets = bucket_count(n_workers)
    buckets = bucket_of(by_key.hashes[rest], n_buckets).astype(np.int64)
    tail = _added(buckets, rows[rest], n_buckets)
    if found.complete:
        tail += _added(buckets, pairs[rest], n_buckets)
    elif tail.sum() > 0:
        tail *= 1.0 + pairs[rest].sum() / tail.sum()
    counts = JoinCounts(
        by_key.hashes[order],
        by_key.left[order].astype(np.int64),
        dealt[order].astype(np.int64),
        tail,
        not exists,
    )
    return Estimate(
        counts,
        (round(by_key.left.sum()), round(by_key.right.sum())),
        null_rows,
        (by_key.tasks[0][order], by_key.tasks[1][order]),
        0 if found.complete else found.rows.num_rows,
        len(hot),
    )


def _sample(left: DataFrame, right: DataFrame, keys: JoinKeys, n_workers: int) -> Sampled:
    """Take a sample of both sides in one query; ``side`` is 0 for left rows and 1 for right ones."""

    def both(n_sure: int) -> DataFrame:
        frames = []
        for side, (df, columns) in enumerate(((left, keys.left), (right, keys.right))):
            some, at = sampled(df, n_sure)
            which = F.lit(side).cast("tinyint").alias("side")
            frames.append(key_hashes(some, columns, keys, which, at.alias("at")))
        return frames[0].union(frames[1])

    return sample(both, n_workers, left, right)


def _by_key(found: Sampled) -> tuple[tuple[int, int], _Keys]:
    """Add up what the rows stand for, by key; and those of the null keys."""
    key, is_left = found.rows.column("key"), found.rows.column("side").to_numpy() == 0
    null = key.is_null().to_numpy()
    null_rows = tuple(round(found.weights[null & side].sum()) for side in (is_left, ~is_left))
    hashes, place = np.unique(
        key.drop_null().to_numpy().astype(np.int64).view(np.uint64), return_inverse=True
    )
    n, weights, is_left = len(hashes), found.weights[~null], is_left[~null]
    tasks = [
        _n_tasks(place[side], found.task[~null][side], n, found.tasks)
        for side in (is_left, ~is_left)
    ]
    check = found.rows.column("check").to_numpy()[~null].astype(np.int64)
    least, most = np.full(n, 2**31, np.int64), np.full(n, -(2**31), np.int64)
    np.minimum.at(least, place, check)
    np.maximum.at(most, place, check)
    return (null_rows[0], null_rows[1]), _Keys(
        hashes,
        _added(place[is_left], weights[is_left], n),
        _added(place[~is_left], weights[~is_left], n),
        np.bincount(place, minlength=n),
        (tasks[0], tasks[1]),
        least == most,
    )


def _n_tasks(
    place: NDArray[np.int64], task: NDArray[np.int64], n_keys: int, n_tasks: int
) -> NDArray[np.int64]:
    """Return in how many tasks each key was met.

    A key and a task make one number, and the numbers are sorted: `numpy.unique` takes twenty times as
    long, by pairs as by hashing.
    """
    met = np.sort(place * n_tasks + task)
    new = np.diff(met, prepend=-1) > 0
    return np.bincount(met[new] // n_tasks, minlength=n_keys)


def _added(places: NDArray[np.int64], weights: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the sum of the weights at each place; numpy's own is of integers where there are none."""
    return np.bincount(places, weights, n).astype(np.float64)


def _candidates(keys: _Keys, n_workers: int, *, pairs: bool) -> list[int]:
    """Return the signed hashes of the keys to count: those of more than a small part of a fair share.

    Of the work, or of the rows of a side. Of a side of which the sample has no row there may be one.
    """
    if len(keys.hashes) == 0:
        return []
    left, right = keys.left, keys.right
    work = left + right
    whole = float(work.sum())
    if pairs:
        whole += float((left * right).sum())
        work = work + np.maximum(left, 1.0) * np.maximum(right, 1.0)
    share = np.maximum.reduce(
        [
            one / max(total, 1.0)
            for one, total in ((work, whole), (left, left.sum()), (right, right.sum()))
        ]
    )
    hot = np.flatnonzero((share > _COUNTED / n_workers) & (keys.met >= _MET))
    hot = hot[np.argsort(-share[hot], kind="stable")][: 2 * listed(n_workers)]
    return [int(h) for h in keys.hashes[hot].view(np.int64)]


def _corrected(keys: _Keys, hot: list[int], exact: dict[int, tuple[int, int, bool]]) -> _Keys:
    """Put the exact counts of some keys in the place of the estimates."""
    left, right, one = keys.left.copy(), keys.right.copy(), keys.one.copy()
    places = np.searchsorted(keys.hashes, np.array(hot, np.int64).view(np.uint64))
    for place, h in zip(places.tolist(), hot, strict=True):
        # A frame that computes other rows each time it is read may have none of the key now.
        left[place], right[place], one[place] = exact.get(h, (0, 0, False))
    return keys._replace(left=left, right=right, one=one)
