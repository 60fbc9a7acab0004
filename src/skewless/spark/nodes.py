"""A Column taken apart: a JVM node on classic Spark, a Python expression on Spark Connect.

Spark before 4.0 keeps a Catalyst expression instead of a node; of those only comparisons are read.
"""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.sql import Column

__all__ = ["arguments_of", "call_of", "child_of", "column_of", "field_of", "kind_of", "node_of"]

#: Catalyst expression -> the function that makes it.
_EXPRESSIONS = {"And": "and", "EqualTo": "=", "EqualNullSafe": "<=>"}


def node_of(column: Column) -> Any:
    """Return the node of a column."""
    if not hasattr(column, "_jc"):
        return column._expr  # Spark Connect
    java: Any = column._jc
    return java.expr() if int(pyspark.__version__.split(".")[0]) < 4 else java.node()


def kind_of(node: Any) -> str:
    """Return the class of a node, without its package."""
    if hasattr(node, "getClass"):
        return str(node.getClass().getSimpleName())
    return type(node).__name__


def child_of(node: Any) -> Any:
    """Return the node below one that has a single one."""
    return node.child() if hasattr(node, "getClass") else node._child


def field_of(node: Any, jvm: str, connect: str) -> Any:
    """Return a field of a node, by its name on either side."""
    return getattr(node, jvm)() if hasattr(node, "getClass") else getattr(node, connect)


def arguments_of(node: Any) -> list[Any]:
    """Return the argument nodes of a function call."""
    if not hasattr(node, "getClass"):
        return list(node._args)
    sequence = node.arguments()
    return [sequence.apply(i) for i in range(sequence.size())]


def column_of(like: Column, node: Any) -> Column:
    """Return a node as a column of the same kind of session as `like`."""
    made: Any = type(like)
    if hasattr(like, "_jc"):
        from pyspark import SparkContext

        context: Any = SparkContext._active_spark_context
        node = context._jvm.org.apache.spark.sql.Column(node)
    return made(node)


def call_of(column: Column) -> tuple[str, list[Column]] | None:
    """Return the function of a column and its arguments; ``None`` if it is no call that can be read."""
    node = node_of(column)
    kind = kind_of(node)
    if kind == "UnresolvedFunction":
        name = str(field_of(node, "functionName", "_name"))
        return name, [column_of(column, one) for one in arguments_of(node)]
    if kind in _EXPRESSIONS:
        return _EXPRESSIONS[kind], [column_of(column, one) for one in (node.left(), node.right())]
    return None
