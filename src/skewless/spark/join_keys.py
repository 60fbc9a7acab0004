"""What a join compares: the equalities of `on`, each side's expression of them, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

from skewless.errors import DataError, ParameterError
from skewless.spark.keys import fresh_name, quoted, resolve_keys
from skewless.spark.nodes import call_of

__all__ = ["HOW", "JoinKeys", "On", "join_type", "read_on", "unmatchable", "with_keys"]

#: Spark's names of join types -> the one used here.
HOW = {
    "inner": "inner",
    "cross": "cross",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "outer": "full",
    "full": "full",
    "fullouter": "full",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}

On = str | Sequence[str] | Column | Sequence[Column] | None


class JoinKeys(NamedTuple):
    """The equalities of a join."""

    left: list[Column]
    """Expression of each key on the left side, in the type that Spark compares."""
    right: list[Column]
    null_safe: list[bool]
    """Whether null equals null (``<=>``)."""
    names: list[str] | None
    """Names of the columns if the join is by name, so that the result has them once."""
    residual: bool
    """Whether there is more to the condition than these equalities."""
    why_not: str
    """Why no key can be used; empty if one can."""


def join_type(how: str) -> str:
    """Return the join type that a name of Spark's means.

    Raises
    ------
    ParameterError
        Spark has no such join.

    Examples
    --------
    >>> join_type("left_outer"), join_type("fullOuter")
    ('left', 'full')
    """
    plain = how.lower().replace("_", "") if isinstance(how, str) else how
    if plain not in HOW:
        raise ParameterError(
            f"join: how must be one of inner, left, right, full, semi, anti, cross, got {how!r}."
        )
    return HOW[plain]


def read_on(left: DataFrame, right: DataFrame, on: On) -> JoinKeys:
    """Find the equalities of a join.

    Parameters
    ----------
    left, right
        The two frames.
    on
        What ``DataFrame.join`` takes: a name, names, a condition, conditions, or nothing.

    Raises
    ------
    DataError
        A named column is missing on a side or cannot be compared.
    """
    if on is None:
        return _none("there is no equality to place rows by")
    several = [on] if isinstance(on, (str, Column)) else list(on)
    if not several:
        return _none("there is no equality to place rows by")
    if all(isinstance(one, str) for one in several):
        return _by_name(left, right, [str(one) for one in several])
    if not all(isinstance(one, Column) for one in several):
        raise DataError(
            f"join: on must be names or conditions, got {[type(one).__name__ for one in several]}."
        )
    return _by_condition(left, right, several)


def _none(why: str, *, residual: bool = True) -> JoinKeys:
    return JoinKeys([], [], [], None, residual, why)


def _by_name(left: DataFrame, right: DataFrame, names: list[str]) -> JoinKeys:
    sides = [resolve_keys("join", df, names) for df in (left, right)]
    compared = [_common(a, b) for a, b in zip(sides[0].types, sides[1].types, strict=True)]
    for name, kinds, kind in zip(
        names, zip(*[s.types for s in sides], strict=True), compared, strict=True
    ):
        if kind is None:
            return _none(_unlike(name, *kinds))._replace(names=names)
    columns = [
        [F.col(quoted(n)).cast(k) for n, k in zip(s.names, compared, strict=True) if k]
        for s in sides
    ]
    return JoinKeys(columns[0], columns[1], [False] * len(names), names, False, "")


def _by_condition(left: DataFrame, right: DataFrame, conditions: list[Any]) -> JoinKeys:
    found = JoinKeys([], [], [], None, False, "")
    why = "the condition holds no equality between a column of each side"
    residual = False
    for one in (part for condition in conditions for part in _conjuncts(condition)):
        pair = _equality(one)
        sides = None if pair is None else _sided(left, right, pair[0], pair[1])
        if pair is None or sides is None:
            residual = True
            continue
        (mine, a), (theirs, b) = sides
        kind = _common(a, b)
        if kind is None:
            residual, why = True, _unlike(str(one), a, b)
            continue
        found.left.append(mine.cast(kind))
        found.right.append(theirs.cast(kind))
        found.null_safe.append(pair[2])
    return found._replace(residual=residual, why_not="" if found.left else why)


def _unlike(name: str, a: DataType, b: DataType) -> str:
    return (
        f"{name} compares {a.simpleString()} with {b.simpleString()}, which Spark casts by rules of its "
        "own; cast one side to have it placed"
    )


def _sided(
    left: DataFrame, right: DataFrame, one: Column, other: Column
) -> tuple[tuple[Column, DataType], tuple[Column, DataType]] | None:
    """Return the left side's expression and the right side's, with their types."""
    for mine, theirs in ((one, other), (other, one)):
        a, b = _type_in(left, mine), _type_in(right, theirs)
        if a and b and not _type_in(right, mine) and not _type_in(left, theirs):
            return (mine, a), (theirs, b)
    return None


def _type_in(df: DataFrame, column: Column) -> DataType | None:
    """Return the type of an expression over a frame; ``None`` if the frame lacks a column of it."""
    try:
        return df.select(column.alias("c")).schema["c"].dataType
    except AnalysisException:
        return None


_WHOLE = (ByteType, ShortType, IntegerType, LongType)


def _common(a: DataType, b: DataType) -> DataType | None:
    """Return the type in which Spark compares two types, where that is beyond doubt."""
    if any("collate" in kind.simpleString() for kind in (a, b)):
        return None
    if a == b or (isinstance(a, StringType) and isinstance(b, StringType)):
        return a
    kinds = {type(a), type(b)}
    if kinds <= set(_WHOLE):
        return a if _WHOLE.index(type(a)) > _WHOLE.index(type(b)) else b
    if kinds <= {FloatType, DoubleType}:
        return DoubleType()
    if kinds <= {DateType, TimestampType}:
        return TimestampType()
    if kinds <= {DecimalType, *_WHOLE}:
        ours, theirs = _as_decimal(a), _as_decimal(b)
        scale = max(ours.scale, theirs.scale)
        whole = max(ours.precision - ours.scale, theirs.precision - theirs.scale)
        return DecimalType(whole + scale, scale) if whole + scale <= 38 else None
    return None


def _as_decimal(kind: DataType) -> DecimalType:
    if isinstance(kind, DecimalType):
        return kind
    digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
    return DecimalType(digits[kind.simpleString()], 0)


# -- conditions, taken apart ---------------------------------------------------------------------


def _conjuncts(condition: Column) -> list[Column]:
    call = call_of(condition)
    if call is None or call[0] != "and":
        return [condition]
    return [part for one in call[1] for part in _conjuncts(one)]


def _equality(condition: Column) -> tuple[Column, Column, bool] | None:
    """Return both sides of an equality, and whether it is null-safe."""
    call = call_of(condition)
    if call is None or len(call[1]) != 2 or call[0] not in ("=", "==", "<=>"):
        return None
    return call[1][0], call[1][1], call[0] == "<=>"


# -- keys as columns ------------------------------------------------------------------------------


def with_keys(df: DataFrame, columns: list[Column]) -> tuple[DataFrame, list[str]]:
    """Return the frame with a column for each key expression, and their names."""
    names = [fresh_name(df, f"key{i}") for i in range(len(columns))]
    return df.withColumns(dict(zip(names, columns, strict=True))), names


def unmatchable(names: list[str], null_safe: list[bool]) -> Column:
    """Say whether a key column is null that equals nothing then."""
    found = F.lit(False)
    for name, safe in zip(names, null_safe, strict=True):
        if not safe:
            found = found | F.col(quoted(name)).isNull()
    return found
