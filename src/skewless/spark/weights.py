"""What a row weighs when a plan balances something else than rows: a column, or an estimate of bytes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    FloatType,
    IntegerType,
    IntegralType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructType,
)

from skewless.errors import DataError
from skewless.spark.keys import quoted, resolve_column

__all__ = ["BYTES", "row_bytes", "weight_column"]

#: Asks for the estimated size of a row.
BYTES = "bytes"

#: Bytes of a value, where it is not 8.
_FIXED: dict[type[DataType], int] = {
    BooleanType: 1,
    ByteType: 1,
    ShortType: 2,
    IntegerType: 4,
    FloatType: 4,
    DateType: 4,
}


def weight_column(verb: str, df: DataFrame, weight: str | Column | None) -> Column | None:
    """Return the weight of a row as bigint or double; ``None`` if every row weighs 1.

    Parameters
    ----------
    verb
        Opens the error sentence.
    df
        The frame.
    weight
        Name of a numeric column, a numeric expression, or ``"bytes"`` for `row_bytes` (if the frame
        has no column of that name).

    Raises
    ------
    DataError
        No such column, or it is not numeric.
    """
    if weight is None:
        return None
    if isinstance(weight, str):
        if weight == BYTES and BYTES not in (name.lower() for name in df.columns):
            return row_bytes(df)
        weight = F.col(quoted(resolve_column(f"{verb}: weight", df, weight)))
    elif not isinstance(weight, Column):
        raise DataError(
            f"{verb}: weight must be a column's name, a Column or 'bytes', got "
            f"{type(weight).__name__}."
        )
    kind = df.select(weight.alias("weight")).schema["weight"].dataType
    if not isinstance(kind, NumericType):
        raise DataError(
            f"{verb}: weight must be numeric, got {kind.simpleString()}; for the length of a text use "
            "F.length, for an estimate of the whole row weight='bytes'."
        )
    return weight.cast("bigint" if isinstance(kind, IntegralType) else "double")


def row_bytes(df: DataFrame) -> Column:
    """Return the estimated bytes of a row, bigint: the data of each column, without Spark's overhead.

    Elements of arrays and maps count with the size of their type; text and binary elements with 16.
    """
    total = F.lit(0).cast("bigint")
    for field in df.schema.fields:
        total = total + _bytes_of(F.col(quoted(field.name)), field.dataType)
    return total


def _bytes_of(column: Column, kind: DataType) -> Column:
    if isinstance(kind, (StringType, BinaryType)):
        size = F.octet_length(column)
    elif isinstance(kind, StructType):
        size = F.lit(0)
        for field in kind.fields:
            size = size + _bytes_of(column.getField(field.name), field.dataType)
    elif isinstance(kind, ArrayType):
        size = F.size(column) * _typical(kind.elementType)
    elif isinstance(kind, MapType):
        size = F.size(column) * (_typical(kind.keyType) + _typical(kind.valueType))
    else:
        size = F.when(column.isNotNull(), F.lit(_typical(kind)))
    return F.greatest(F.coalesce(size.cast("bigint"), F.lit(0)), F.lit(0)).cast("bigint")


def _typical(kind: DataType) -> int:
    if isinstance(kind, StructType):
        return sum(_typical(field.dataType) for field in kind.fields)
    if isinstance(kind, (StringType, BinaryType, ArrayType, MapType)):
        return 16
    return _FIXED.get(type(kind), 8)
