"""The papers' queries as workloads: mergeable, on Spark and in one process.

Names are imported when they are asked for, as those of `skewless.spark`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewless.workloads.base import Partial, Workload
    from skewless.workloads.correlation_clustering import CorrelationClustering
    from skewless.workloads.debs import FrequentRoutes, ProfitableAreas
    from skewless.workloads.decision_tree import DecisionTree
    from skewless.workloads.entity_counts import EntityCounts
    from skewless.workloads.fetch_lists import FetchLists
    from skewless.workloads.gcm import CpuByClass, MeanCpuByJob
    from skewless.workloads.heavy_hitters import HeavyHitters
    from skewless.workloads.naive_bayes import NaiveBayes
    from skewless.workloads.top_k import TopK
    from skewless.workloads.tpch import TPCHQ1, TPCHQ3, TPCHQ6
    from skewless.workloads.word_count import WordCount

__all__ = [
    "TPCHQ1",
    "TPCHQ3",
    "TPCHQ6",
    "CorrelationClustering",
    "CpuByClass",
    "DecisionTree",
    "EntityCounts",
    "FetchLists",
    "FrequentRoutes",
    "HeavyHitters",
    "MeanCpuByJob",
    "NaiveBayes",
    "Partial",
    "ProfitableAreas",
    "TopK",
    "WordCount",
    "Workload",
]

_HOME = {
    "CorrelationClustering": "correlation_clustering",
    "CpuByClass": "gcm",
    "DecisionTree": "decision_tree",
    "EntityCounts": "entity_counts",
    "FetchLists": "fetch_lists",
    "FrequentRoutes": "debs",
    "HeavyHitters": "heavy_hitters",
    "MeanCpuByJob": "gcm",
    "NaiveBayes": "naive_bayes",
    "Partial": "base",
    "ProfitableAreas": "debs",
    "TPCHQ1": "tpch",
    "TPCHQ3": "tpch",
    "TPCHQ6": "tpch",
    "TopK": "top_k",
    "WordCount": "word_count",
    "Workload": "base",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"skewless.workloads.{_HOME[name]}"), name)
    raise AttributeError(f"module 'skewless.workloads' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
