"""Arrays as the measures need them; errors name the measure that was called."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError

__all__ = ["read_keys", "read_numbers", "read_pairs", "read_workers"]


def read_workers(owner: str, workers: ArrayLike, n_workers: int | None = None) -> NDArray[np.int64]:
    """Return worker ids as int64, checked."""
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


def read_keys(owner: str, keys: ArrayLike) -> NDArray[np.uint64]:
    """Return key hashes as uint64, checked."""
    try:
        return Chunk(None, keys).key
    except DataError as error:
        raise DataError(str(error).replace("Chunk", owner, 1)) from None


def read_pairs(
    owner: str, keys: ArrayLike, workers: ArrayLike, n_workers: int | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the different (key, worker) pairs, in the order of key and worker."""
    key, worker = read_keys(owner, keys), read_workers(owner, workers, n_workers)
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


def read_numbers(owner: str, name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return loads and the like as float64: at least one, finite, not negative."""
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
