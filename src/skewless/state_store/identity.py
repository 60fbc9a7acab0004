"""Which rows have the same key: by hash, and by the key itself where hashes agree."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["key_numbers"]


def key_numbers(keys: pa.Table, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return each row's key as a number: distinct keys count up in the order of their first rows.

    Parameters
    ----------
    keys
        Key columns. Null is a key, every NaN is one key, and -0.0 is 0.0, as in Spark's grouping.
    hashes
        uint64, one per row: equal for equal keys.

    Notes
    -----
    Two keys that share a hash are told apart. Cost: one sort of the hashes and one comparison of
    each row with the first of its hash; keys that hold lists are compared in Python.

    Examples
    --------
    >>> table = pa.table({"k": ["b", "a", "b", None]})
    >>> key_numbers(table, np.array([7, 7, 7, 42], np.uint64)).tolist()
    [0, 1, 0, 2]
    """
    n = len(hashes)
    if n == 0:
        return np.empty(0, np.int64)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))
    first = order[starts]
    repeats = np.flatnonzero(order != first[run])
    if len(repeats) and not _same(keys, order[repeats], first[run[repeats]]):
        return _one_by_one(keys)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    numbers = np.empty(n, np.int64)
    numbers[order] = number[run]
    return numbers


def _same(keys: pa.Table, left: NDArray[np.int64], right: NDArray[np.int64]) -> bool:
    """Say whether each row of `left` has the key of the row of `right` beside it."""
    return all(
        _equal(column.take(pa.array(left)), column.take(pa.array(right)))
        for column in map(_whole, keys.columns)
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _equal(left: pa.Array, right: pa.Array) -> bool:
    kind = left.type
    if not left.is_null().equals(right.is_null()):
        return False
    if pa.types.is_null(kind):
        return True
    if pa.types.is_struct(kind):
        return all(map(_equal, left.flatten(), right.flatten()))
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return all(_plain(a) == _plain(b) for a, b in pairs)
    equal = pc.equal(left, right)
    if pa.types.is_floating(kind):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return bool(pc.all(equal.fill_null(True)).as_py())


def _one_by_one(keys: pa.Table) -> NDArray[np.int64]:
    seen: dict[Hashable, int] = {}
    columns = [column.to_pylist() for column in keys.columns]
    rows = zip(*columns, strict=True)
    numbers = [seen.setdefault(tuple(map(_plain, row)), len(seen)) for row in rows]
    return np.array(numbers, np.int64)


def _plain(value: Any) -> Hashable:
    """Return a value that is equal, and hashes alike, for what Spark groups together."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _plain(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value
