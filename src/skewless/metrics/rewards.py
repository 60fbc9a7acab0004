"""The costs that Dalton learns from, Eq. 2 to 4."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import DataError
from skewless.kernel import kernel, mix, spread
from skewless.metrics.inputs import read_numbers, read_pairs
from skewless.parameters import Count, Seed, check

__all__ = ["aggregation_cost", "reward_aggregation", "reward_imbalance"]


def aggregation_cost(
    keys: ArrayLike, workers: ArrayLike, n_reducers: Count, *, seed: Seed = 0
) -> int:
    """Return the fragments that the busiest reducer merges: Gamma of Dalton, Eq. 2.

    Parameters
    ----------
    keys, workers
        Key hash and combiner of each tuple.
    n_reducers : int of at least 1
        Reducers; a key's fragments all go to the one that its hash names.
    seed : int in [0, 9223372036854775807]
        Which hash function.

    Examples
    --------
    >>> aggregation_cost([7, 7, 7, 9], [0, 1, 0, 0], 1)
    3
    """
    check("aggregation_cost", aggregation_cost, n_reducers=n_reducers, seed=seed)
    key, _ = read_pairs("aggregation_cost", keys, workers)
    reducer = np.empty(len(key), np.int64)
    _spread_all(key, np.uint64(seed), np.uint64(n_reducers), reducer)
    return int(np.bincount(reducer, minlength=n_reducers).max())


def reward_imbalance(loads: ArrayLike) -> NDArray[np.float64]:
    """Return each worker's part in the imbalance, in [-1, 1]: CI of Dalton, Eq. 3; 0 without load.

    Parameters
    ----------
    loads
        Tuples of each worker in the window, the tuple in question included.

    Examples
    --------
    >>> reward_imbalance([10, 20, 60]).round(2).tolist()
    [-0.67, -0.33, 0.5]
    """
    load = read_numbers("reward_imbalance", "loads", loads)
    mean = load.mean()
    largest = np.maximum(load, mean)
    reward = np.zeros(len(load))
    np.divide(load - mean, largest, out=reward, where=largest > 0)
    return reward


def reward_aggregation(n_fragments: ArrayLike, n_workers: Count) -> NDArray[np.float64]:
    """Return the part of the workers that hold each key, in [0, 1]: CA of Dalton, Eq. 4.

    Parameters
    ----------
    n_fragments
        On how many workers each key is in the window, the tuple in question included.
    n_workers : int of at least 1
        Number of workers.

    Examples
    --------
    >>> reward_aggregation([2, 1], 8).tolist()
    [0.25, 0.125]
    """
    check("reward_aggregation", reward_aggregation, n_workers=n_workers)
    split = np.asarray(n_fragments)
    if split.size == 0:
        return np.empty(0)
    split = read_numbers("reward_aggregation", "n_fragments", split)
    if split.max() > n_workers:
        raise DataError(
            f"reward_aggregation: a key cannot be on {split.max():g} of {n_workers} workers."
        )
    return split / n_workers


@kernel
def _spread_all(
    keys: NDArray[np.uint64], seed: np.uint64, n: np.uint64, out: NDArray[np.int64]
) -> None:
    for i in range(len(keys)):
        out[i] = spread(mix(keys[i], seed), n)
