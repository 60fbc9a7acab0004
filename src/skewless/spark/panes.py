"""Windows by panes: aggregate each pane once, then panes into windows.

A sliding window of ``size`` by ``slide`` holds each row ``size / slide`` times. Spark expands every row
that often; here a row is counted once, in its pane, and only the panes' partial results are expanded.
That needs an aggregate which can be put together from partial results: `decompose` knows which can.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    NumericType,
    StructField,
)

from skewless.errors import DataError
from skewless.spark.nodes import arguments_of, child_of, column_of, field_of, kind_of, node_of

__all__ = ["Decomposed", "decompose", "duration_us", "pane_us"]

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def duration_us(verb: str, name: str, text: str) -> int:
    """Return the microseconds of a duration such as ``"10 minutes"`` or ``"1 hour 30 minutes"``.

    Raises
    ------
    DataError
        It is no duration, not positive, or uses months or years, whose length varies.

    Examples
    --------
    >>> duration_us("window", "size", "1 minute 30 seconds")
    90000000
    """
    words = str(text).lower().removeprefix("interval").split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    total = 0.0
    for amount, unit in pairs:
        singular = unit.removesuffix("s")
        if singular not in _UNITS or not re.fullmatch(r"-?\d+(\.\d+)?", amount):
            total = math.nan
            break
        total += float(amount) * _UNITS[singular]
    if not words or len(words) % 2 or not total >= 0 or total != int(total):
        raise DataError(
            f"{verb}: {name} must be a duration of weeks, days, hours, minutes, seconds, "
            f"milliseconds or microseconds such as '10 minutes', got {text!r}."
        )
    return int(total)


def pane_us(size_us: int, slide_us: int) -> int:
    """Return the longest pane that fills both window and slide, microseconds.

    Examples
    --------
    >>> pane_us(60, 25)
    5
    """
    return math.gcd(size_us, slide_us)


class Decomposed(NamedTuple):
    """An aggregate in two steps: partial results of a pane, and how they become the answer."""

    partial: list[Column]
    """Aggregates over rows, with names of their own."""
    merge: Column
    """Aggregate over the partial results, under the aggregate's name and of its type."""
    addends: list[tuple[Column, DataType]] | None = None
    """What a row adds to each partial result, and its type; ``None`` if they are not merged by adding."""
    final: Column | None = None
    """The answer from those sums, which are called ``..a_sum`` and ``..b_sum``."""


def decompose(aggregate: Column, position: int, field: StructField) -> Decomposed | None:
    """Split an aggregate into partial and merge, or return ``None`` where that is not exact.

    Parameters
    ----------
    aggregate
        ``F.sum("x")`` and the like, with or without an alias.
    position
        Makes the names of the partial columns unique.
    field
        What Spark calls the aggregate, its type and its metadata.

    Notes
    -----
    Exact for count, sum, min, max, bit_and, bit_or, bit_xor, bool_and, bool_or (every, some, any), and
    avg of anything but decimals (their quotient is rounded to a scale of its own).
    """
    call = _call(aggregate)
    if call is None:
        return None
    function, distinct, bare = call
    kind = field.dataType
    first, second = f"__skewless_{position}a", f"__skewless_{position}b"
    if distinct:
        return None
    if function == "count":
        # A count of a count would be collapsed into one level by the optimizer; a sum is not.
        ones = F.sum(_one_where_counted(aggregate))
        whole = F.coalesce(F.sum(first), F.lit(0)).cast(kind)
        return Decomposed(
            [ones.alias(first)],
            _named(whole, field),
            [(_one_where_counted(aggregate).alias(first), LongType())],
            _named(F.col(f"{first}_sum").cast(kind), field),
        )
    if function == "avg" and isinstance(kind, NumericType) and not isinstance(kind, DecimalType):
        argument = _argument(aggregate)
        known = F.when(argument.isNotNull(), F.lit(1)).otherwise(F.lit(0))
        number = argument.cast("double")
        mean = F.sum(first) / F.nullif(F.sum(second), F.lit(0))
        final = F.col(f"{first}_sum") / F.nullif(F.col(f"{second}_sum"), F.lit(0))
        return Decomposed(
            [F.sum(number).alias(first), F.sum(known).alias(second)],
            _named(mean.cast(kind), field),
            [(number.alias(first), DoubleType()), (known.alias(second), LongType())],
            _named(final.cast(kind), field),
        )
    merges = {
        "sum": F.sum,
        "min": F.min,
        "max": F.max,
        "bit_and": F.bit_and,
        "bit_or": F.bit_or,
        "bit_xor": F.bit_xor,
        "bool_and": F.bool_and,
        "bool_or": F.bool_or,
    }
    if function not in merges:
        return None
    whole = _named(merges[function](first).cast(kind), field)
    if function != "sum":
        return Decomposed([bare.alias(first)], whole)
    number = _argument(aggregate).cast(kind)
    final = _named(F.col(f"{first}_sum").cast(kind), field)
    return Decomposed([bare.alias(first)], whole, [(number.alias(first), kind)], final)


def _named(column: Column, field: StructField) -> Column:
    return column.alias(field.name, metadata=field.metadata)


_SYNONYMS = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or"}


def _call(aggregate: Column) -> tuple[str, bool, Column] | None:
    """Return (function, is distinct, aggregate without alias) of a plain function call."""
    node = node_of(aggregate)
    bare = aggregate
    if kind_of(node) in ("Alias", "ColumnAlias"):
        node = child_of(node)
        bare = column_of(aggregate, node)
    if kind_of(node) != "UnresolvedFunction":
        return None
    function = str(field_of(node, "functionName", "_name")).lower()
    distinct = bool(field_of(node, "isDistinct", "_is_distinct"))
    return _SYNONYMS.get(function, function), distinct, bare


def _one_where_counted(aggregate: Column) -> Column:
    arguments = _arguments(aggregate)
    if len(arguments) == 1 and arguments[0] is None:
        return F.lit(1)
    missing = [a.isNull() for a in arguments if a is not None]
    some = missing[0]
    for other in missing[1:]:
        some = some | other
    return F.when(some, F.lit(0)).otherwise(F.lit(1))


def _argument(aggregate: Column) -> Column:
    argument = _arguments(aggregate)[0]
    return F.lit(1) if argument is None else argument


def _arguments(aggregate: Column) -> list[Column | None]:
    """Return the arguments of the call as columns; ``None`` stands for ``*`` or a literal 1."""
    node = node_of(aggregate)
    if kind_of(node) in ("Alias", "ColumnAlias"):
        node = child_of(node)
    nodes = arguments_of(node)
    return [None if _always_counts(n) else column_of(aggregate, n) for n in nodes]


def _always_counts(node: Any) -> bool:
    """Say whether an argument of ``count`` is never null by its form: ``*`` or a literal."""
    if kind_of(node) in ("Literal", "LiteralExpression"):
        return field_of(node, "value", "_value") is not None
    return kind_of(node) == "UnresolvedStar"


def pane_aggregate(
    df: DataFrame,
    time: Column,
    size: str,
    slide: str,
    pane: int,
    keys: list[Column],
    parts: list[Decomposed],
) -> DataFrame:
    """Aggregate by pane, then panes into windows; append mode, since two aggregations follow."""
    partial = [column for part in parts for column in part.partial]
    panes = df.groupBy(F.window(time, f"{pane} microseconds").alias("__skewless_pane"), *keys).agg(
        *partial
    )
    window = F.window(F.window_time("__skewless_pane"), size, slide).alias("window")
    return panes.groupBy(window, *keys).agg(*[part.merge for part in parts])
