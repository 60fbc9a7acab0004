"""Keys that no task shares are finished where they are combined: key forwarding, for batch frames.

What is unsplit needs no reducer (Dalton, section 4.2: partial results of such keys are final). Where a
routing splits no key at all, the second shuffle and its Python stage go. A task that holds more rows than
one buffer has several states of a key; they are merged here, and only by merges that give in Python, to
the last digit, what Spark's aggregates give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import localcontext
from functools import reduce
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    StructField,
    TimestampType,
)

from skewless.spark.aggregator import Aggregator
from skewless.spark.pane_states import MERGES

__all__ = ["fold", "held", "why_not"]

#: Digits that a sum of decimals may need: 38, and some for the number of addends.
_DIGITS = 76
_KEYS = (IntegralType, StringType, BooleanType, DateType, TimestampType, DecimalType, BinaryType)
_ORDERED = (IntegralType, DecimalType, DateType, StringType, BooleanType, FractionalType)
#: Merge -> the types of state columns for which it is done here.
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "sum": (IntegralType, FractionalType),
    "min": _ORDERED,
    "max": _ORDERED,
    "bit_and": (IntegralType,),
    "bit_or": (IntegralType,),
    "bit_xor": (IntegralType,),
    "bool_and": (BooleanType,),
    "bool_or": (BooleanType,),
    "concat": (ArrayType,),
}


def why_not(
    session: SparkSession,
    keys: Sequence[DataType],
    state: Sequence[StructField],
    aggregator: Aggregator,
) -> str:
    """Return why keys cannot be finished where they are combined; empty if they can.

    Parameters
    ----------
    session
        Its sums must fail when they overflow, as they do here.
    keys
        Types of the key columns.
    state, aggregator
        State columns, and their merges.
    """
    if str(session.conf.get("spark.sql.ansi.enabled")).lower() != "true":
        return "sums that overflow do not fail in this session (spark.sql.ansi.enabled)"
    for kind in keys:
        if not isinstance(kind, _KEYS) or _collated(kind):
            return f"Spark has rules of its own for equal keys of type {kind.simpleString()}"
    for field in state:
        merge = aggregator.merges.get(field.name)
        if merge is not None and not _done_here(merge, field.dataType):
            return f"only Spark merges {field.name!r} by {merge!r}"
    return ""


def _collated(kind: DataType) -> bool:
    return isinstance(kind, StringType) and kind.simpleString() != "string"


def _done_here(merge: str, kind: DataType) -> bool:
    if not isinstance(kind, _TYPES.get(merge, ())) or _collated(kind):
        return False
    return not isinstance(kind, ArrayType) or isinstance(
        kind.elementType, (IntegralType, FractionalType, BooleanType, StringType)
    )


def fold(
    aggregator: Aggregator,
    states: pa.Table,
    keys: Sequence[str],
    grouped: Callable[[pa.Table], tuple[Any, Any]],
) -> pa.Table:
    """Return one row per key: its state merged.

    Parameters
    ----------
    aggregator
        Its merges.
    states
        Key columns and state columns; several rows of a key.
    keys
        Names of the key columns.
    grouped
        Returns an order of the rows by key, and where each key starts.
    """
    order, starts = grouped(states)
    states = states.take(pa.array(order))
    first = states.select(list(keys)).take(pa.array(starts[:-1]))
    columns = dict(zip(first.column_names, first.columns, strict=True))
    by_merge = [n for n in states.column_names if n not in aggregator.merges and n not in keys]
    if by_merge:
        merged = aggregator.merge_groups(states.select(by_merge), starts)
        columns |= {name: merged[name] for name in by_merge}
    for name, merge in aggregator.merges.items():
        values, kind = states[name].to_pylist(), states.schema.field(name).type
        each = [_merged(merge, values[a:b]) for a, b in pairwise(starts.tolist())]
        columns[name] = pa.chunked_array([pa.array(each, kind)])
    return pa.table({name: columns[name] for name in states.column_names}, schema=states.schema)


def _merged(merge: str, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    if merge == "concat":
        return list(chain.from_iterable(known))
    if len(known) < 2:
        return known[0] if known else None
    if merge == "sum":
        with localcontext() as context:
            context.prec = _DIGITS
            return sum(known[1:], known[0])
    return reduce(MERGES[merge], known)


def held(tables: Iterator[pa.Table], merge: Callable[[pa.Table], pa.Table]) -> pa.Table | None:
    """Return all states of a task, merged whenever they have doubled; nothing if there were no rows."""
    parts: list[pa.Table] = []
    kept = 0
    for table in tables:
        parts.append(table)
        rows = sum(part.num_rows for part in parts)
        if len(parts) > 1 and rows > 2 * kept:
            parts = [merge(pa.concat_tables(parts))]
            kept = parts[0].num_rows
        elif len(parts) == 1:
            kept = rows
    if len(parts) > 1:
        return merge(pa.concat_tables(parts))
    return parts[0] if parts else None
