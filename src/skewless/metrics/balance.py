"""How evenly tuples and keys lie on the workers: PKG, section III; Holistic, Eq. 1 and 5 to 10."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import DataError
from skewless.metrics.inputs import read_numbers, read_pairs, read_workers
from skewless.parameters import Count, Range, check

__all__ = [
    "cardinalities",
    "cardinality_imbalance",
    "hybrid_imbalance",
    "hybrid_load",
    "imbalance",
    "loads",
    "max_over_mean",
    "normalized",
]

Part = Annotated[float, Range(0, 1)]


def loads(workers: ArrayLike, n_workers: Count) -> NDArray[np.int64]:
    """Return the tuples of each worker, int64: L of PKG, Holistic and Dalton.

    Examples
    --------
    >>> loads([0, 2, 2, 2], 3).tolist()
    [1, 0, 3]
    """
    check("loads", loads, n_workers=n_workers)
    return np.bincount(read_workers("loads", workers, n_workers), minlength=n_workers).astype(
        np.int64
    )


def imbalance(loads: ArrayLike) -> float:
    """Return the load imbalance, max - mean (PKG's I(t); Holistic Eq. 1; Dalton Eq. 1).

    Examples
    --------
    >>> imbalance([10, 20, 60])
    30.0
    """
    load = read_numbers("imbalance", "loads", loads)
    return float(load.max() - load.mean())


def max_over_mean(loads: ArrayLike) -> float:
    """Return max / mean, the time of the slowest worker in fair shares; 1 without any load.

    Examples
    --------
    >>> max_over_mean([10, 20, 60])
    2.0
    """
    load = read_numbers("max_over_mean", "loads", loads)
    mean = float(load.mean())
    return float(load.max()) / mean if mean > 0 else 1.0


def cardinalities(keys: ArrayLike, workers: ArrayLike, n_workers: Count) -> NDArray[np.int64]:
    """Return the different keys of each worker, int64: CL of Holistic, Eq. 5.

    Examples
    --------
    >>> cardinalities([7, 7, 7, 9], [0, 1, 0, 0], 3).tolist()
    [2, 1, 0]
    """
    check("cardinalities", cardinalities, n_workers=n_workers)
    _, worker = read_pairs("cardinalities", keys, workers, n_workers)
    return np.bincount(worker, minlength=n_workers).astype(np.int64)


def cardinality_imbalance(cardinalities: ArrayLike) -> float:
    """Return max - mean of the workers' cardinalities: CI of Holistic, Eq. 6.

    Examples
    --------
    >>> cardinality_imbalance([2, 1, 0])
    1.0
    """
    count = read_numbers("cardinality_imbalance", "cardinalities", cardinalities)
    return float(count.max() - count.mean())


def normalized(values: ArrayLike) -> NDArray[np.float64]:
    """Scale loads or cardinalities to [0, 1]: Holistic, Eq. 7 and 8; all 0 if all are equal.

    Examples
    --------
    >>> normalized([10, 20, 60]).tolist(), normalized([5, 5]).tolist()
    ([0.0, 0.2, 1.0], [0.0, 0.0])
    """
    value = read_numbers("normalized", "values", values)
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
