"""What a partitioning costs a micro-batch, and what changing one costs: Prompt, Eq. 6; DR, section 2."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skewless.errors import DataError
from skewless.metrics.balance import (
    Part,
    cardinalities,
    cardinality_imbalance,
    imbalance,
    loads,
)
from skewless.metrics.fragmentation import replication
from skewless.metrics.inputs import read_keys, read_numbers, read_workers
from skewless.parameters import Count, check

__all__ = ["partitioning_imbalance", "relative_migration"]


def partitioning_imbalance(
    keys: ArrayLike, workers: ArrayLike, n_workers: Count, *, p1: Part = 1 / 3, p2: Part = 1 / 3
) -> float:
    """Return ``p1 BSI + p2 BCI + (1 - p1 - p2) KSR`` of a micro-batch: MPI of Prompt, Eq. 6.

    BSI is `imbalance` of the tuples, BCI `cardinality_imbalance`, KSR `replication`. The three have
    different units, as printed: tuples, keys and a ratio.

    Parameters
    ----------
    keys, workers
        Key hash and block of each tuple.
    n_workers : int of at least 1
        Number of blocks.
    p1, p2 : float in [0, 1]
        Weights of sizes and of cardinalities; the rest is the weight of split keys.

    Raises
    ------
    DataError
        The weights exceed 1 together; the arrays do not fit each other.

    Examples
    --------
    >>> partitioning_imbalance([7, 7, 7, 9], [0, 1, 0, 0], 2)
    1.0
    """
    check("partitioning_imbalance", partitioning_imbalance, n_workers=n_workers, p1=p1, p2=p2)
    p3 = 1.0 - p1 - p2
    if p3 < -1e-12:
        raise DataError(f"partitioning_imbalance: p1 + p2 must be at most 1, got {p1:g} + {p2:g}.")
    sizes = imbalance(loads(workers, n_workers))
    distinct = cardinality_imbalance(cardinalities(keys, workers, n_workers))
    return p1 * sizes + p2 * distinct + max(p3, 0.0) * replication(keys, workers)


def relative_migration(
    keys: ArrayLike, before: ArrayLike, after: ArrayLike, state: ArrayLike | None = None
) -> float:
    """Return the part of the state whose worker changes, in [0, 1]; 0 without state.

    Parameters
    ----------
    keys
        Hash of each key, each once.
    before, after
        Worker of each key under the old and the new partitioning.
    state
        State of each key in any unit; left out, all keys weigh the same.

    Raises
    ------
    DataError
        A key is listed twice, or the arrays do not fit each other.

    Examples
    --------
    >>> relative_migration([7, 8, 9], [0, 1, 1], [0, 1, 0], [70, 20, 10])
    0.1
    """
    owner = "relative_migration"
    key = read_keys(owner, keys)
    old, new = read_workers(owner, before), read_workers(owner, after)
    size = (
        np.ones(len(key)) if state is None or len(key) == 0 else read_numbers(owner, "state", state)
    )
    if not len(key) == len(old) == len(new) == len(size):
        raise DataError(
            f"{owner}: keys, before, after and state must have one entry per key, got {len(key)}, "
            f"{len(old)}, {len(new)} and {len(size)}."
        )
    if len(np.unique(key)) != len(key):
        raise DataError(f"{owner}: every key must be listed once.")
    total = float(size.sum())
    return float(size[old != new].sum()) / total if total > 0 else 0.0
