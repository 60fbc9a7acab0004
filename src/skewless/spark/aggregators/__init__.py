"""Ready-made aggregators: statistics, frequent values, quantiles and distinct counts per key.

Names are imported when they are asked for, as those of `skewless.spark`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewless.spark.aggregators.correlation import Correlation
    from skewless.spark.aggregators.distinct_count import DistinctCount
    from skewless.spark.aggregators.follow_counts import FollowCounts
    from skewless.spark.aggregators.heavy_hitters import HeavyHitters
    from skewless.spark.aggregators.moments import Moments
    from skewless.spark.aggregators.quantiles import Quantiles
    from skewless.spark.aggregators.top_k import TopK

__all__ = [
    "Correlation",
    "DistinctCount",
    "FollowCounts",
    "HeavyHitters",
    "Moments",
    "Quantiles",
    "TopK",
]

_HOME = {
    "Correlation": "skewless.spark.aggregators.correlation",
    "DistinctCount": "skewless.spark.aggregators.distinct_count",
    "FollowCounts": "skewless.spark.aggregators.follow_counts",
    "HeavyHitters": "skewless.spark.aggregators.heavy_hitters",
    "Moments": "skewless.spark.aggregators.moments",
    "Quantiles": "skewless.spark.aggregators.quantiles",
    "TopK": "skewless.spark.aggregators.top_k",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skewless.spark.aggregators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
