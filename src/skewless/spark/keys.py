"""Key columns of a frame: found, checked, and hashed as `skewless.keys.hash64` hashes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from skewless.errors import DataError, did_you_mean

__all__ = ["KeyColumns", "fresh_name", "quoted", "resolve_column", "resolve_keys"]


class KeyColumns(NamedTuple):
    """The key columns of a frame."""

    names: tuple[str, ...]
    """Names as the frame spells them."""
    types: tuple[DataType, ...]
    """Their Spark types."""

    @property
    def columns(self) -> list[Column]:
        """The columns, unresolved."""
        return [F.col(quoted(name)) for name in self.names]

    @property
    def hash(self) -> Column:
        """``xxhash64`` of the key columns, bigint: equal to `skewless.keys.hash64` bit for bit."""
        return F.expr(self.hash_sql)

    @property
    def hash_sql(self) -> str:
        """`hash` as SQL text."""
        return f"xxhash64({', '.join(quoted(name) for name in self.names)})"


def quoted(name: str) -> str:
    """Return a column name that Spark reads as one name, whatever dots it holds."""
    return "`" + name.replace("`", "``") + "`"


def fresh_name(df: DataFrame, wanted: str) -> str:
    """Return a column name that the frame does not have, in any spelling."""
    taken = {name.lower() for name in df.columns}
    name = f"__skewless_{wanted}"
    while name.lower() in taken:
        name += "_"
    return name


def resolve_column(verb: str, df: DataFrame, name: str) -> str:
    """Return a column's name as the frame spells it.

    Raises
    ------
    DataError
        No such column, or several.
    """
    if not isinstance(name, str):
        raise DataError(
            f"{verb}: columns are given by name, got {type(name).__name__}; add the expression to the "
            "frame first with withColumn."
        )
    if name in df.columns:
        same = [c for c in df.columns if c == name]
    else:
        sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
        same = [] if sensitive else [c for c in df.columns if c.lower() == name.lower()]
    if not same:
        raise DataError(
            f"{verb}: column {name!r} is not in the frame{did_you_mean(name, df.columns)}."
        )
    if len(same) > 1:
        raise DataError(f"{verb}: column {name!r} is in the frame {len(same)} times; rename one.")
    return same[0]


def resolve_keys(verb: str, df: DataFrame, keys: Sequence[str]) -> KeyColumns:
    """Find the key columns and check that Spark can group by them.

    Raises
    ------
    DataError
        No key, an unknown column, or a column of a type that Spark cannot group by.
    """
    if not keys:
        raise DataError(f"{verb}: give at least one key column.")
    names = tuple(resolve_column(verb, df, key) for key in keys)
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DataError(f"{verb}: key column {twice!r} is given twice.")
    fields = {field.name: field.dataType for field in df.schema.fields}
    for name in names:
        reason = _ungroupable(fields[name])
        if reason:
            raise DataError(
                f"{verb}: column {name!r} holds {reason}, which Spark cannot group by; use "
                "map_entries sorted by key, or a field of it, as the key."
            )
    return KeyColumns(names, tuple(fields[name] for name in names))


def _ungroupable(kind: DataType) -> str | None:
    if isinstance(kind, MapType):
        return "a map"
    if isinstance(kind, ArrayType):
        return _ungroupable(kind.elementType)
    if isinstance(kind, StructType):
        return next((r for r in (_ungroupable(f.dataType) for f in kind.fields) if r), None)
    if kind.typeName() in ("variant", "calendarinterval"):
        return f"a {kind.typeName()}"
    return None
