"""Key streams to try policies on: real ones that ship with the package, and seeded generators."""

from __future__ import annotations

from skewless.datasets.generators import drifting, uniform, zipf
from skewless.datasets.state_of_the_union import state_of_the_union

__all__ = ["drifting", "state_of_the_union", "uniform", "zipf"]
