"""What users hold (Arrow, numpy, pandas, exporters of Arrow data) as Arrow columns."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.errors import DataError

__all__ = ["arrow_columns"]

Named = tuple[str | None, "pa.ChunkedArray[Any]"]


def arrow_columns(given: Any) -> list[Named]:
    """Return the columns that an argument stands for, with their names where they have one."""
    if isinstance(given, pa.ChunkedArray):
        return [(None, given)]
    if isinstance(given, pa.Array):
        return [(None, pa.chunked_array([given]))]
    if isinstance(given, pa.Table | pa.RecordBatch):
        table = pa.Table.from_batches([given]) if isinstance(given, pa.RecordBatch) else given
        return list(zip(table.column_names, table.columns, strict=True))
    if isinstance(given, np.ndarray):
        return [(None, _converted(given))]
    return _pandas_columns(given) or _exported_columns(given)


def _pandas_columns(given: Any) -> list[Named]:
    """Return the columns of a pandas object; none if it is something else."""
    pandas = sys.modules.get("pandas")  # who passes pandas has imported it
    if pandas is None:
        return []
    if isinstance(given, pandas.DataFrame):
        return [(str(name), _converted(series)) for name, series in given.items()]
    if isinstance(given, pandas.api.extensions.ExtensionArray):
        given = pandas.Series(given)
    if isinstance(given, pandas.Series | pandas.Index):
        return [(None if given.name is None else str(given.name), _converted(given))]
    return []


def _exported_columns(given: Any) -> list[Named]:
    """Return the column of any other library that speaks the Arrow C interface."""
    if hasattr(given, "__arrow_c_stream__"):
        return [(None, pa.chunked_array(given))]
    if hasattr(given, "__arrow_c_array__"):
        return [(None, pa.chunked_array([pa.array(given)]))]
    raise DataError(
        f"hash64: a column must be a pyarrow, numpy or pandas column, or a table of them, got "
        f"{type(given).__name__}; convert it with numpy.asarray or pyarrow.array."
    )


def _converted(column: Any) -> pa.ChunkedArray[Any]:
    """Return a numpy array or a pandas column as Arrow data, without copying where possible."""
    try:
        if isinstance(column.dtype, np.dtype):
            array = _from_numpy(np.asarray(column))
        else:  # pandas' extension types: nullable, categorical, Arrow-backed, with a time zone
            array = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"hash64: a column of type {column.dtype} cannot be read as Arrow data ({error}); "
            f"convert it to numbers, strings, dates or a pyarrow array."
        ) from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _from_numpy(values: np.ndarray[Any, Any]) -> Any:
    if values.ndim != 1:
        raise DataError(
            f"hash64: a numpy column must have one dimension, got an array of shape {values.shape}."
        )
    if values.dtype.kind == "O":
        array = pa.array(values, from_pandas=True)
        # NaN is missing among strings but a value among floats.
        return pa.array(values, from_pandas=False) if pa.types.is_floating(array.type) else array
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "iuf":  # as pyarrow would, but it imports pandas first
        buffer = pa.py_buffer(np.ascontiguousarray(values).data)
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])
    return pa.array(values, from_pandas=False)
