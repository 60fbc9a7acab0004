"""Keyed work on Spark that stays balanced when a few keys carry most of the data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewless.partitioners import (
        PKG,
        CooperativeDalton,
        DAGreedy,
        Dalton,
        DChoices,
        Hash,
        Shuffle,
        WChoices,
    )
    from skewless.planners import KIP, Mixed, OffGreedy, Prompt, Readj, Redist, Scan, WrapAround
    from skewless.routing import Routing
    from skewless.spark import Aggregator, group_by, repartition

__all__ = [
    "KIP",
    "PKG",
    "Aggregator",
    "CooperativeDalton",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Hash",
    "Mixed",
    "OffGreedy",
    "Prompt",
    "Readj",
    "Redist",
    "Routing",
    "Scan",
    "Shuffle",
    "WChoices",
    "WrapAround",
    "group_by",
    "repartition",
]

__version__ = "0.1.0"

#: Where each public name lives; nothing is imported before it is asked for.
_HOME = {
    "CooperativeDalton": "skewless.partitioners",
    "DAGreedy": "skewless.partitioners",
    "DChoices": "skewless.partitioners",
    "Dalton": "skewless.partitioners",
    "Hash": "skewless.partitioners",
    "PKG": "skewless.partitioners",
    "Shuffle": "skewless.partitioners",
    "WChoices": "skewless.partitioners",
    "KIP": "skewless.planners",
    "Mixed": "skewless.planners",
    "OffGreedy": "skewless.planners",
    "Prompt": "skewless.planners",
    "Readj": "skewless.planners",
    "Redist": "skewless.planners",
    "Scan": "skewless.planners",
    "WrapAround": "skewless.planners",
    "Routing": "skewless.routing",
    "Aggregator": "skewless.spark",
    "group_by": "skewless.spark",
    "repartition": "skewless.spark",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skewless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
