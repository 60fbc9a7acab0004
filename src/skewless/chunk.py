"""A run of tuples in arrival order: the only thing that flows through the algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import DataError

__all__ = ["Chunk"]


#: Contiguous, aligned and writable. A read-only array, such as Arrow lends, is another type to numba:
#: each kernel would be compiled once more for it, half a minute for Dalton's; a copy takes 1 ns a tuple.
_LAYOUT: tuple[Literal["C", "A", "W"], ...] = ("C", "A", "W")


class Chunk:
    """Tuples ``(time, key, value)`` in arrival order, as three columns of equal length.

    Parameters
    ----------
    time
        Event time or tuple index of each tuple, int64, not decreasing; the unit is the one that the
        policy's ``window`` and ``slide`` are given in. ``None`` numbers the tuples 0, 1, 2, ...
    key
        Key hashes, uint64 (`skewless.keys.hash64`). Signed integers are reinterpreted, not hashed:
        every policy mixes its keys itself.
    value
        Any array of the same length, or ``None``.

    Raises
    ------
    DataError
        Lengths differ, keys are not integers, or time runs backwards.

    Examples
    --------
    >>> chunk = Chunk(None, [7, 7, 9])
    >>> len(chunk), chunk.time.tolist(), chunk.key.dtype.name
    (3, [0, 1, 2], 'uint64')
    """

    __slots__ = ("key", "time", "value")

    time: NDArray[np.int64]
    key: NDArray[np.uint64]
    value: NDArray[Any] | None

    def __init__(
        self, time: ArrayLike | None, key: ArrayLike, value: NDArray[Any] | None = None
    ) -> None:
        self.key = _keys(key)
        self.time = np.arange(len(self.key), dtype=np.int64) if time is None else _times(time)
        self.value = value
        if len(self.time) != len(self.key) or (value is not None and len(value) != len(self.key)):
            raise DataError(
                f"Chunk: time, key and value must have one entry per tuple, got {len(self.time)}, "
                f"{len(self.key)} and {'none' if value is None else len(value)}."
            )

    def __len__(self) -> int:
        return len(self.key)

    def __repr__(self) -> str:
        return f"Chunk({len(self)} tuples)"

    def __getitem__(self, rows: slice) -> Chunk:
        """Return the tuples of a slice, sharing memory."""
        value = None if self.value is None else self.value[rows]
        return Chunk(self.time[rows], self.key[rows], value)

    def pieces(self, n_tuples: int) -> Iterator[Chunk]:
        """Yield successive pieces of at most `n_tuples` tuples."""
        for start in range(0, len(self), n_tuples):
            yield self[start : start + n_tuples]


def _keys(key: ArrayLike) -> NDArray[np.uint64]:
    array = np.asarray(key)
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind in "fO" and isinstance(key, (list, tuple)) and all(map(_is_64_bits, key)):
        # numpy makes floats of a list that holds integers on both sides of 2**63.
        return np.array([k % 2**64 for k in key], np.uint64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"Chunk: key must be a one-dimensional array of integers, got {array.dtype} of shape "
            f"{array.shape}; hash other keys with skewless.keys.hash64."
        )
    if array.dtype.kind == "i":
        return np.require(array, np.int64, _LAYOUT).view(np.uint64)
    return np.require(array, np.uint64, _LAYOUT)


def _is_64_bits(key: object) -> bool:
    return isinstance(key, int) and -(2**63) <= key < 2**64


def _times(time: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(time)
    if array.dtype.kind in "mM":
        array = array.astype(np.int64)
    if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
        raise DataError(
            f"Chunk: time must be a one-dimensional array of integers or timestamps, got "
            f"{array.dtype} of shape {array.shape}."
        )
    times = np.require(array, np.int64, _LAYOUT)
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        row = int(back[0])
        raise DataError(
            f"Chunk: time must not decrease, but tuple {row + 1} has {times[row + 1]} after "
            f"{times[row]}; sort the tuples, or number them."
        )
    return times
