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
    from skewless.spark.grouping import group_by
    from skewless.spark.top_n import dedupe, window_top_n

__all__ = ["Aggregator", "BatchGroups", "dedupe", "group_by", "repartition", "window_top_n"]

_HOME = {
    "Aggregator": "skewless.spark.aggregator",
    "BatchGroups": "skewless.spark.batch_groups",
    "dedupe": "skewless.spark.top_n",
    "group_by": "skewless.spark.grouping",
    "repartition": "skewless.spark.batch",
    "window_top_n": "skewless.spark.top_n",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skewless.spark' has no attribute {name!r}")
