"""The order of a window as the caller gave it: names or sort columns, read and checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from skewless.errors import DataError
from skewless.spark.keys import quoted, resolve_column

__all__ = ["OrderLike", "SortKey", "resolve_order", "row_hash", "tie_breakers"]

#: One column or several, each by name or as ``F.desc("v")``, ``F.col("v").asc_nulls_last()``.
OrderLike = str | Column | Sequence[str | Column]

#: Types that Spark cannot sort by, maps aside; not all of them are in every version.
_UNORDERED = ("VariantType", "CalendarIntervalType", "GeographyType", "GeometryType")

_SORTED = re.compile(r"(.*?)(?: (ASC|DESC) NULLS (FIRST|LAST))?", re.DOTALL)


class SortKey(NamedTuple):
    """A column that rows are ordered by."""

    name: str
    """Name as the frame spells it."""
    ascending: bool = True
    """Direction."""
    nulls_first: bool = True
    """Where nulls go."""

    @property
    def column(self) -> Column:
        """The sort expression, as a window or a sort takes it."""
        column = F.col(quoted(self.name))
        if self.ascending:
            return column.asc_nulls_first() if self.nulls_first else column.asc_nulls_last()
        return column.desc_nulls_first() if self.nulls_first else column.desc_nulls_last()

    def __str__(self) -> str:
        direction = "ASC" if self.ascending else "DESC"
        return f"{self.name} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def resolve_order(verb: str, df: DataFrame, order_by: OrderLike) -> list[SortKey]:
    """Read the order and check that Spark can sort by it.

    Parameters
    ----------
    verb
        Opens the error sentence.
    df
        The frame.
    order_by
        Names, or columns of the frame with a direction. As in Spark, ascending puts nulls first and
        descending puts them last, unless the column says otherwise.

    Raises
    ------
    DataError
        No column, an unknown one, one that is given twice, an expression, or a type without an order.
    """
    given = [order_by] if isinstance(order_by, (str, Column)) else list(order_by)
    if not given:
        raise DataError(f"{verb}: order_by is empty; give at least one column.")
    keys = [_read(verb, df, one) for one in given]
    names = [key.name for key in keys]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{verb}: order_by lists column {twice!r} twice.")
    for key in keys:
        kind = next(f.dataType for f in df.schema.fields if f.name == key.name)
        if not _orderable(kind):
            raise DataError(
                f"{verb}: column {key.name!r} is of type {kind.simpleString()}, which has no order; "
                "order by a field of it."
            )
    return keys


def _read(verb: str, df: DataFrame, given: str | Column) -> SortKey:
    if not isinstance(given, Column):
        return SortKey(resolve_column(verb, df, given))
    text = str(given).removeprefix("Column<'").removesuffix("'>")
    found = _SORTED.fullmatch(text)
    assert found is not None  # noqa: S101 - the pattern takes any text
    name, direction, nulls = found.groups()
    plain = name[1:-1].replace("``", "`") if re.fullmatch(r"`.*`", name, re.DOTALL) else name
    if plain.lower() not in {column.lower() for column in df.columns} and "(" in plain:
        raise DataError(
            f"{verb}: order_by takes columns of the frame, got the expression {plain!r}; add it to the "
            "frame first with withColumn."
        )
    ascending = direction != "DESC"
    first = ascending if nulls is None else nulls == "FIRST"
    return SortKey(resolve_column(verb, df, plain), ascending, first)


def tie_breakers(df: DataFrame, keys: Sequence[str]) -> list[Column]:
    """Return ascending sort expressions of all columns but `keys`: together they tell rows apart.

    A type without an order is compared by its JSON text. Columns that share their name cannot be
    referred to, and are left out.
    """
    return [column.asc() for column in _others(df, keys)]


def row_hash(df: DataFrame, keys: Sequence[str]) -> Column:
    """Return one bigint that tells rows apart which agree in `keys`: the hash of all other columns."""
    return F.xxhash64(F.lit(0), *_others(df, keys))


def _others(df: DataFrame, keys: Sequence[str]) -> list[Column]:
    times = Counter(name.lower() for name in df.columns)
    found: list[Column] = []
    for field in df.schema.fields:
        if times[field.name.lower()] > 1:
            continue
        column = F.col(quoted(field.name))
        if field.name not in keys:
            ordered = _orderable(field.dataType)
            found.append(column if ordered else F.to_json(F.struct(column.alias("value"))))
        if isinstance(field.dataType, (FloatType, DoubleType)):
            # A sort takes the two zeros for equal, in keys as well; their texts differ.
            found.append(F.when(column == 0, column.cast("string")))
    return found


def _orderable(kind: DataType) -> bool:
    if isinstance(kind, MapType) or type(kind).__name__ in _UNORDERED:
        return False
    if isinstance(kind, ArrayType):
        return _orderable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_orderable(field.dataType) for field in kind.fields)
    return True
