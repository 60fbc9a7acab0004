"""Arithmetic over the groups of sorted rows: sums, lists and centred values, many groups at once.

Group ``i`` is ``starts[i]:starts[i + 1]``, as in `Aggregator.update_groups`; groups may be empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.errors import DataError

__all__ = [
    "Starts",
    "as_lists",
    "centred",
    "column_of",
    "group_of",
    "kept",
    "lists_of",
    "numbers",
    "sums",
]

Starts = NDArray[np.int64]
Floats = NDArray[np.float64]


def column_of(rows: pa.Table, name: str) -> pa.Array:
    """Return a column in one piece; Spark may spell its name in other cases than the user did.

    Examples
    --------
    >>> column_of(pa.table({"ms": [1], "Ms": [2]}), "Ms").to_pylist()
    [2]
    >>> column_of(pa.table({"ms": [1]}), "MS").to_pylist()
    [1]
    """
    names = rows.column_names
    if name not in names:
        names, name = [each.lower() for each in names], name.lower()
    return rows.column(names.index(name)).combine_chunks()


def group_of(starts: Starts) -> Starts:
    """Return the group of each row.

    Examples
    --------
    >>> group_of(np.array([0, 2, 2, 3]))
    array([0, 0, 2])
    """
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def kept(starts: Starts, keep: NDArray[np.bool_]) -> Starts:
    """Return where groups start among the rows to `keep`.

    Examples
    --------
    >>> kept(np.array([0, 2, 3]), np.array([True, False, True]))
    array([0, 1, 2])
    """
    return np.concatenate([[0], np.cumsum(keep)])[starts]


def sums(values: NDArray[Any], starts: Starts) -> NDArray[Any]:
    """Return the sum of each group, 0 for an empty one; floats are added in pairs.

    Examples
    --------
    >>> sums(np.array([1, 2, 4]), np.array([0, 2, 2, 3]))
    array([3, 0, 4])
    """
    total = np.zeros(len(starts) - 1, values.dtype)
    filled = starts[1:] > starts[:-1]
    if filled.any():
        total[filled] = np.add.reduceat(values, starts[:-1][filled])
    return total


def centred(mean: Floats, n: Floats, starts: Starts) -> tuple[Floats, Floats]:
    """Return the mean of each group of parts of `n` values, and how far each part's mean is from it.

    Parameters
    ----------
    mean
        Mean of each part.
    n
        Values of each part, at least 1.
    starts
        Where groups of parts start.

    Notes
    -----
    Means are taken relative to the first of the group, so that a common offset costs no digits and
    equal means give deviations of exactly 0.
    """
    group, total = group_of(starts), np.maximum(sums(n, starts), 1.0)
    origin = np.zeros(len(total))
    filled = starts[1:] > starts[:-1]
    origin[filled] = mean[starts[:-1][filled]]
    distance = mean - origin[group]
    shift = sums(n * distance, starts) / total
    centre = origin + shift
    if not np.isfinite(centre).all():  # infinities: their mean is what plain sums say
        centre = np.where(np.isfinite(centre), centre, sums(n * mean, starts) / total)
    return centre, distance - shift[group]


def numbers(owner: str, rows: pa.Table, column: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a column as doubles, and which of them are no nulls."""
    values = column_of(rows, column)
    kind = values.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise DataError(f"{owner}: column {column!r} must hold numbers, it holds {kind}.")
    doubles = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0)
    return doubles.to_numpy(), values.is_valid().to_numpy(zero_copy_only=False)


def lists_of(column: Any) -> tuple[Starts, pa.Array]:
    """Return where the list of each row starts among all elements, and these."""
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    starts = lists.offsets.to_numpy().astype(np.int64)  # a slice starts above 0
    return starts - starts[0], lists.flatten()


def as_lists(starts: Starts, elements: pa.Array) -> pa.Array:
    """Return a column of lists; the inverse of `lists_of`."""
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), elements)
