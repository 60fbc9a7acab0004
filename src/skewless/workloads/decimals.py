"""Decimals as whole numbers of their last place: exact products and sums in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.spark.aggregators.segments import Starts, column_of, sums

__all__ = ["as_decimals", "exact_sums", "hundredths"]

Ints = NDArray[np.int64]


def hundredths(owner: str, rows: pa.Table, column: str) -> tuple[Ints, NDArray[np.bool_]]:
    """Return a column of money in hundredths, and which rows have a value.

    Examples
    --------
    >>> hundredths("Q", pa.table({"price": [1.25, None, 0.1]}), "price")[0]
    array([125,   0,  10])
    """
    values = column_of(rows, column)
    kind = values.type
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        cents = np.rint(pc.fill_null(values, 0.0).to_numpy() * 100.0)
        if not (np.abs(cents) < 2**53).all():
            raise DataError(
                f"{owner}: column {column!r} holds {values[int(np.abs(cents).argmax())]}."
            )
        return cents.astype(np.int64), known
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return pc.fill_null(values.cast(pa.int64()), 0).to_numpy() * 100, known
    if pa.types.is_decimal(kind) and kind.scale <= 2:
        whole = pc.fill_null(values, pa.scalar(0, kind)).cast(pa.decimal128(18, 2))
        words = np.frombuffer(whole.buffers()[1], np.int64)[::2]
        return words[whole.offset : whole.offset + len(whole)], known
    raise DataError(
        f"{owner}: column {column!r} must hold numbers with two decimal places, it holds {kind}."
    )


def exact_sums(values: Ints, starts: Starts) -> Ints:
    """Return the sum of each group, or raise `DataError` if 64 bits may not hold it.

    Examples
    --------
    >>> exact_sums(np.array([1, 2, 4]), np.array([0, 2, 3]))
    array([3, 4])
    """
    most = int(np.abs(values).max(initial=0))
    if most * len(values) >= 2**63:
        raise DataError(f"A sum of {len(values)} values of up to {most} may leave 64 bits.")
    found: Any = sums(values, starts)
    return np.asarray(found, np.int64)


def as_decimals(values: Ints, precision: int, scale: int) -> pa.Array:
    """Return whole numbers of the last place as decimals.

    Examples
    --------
    >>> as_decimals(np.array([125, -1]), 10, 2).to_pylist()
    [Decimal('1.25'), Decimal('-0.01')]
    """
    words = np.stack([values, values >> 63], axis=1).astype("<i8")
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(values), [None, pa.py_buffer(words.tobytes())]
    )
