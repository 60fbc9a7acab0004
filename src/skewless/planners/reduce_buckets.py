"""Prompt's second half: the output of one map task, dealt to reduce buckets (Algorithm 3).

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.histogram import bucket_of
from skewless.kernel import kernel
from skewless.parameters import Count, Seed, check

__all__ = ["reduce_buckets"]


def reduce_buckets(
    keys: ArrayLike, sizes: ArrayLike, split: ArrayLike, n_buckets: Count, *, seed: Seed = 0
) -> NDArray[np.int32]:
    """Return the reduce bucket of each key cluster of one map task, int32.

    A key that other map tasks hold too must meet its other parts without a word between the tasks,
    so hashing places it. All other clusters, the largest first, go to the bucket with the most room
    among those that are next: a bucket that got one waits until every other has got one.

    Parameters
    ----------
    keys
        Key hash of each cluster, distinct.
    sizes
        Tuples of each cluster, non-negative integers.
    split
        Whether the key has clusters at other map tasks (`Routing.split_keys`).
    n_buckets : int of at least 1
        Number of reduce buckets.
    seed : int in [0, 9223372036854775807]
        Seed of the hash; the same for all map tasks.

    Notes
    -----
    Guarantee: a split key has the same bucket at every map task; the numbers of whole clusters of
    any two buckets differ by at most one. Cost: O(K log K) for K clusters. Ties go to the lower key
    hash and to the lowest bucket.

    Deviations from the paper: its line 8 resets the set of buckets while it holds one; the text, and
    this function, do so when it is empty.

    Examples
    --------
    >>> reduce_buckets([1, 2, 3, 4, 5], [9, 7, 5, 3, 1], [False] * 5, 2).tolist()
    [0, 1, 1, 0, 0]

    References
    ----------
    A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref, Prompt: Dynamic Data-Partitioning for
    Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, Algorithm 3,
    doi:10.1145/3318464.3389713.
    """
    check("reduce_buckets", reduce_buckets, n_buckets=n_buckets, seed=seed)
    key, size = Chunk(None, keys).key, np.asarray(sizes)
    is_split = np.asarray(split, np.bool_)
    if not len(key) == len(size) == len(is_split):
        raise DataError(
            f"reduce_buckets: keys, sizes and split must have one entry per cluster, got {len(key)}, "
            f"{len(size)} and {len(is_split)}."
        )
    if len(key) == 0:
        return np.empty(0, np.int32)
    if size.dtype.kind not in "iu" or int(size.min()) < 0:
        raise DataError(
            f"reduce_buckets: sizes must be integers of at least 0, got {size.min()} in "
            f"{size.dtype}."
        )
    size = size.astype(np.int64)
    bucket = bucket_of(key, n_buckets, seed)  # line 2
    load = np.bincount(bucket[is_split], size[is_split], n_buckets).astype(np.float64)
    whole = np.flatnonzero(~is_split)  # line 3
    order = whole[np.lexsort((key[whole], -size[whole]))]  # line 4
    _deal(size, order, load, bucket)
    return bucket


@kernel
def _deal(
    size: NDArray[np.int64],
    order: NDArray[np.int64],
    load: NDArray[np.float64],
    bucket: NDArray[np.int32],
) -> None:
    """Do lines 5 to 12. All buckets may hold the same, so that most room means the least load.

    The room of those that wait for their turn does not change, so one sort serves a whole round.
    """
    n = len(load)
    turn = np.empty(n, np.int64)
    for i in range(len(order)):
        if i % n == 0:  # R is empty: reset it (line 9)
            turn[:] = np.argsort(load, kind="mergesort")
        at = turn[i % n]
        bucket[order[i]] = at
        load[at] += size[order[i]]
