"""Spark's DDL to Arrow schemas, for the types that the aggregators here use; without a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from skewless.errors import DataError, ParameterError, did_you_mean
from skewless.spark.aggregators.segments import column_of

__all__ = ["arrow_schema", "checked_value_type", "typed_values"]

_ATOMS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_TOKEN = re.compile(r"decimal\([^)]*\)|\w+|[<>:,]")
#: Types that may stand for each other, if no value is changed by it.
_KINDS = (
    ("a whole number", pa.types.is_integer),
    ("a floating-point number", pa.types.is_floating),
    ("a decimal", pa.types.is_decimal),
    ("a string", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t)),
    ("bytes", lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t)),
    ("a boolean", pa.types.is_boolean),
    ("a date", pa.types.is_date),
    ("a time", pa.types.is_timestamp),
)


def arrow_schema(ddl: str) -> pa.Schema:
    """Return the Arrow schema of ``name type, ...``.

    Examples
    --------
    >>> arrow_schema("n bigint, top array<struct<value: string, n: bigint>>")
    n: int64
    top: list<item: struct<value: string, n: int64>>
      child 0, item: struct<value: string, n: int64>
          child 0, value: string
          child 1, n: int64
    """
    tokens = iter(_TOKEN.findall(ddl))
    fields = [pa.field(next(tokens), _data_type(next(tokens), tokens))]
    for comma in tokens:
        assert comma == ",", ddl  # noqa: S101 (our own text)
        fields.append(pa.field(next(tokens), _data_type(next(tokens), tokens)))
    return pa.schema(fields)


def _data_type(word: str, tokens: Iterator[str]) -> pa.DataType:
    if word == "array":
        next(tokens)  # <
        item = _data_type(next(tokens), tokens)
        next(tokens)  # >
        return pa.list_(item)
    if word == "struct":
        fields = []
        while next(tokens) != ">":  # < before the first field, a comma before the others
            name = next(tokens)
            next(tokens)  # :
            fields.append(pa.field(name, _data_type(next(tokens), tokens)))
        return pa.struct(fields)
    decimal = _DECIMAL.fullmatch(word)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ATOMS[word]


def checked_value_type(owner: str, value_type: str) -> str:
    """Return `value_type`, or raise `ParameterError` if it is no type of a value to count.

    Examples
    --------
    >>> checked_value_type("TopK", "long")
    Traceback (most recent call last):
        ...
    skewless.errors.ParameterError: TopK: value_type must be a Spark type of single values, ...
    """
    decimal = _DECIMAL.fullmatch(value_type) if isinstance(value_type, str) else None
    known = value_type in _ATOMS if isinstance(value_type, str) else False
    if known or (decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1])):
        return value_type
    hint = did_you_mean(value_type, _ATOMS) if isinstance(value_type, str) else ""
    raise ParameterError(
        f"{owner}: value_type must be a Spark type of single values, such as 'string', 'bigint' or "
        f"'decimal(10,2)', got {value_type!r}{hint}."
    )


def typed_values(owner: str, rows: pa.Table, column: str, value_type: str) -> pa.Array:
    """Return a column of `rows` as `value_type`, or raise `DataError` if it holds something else."""
    values = column_of(rows, column)
    wanted = _data_type(value_type, iter(()))
    if values.type == wanted:
        return values
    if pa.types.is_null(values.type):
        return values.cast(wanted)
    words, same_kind = next((words, is_kind) for words, is_kind in _KINDS if is_kind(wanted))
    if not same_kind(values.type):
        raise DataError(
            f"{owner}: column {column!r} holds {values.type}, not {words}; value_type is "
            f"{value_type!r}, say there what the column's type is."
        )
    # What a time zone is, Spark says when it reads the state; the instant is the same.
    return values if pa.types.is_timestamp(wanted) else values.cast(wanted)
