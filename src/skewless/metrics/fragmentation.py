"""On how many workers keys lie: Holistic, Eq. 2 to 4; Prompt, Eq. 5."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.metrics.inputs import read_keys, read_numbers, read_pairs
from skewless.parameters import Count, check

__all__ = [
    "extra_fragments",
    "feasible",
    "fragment_counts",
    "fragments",
    "gamma_bounds",
    "replication",
]


def fragments(keys: ArrayLike, workers: ArrayLike) -> int:
    """Return how many different (key, worker) pairs occur: Gamma of Holistic, Eq. 2 and 4.

    Examples
    --------
    >>> fragments([7, 7, 7, 9], [0, 1, 0, 0])
    3
    """
    return len(read_pairs("fragments", keys, workers)[0])


def extra_fragments(keys: ArrayLike, workers: ArrayLike) -> int:
    """Return the fragments above one per key: what splitting adds to the merge.

    Examples
    --------
    >>> extra_fragments([7, 7, 7, 9], [0, 1, 0, 0])
    1
    """
    return fragments(keys, workers) - len(np.unique(read_keys("extra_fragments", keys)))


def fragment_counts(
    keys: ArrayLike, workers: ArrayLike
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the different keys, ascending, and on how many workers each occurs.

    Examples
    --------
    >>> keys, counts = fragment_counts([7, 7, 7, 9], [0, 1, 0, 0])
    >>> keys.tolist(), counts.tolist()
    ([7, 9], [2, 1])
    """
    key, _ = read_pairs("fragment_counts", keys, workers)
    distinct, counts = np.unique(key, return_counts=True)
    return distinct, counts.astype(np.int64)


def replication(keys: ArrayLike, workers: ArrayLike) -> float:
    """Return the mean number of workers per key: KSR of Prompt, Eq. 5; 1 if there is no key.

    Prompt's text defines the ratio of keys to fragments, its formula that of fragments to keys;
    this is the formula, which is 1 if no key is split and at most the number of workers.

    Examples
    --------
    >>> replication([7, 7, 7, 9], [0, 1, 0, 0])
    1.5
    """
    counts = fragment_counts(keys, workers)[1]
    return float(counts.mean()) if len(counts) else 1.0


def gamma_bounds(keys: ArrayLike, n_workers: Count) -> tuple[int, int]:
    """Return the least and the most fragments that any partitioning has (Holistic, Proposition 1).

    Examples
    --------
    >>> gamma_bounds([7, 7, 9], 8)
    (2, 16)
    """
    check("gamma_bounds", gamma_bounds, n_workers=n_workers)
    n_keys = len(np.unique(read_keys("gamma_bounds", keys)))
    return n_keys, n_workers * n_keys


def feasible(loads: ArrayLike, gamma: int) -> bool:
    """Say whether merging costs at most what the slowest worker does: Holistic, Eq. 3.

    Examples
    --------
    >>> feasible([10, 20, 60], 60), feasible([10, 20, 60], 61)
    (True, False)
    """
    return bool(gamma <= read_numbers("feasible", "loads", loads).max())
