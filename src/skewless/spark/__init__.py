"""The Spark driver: frames in, frames out; every row is routed by a native expression.

Names are imported when they are asked for: the Python workers of a query load the one module that
their function needs, and no more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewless.spark.aggregator import Aggregator
    from skewless.spark.batch import repartition
    from skewless.spark.batch_groups import BatchGroups
    from skewless.spark.checkpoint import repartition_state
    from skewless.spark.grouping import group_by
    from skewless.spark.query_metrics import read_metrics
    from skewless.spark.top_n import dedupe, window_top_n
    from skewless.spark.window_functions import over
    from skewless.spark.window_query import explain_window, window
    from skewless.spark.writing import repartition_by_range, repartition_for_write

__all__ = [
    "Aggregator",
    "BatchGroups",
    "dedupe",
    "explain_window",
    "group_by",
    "over",
    "read_metrics",
    "repartition",
    "repartition_by_range",
    "repartition_for_write",
    "repartition_state",
    "window",
    "window_top_n",
]

_HOME = {
    "Aggregator": "skewless.spark.aggregator",
    "BatchGroups": "skewless.spark.batch_groups",
    "dedupe": "skewless.spark.top_n",
    "explain_window": "skewless.spark.window_query",
    "group_by": "skewless.spark.grouping",
    "over": "skewless.spark.window_functions",
    "read_metrics": "skewless.spark.query_metrics",
    "repartition": "skewless.spark.batch",
    "repartition_by_range": "skewless.spark.writing",
    "repartition_for_write": "skewless.spark.writing",
    "repartition_state": "skewless.spark.checkpoint",
    "window": "skewless.spark.window_query",
    "window_top_n": "skewless.spark.top_n",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skewless.spark' has no attribute {name!r}")
