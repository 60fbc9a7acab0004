"""The measures of the papers: arrays in, numbers out.

``workers`` holds one worker id per tuple, ``keys`` one key hash per tuple, ``loads`` and
``cardinalities`` one number per worker; all of one window. PKG is Nasir et al., ICDE 2015; Holistic
is Katsipoulakis et al., PVLDB 10(11), 2017; Prompt is Abdelhamid et al., SIGMOD 2020; Dalton is
Zapridou et al., PVLDB 16(3), 2022.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.kernel import kernel, mix, spread
from skewless.parameters import Count, Range, Seed, check

__all__ = [
    "aggregation_cost",
    "cardinalities",
    "cardinality_imbalance",
    "extra_fragments",
    "feasible",
    "fragment_counts",
    "fragments",
    "gamma_bounds",
    "hybrid_imbalance",
    "hybrid_load",
    "imbalance",
    "loads",
    "max_over_mean",
    "normalized",
    "replication",
    "reward_aggregation",
    "reward_imbalance",
]

Part = Annotated[float, Range(0, 1)]


# -- load ------------------------------------------------------------------------------------------


def loads(workers: ArrayLike, n_workers: Count) -> NDArray[np.int64]:
    """Return the tuples of each worker, int64: L of PKG, Holistic and Dalton.

    Examples
    --------
    >>> loads([0, 2, 2, 2], 3).tolist()
    [1, 0, 3]
    """
    check("loads", loads, n_workers=n_workers)
    return np.bincount(_workers("loads", workers, n_workers), minlength=n_workers).astype(np.int64)


def imbalance(loads: ArrayLike) -> float:
    """Return the load imbalance, max - mean (PKG's I(t); Holistic Eq. 1; Dalton Eq. 1).

    Examples
    --------
    >>> imbalance([10, 20, 60])
    30.0
    """
    load = _numbers("imbalance", "loads", loads)
    return float(load.max() - load.mean())


def max_over_mean(loads: ArrayLike) -> float:
    """Return max / mean, the time of the slowest worker in fair shares; 1 without any load.

    Examples
    --------
    >>> max_over_mean([10, 20, 60])
    2.0
    """
    load = _numbers("max_over_mean", "loads", loads)
    mean = float(load.mean())
    return float(load.max()) / mean if mean > 0 else 1.0


# -- fragments -------------------------------------------------------------------------------------


def fragments(keys: ArrayLike, workers: ArrayLike) -> int:
    """Return how many different (key, worker) pairs occur: Gamma of Holistic, Eq. 2 and 4.

    Examples
    --------
    >>> fragments([7, 7, 7, 9], [0, 1, 0, 0])
    3
    """
    return len(_pairs("fragments", keys, workers)[0])


def extra_fragments(keys: ArrayLike, workers: ArrayLike) -> int:
    """Return the fragments above one per key: what splitting adds to the merge.

    Examples
    --------
    >>> extra_fragments([7, 7, 7, 9], [0, 1, 0, 0])
    1
    """
    return fragments(keys, workers) - len(np.unique(_keys("extra_fragments", keys)))


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
    key, _ = _pairs("fragment_counts", keys, workers)
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
    n_keys = len(np.unique(_keys("gamma_bounds", keys)))
    return n_keys, n_workers * n_keys


def feasible(loads: ArrayLike, gamma: int) -> bool:
    """Say whether merging costs at most what the slowest worker does: Holistic, Eq. 3.

    Examples
    --------
    >>> feasible([10, 20, 60], 60), feasible([10, 20, 60], 61)
    (True, False)
    """
    return bool(gamma <= _numbers("feasible", "loads", loads).max())


# -- cardinality -----------------------------------------------------------------------------------


def cardinalities(keys: ArrayLike, workers: ArrayLike, n_workers: Count) -> NDArray[np.int64]:
    """Return the different keys of each worker, int64: CL of Holistic, Eq. 5.

    Examples
    --------
    >>> cardinalities([7, 7, 7, 9], [0, 1, 0, 0], 3).tolist()
    [2, 1, 0]
    """
    check("cardinalities", cardinalities, n_workers=n_workers)
    _, worker = _pairs("cardinalities", keys, workers, n_workers)
    return np.bincount(worker, minlength=n_workers).astype(np.int64)


def cardinality_imbalance(cardinalities: ArrayLike) -> float:
    """Return max - mean of the workers' cardinalities: CI of Holistic, Eq. 6.

    Examples
    --------
    >>> cardinality_imbalance([2, 1, 0])
    1.0
    """
    count = _numbers("cardinality_imbalance", "cardinalities", cardinalities)
    return float(count.max() - count.mean())


def normalized(values: ArrayLike) -> NDArray[np.float64]:
    """Scale loads or cardinalities to [0, 1]: Holistic, Eq. 7 and 8; all 0 if all are equal.

    Examples
    --------
    >>> normalized([10, 20, 60]).tolist(), normalized([5, 5]).tolist()
    ([0.0, 0.2, 1.0], [0.0, 0.0])
    """
    value = _numbers("normalized", "values", values)
    span = value.max() - value.min()
    return (value - value.min()) / span if span > 0 else np.zeros(len(value))


def hybrid_load(
    loads: ArrayLike, cardinalities: ArrayLike, *, p: Part = 0.5
) -> NDArray[np.float64]:
    """Return ``p L' + (1 - p) CL'`` of each worker: H of Holistic, Eq. 9.

    Parameters
    ----------
    loads, cardinalities
        Tuples and different keys of each worker.
    p : float in [0, 1]
        Weight of the tuples against the keys.

    Examples
    --------
    >>> hybrid_load([10, 20, 60], [2, 1, 0], p=0.5).tolist()
    [0.5, 0.35, 0.5]
    """
    check("hybrid_load", hybrid_load, p=p)
    load, count = normalized(loads), normalized(cardinalities)
    if len(load) != len(count):
        raise DataError(
            f"hybrid_load: loads and cardinalities must have one entry per worker, got {len(load)} "
            f"and {len(count)}."
        )
    return p * load + (1 - p) * count


def hybrid_imbalance(loads: ArrayLike, cardinalities: ArrayLike, *, p: Part = 0.5) -> float:
    """Return max - mean of the hybrid loads: HI of Holistic, Eq. 10.

    Parameters
    ----------
    loads, cardinalities
        Tuples and different keys of each worker.
    p : float in [0, 1]
        Weight of the tuples against the keys.

    Examples
    --------
    >>> hybrid_imbalance([10, 20, 60], [2, 1, 0])
    0.05
    """
    hybrid = hybrid_load(loads, cardinalities, p=p)
    return float(hybrid.max() - hybrid.mean())


# -- Dalton ----------------------------------------------------------------------------------------


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
    key, _ = _pairs("aggregation_cost", keys, workers)
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
    load = _numbers("reward_imbalance", "loads", loads)
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
    split = _numbers("reward_aggregation", "n_fragments", split)
    if split.max() > n_workers:
        raise DataError(
            f"reward_aggregation: a key cannot be on {split.max():g} of {n_workers} workers."
        )
    return split / n_workers


# -- input -----------------------------------------------------------------------------------------


def _workers(owner: str, workers: ArrayLike, n_workers: int | None = None) -> NDArray[np.int64]:
    ids = np.asarray(workers)
    if ids.size == 0:
        return np.empty(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise DataError(
            f"{owner}: workers must be a one-dimensional array of integers, got {ids.dtype} of "
            f"shape {ids.shape}."
        )
    bad = ids[(ids < 0) | (ids >= n_workers)] if n_workers is not None else ids[ids < 0]
    if len(bad):
        allowed = "not negative" if n_workers is None else f"0 to {n_workers - 1}"
        raise DataError(f"{owner}: worker ids must be {allowed}, got {bad[0]}.")
    return ids.astype(np.int64)


def _keys(owner: str, keys: ArrayLike) -> NDArray[np.uint64]:
    try:
        return Chunk(None, keys).key
    except DataError as error:
        raise DataError(str(error).replace("Chunk", owner, 1)) from None


def _pairs(
    owner: str, keys: ArrayLike, workers: ArrayLike, n_workers: int | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the different (key, worker) pairs, in the order of key and worker."""
    key, worker = _keys(owner, keys), _workers(owner, workers, n_workers)
    if len(key) != len(worker):
        raise DataError(
            f"{owner}: keys and workers must have one entry per tuple, got {len(key)} and "
            f"{len(worker)}."
        )
    order = np.lexsort((worker, key))
    key, worker = key[order], worker[order]
    fresh = np.ones(len(key), np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (worker[1:] != worker[:-1])
    return key[fresh], worker[fresh]


def _numbers(owner: str, name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise DataError(
            f"{owner}: {name} must hold at least one number, one per entry, got {array.dtype} of "
            f"shape {array.shape}."
        )
    bad = array[~(np.isfinite(array) & (array >= 0))]
    if len(bad):
        raise DataError(f"{owner}: {name} must be finite and not negative, got {bad[0]}.")
    return array.astype(np.float64)


@kernel
def _spread_all(
    keys: NDArray[np.uint64], seed: np.uint64, n: np.uint64, out: NDArray[np.int64]
) -> None:
    for i in range(len(keys)):
        out[i] = spread(mix(keys[i], seed), n)
