"""Window functions over parts of a key: what a part computes, what it is told of the parts before it.

A function of the order or of a growing frame is computed by Spark inside the part, and a carried
value is added: the rows, distinct orders, sums, counts or extremes of the parts before. A function of
neighbours needs no carried value but a few rows of the parts on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from skewless.spark.keys import quoted
from skewless.spark.sort_order import SortKey
from skewless.spark.window_functions import AGGREGATES, RANKS, Over

__all__ = ["Carried", "Specs", "cannot_cut", "carried_of", "nullable_as", "value"]

#: Neighbours further away than this are not copied from part to part.
_WIDEST = 1_000
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_BROKEN = (FloatType, DoubleType)
#: Digits up to which Spark's own decimal types hold a sum, and an exact mean, put together from parts.
_SUM_DIGITS, _MEAN_DIGITS = 27, 14


class Carried(NamedTuple):
    """A summary of a part that later parts are told."""

    name: str
    """Such as ``"sum:amount"``."""
    summary: Column
    """The aggregate over the rows of a part."""
    merge: str
    """The aggregate over parts: ``"sum"``, ``"min"`` or ``"max"``."""


class Specs(NamedTuple):
    """The windows that functions are computed over."""

    by_order: WindowSpec
    """The key's rows (of a part) in the caller's order."""
    by_row: WindowSpec
    """The same in an order without ties."""
    with_neighbours: WindowSpec
    """The same with the rows that were copied from other parts."""
    whole: WindowSpec
    """The key's rows (of a part) in no order, as one frame."""


def cannot_cut(function: Over, df: DataFrame) -> str | None:
    """Say why a key must stay whole for a function; ``None`` if it may be cut."""
    if function.shifts:
        reach = max(function.reach)
        return f"it looks {reach} rows away, more than {_WIDEST}" if reach > _WIDEST else None
    if function.function not in ("sum", "avg"):
        return None
    kind = _kind(function, df)
    name = "total" if function.function == "sum" else "mean"
    if isinstance(kind, DecimalType):
        digits = _SUM_DIGITS if function.function == "sum" else _MEAN_DIGITS
        lossy = df.sparkSession.conf.get("spark.sql.decimalOperations.allowPrecisionLoss", "true")
        if kind.precision > digits:
            return f"a {name} of {kind.simpleString()} is put together exactly up to {digits} digits only"
        if function.function == "avg" and lossy != "true":
            return "decimalOperations.allowPrecisionLoss is off, so a quotient has too few digits"
        return None
    if isinstance(kind, (*_WHOLE, *_BROKEN)):
        return None
    return f"a {name} of {kind.simpleString()} is not put together from parts"


def carried_of(functions: Iterable[Over], df: DataFrame, order: Sequence[SortKey]) -> list[Carried]:
    """Return what the parts must tell each other, each summary once, the number of rows first."""
    found = [Carried("rows", F.count(F.lit(1)), "sum")]
    for function in functions:
        if function.function == "dense_rank":
            orders = F.struct(*[F.col(quoted(key.name)) for key in order])
            found.append(Carried("orders", F.count_distinct(orders), "sum"))
        if function.function not in AGGREGATES or function.shifts or function.column == "*":
            continue
        column, name = _column(function), str(function.column)
        if function.function in ("sum", "avg"):
            summed = _addend(function, df)
            found.append(Carried(_sum_name(function), F.sum(summed), "sum"))
        if function.function in ("count", "avg"):
            found.append(Carried(f"count:{name}", F.count(column), "sum"))
        if function.function in ("min", "max"):
            extreme = AGGREGATES[function.function](column)
            found.append(Carried(f"{function.function}:{name}", extreme, function.function))
    return list({one.name: one for one in found}.values())


def value(
    function: Over,
    specs: Specs,
    df: DataFrame,
    before: dict[str, Column],
    total: dict[str, Column],
) -> Column:
    """Return a function's value in the whole key.

    Parameters
    ----------
    function
        The function.
    specs
        Windows over the part.
    df
        The frame, for the types of its columns.
    before
        Carried values of the parts before, by name; null if there are none, or the key is whole.
    total
        Carried values of the whole key, by name; null if the key is whole.
    """
    if function.shifts:
        return function.plain(specs.with_neighbours, specs.with_neighbours)
    if function.function in AGGREGATES:
        return _aggregate(function, specs, df, before, total)
    return _rank(function, specs, before, total)


def nullable_as(
    values: dict[str, Column], found: StructType, expected: StructType
) -> dict[str, Column]:
    """Return the columns, known to Spark as nullable where it knows its own functions to be."""
    changed: dict[str, Column] = {}
    for name, column in values.items():
        kind, nullable = expected[name].dataType, expected[name].nullable
        if found[name].nullable and not nullable:
            changed[name] = F.coalesce(column, F.lit(0).cast(kind))
        elif nullable and not found[name].nullable:
            changed[name] = F.when(F.lit(True), column)
        else:
            changed[name] = column
    return changed


def _rank(
    function: Over, specs: Specs, before: dict[str, Column], total: dict[str, Column]
) -> Column:
    rows = F.coalesce(before["rows"], F.lit(0)).cast("int")
    spec = specs.by_order if function.takes_ties_together else specs.by_row
    if function.function in ("row_number", "rank"):
        return RANKS[function.function]().over(spec) + rows
    if function.function == "dense_rank":
        return F.dense_rank().over(spec) + F.coalesce(before["orders"], F.lit(0)).cast("int")
    every = F.coalesce(total["rows"], F.count(F.lit(1)).over(specs.whole))
    if function.function == "percent_rank":
        rank = F.rank().over(spec) + rows
        share = (rank - 1).cast("double") / (every - 1).cast("double")
        return F.when(every > 1, share).otherwise(F.lit(0.0))
    if function.function == "cume_dist":
        up_to = spec.rangeBetween(Window.unboundedPreceding, Window.currentRow)
        return (F.count(F.lit(1)).over(up_to) + rows).cast("double") / every.cast("double")
    number = F.row_number().over(spec) + rows
    small = F.floor(every / F.lit(function.n))
    n_large = every - small * F.lit(function.n)
    in_large = n_large * (small + 1)
    large_tile = F.floor((number - 1) / (small + 1)) + 1
    small_tile = n_large + F.floor((number - 1 - in_large) / F.greatest(small, F.lit(1))) + 1
    return F.when(number <= in_large, large_tile).otherwise(small_tile)


def _aggregate(
    function: Over,
    specs: Specs,
    df: DataFrame,
    before: dict[str, Column],
    total: dict[str, Column],
) -> Column:
    whole = function.rows == (None, None)
    spec = specs.whole if whole else function.framed(specs.by_order, specs.by_row)
    carried = total if whole else before

    def merged(name: str, local: Column) -> Column:
        if whole:  # the total holds this part too, and may be null itself
            return F.when(total["rows"].isNotNull(), total[name]).otherwise(local)
        return F.coalesce(carried[name] + local, local, carried[name])

    if function.function == "count":
        name = "rows" if function.column == "*" else f"count:{function.column}"
        local = F.count(_column(function)).over(spec)
        return F.coalesce(merged(name, local), F.lit(0))
    if function.function in ("min", "max"):
        name = f"{function.function}:{function.column}"
        local = AGGREGATES[function.function](_column(function)).over(spec)
        if whole:
            return merged(name, local)
        of_two = F.least if function.function == "min" else F.greatest
        return of_two(carried[name], local)
    added, name = _addend(function, df), _sum_name(function)
    kind = _kind(function, df)
    if isinstance(kind, DecimalType):
        # A sum of sums has more digits than Spark gives the sum itself.
        wide = DecimalType(min(kind.precision + 10, 38), kind.scale)
        carried = {**carried, name: carried[name].cast(wide)}
    summed = merged(name, F.sum(added).over(spec))
    if function.function == "sum":
        return summed
    counted = merged(f"count:{function.column}", F.count(_column(function)).over(spec))
    if isinstance(kind, DecimalType):
        summed = summed.cast(DecimalType(kind.precision + 10, kind.scale))
        counted = counted.cast(DecimalType(20, 0))
    return F.when(counted > 0, summed / counted)


def _column(function: Over) -> Column:
    return F.lit(1) if function.column == "*" else F.col(quoted(str(function.column)))


def _kind(function: Over, df: DataFrame) -> DataType:
    return next(f.dataType for f in df.schema.fields if f.name == function.column)


def _sum_name(function: Over) -> str:
    return f"{function.function}:{function.column}"


def _addend(function: Over, df: DataFrame) -> Column:
    """Return what is summed: wide enough that a part cannot overflow where the whole does not."""
    column, kind = _column(function), _kind(function, df)
    if function.function == "avg":
        return column if isinstance(kind, DecimalType) else column.cast("double")
    ansi = str(df.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    # Without ANSI a long sum wraps, and wraps to the same number in whatever order it is added.
    return column.cast(DecimalType(20, 0)) if isinstance(kind, LongType) and ansi else column
