"""Keyed work on Spark that stays balanced when a few keys carry most of the data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewless.active_workers import ActiveWorkers
    from skewless.inspection import inspect
    from skewless.partitioners import (
        AM,
        CAM,
        CM,
        LM,
        PKG,
        CooperativeDalton,
        DAGreedy,
        Dalton,
        DChoices,
        Hash,
        OnGreedy,
        PoTC,
        Shuffle,
        TimeBased,
        WChoices,
    )
    from skewless.planners import KIP, Mixed, OffGreedy, Prompt, Readj, Redist, Scan, WrapAround
    from skewless.replay import Replay
    from skewless.routing import Routing
    from skewless.spark import (
        Aggregator,
        dedupe,
        explain_window,
        group_by,
        over,
        repartition,
        repartition_by_range,
        repartition_for_write,
        window,
        window_top_n,
    )
    from skewless.spark.join import join

__all__ = [
    "AM",
    "CAM",
    "CM",
    "KIP",
    "LM",
    "PKG",
    "ActiveWorkers",
    "Aggregator",
    "CooperativeDalton",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Hash",
    "Mixed",
    "OffGreedy",
    "OnGreedy",
    "PoTC",
    "Prompt",
    "Readj",
    "Redist",
    "Replay",
    "Routing",
    "Scan",
    "Shuffle",
    "TimeBased",
    "WChoices",
    "WrapAround",
    "dedupe",
    "explain_window",
    "group_by",
    "inspect",
    "join",
    "over",
    "repartition",
    "repartition_by_range",
    "repartition_for_write",
    "window",
    "window_top_n",
]

__version__ = "0.1.0"

#: Where each public name lives; nothing is imported before it is asked for.
_HOME = {
    "ActiveWorkers": "skewless.active_workers",
    "Hash": "skewless.partitioners",
    "Shuffle": "skewless.partitioners",
    "TimeBased": "skewless.partitioners",
    "PKG": "skewless.partitioners",
    "PoTC": "skewless.partitioners",
    "OnGreedy": "skewless.partitioners",
    "DChoices": "skewless.partitioners",
    "WChoices": "skewless.partitioners",
    "CM": "skewless.partitioners",
    "AM": "skewless.partitioners",
    "CAM": "skewless.partitioners",
    "LM": "skewless.partitioners",
    "DAGreedy": "skewless.partitioners",
    "Dalton": "skewless.partitioners",
    "CooperativeDalton": "skewless.partitioners",
    "KIP": "skewless.planners",
    "Mixed": "skewless.planners",
    "OffGreedy": "skewless.planners",
    "Prompt": "skewless.planners",
    "Readj": "skewless.planners",
    "Redist": "skewless.planners",
    "Scan": "skewless.planners",
    "WrapAround": "skewless.planners",
    "Replay": "skewless.replay",
    "Routing": "skewless.routing",
    "inspect": "skewless.inspection",
    "join": "skewless.spark.join",
    "Aggregator": "skewless.spark",
    "dedupe": "skewless.spark",
    "explain_window": "skewless.spark",
    "group_by": "skewless.spark",
    "over": "skewless.spark",
    "repartition": "skewless.spark",
    "repartition_by_range": "skewless.spark",
    "repartition_for_write": "skewless.spark",
    "window": "skewless.spark",
    "window_top_n": "skewless.spark",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skewless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
