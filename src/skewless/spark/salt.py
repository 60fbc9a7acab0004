"""The salt that deals the rows of a split key to its workers.

A task that Spark reruns must send every row where it went before. The order of rows that a scan
or a streaming source yields is the same each time, so a seeded position is a good salt directly above
it; the order behind a shuffle is not, and there only the content of the row decides.
"""

from __future__ import annotations

import re
from collections import Counter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from skewless.spark.keys import quoted

__all__ = ["order_repeats", "salt_column"]

_MASK = 0x7FFFFFFF

#: Logical operators that yield a scan's rows in the scan's order.
_ORDER_KEEPING = frozenset(
    {
        "Project",
        "Filter",
        "Union",
        "SubqueryAlias",
        "Generate",
        "Expand",
        "EventTimeWatermark",
        "CollectMetrics",
        "ResolvedHint",
        "View",
        "Relation",
        "LogicalRelation",
        "DataSourceV2Relation",
        "RelationV2",
        "Range",
        "LocalRelation",
        "OneRowRelation",
    }
)


def salt_column(df: DataFrame, seed: int) -> tuple[Column, str]:
    """Return a non-negative bigint salt for the rows of `df`, and one sentence that says which it is."""
    if order_repeats(df):
        position = F.floor(F.rand(seed % 2**31) * F.lit(float(_MASK))).cast("bigint")
        return position, "rows of a split key are dealt by their seeded position in the scan"
    times = Counter(name.lower() for name in df.columns)
    # A column that shares its name with another cannot be referred to, and is left out.
    columns = [
        F.col(quoted(f.name))
        for f in df.schema.fields
        if _hashable(f.dataType) and times[f.name.lower()] == 1
    ]
    content = F.xxhash64(F.lit(seed).cast("bigint"), *columns).bitwiseAND(F.lit(_MASK))
    return content, (
        "rows of a split key are dealt by the hash of the row, because their order may differ when "
        "a task is rerun; identical rows stay together"
    )


def order_repeats(df: DataFrame) -> bool:
    """Say whether each task of `df` yields its rows in the same order whenever it is rerun."""
    operators = _operators(df)
    return bool(operators) and all(
        (df.isStreaming and is_leaf) or _keeps_order(name, df) for name, is_leaf in operators
    )


def _keeps_order(name: str, df: DataFrame) -> bool:
    if name == "LogicalRDD":
        return not _behind_a_shuffle(df)
    return name in _ORDER_KEEPING


def _operators(df: DataFrame) -> list[tuple[str, bool]]:
    """Return the operators of the analysed plan and whether each is a leaf, from the printed tree."""
    lines = [
        (len(m.group(1)), m.group(2))
        for m in re.finditer(r"^([\s:|+\-]*)'?~?(\w+)", _analysed_plan(df), re.MULTILINE)
    ]
    below = [depth for depth, _ in lines[1:]] + [0]
    return [(name, after <= depth) for (depth, name), after in zip(lines, below, strict=True)]


def _analysed_plan(df: DataFrame) -> str:
    if hasattr(df, "_jdf"):
        return str(df._jdf.queryExecution().analyzed().toString())
    text = str(df._explain_string(extended=True))  # type: ignore[operator] # Spark Connect
    start = text.index("== Analyzed Logical Plan ==")
    # The section opens with one line that lists the output columns.
    return text[start : text.index("== Optimized")].split("\n", 2)[2]


def _behind_a_shuffle(df: DataFrame) -> bool:
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    found = False
    for i in range(leaves.size()):
        leaf = leaves.apply(i)
        if leaf.nodeName() in ("LogicalRDD", "Scan ExistingRDD"):
            found = found or "Shuffled" in leaf.rdd().toDebugString()
    return found


def _hashable(kind: DataType) -> bool:
    if isinstance(kind, MapType) or kind.typeName() == "variant":
        return False
    if isinstance(kind, ArrayType):
        return _hashable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_hashable(f.dataType) for f in kind.fields)
    return True
