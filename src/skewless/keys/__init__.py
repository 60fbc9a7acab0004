"""Key columns of any type to 64-bit hashes, bit for bit as Spark's ``xxhash64`` gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.kernel import SPARK_SEED
from skewless.keys.arrow import hash_column, refuse_unhashable
from skewless.keys.columns import arrow_columns

__all__ = ["hash64"]


def hash64(*columns: Any) -> NDArray[np.uint64]:
    """Hash key columns row by row, as Spark's ``xxhash64(*columns)`` does.

    Use it wherever keys enter the simulator or a kernel, so that they and Catalyst decide on the
    same bits. Not for secrets, and not as an identity: two keys may share a hash (odds 2**-64).

    Parameters
    ----------
    *columns
        One or more columns of equal length: pyarrow arrays or chunked arrays, one-dimensional numpy
        arrays, pandas Series or Index, or any object that exports Arrow data. A Table, RecordBatch
        or DataFrame stands for its columns, in order.

    Returns
    -------
    numpy.ndarray
        One uint64 per row: the bits of the long that Spark returns.

    Raises
    ------
    DataError
        There is no column, lengths differ, a type cannot be hashed (the message names it and the
        position of the column, counted from 0), or a value has no place in Spark's type.

    Notes
    -----
    The seed is 42; the hash of a column is the seed of the next, and a null leaves it as it is, so
    a row of nulls hashes to 42.

    =============================================  =============================================
    Type                                           Hashed as
    =============================================  =============================================
    boolean, int8 to int32, uint8, uint16, date    XXH64 of 4 bytes
    int64, uint32, uint64 below 2**63              XXH64 of 8 bytes
    float32, float64                               4 or 8 bytes; one NaN, and -0.0 is 0.0
    decimal of precision 18 or less                8 bytes of the unscaled value
    decimal128 of precision 19 or more             the unscaled value's ``BigInteger.toByteArray``
    timestamp, duration                            8 bytes, microseconds
    string, binary                                 XXH64 of the bytes
    dictionary                                     its values
    list, struct                                   their elements and fields, chained like columns
    =============================================  =============================================

    Maps are refused, as by ``xxhash64``: equal maps may list their entries differently. Values
    finer than Spark keeps are rounded down as ``createDataFrame`` does: timestamps and durations to
    the microsecond, date64 to the day. Spark since 3.2 folds NaN and -0.0 in ``xxhash64`` itself,
    so the bare expression agrees with its grouping and with this function.

    A NaN in a float column of numpy or pandas is a value, although Spark's own ``createDataFrame``
    turns it into a null when it reads pandas. In an object column, None and a missing value are
    null; if what is left are floats, NaN is a value again.

    Cost: one pass over each column's buffers, without a copy for integers from 32 bits, floats,
    strings and binaries; 8 bytes per row for the result. A dictionary in the first place is hashed
    once per entry. Lists of structs of several fields cost one pass per position in the longest.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> lists = pa.array([[123]], pa.list_(pa.int32()))
    >>> hash64(pa.array(["Spark"]), lists, np.array([2], np.int32))
    array([5602566077635097486], dtype=uint64)
    >>> hash64(pa.array([None, ""])).tolist()
    [42, 11002672306508523268]

    References
    ----------
    Y. Collet, "xxHash fast digest algorithm", format specification, section "XXH64";
    Apache Spark, ``org.apache.spark.sql.catalyst.expressions.XxHash64``.
    """
    named = [column for given in columns for column in arrow_columns(given)]
    if not named:
        raise DataError("hash64: at least one column is needed, got none.")
    for position, (name, column) in enumerate(named):
        label = f"columns[{position}]" + (f" ({name!r})" if name is not None else "")
        refuse_unhashable(column.type, label)
    lengths = [len(column) for _, column in named]
    if len(set(lengths)) > 1:
        raise DataError(
            f"hash64: all columns must have the same length, got {', '.join(map(str, lengths))}."
        )
    running = np.full(lengths[0], SPARK_SEED, np.uint64)
    with np.errstate(over="ignore"):  # the product wraps by design; numpy tells when numba is off
        for position, (_, column) in enumerate(named):
            start = 0
            for chunk in column.chunks:
                rows = running[start : start + len(chunk)]
                hash_column(chunk, rows, fresh=position == 0)
                start += len(chunk)
    return running
