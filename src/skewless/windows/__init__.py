"""Windows: counts, loads and fragments that forget what has left."""

from skewless.windows.sliding import SlidingCounts
from skewless.windows.tumbling import TumblingCounts

__all__ = ["SlidingCounts", "TumblingCounts"]
