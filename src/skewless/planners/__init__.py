"""Planners: policies that decide once per window, from a key histogram."""

from __future__ import annotations

from skewless.planners.base import Planner
from skewless.planners.kip import KIP
from skewless.planners.mixed import Mixed
from skewless.planners.off_greedy import OffGreedy
from skewless.planners.prompt import Prompt
from skewless.planners.readj import Readj
from skewless.planners.redist import Redist
from skewless.planners.reduce_buckets import reduce_buckets
from skewless.planners.replanned import Replanned
from skewless.planners.scan import Scan
from skewless.planners.wrap_around import WrapAround

__all__ = [
    "ALL",
    "KIP",
    "Mixed",
    "OffGreedy",
    "Planner",
    "Prompt",
    "Readj",
    "Redist",
    "Replanned",
    "Scan",
    "WrapAround",
    "reduce_buckets",
]

#: Every planner, in the order of the documentation.
ALL: tuple[type[Planner], ...] = (WrapAround, OffGreedy, KIP, Prompt, Scan, Redist, Readj, Mixed)
